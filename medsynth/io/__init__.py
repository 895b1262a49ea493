"""Files of tables: detect the format, read and check once, write, split into training and held-out rows."""
