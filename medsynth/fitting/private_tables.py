"""Several private tables: read, checked, and turned into codes of patients and of the rows that follow their first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from ..arrays import Codes, Whole
from ..errors import Message, SchemaError, UsageError
from ..io.formats import USUAL, SavedAs
from ..io.table import MISSING_TOKENS, LargeTable, Table
from ..methods.registry import Method
from ..patients.codes import columns_of_codes
from ..patients.plan import queries as with_later_rows
from ..patients.split_rows import SplitRows, changing, ending, split_rows
from ..privacy import partition_selection
from ..privacy.accounting.calibration import Charge, Plan
from ..privacy.accounting.events import rows_of
from ..privacy.contribution import PrivacyUnits, first_in_order
from ..sampling.patients import PatientRows
from ..sampling.placing import view_of
from ..sampling.rejection import widened
from ..schema import Schema
from ..schema.codec import check_header, encode
from ..schema.columns.column import Column
from ..schema.linked import LinkedTables, chain_view, joint, name_in_joint, own
from .declarations import with_open_columns
from .private_rows import refuse_floats
from .private_table import PrivateTable, after_a_look, read_rows, rows_per_patient
from .settings import FitSettings
from .source import Source


@dataclass(frozen=True, kw_only=True)
class PrivateTables(PrivateTable):
    """A table of patients, in memory, and the rows of other tables that belong to them.

    `data` and `declared` are of patients: their table, and the columns that the method learns of them, including those
    of first rows in each table. `whose`: the patient of each row of a table, (rows,) row numbers of `data`.
    """

    tables: LinkedTables
    cells: Mapping[str, Table] = field(repr=False)
    whose: Mapping[str, Whole] = field(repr=False)

    @property
    def declared_schemas(self) -> list[Schema]:
        """The schemas of all tables, with the rules that their rows meet."""
        return [self.tables.view(name) for name in self.tables.tables]

    @property
    def max_rows(self) -> int:
        """The most rows of a patient, over all tables."""
        return self.tables.max_rows

    @property
    def rows_std(self) -> None:
        """The standard deviation of `rows`: not known."""

    @property
    def in_order(self) -> list[str]:
        """The tables in which a patient may have several rows."""
        return [name for name in self.tables.others if self.tables.tables[name].order]

    def records(self, plan: Plan) -> int:
        """Return the number of records that a method's notes are about: patients."""
        return plan.rows

    @property
    def open_schemas(self) -> dict[str, Schema]:
        """The schema of each table of which something is open, by the table's name."""
        found = {name: self.tables.alone(name) for name in self.tables.tables}
        first = found[self.tables.first]
        found[self.tables.first] = first.with_columns(first.columns, target=self.target)
        return {name: schema for name, schema in found.items() if schema.open}

    def most_rows(self, table: str) -> int:
        """Return the most rows of a patient in the table of that name."""
        return self.tables.tables[table].max_rows

    def queries(self, module: Method, epsilon: float, config: Any, rows: int) -> list[Charge]:
        """Return all measurements of a fit: those that learn what is open, the method's own, of patients, and those of
        the rows that follow.
        """
        learning = list[Charge]()
        for name, schema in self.open_schemas.items():
            learning += [] if name == self.tables.first else [rows_per_patient(name)]
            learning += partition_selection.queries(schema, name, self.columns)
        in_order = {name: bool(ending(chain_view(self.tables, name))) for name in self.in_order}
        codes = bool(columns_of_codes(self.tables))
        return [*learning, *with_later_rows(module.queries(config, rows, self.columns, epsilon), in_order, codes=codes)]

    def kept(self, name: str) -> tuple[Whole, PrivacyUnits]:
        """Return the positions of a table's rows that stay, the first `max_rows` of each patient, and their patients.

        A patient's rows alone decide which of them stay.
        """
        table, data, whose = self.tables.tables[name], self.cells[name], self.whose[name]
        column = self.tables.view(name).columns.get(table.order or "")
        order = np.arange(data.rows) if column is None else column.ranks(data.cells[table.order])
        return first_in_order(whose, order, table.max_rows)

    def expected(self, plan: Plan) -> None:
        """Return nothing: several tables are not simulated."""

    def public_facts(self, settings: FitSettings, rows: int) -> list[str]:
        """Return the facts that no noise covers and that neighbouring tables share, one phrase each."""
        tables = self.tables
        first, *others = tables.tables
        declared = settings.rows is not None
        return [
            Message(
                f"the headers of the tables {', '.join(map(repr, tables.tables))} and the form of their files",
                f"the headers of {len(tables.tables)} tables",
            ),
            *settings.facts_of_the_file.values(),
            f"the number of patients, {rows}, {'as `rows` declares it' if declared else f'the rows of {first!r}'}",
            Message(
                f"the columns, rules and orders that {tables.name!r} declares, and that the tables meet them",
                f"the declarations of {tables.name!r}",
            ),
            *after_a_look(map(tables.alone, tables.tables)),
            Message(
                f"that {tables.key!r} names the patient of each row, and that every row in "
                f"{', '.join(map(repr, others))} belongs to a patient in {first!r}"
            ),
            "that a patient counts with at most "
            + ", ".join(f"{rows_of(table.max_rows)} of {name!r}" for name, table in tables.tables.items()),
            f"the target, {self.target!r}",
            *([f"what the tables leave open: {self.open_in_words(', '.join)}"] if self.open else []),
            Message("`epsilon`, `delta`, the method and its settings", "the settings"),
        ]

    def remarks(self, settings: FitSettings, plan: Plan) -> Iterator[Message]:
        """Yield what becomes public without a declaration."""
        if settings.rows is None:
            yield Message(
                f"The number of patients, {plan.rows}, is public. To declare another, set `rows`.",
                note="The number of patients was not declared: the tables' own became public.",
            )
        yield from map(Message, remarks_on_order(self.tables))
        if self.open:
            yield Message(note=f"Learned from noisy counts: {self.open_in_words(', '.join)}.")
        for name in self.in_order:
            schema = self.tables.view(name)
            ordered = f"{schema.order!r} orders the rows of {name!r}. Columns that may change from row to row:"
            yield Message(f"{ordered} {', '.join(changing(schema))}.")

    def facts(self) -> dict[str, object]:
        """Return what identifies these tables: for the private checkpoint alone."""
        digests = {name: [list(table.header), table.digest] for name, table in self.cells.items()}
        return {"table": digests, "schema": self.tables.to_dict(), "holdout": self.data.expected_rows}


def remarks_on_order(tables: LinkedTables) -> list[str]:
    """Return a sentence for each table of which only one row of a patient counts."""
    lone = [name for name in tables.others if not tables.tables[name].order]
    return [f"Only a patient's first row in the file of {name!r} counts. For more, set an `order`." for name in lone]


def open_tables(source: Source, saved: SavedAs = USUAL) -> PrivateTables:
    """Read and check the tables of a source once. Raise TableError or SchemaError, without a cell."""
    tables, cells = read_tables(source, saved)
    found = {name: with_declared_columns(data, tables, name) for name, data in cells.items()}
    return replace(private_tables(tables, found), place=source.folder / source.name)


def read_tables(source: Source, saved: SavedAs = USUAL) -> tuple[LinkedTables, dict[str, Table]]:
    """Return the tables as they are declared, with undeclared columns that are to be learned, and what their files say.

    Headers alone decide about columns. Raises TableError, UsageError for a large table, SchemaError for a column of
    free text, and for columns of one name.
    """
    tables = source.tables
    cells = dict[str, Table]()
    for name in tables.tables:
        data = read_rows(source.file(name), saved)
        if isinstance(data, LargeTable):
            raise UsageError(f"{data.where} is too large to be read at once. Fit a part of the patients.")
        cells[name] = data
    if tables.other_columns != "learn":
        return tables, cells
    columns = dict[str, Mapping[str, Column]]()
    for name, data in cells.items():
        declared = tables.alone(name)
        others = [one for one in data.header if one not in declared.header]
        target = tables.tables[name].target
        columns[name] = with_open_columns(declared, others, data.header, {target}).columns
    found = tables.with_columns(columns).model_copy(update={"other_columns": "refuse"})
    return LinkedTables.from_dict(found.to_dict(), f"the tables {tables.name!r}"), cells


def with_declared_columns(data: Table, tables: LinkedTables, name: str) -> Table:
    """Return the columns of a table that are declared. Raise SchemaError for others."""
    declared = tables.alone(name)
    if tables.other_columns == "leave out":
        names = [column for column in data.header if column in declared.header]
        data = replace(data, header=tuple(names), cells=data.cells[names])
    orders = (table.order for table in tables.tables.values() if table.order)  # no fit reads keys of `latest`
    check_header(data, declared, (tables.key, *orders))
    return data


def private_tables(tables: LinkedTables, cells: Mapping[str, Table]) -> PrivateTables:
    """Link tables in memory. Raise SchemaError for keys that are floats, empty, repeated or of no patient."""
    for name, table in cells.items():
        linked = tables.tables[name]
        refuse_floats(table, linked.columns, (tables.key, linked.order, *linked.latest))
    numbers = _patients(cells[tables.first], tables.key)
    whose = {name: _whose(table, tables, numbers) for name, table in cells.items()}
    data = cells[tables.first]
    declared = joint(tables)
    named = tables.tables[tables.first].target is not None
    return PrivateTables(
        data=data, declared=declared, target=declared.target, target_named=named, tables=tables, cells=cells,
        whose=whose,
    )  # fmt: skip


def _patients(first: Table, key: str) -> pd.Index[str]:
    """Return the keys of patients. Raise SchemaError for an empty or a repeated key."""
    found: pd.Index[str] = pd.Index(first.cells[key])
    empty = found.isin(list(MISSING_TOKENS))
    twice = found.duplicated()
    if empty.any():
        raise SchemaError(f"{first.where}, column {key!r}, row {int(empty.argmax()) + 1}: no key. Fill the cell.")
    if twice.any():
        raise SchemaError(
            f"{first.where}, column {key!r}, row {int(twice.argmax()) + 1}: an earlier row has the same key, but the "
            "first table has one row per patient. Remove one of them, or list the tables in another order."
        )
    return found


def _whose(table: Table, tables: LinkedTables, numbers: pd.Index[str]) -> Whole:
    """Return the patient of each row of a table, (rows,). Raise SchemaError for a row whose key no patient has."""
    found = np.asarray(numbers.get_indexer(pd.Index(table.cells[tables.key])), np.int64)
    if (found < 0).any():
        raise SchemaError(
            f"{table.where}, column {tables.key!r}, row {int((found < 0).argmax()) + 1}: no row of {tables.first!r} "
            "has this key. Remove the row, or add the patient."
        )
    return found


@dataclass(frozen=True, kw_only=True)
class CodedTables:
    """Codes of patients, (patients, core of `joint`), and the rows of each other table that has an order: first and
    later ones, in the columns of the table's chain, of patients who have any.

    `together`: which codes each patient has in rows that stay, (patients, `names_of_codes`), zero or one.
    """

    schema: Schema
    patients: Codes = field(repr=False)
    rows: Mapping[str, SplitRows] = field(repr=False)
    together: Codes = field(repr=False)


def coded_tables(private: PrivateTables) -> CodedTables:
    """Return the codes of tables, with the first `max_rows` rows per patient by each table's order.

    Each patient's codes depend on this patient's rows alone. Raises SchemaError for a cell that is not allowed.
    """
    tables = private.tables
    schema = joint(private.tables)
    first = encode(private.cells[tables.first], tables.view(tables.first).core)
    columns = [first]
    rows = dict[str, SplitRows]()
    kept = dict[str, PatientRows]()
    for name in tables.others:
        kept[name] = found = _kept(private, name, first)
        form = view_of(tables, name, kept, np.arange(len(first)))
        units = PrivacyUnits(np.unique(found.whose, return_inverse=True)[1], tables.tables[name].max_rows)
        split = split_rows(form.core(found.codes, found.whose), units, form.of_chain)
        if tables.tables[name].order:
            rows[name] = split
        columns.append(_of_patients(split, np.unique(found.whose), len(first), schema, tables, name))
    together = _together(tables, kept, len(first))
    return CodedTables(schema=schema, patients=np.column_stack(columns).astype(np.int32), rows=rows, together=together)


def _together(tables: LinkedTables, kept: Mapping[str, PatientRows], patients: int) -> Codes:
    """Return which codes each patient has in the rows that stay: (patients, codes of all tables), zero or one."""
    found = [np.zeros((patients, 0), np.int32)]
    for name, column in columns_of_codes(tables).items():
        schema, rows = tables.view(name), kept[name]
        has = np.zeros((patients, schema.columns[column].size + schema.columns[column].gaps), np.int32)
        has[rows.whose, rows.codes[:, schema.names.index(column)]] = 1
        found.append(has[:, : schema.columns[column].size])  # a missing value is not a code
    return np.column_stack(found)


def _kept(private: PrivateTables, name: str, first: Codes) -> PatientRows:
    """Return the rows of a table that stay, (rows, columns of its view), patient by patient and in order.

    `first`: codes of the first table.
    """
    table = private.tables.tables[name]
    schema = private.tables.view(name)
    names = [one for one in schema.core.names if one in table.columns]
    core = schema.core.model_copy(update={"columns": {one: schema.columns[one] for one in names}})
    data, whose = private.cells[name], private.whose[name]
    codes = encode(data, core) if names else np.empty((data.rows, 0), np.int32)
    stay, _ = private.kept(name)
    stay = stay[np.argsort(whose[stay], kind="stable")]
    return PatientRows(widened(np.column_stack([codes[stay], first[whose[stay]]]), schema), whose[stay])


def _of_patients(split: SplitRows, who: Whole, patients: int, schema: Schema, tables: LinkedTables, name: str) -> Codes:
    """Return a table's part of the patients' codes: the number of rows, and the first row; (patients, 1 + its columns).

    A patient without a row has the code of an empty cell in each of these columns.
    """
    empty = [schema.columns[name_in_joint(name, one)] for one in own(tables, name)]
    absent = [0, *(column.size + column.gap_words.index("") for column in empty)]
    found = np.tile(np.array(absent, np.int32), (patients, 1))
    found[who, 0] = split.first[:, -1] + 1
    found[who, 1:] = split.first[:, : len(empty)]
    return found
