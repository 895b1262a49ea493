"""The default method: a mixture of products of column distributions, fitted to noisy counts."""
