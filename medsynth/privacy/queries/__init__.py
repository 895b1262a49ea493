"""Queries as data: what may be computed of coded rows, each with its sensitivity and exact answer over some rows."""
