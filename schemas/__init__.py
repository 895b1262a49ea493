"""Schemas of public tables, bundled with medsynth."""
