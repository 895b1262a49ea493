"""The baseline: noisy class-by-bin marginals alone."""
