"""GS-WGAN (Chen, Orekondy, Fritz 2020): only the gradient that the generator receives is noised."""
