"""Whether the synthetic rows look like the real ones: distributions, associations, propensity, sdmetrics."""
