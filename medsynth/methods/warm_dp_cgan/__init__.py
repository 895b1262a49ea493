"""The default method: a conditional generator warm-started from noisy marginals (docs/methods/default.md)."""
