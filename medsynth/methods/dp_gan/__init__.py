"""dp-GAN (Zhang, Ji, Wang 2018): WGAN-GP with grouped and adaptive clipping."""
