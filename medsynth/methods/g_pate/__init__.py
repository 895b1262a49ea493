"""G-PATE (Long et al. 2021): teachers vote on the gradient that the generator receives."""
