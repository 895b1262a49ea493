"""Exact arithmetic for measurements: whole-number noise, and sums that no order of summation changes."""
