"""Noisy marginals of single columns, of all rows and by class, and what they say of their shares."""
