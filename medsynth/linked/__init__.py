"""Several tables that share their patients: from their files to one model and back to files, under one budget."""

from .fitting import fit_tables
from .sampling import sample_tables

__all__ = ["fit_tables", "sample_tables"]
