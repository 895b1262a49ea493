"""Sections that document the table: purpose, source, variables, tuning, limits, how to reproduce it."""
