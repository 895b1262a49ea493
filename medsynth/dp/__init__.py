"""The privacy boundary: whoever reads `vault.py` has read every way in which a row can influence the output."""
