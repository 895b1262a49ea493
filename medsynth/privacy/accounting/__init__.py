"""From events to epsilon: what was measured, what it costs, and the noise that meets a budget."""
