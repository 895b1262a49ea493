"""Files of tables: what a file is, a table read once and checked, written whole, split into train and hold-out."""
