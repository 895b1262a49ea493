"""Queries as data: what may be computed from coded rows, each with its sensitivity and its exact answer."""
