"""Several tables that share their patients: which they are, and the schemas that follow from them."""

from .definition import LinkedTable, LinkedTables
from .views import absent, count_column, joint, name_in_joint, view

__all__ = ["LinkedTable", "LinkedTables", "absent", "count_column", "joint", "name_in_joint", "view"]
