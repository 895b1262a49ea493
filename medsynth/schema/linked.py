"""Several tables that share their patients: the file that declares them, and the schemas that follow from it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError, model_validator

from ..errors import did_you_mean, validators_faults
from ..row_count import MAX_ROWS_PER_PATIENT
from .columns.column import Column
from .columns.number import Count, Quantity
from .columns.open import Open
from .columns.parts import Columns, to_dict
from .declared import Declaration
from .schema import MAX_RULES, Schema

MAX_TABLES = 20


class LinkedTable(BaseModel):
    """One of several tables. The first has one row per patient, another at most `max_rows`, the first by `order`.

    `rules` may read the first table's columns, too. `latest` maps columns of keys to tables: such a column contains the
    key of the patient's latest row there that is not after this one. `comes_last`: no row of the patient in another
    table with an order comes later, as after a death. `file` may omit a usual ending; it defaults to the name.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    columns: Columns = {}
    rules: tuple[str, ...] = Field((), max_length=MAX_RULES)
    order: str | None = None
    max_rows: int = Field(1, ge=1, le=MAX_ROWS_PER_PATIENT)
    latest: dict[str, str] = Field(default_factory=dict)
    comes_last: bool = False
    target: str | None = None
    file: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _without_todos(cls, content: Any) -> Any:
        """Leave out what is null, as a TODO is."""
        some = {} if content is None else content
        return {key: one for key, one in some.items() if one is not None} if isinstance(some, dict) else some


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
    other_columns: Literal["refuse", "leave out", "learn"] = "refuse"  # columns of the files that are not declared
    tables: dict[str, LinkedTable] = Field(min_length=2, max_length=MAX_TABLES)
    _schemas: dict[str, Schema] = PrivateAttr(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _with_keys(cls, content: Any) -> Any:
        """Add the column `key` to each table that does not declare it, if undeclared columns are learned."""
        if not (isinstance(content, dict) and content.get("other_columns") == "learn"):
            return content
        tables = content.get("tables")
        key = {content.get("key"): {"kind": "identifier"}}
        mine = {name: table or {} for name, table in tables.items()} if isinstance(tables, dict) else {}
        if not all(isinstance(table, dict) for table in mine.values()):
            return content
        found = {name: {**table, "columns": key | (table.get("columns") or {})} for name, table in mine.items()}
        return {**content, "tables": found}

    @model_validator(mode="after")
    def _check(self) -> Self:
        for name, table in self.tables.items():
            self._check_table(name, table)
            self._schemas[name] = self._schema(name, table)
        return self

    def _check_table(self, name: str, table: LinkedTable) -> None:
        """Raise ValueError for a table without the key, without an order, or with a wrong link."""
        if not name or set(name) & set("/\\.\0"):
            raise ValueError(f"the table {name!r}: its name must not contain points, slashes or backslashes")
        if table.file is not None and Path(table.file).name != table.file:
            raise ValueError(f"the table {name!r}: the key file must be a name, not a path")
        column = table.columns.get(self.key)
        if column is None or column.modelled:
            raise ValueError(f"the table {name!r} needs the column {self.key!r}, of kind identifier")
        if name == self.first:
            if table.max_rows > 1 or table.order or table.latest:
                raise ValueError(f"the first table, {name!r}, cannot have an order, max_rows or latest")
            return
        if table.max_rows > 1 and not table.order:
            raise ValueError(f"the table {name!r}: several rows per patient need an `order`")
        if both := [one for one in table.columns if one != self.key and one in self.tables[self.first].columns]:
            raise ValueError(f"the table {name!r}: {both[0]!r} is a column of {self.first!r}, too. Rename it in one")
        before = list(self.tables)[1 : list(self.tables).index(name)]
        for key, other in table.latest.items():
            self._check_link(name, key, other, before)
        if table.comes_last and name != self.others[-1]:
            raise ValueError(f"the table {name!r}, `comes_last`: move this table to the end of the file")
        if table.comes_last and not (table.order and all(comparable(table, self.tables[one]) for one in before)):
            raise ValueError(
                f"the table {name!r}, `comes_last`: this table and all others with an `order` need orders of one kind, "
                "dates of one resolution or numbers with as many decimals"
            )

    def _check_link(self, name: str, key: str, other: str, before: list[str]) -> None:
        """Raise ValueError unless the column `key` can contain keys of rows of the `other` table, an earlier one."""
        own = self.tables[name]
        table = self.tables[other] if other in before else None
        place = f"the table {name!r}, `latest`"
        if table is None:
            raise ValueError(
                f"{place}: {other!r} is not a table between the first and this one.{did_you_mean(other, before)}"
            )
        column = own.columns.get(key)
        theirs = table.columns.get(key)
        if column is None or column.modelled or not column.missing or key == self.key:
            raise ValueError(f"{place}: {key!r} must be a column of kind identifier with `missing: true`")
        if theirs is None or theirs.modelled:
            raise ValueError(f"{place}: {other!r} has no column of keys {key!r}")
        orders = [one.columns.get(one.order or "") for one in (own, table)]
        known = [column for column in orders if column is not None and column.modelled]  # keys have no time to compare
        if len(known) < 2 or known[0].dated != known[1].dated or any(column.categorical for column in known):
            raise ValueError(f"{place}: both tables need an `order`, both of dates or both of numbers")

    def _schema(self, name: str, table: LinkedTable) -> Schema:
        """Return the schema of one table, with the columns of the first table that its rules may read."""
        beside = {} if name == self.first else dict(self._schemas[self.first].core.columns)
        content: dict[str, object] = {
            "name": name, "columns": {**table.columns, **beside}, "rules": table.rules, "target": table.target,
            "other_columns": self.other_columns,
        }  # fmt: skip
        if name != self.first:
            content |= {"unit": self.key, "max_rows": table.max_rows, "order": table.order}
            content |= {"constant": tuple(beside)}
        try:
            schema = Schema.model_validate(content)
        except ValidationError as error:
            raise ValueError(f"the table {name!r}: {validators_faults(error)[0]['msg']}") from None
        if schema.open_pairs:
            raise ValueError(f"the table {name!r}: a rule with `determines` needs a fit of one table. Leave it out")
        return schema

    @property
    def first(self) -> str:
        """The name of the table with one row per patient."""
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
        """Return the schema of a table's rows with the first table's columns, which are constant per patient."""
        return self._schemas[name]

    def closed(self) -> Self:
        """Return the tables if nothing is open. Raise SchemaError for a column that only a fit can learn."""
        for schema in self._schemas.values():
            schema.closed()
        return self

    def with_columns(self, columns: Mapping[str, Mapping[str, Column]]) -> Self:
        """Return the tables with other columns in those that this names. Nothing is validated: no declaration is
        contradicted by what a fit learned.
        """
        tables = dict[str, LinkedTable]()
        for name, table in self.tables.items():
            tables[name] = table.model_copy(update={"columns": dict(columns.get(name, table.columns))})
        found = self.model_copy(update={"tables": tables})
        found._schemas = {}
        for name, schema in self._schemas.items():
            beside = {} if name == self.first else dict(found._schemas[self.first].core.columns)
            own = {**tables[name].columns, **beside}
            found._schemas[name] = schema.with_columns(own, constant=tuple(beside))
        return found

    def alone(self, name: str) -> Schema:
        """Return the schema of the columns in a table's file; without rules, which may read others."""
        columns = {key: self._schemas[name].columns[key] for key in self.tables[name].columns}
        return Schema(name=name, columns=columns)

    def written(self, name: str) -> Schema:
        """Return the schema of a table's own columns, without rules. Keys have the shape of those they refer to."""
        schema = self.alone(name)
        table = self.tables[name]
        shapes = {self.key: self.tables[self.first].columns[self.key]}
        for key, other in table.latest.items():
            update = {"missing": True, "drop": not table.columns[key].written}
            shapes[key] = self.tables[other].columns[key].model_copy(update=update)
        facts = {"unit": self.key, "order": table.order, "target": table.target}
        return schema.model_copy(update={"columns": {**schema.columns, **shapes}, **facts})

    def links(self, name: str) -> dict[str, tuple[str, str]]:
        """Return the columns of a table that contain keys of other tables: the table of each, and its column there."""
        found = {key: (other, key) for key, other in self.tables[name].latest.items()}
        return found if name == self.first else found | {self.key: (self.first, self.key)}

    def to_dict(self) -> dict[str, object]:
        """Return plain data without defaults; `from_dict` reads it back."""
        found = {}
        for name, table in self.tables.items():
            rest = table.model_dump(mode="json", exclude_defaults=True, exclude={"columns"})
            found[name] = {**rest, "columns": to_dict(table.columns)}
        return {**self.model_dump(mode="json", exclude_defaults=True, exclude={"tables"}), "tables": found}


def name_in_joint(table: str, column: str) -> str:
    """Return the name of a column of a table's first row among the patient's columns."""
    return f"{table}.{column}"


def count_column(table: str) -> str:
    """Return the name of the number of a patient's rows in a table among the patient's columns."""
    return f"rows of {table}"


def placed_by(tables: LinkedTables, table: str) -> str | None:
    """Return the table whose rows place a patient's rows in this one in time: the first of its `latest`.

    None without one, or if the orders of both have different units.
    """
    other = next(iter(tables.tables[table].latest.values()), None)
    if other is None:
        return None
    return other if comparable(tables.tables[table], tables.tables[other]) else None


def comparable(table: LinkedTable, other: LinkedTable) -> bool:
    """Return whether the orders of two tables have the same unit. A table without an order compares with any."""
    if not other.order:
        return True
    mine, theirs = (one.columns.get(one.order or "") for one in (table, other))
    if not (isinstance(mine, Quantity) and isinstance(theirs, Quantity)):
        return False
    return (mine.places, getattr(mine, "resolution", None)) == (theirs.places, getattr(theirs, "resolution", None))


def number_name(other: str) -> str:
    """Return the name of the number of a patient's rows in another table up to a row."""
    return f"{other} so far"


def distance_name(order: str, other: str) -> str:
    """Return the name of the distance of a row from the latest of these."""
    return f"{order} after {other}"


def chain_view(tables: LinkedTables, table: str) -> Schema:
    """Return the schema that a model learns of a table's rows: its view. If another table's rows place them, it has the
    number of these up to each row, which is the order, and the distance from the last of them.
    """
    schema = tables.view(table)
    other = placed_by(tables, table)
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
    """Return a column that can be read alone: a date after another one becomes a number of days."""
    if not column.depends_on:
        return column
    low, high = column.units
    return Count(bounds=(low, high), missing=column.missing)


def own(tables: LinkedTables, table: str) -> tuple[str, ...]:
    """Return the columns of a table that a model learns, without those of the first table."""
    first = tables.view(tables.first).core.columns if table != tables.first else {}
    return tuple(name for name in chain_view(tables, table).core.names if name not in first)


def absent(column: Column) -> Column:
    """Return a column of first rows, in which a patient without a row has an empty cell."""
    column = _by_itself(column).model_copy(update={"part": None})
    if "" in column.gap_words:
        return column
    words = column.missing if isinstance(column.missing, tuple) else ()
    return column.model_copy(update={"missing": (*words, "") if words else True})


def joint(tables: LinkedTables) -> Schema:
    """Return the schema of patients: the first table's columns and rules, and for each other table the number of the
    patient's rows and what a model learns of the first of them.
    """
    patients = tables.view(tables.first)
    columns: dict[str, Column] = dict(patients.columns)
    for table in tables.others:
        columns[count_column(table)] = Count(bounds=(0, tables.tables[table].max_rows))
        of_table = chain_view(tables, table).columns
        columns |= {name_in_joint(table, name): absent(of_table[name]) for name in own(tables, table)}
    known = [name for name, column in patients.core.columns.items() if column.size > 1 or isinstance(column, Open)]
    target = patients.target or (known or patients.core.names)[-1]
    return patients.model_copy(update={"name": tables.name, "columns": columns, "target": target})
