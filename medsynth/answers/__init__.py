"""Answer questions from a model file alone: its noisy tables, and estimates with intervals. Nothing is charged."""
