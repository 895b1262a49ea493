"""The verb sample: from an artifact to synthetic rows."""

from .pipeline import csv_chunks, frames, sample, sample_codes, sample_csv

__all__ = ["csv_chunks", "frames", "sample", "sample_codes", "sample_csv"]
