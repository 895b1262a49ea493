"""Sample: draw synthetic rows from an artifact."""

from .draw import Draw
from .pipeline import csv_chunks, frames, sample, sample_codes, sample_csv, sample_tables

__all__ = ["Draw", "csv_chunks", "frames", "sample", "sample_codes", "sample_csv", "sample_tables"]
