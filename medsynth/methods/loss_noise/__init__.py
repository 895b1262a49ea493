"""The loss-noise GAN (Han, Xue 2021): a comparison that protects nobody."""
