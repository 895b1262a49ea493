"""What several methods use: bins, mixture of products, sampler, training setup, averaged weights."""
