"""One class per kind of column: its declaration, its code from cells to whole numbers and back; and their registry."""
