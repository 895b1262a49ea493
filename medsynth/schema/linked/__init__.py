"""Several tables that share their patients: which they are, and the schemas that follow from them."""

from .definition import LinkedTable, LinkedTables

__all__ = ["LinkedTable", "LinkedTables"]
