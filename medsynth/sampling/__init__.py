"""Sample: draw synthetic rows from an artifact."""

from .draw import Draw
from .patients import RowCounts, cut_short
from .pipeline import csv_chunks, frames, sample, sample_codes, sample_csv, sample_tables

__all__ = [
    "Draw",
    "RowCounts",
    "csv_chunks",
    "cut_short",
    "frames",
    "sample",
    "sample_codes",
    "sample_csv",
    "sample_tables",
]
