"""One class a column kind: its declaration, and cells to whole-number codes and back; the table of them."""
