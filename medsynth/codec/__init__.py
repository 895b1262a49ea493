"""From cells of a table to whole-number codes and back."""
