"""Two schemas that follow from several tables: that of patients, and that of one table's rows beside their patient."""

from __future__ import annotations

from ...transforms.column import Column
from ...transforms.number import Count
from ..schema import Schema
from .definition import LinkedTables


def name_in_joint(table: str, column: str) -> str:
    """What the column of a table's first row is called among the patient's columns."""
    return f"{table}.{column}"


def count_column(table: str) -> str:
    """What the number of a patient's rows in a table is called among the patient's columns."""
    return f"rows of {table}"


def view(tables: LinkedTables, table: str) -> Schema:
    """The schema of a table's rows beside the first table's columns, which do not change over a patient's rows."""
    return tables.beside(table)


def own(tables: LinkedTables, table: str) -> tuple[str, ...]:
    """The columns of a table that a model learns and that are not the first table's."""
    return tuple(name for name in view(tables, table).core.names if name in tables.tables[table].columns)


def absent(column: Column, table: str) -> Column:
    """A column of first rows, in which a patient without any has an empty cell."""
    if "" not in column.gap_words:
        words = column.missing if isinstance(column.missing, tuple) else ()
        column = column.model_copy(update={"missing": (*words, "") if words else True})
    after = getattr(column, "after", None)
    return column if after is None else column.model_copy(update={"after": name_in_joint(table, after)})


def joint(tables: LinkedTables) -> Schema:
    """The schema of patients: the first table's columns and rules, and of each other table the number of the patient's
    rows and the columns of the first of them.
    """
    patients = tables.beside(tables.first)
    columns: dict[str, Column] = dict(patients.columns)
    for table in tables.others:
        columns[count_column(table)] = Count(bounds=(0, tables.tables[table].max_rows))
        of_table = view(tables, table).columns
        columns |= {name_in_joint(table, name): absent(of_table[name], table) for name in own(tables, table)}
    target = patients.target or patients.core.names[-1]
    return patients.model_copy(update={"name": tables.name, "columns": columns, "target": target})
