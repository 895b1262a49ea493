"""A private table: its text, the schema it is read by, and what is public of it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import SchemaError, UsageError, did_you_mean
from ..io import formats
from ..io import table as io_table
from ..io.large import LargeTable, is_large, read_large
from ..methods.protocol import MethodModule
from ..methods.regressions import check_columns
from ..patients import plan as later_rows
from ..privacy import hierarchy_selection, partition_selection
from ..privacy.accounting.calibration import Query
from ..privacy.contribution import PrivacyUnits, bound_contributions, first_in_order
from ..privacy.partition_selection import Learning
from ..rng import Entropy
from ..schema import Identifier, Schema, bundled_for
from ..schema.cells import MISSING_WORDS, moment
from ..schema.columns.categorical import Categorical, without_levels
from ..schema.columns.table_codec import check_header, encode
from ..schema.header import free_texts, keys, person_keys
from .cluster import ClusterTable, check_declared
from .private_rows import order_of_rows, patients

Notice = Callable[[str], None]
ROWS_PER_PATIENT_LABEL, ROWS_PER_PATIENT_SHARE = "rows per patient", 0.02
# Noise grows with `max_rows`, and the rows that patients keep grow less, whatever the table is: one row has the least.
DEFAULT_MAX_ROWS = 1


@dataclass(frozen=True, kw_only=True)
class PrivateTable:
    """A private table and what is public of it: its schema or, where none is declared, its header alone."""

    data: io_table.Table | LargeTable
    declared: Schema | None
    target: str
    learning: Learning = field(default_factory=Learning)

    def queries(self, module: MethodModule, epsilon: float, config: Any, rows: int) -> list[Query]:
        """All measurements of a fit: those that learn a schema where none is declared, then the method's own."""
        learning = [] if self.declared else partition_selection.queries()
        learning += [Query(label=ROWS_PER_PATIENT_LABEL, weight=ROWS_PER_PATIENT_SHARE**-0.5)] if self.max_rows else []
        learning += hierarchy_selection.queries(self.columns_without_levels)
        declared = self.declared.core.columns if self.declared else dict.fromkeys(self.data.header)
        check_columns(getattr(config, "regressions", ()), declared, self.target)
        own = module.queries(config, max(1, rows // (self.max_rows or 1)), self.columns, epsilon)
        return [*learning, *(later_rows.queries(own) if self.order else own)]

    def bounded_rows(self, entropy: Entropy) -> tuple[NDArray[np.int64] | None, PrivacyUnits | None]:
        """The rows that are learned from, by their positions, and their patients; None of both where the row is the
        unit, and all are.

        Raises SchemaError for a row without a patient.
        """
        if not (self.unit and self.max_rows):
            return None, None
        if self.order and self.declared:
            return first_in_order(
                patients(self.data, self.unit), order_of_rows(self.data, self.declared), self.max_rows
            )
        return bound_contributions(patients(self.data, self.unit), self.max_rows, entropy)

    def facts(self) -> dict[str, object]:
        """What identifies this table and schema: for the private checkpoint alone."""
        declared = self.declared.to_dict() if self.declared else None
        return {
            "table": [list(self.data.header), self.data.digest], "schema": declared, "target": self.target,
            "na_values": list(self.learning.na_values), "unit": self.unit, "max_rows": self.max_rows,
            "holdout": [self.data.expected_rows, self.data.expected_std],
        }  # fmt: skip

    @property
    def unit(self) -> str | None:
        """The column of patients, where the patient is the privacy unit."""
        return (self.declared or self.learning).unit

    @property
    def max_rows(self) -> int | None:
        """The most rows of a patient, where the patient is the privacy unit."""
        return (self.declared or self.learning).max_rows

    @property
    def order(self) -> str | None:
        """The column by which a patient's rows follow one another."""
        return self.declared.order if self.declared else None

    @property
    def columns_without_levels(self) -> dict[str, Categorical]:
        """The columns of codes in a hierarchy whose levels are still to be chosen."""
        return without_levels(self.declared.core.columns) if self.declared else {}

    @property
    def columns(self) -> int:
        """How many columns a model learns: of first rows one more, their number."""
        names = self.declared.core.columns if self.declared else self.data.header
        return len(names) - len(self.learning.keys) + (self.order is not None)

    @property
    def keys_by_name(self) -> list[str]:
        """The columns that no schema declares keys, and that are none of patients: their names say so."""
        return [name for name in self.learning.keys if name != self.unit]

    @property
    def shared_keys(self) -> list[str]:
        """The columns that read like a person's key, where the row is the privacy unit: rows may share a person."""
        return [] if self.max_rows else [name for name in person_keys(self.data.header) if name != self.target]


@dataclass(frozen=True, kw_only=True)
class PublicRows:
    """Rows that the user declared public. `digest`: SHA-256 of their file's bytes."""

    data: io_table.Table = field(repr=False)
    digest: str

    @property
    def note(self) -> str:
        """The note of them in the ledger."""
        return f"{len(self.data.cells)} rows were declared public by the user: a file of SHA-256 {self.digest}."


def refuse_private_rows_as_public(table: Path | str, public: Path | str) -> None:
    """Raises UsageError where the table that is declared public is the private one's own file, or one of its files."""
    own = (Path(public), Path(public).parent)  # a private table may be a folder
    if Path(table).exists() and Path(public).exists() and any(Path(table).samefile(path) for path in own):
        raise UsageError("`public` is the private table itself. Give a table whose rows are public.")


def open_public(path: Path | str, schema: Schema | None, encoding: str | None) -> PublicRows:
    """A table that the user declares public, read by the schema and in the encoding of the private one.

    Raises UsageError where that has no schema, TableError or SchemaError, naming no cell, where the file does not meet
    it.
    """
    if schema is None:
        raise UsageError("`public` needs a declared schema, by which its rows are read. Draft a schema first.")
    data = read_table(path, encoding)
    check_header(data, schema)
    encode(data, schema.core)
    return PublicRows(data=data, digest=hashlib.sha256(Path(path).read_bytes()).hexdigest())


def read_rows(path: Path | str, encoding: str | None = None) -> io_table.Table | LargeTable:
    """The private table at a path, in memory; or, where it is large, only counted, and read when its rows are asked
    for.

    Raises TableError.
    """
    return read_large(Path(path), encoding) if is_large(Path(path)) else io_table.read(path, encoding)


def read_table(path: Path | str, encoding: str | None = None) -> io_table.Table:
    """The private table at a path, read and checked once: what a command does after works on it.

    Its header and row count are taken as public. Raises TableError.
    """
    return io_table.read(path, encoding)


def open_table(
    table: Path | str | pd.DataFrame | io_table.Table | LargeTable,
    schema: Schema | Path | str | None,
    target: str | None,
    notice: Notice,
    encoding: str | None = None,
    na_values: Sequence[str] = (),
    unit: str | None = None,
    max_rows: int | None = None,
) -> PrivateTable:
    """A table at a path, in a frame or read before, with the schema that a fit of it takes.

    `na_values`: codes of missing values to look for beside the usual ones, `unit` and `max_rows`: the column of
    patients and their most rows, where no schema is declared. Raises TableError or SchemaError, UsageError for an
    encoding that does not exist, or for any of these beside a schema.
    """
    path = Path(table) if isinstance(table, str | Path) else None
    if isinstance(table, io_table.Table | LargeTable):
        data: io_table.Table | LargeTable = table
    else:
        data = io_table.from_frame(table) if isinstance(table, pd.DataFrame) else read_rows(table, encoding)
    if data.form:
        notice(f"{data.where} is read as a table {data.form}.")
    declared = choose_schema(data, schema, path, notice)
    if isinstance(data, ClusterTable):
        check_declared(data, declared, notice)
    whose = declared.unit if declared else unit
    if isinstance(table, pd.DataFrame) and isinstance(data, io_table.Table) and whose in data.header:
        data = io_table.with_keys(data, table, whose)
    if declared is not None:
        declared = settle_target(declared, target, notice)
        check_target(declared)
        if declared.unit and isinstance(data, io_table.Table):
            patients(data, declared.unit)  # a row without one is found before anything else is done
        if na_values:
            raise UsageError("`na_values` are for tables without a schema. Name the codes in the schema's `missing`.")
        if unit is not None:
            raise UsageError(
                '`unit` is for tables without a schema. Declare it in the schema, with the key "max_rows".'
            )
        return PrivateTable(data=data, declared=declared, target=declared.target or declared.names[-1])
    if target is not None and target not in data.header:
        raise SchemaError(f"The target {target!r} is no column.{did_you_mean(target, data.header)}")
    learning = learning_of(data.header, target, tuple(code.strip() for code in na_values), unit, max_rows)
    if unit is not None and isinstance(data, io_table.Table):
        patients(data, unit)
    names = [name for name in data.header if name not in learning.keys]
    if len(names) < 2:
        raise SchemaError("The table has no column beside its target.")
    return PrivateTable(data=data, declared=None, target=target or names[-1], learning=learning)


def learning_of(
    header: Sequence[str], target: str | None, na_values: tuple[str, ...], unit: str | None, max_rows: int | None
) -> Learning:
    """What is public of the measurements that learn a schema. Raises SchemaError for a column of free text.

    Where the column `unit` names patients, each counts with at most `max_rows` rows, DEFAULT_MAX_ROWS if not given.
    """
    if unit is not None and (unit not in header or unit == target):
        wrong = "is the target" if unit == target else f"is no column.{did_you_mean(unit, header)}"
        raise SchemaError(f"`unit` names the column of patients: {unit!r} {wrong}")
    texts = [name for name in free_texts(header) if name != target]
    if texts:
        raise SchemaError(
            f"The column {texts[0]!r} reads like free text, which is never modelled: one sentence can name a patient. "
            "Take the column out of the table; or draft a schema and declare what it is there (`kind: identifier` with "
            "`drop: true` leaves it out of the rows)."
        )
    named = set(keys(header))
    known = [name for name in header if name == unit or (name in named and name != target)]
    most = None if unit is None else max_rows or DEFAULT_MAX_ROWS
    return Learning(na_values=na_values, keys={name: Identifier() for name in known}, unit=unit, max_rows=most)


def choose_schema(
    data: io_table.Table | LargeTable, schema: Schema | Path | str | None, path: Path | None, notice: Notice
) -> Schema | None:
    """The schema given, else the file beside the table, else a bundled one by header, else None.

    Its columns come in the table's order. Raises SchemaError where they are not the table's.
    """
    sibling = formats.beside(path, ".schema.yaml") if path else None
    if isinstance(schema, Schema):
        found = schema
    elif schema is not None:
        found = Schema.load(schema)
    elif sibling and sibling.exists():
        found = Schema.load(sibling)
        notice(f"Schema: {sibling}")
    elif bundle := bundled_for(data.header):
        found = bundle
        notice(f"Schema: the bundled {bundle.name!r}, recognised by its column names:\n{bundle.to_yaml()}")
    else:
        return None
    check_header(data, found)
    return found.model_copy(update={"columns": {name: found.columns[name] for name in data.header}})


def settle_target(schema: Schema, target: str | None, notice: Notice) -> Schema:
    """The schema with the target given, else its own, else the last column. Raises SchemaError for no column."""
    if target is None and schema.target is None:
        target = schema.names[-1]
        notice(f"Target: the last column, {target!r}. `target` names another.")
    return schema.with_target(target) if target else schema


def check_target(schema: Schema) -> None:
    """Raises SchemaError for a target of one class or of levels not chosen yet, or a table of nothing else."""
    column = schema.columns[schema.target or schema.names[-1]]
    if column.categorical and not column.levels:
        raise SchemaError(
            f"The target {schema.target!r} is in a hierarchy of codes. Name its classes in `levels` instead."
        )
    if column.categorical and column.size < 2:
        raise SchemaError(
            f"The target {schema.target!r} has one class: there is nothing to predict. Name another column as `target`."
        )
    if len(schema.columns) < 2:
        raise SchemaError("The table has no column beside its target.")


def table_kinds(path: Path, encoding: str | None = None) -> dict[str, io_table.Kind]:
    """A table's header and the exact kinds of its columns, for a draft. No fit releases them.

    NO NOISE: a single cell may change one. Whoever finishes the draft declares the kinds, from public knowledge.
    """
    data = read_table(path, encoding)
    # A usual code of missing values says nothing about the other cells.
    cells = data.cells.mask(data.cells.isin(MISSING_WORDS), "")
    found = io_table.dtypes(replace(data, cells=cells))
    dated = {name for name, kind in found.items() if kind == "text" and _all_dates(cells[name].unique())}
    return {name: "date" if name in dated else kind for name, kind in found.items()}


def _all_dates(texts: Iterable[str]) -> bool:
    known = [text for text in texts if text]
    return bool(known) and all(map(moment, known))
