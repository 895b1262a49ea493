"""Two schemas that follow from several tables: that of patients, and that of one table's rows beside their patient."""

from __future__ import annotations

from ..columns.column import Column
from ..columns.number import Count
from ..columns.quantity import Quantity
from ..schema import Schema
from .definition import LinkedTables


def name_in_joint(table: str, column: str) -> str:
    """What the column of a table's first row is called among the patient's columns."""
    return f"{table}.{column}"


def count_column(table: str) -> str:
    """What the number of a patient's rows in a table is called among the patient's columns."""
    return f"rows of {table}"


def placed_by(tables: LinkedTables, table: str) -> str | None:
    """The table by whose rows a patient's rows in this one are placed in time: the first of its `latest`.

    None where there is none, or where the orders of both are not counted alike.
    """
    other = next(iter(tables.tables[table].latest.values()), None)
    if other is None:
        return None
    mine, theirs = (tables.view(name).columns[tables.tables[name].order or ""] for name in (table, other))
    alike = isinstance(mine, Quantity) and isinstance(theirs, Quantity)
    same = (mine.places, getattr(mine, "resolution", None)) == (theirs.places, getattr(theirs, "resolution", None))
    return other if alike and same else None


def number_name(other: str) -> str:
    """What the number of a patient's rows in another table up to a row is called."""
    return f"{other} so far"


def distance_name(order: str, other: str) -> str:
    """What the distance of a row from the latest of these is called."""
    return f"{order} after {other}"


def chain_view(tables: LinkedTables, table: str) -> Schema:
    """The schema of what a model learns of a table's rows: its view or, where they are placed by another table's rows,
    with the number of these up to each row, which is the order, and the distance from the last of them.
    """
    schema, other = tables.view(table), placed_by(tables, table)
    if other is None:
        return schema
    columns = dict[str, Column]()
    for name, column in schema.columns.items():
        if name == schema.order:
            columns[number_name(other)] = Count(bounds=(0, tables.tables[other].max_rows))
            columns[distance_name(name, other)] = Count(bounds=(0, column.size - 1), scale="log")
        elif name in schema.core.columns:
            columns[name] = _by_itself(column)
        elif name == tables.key:
            columns[name] = column
    update = {"columns": columns, "rules": (), "order": number_name(other)}
    return schema.model_copy(update=update)


def _by_itself(column: Column) -> Column:
    """A column that needs no other to be read: a date after another one is a number of days."""
    if not column.depends_on:
        return column
    low, high = column.units
    return Count(bounds=(low, high), missing=column.missing)


def own(tables: LinkedTables, table: str) -> tuple[str, ...]:
    """The columns of a table that a model learns and that are not the first table's."""
    first = tables.view(tables.first).core.columns if table != tables.first else {}
    return tuple(name for name in chain_view(tables, table).core.names if name not in first)


def absent(column: Column) -> Column:
    """A column of first rows, in which a patient without any has an empty cell."""
    column = _by_itself(column)
    if "" in column.gap_words:
        return column
    words = column.missing if isinstance(column.missing, tuple) else ()
    return column.model_copy(update={"missing": (*words, "") if words else True})


def joint(tables: LinkedTables) -> Schema:
    """The schema of patients: the first table's columns and rules, and of each other table the number of the patient's
    rows and what a model learns of the first of them.
    """
    patients = tables.view(tables.first)
    columns: dict[str, Column] = dict(patients.columns)
    for table in tables.others:
        columns[count_column(table)] = Count(bounds=(0, tables.tables[table].max_rows))
        of_table = chain_view(tables, table).columns
        columns |= {name_in_joint(table, name): absent(of_table[name]) for name in own(tables, table)}
    target = patients.target or patients.core.names[-1]
    return patients.model_copy(update={"name": tables.name, "columns": columns, "target": target})
