"""A simulated thyroid clinic: no row of it describes a real person."""
