"""Fits of methods under attack: whole fits watched, one fit with canaries, the published loss-noise GAN."""
