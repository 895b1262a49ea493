"""Fit: turn private tables into an artifact."""
