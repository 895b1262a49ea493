"""Rows of patients over time: first rows by any method, later ones by a model of each row given those before it."""
