"""Sample: draw synthetic rows from an artifact."""

from .draw import Draw
from .pipeline import csv_bytes, csv_chunks, frames, sample, sample_codes, sample_csv

__all__ = ["Draw", "csv_bytes", "csv_chunks", "frames", "sample", "sample_codes", "sample_csv"]
