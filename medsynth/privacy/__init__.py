"""The privacy boundary: this folder contains every way in which a row can influence the output."""
