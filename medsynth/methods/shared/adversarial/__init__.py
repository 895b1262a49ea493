"""What adversarial methods share: networks and losses, and the encoding that their critics read."""
