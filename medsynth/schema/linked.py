"""Several tables that share their patients: the file that names them, and the schemas that follow from them."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError, model_validator

from ..errors import did_you_mean, validators_words
from ..row_count import MAX_ROWS_PER_PATIENT
from .columns.column import Column
from .columns.number import Count, Quantity
from .columns.registry import AnyColumn
from .declared import Declaration
from .schema import MAX_RULES, Schema

ENDING = ".tables.yaml"  # of such a file
MAX_TABLES = 20


class LinkedTable(BaseModel):
    """One of several tables. Of the first, a patient has one row; of another at most `max_rows`, the first by `order`.

    `rules` may read the first table's columns, too. `latest` names tables by columns of keys: such a column holds the
    key of the patient's latest row there that is not after this one. `file` is the table's, without its ending where
    the usual ones are to be tried; if not given, the table's name.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    columns: dict[str, AnyColumn] = Field(min_length=1)
    rules: tuple[str, ...] = Field((), max_length=MAX_RULES)
    order: str | None = None
    max_rows: int = Field(1, ge=1, le=MAX_ROWS_PER_PATIENT)
    latest: dict[str, str] = Field(default_factory=dict)
    target: str | None = None
    file: str | None = None


class LinkedTables(Declaration):
    """Tables by name, the patients' first, and the column `key` that names the patient in each of them.

    >>> tables = LinkedTables.from_yaml('''
    ... name: hospital
    ... key: patient
    ... tables:
    ...   patients:
    ...     columns:
    ...       patient: {kind: identifier}
    ...       born: {kind: count, bounds: [1900, 2024]}
    ...   visits:
    ...     order: year
    ...     max_rows: 3
    ...     columns:
    ...       patient: {kind: identifier}
    ...       year: {kind: count, bounds: [2000, 2024]}
    ...       ward: {kind: categorical, levels: [heart, kidney]}
    ...     rules: [year >= born]
    ... ''')
    >>> tables.first, tables.others, tables.max_rows
    ('patients', ('visits',), 4)
    """

    called: ClassVar[str] = "file of tables"

    name: str
    key: str
    other_columns: Literal["refuse", "leave out"] = "refuse"  # columns of the files that are not declared
    tables: dict[str, LinkedTable] = Field(min_length=2, max_length=MAX_TABLES)
    _schemas: dict[str, Schema] = PrivateAttr(default_factory=dict)

    @model_validator(mode="after")
    def _check(self) -> Self:
        for name, table in self.tables.items():
            self._check_table(name, table)
            self._schemas[name] = self._schema(name, table)
        return self

    def _check_table(self, name: str, table: LinkedTable) -> None:
        """Raises ValueError for a table without the key, without an order, or with a link that leads nowhere."""
        if not name or set(name) & set("/\\.\0"):
            raise ValueError(f"the table {name!r}: a name without points and strokes, as of a file")
        if table.file is not None and Path(table.file).name != table.file:
            raise ValueError(f"the table {name!r}: `file` is the name of a file beside the others, without a folder")
        column = table.columns.get(self.key)
        if column is None or column.modelled:
            raise ValueError(f"the table {name!r} needs the column {self.key!r}, of kind identifier")
        if name == self.first:
            if table.max_rows > 1 or table.order or table.latest:
                raise ValueError(f"the first table, {name!r}, has one row a patient: no order, `max_rows` or `latest`")
            return
        if table.max_rows > 1 and not table.order:
            raise ValueError(f"the table {name!r}: several rows a patient need an `order`")
        if both := [one for one in table.columns if one != self.key and one in self.tables[self.first].columns]:
            raise ValueError(f"the table {name!r}: {both[0]!r} is a column of {self.first!r}, too. Rename it in one")
        before = list(self.tables)[1 : list(self.tables).index(name)]
        for key, other in table.latest.items():
            self._check_link(name, key, other, before)

    def _check_link(self, name: str, key: str, other: str, before: list[str]) -> None:
        """Raises ValueError unless the column `key` of a table can hold keys of rows of the `other`, an earlier one."""
        own, table = self.tables[name], self.tables[other] if other in before else None
        place = f"the table {name!r}, `latest`"
        if table is None:
            raise ValueError(
                f"{place}: {other!r} is no table between the first and this one.{did_you_mean(other, before)}"
            )
        column, theirs = own.columns.get(key), table.columns.get(key)
        if column is None or column.modelled or not column.missing or key == self.key:
            raise ValueError(f"{place}: {key!r} must be a column of kind identifier with `missing: true`")
        if theirs is None or theirs.modelled:
            raise ValueError(f"{place}: {other!r} has no column of keys {key!r}")
        orders = [one.columns.get(one.order or "") for one in (own, table)]
        known = [column for column in orders if column is not None and column.modelled]  # keys are not compared in time
        if len(known) < 2 or known[0].dated != known[1].dated:
            raise ValueError(f"{place}: both tables need an `order`, both of dates or both of numbers")

    def _schema(self, name: str, table: LinkedTable) -> Schema:
        """The schema of one table, those of the first table's columns beside it that rules read."""
        beside = {} if name == self.first else dict(self._schemas[self.first].core.columns)
        content: dict[str, object] = {
            "name": name, "columns": {**table.columns, **beside}, "rules": table.rules, "target": table.target,
        }  # fmt: skip
        if name != self.first:
            content |= {"unit": self.key, "max_rows": table.max_rows, "order": table.order}
            content |= {"constant": tuple(beside)}
        try:
            return Schema.model_validate(content)
        except ValidationError as error:
            found = error.errors(include_input=False, include_url=False)[0]
            raise ValueError(f"the table {name!r}: {validators_words(found['msg'])}") from None

    @property
    def first(self) -> str:
        """The name of the table with one row a patient."""
        return next(iter(self.tables))

    @property
    def others(self) -> tuple[str, ...]:
        """The names of the other tables, in order."""
        return tuple(self.tables)[1:]

    @property
    def max_rows(self) -> int:
        """The most rows of a patient in all tables together."""
        return sum(table.max_rows for table in self.tables.values())

    def view(self, name: str) -> Schema:
        """The schema of a table's rows beside the first table's columns, which do not change over a patient's rows."""
        return self._schemas[name]

    def alone(self, name: str) -> Schema:
        """The schema of a table's columns, as they stand in its file; without rules, which may read others."""
        columns = {key: self._schemas[name].columns[key] for key in self.tables[name].columns}
        return Schema(name=name, columns=columns)

    def to_dict(self) -> dict[str, object]:
        """Plain data, defaults left out; `from_dict` reads it back."""
        found = {}
        for name, table in self.tables.items():
            rest = table.model_dump(mode="json", exclude_defaults=True, exclude={"columns"})
            found[name] = {**rest, "columns": {key: column.to_dict() for key, column in table.columns.items()}}
        head = {"name": self.name, "key": self.key}
        head |= {} if self.other_columns == "refuse" else {"other_columns": self.other_columns}
        return {**head, "tables": found}


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
