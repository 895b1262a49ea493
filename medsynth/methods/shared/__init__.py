"""What several methods use: bins, mixture of products, sampler, training loop."""
