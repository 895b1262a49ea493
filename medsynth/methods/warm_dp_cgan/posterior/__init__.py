"""What a model keeps of its measurements, and plausible generators that are fitted to them again."""
