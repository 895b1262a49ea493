"""Benchmarks: each prints figures that a page of docs/ publishes. `python -m tests.benchmarks` lists them."""
