"""The file that names several tables: their columns, the patient's key in all of them, the order of each."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError, model_validator

from ...errors import did_you_mean, validators_words
from ...row_count import MAX_ROWS_PER_PATIENT
from ..columns.registry import AnyColumn
from ..declared import Declared
from ..schema import MAX_RULES, Schema

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


class LinkedTables(Declared):
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
            columns = {
                key: {"kind": c.kind, **c.model_dump(mode="json", exclude_defaults=True)}
                for key, c in table.columns.items()
            }
            rest = table.model_dump(mode="json", exclude_defaults=True, exclude={"columns"})
            found[name] = {**rest, "columns": columns}
        head = {"name": self.name, "key": self.key}
        head |= {} if self.other_columns == "refuse" else {"other_columns": self.other_columns}
        return {**head, "tables": found}
