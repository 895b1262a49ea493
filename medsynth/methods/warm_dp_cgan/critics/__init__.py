"""Linear critics: noisy sums of fixed features of a row, and what the generator expects of them."""
