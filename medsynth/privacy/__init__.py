"""The privacy boundary: whoever reads this folder has read every way in which a row can influence the output."""
