"""Rows of patients over time: first rows by any method, later rows by a model of each row given the rows before it."""
