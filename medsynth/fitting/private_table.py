"""Opening a private table: its text, the schema it is read by, and what is public of it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import SchemaError, UsageError
from ..io import formats
from ..io import table as io_table
from ..methods.protocol import MethodModule
from ..privacy import hierarchy_selection, partition_selection
from ..privacy.accounting.calibration import Query
from ..privacy.contribution import Units, capped
from ..rng import Entropy
from ..schema import Binary, Categorical, Identifier, Schema, bundled_for
from ..transforms.table_codec import check_header, encode

Notice = Callable[[str], None]
FINE, POINTS, COPIES = 60, 128, 10  # bins of a number, latent points, copies of a step in memory
HEAVY = 2.0  # GiB of which a person is warned
PATIENTS, PATIENTS_SHARE = "rows a patient", 0.02


@dataclass(frozen=True, kw_only=True)
class Opened:
    """A private table and what is public of it: its schema or, where none is declared, the kinds of its columns."""

    data: io_table.Table
    declared: Schema | None
    target: str
    kinds: dict[str, io_table.Kind]

    def queries(self, module: MethodModule, epsilon: float, config: Any, rows: int) -> list[Query]:
        """All that a fit asks: the learning of a schema where there is none, then the method's own answers."""
        learning = partition_selection.queries(self.kinds, self.target) if self.kinds else []
        learning += [Query(label=PATIENTS, weight=PATIENTS_SHARE**-0.5)] if self.most else []
        learning += hierarchy_selection.queries(self.unrolled)
        return [*learning, *module.queries(config, max(1, rows // (self.most or 1)), self.columns, epsilon)]

    def capped(self, entropy: Entropy) -> tuple[NDArray[np.int64], Units | None]:
        """The rows that are learned from, and their patients where those are the unit of privacy.

        Raises SchemaError for a row without a patient.
        """
        if self.declared is None or not (self.declared.unit and self.declared.max_rows):
            return np.arange(len(self.data.cells)), None
        return capped(patients(self.data, self.declared.unit), self.declared.max_rows, entropy)

    def facts(self) -> dict[str, object]:
        """What tells this table and schema from others: for the private checkpoint alone."""
        digest = hashlib.sha256("\x1f".join(self.data.header).encode())
        digest.update(pd.util.hash_pandas_object(self.data.cells, index=False).to_numpy().tobytes())
        return {"table": digest.hexdigest(), "schema": self.declared.to_dict() if self.declared else None}

    @property
    def most(self) -> int | None:
        """Rows of a patient, where the patient is the unit of privacy."""
        return self.declared.max_rows if self.declared else None

    @property
    def unrolled(self) -> dict[str, Categorical]:
        """The columns of codes in a hierarchy whose levels are still to be chosen."""
        columns = self.declared.core.columns if self.declared else {}
        return {n: c for n, c in columns.items() if isinstance(c, Categorical) and not c.levels}

    @property
    def columns(self) -> int:
        """How many columns a model learns."""
        return len(self.declared.core.columns) if self.declared else len(self.data.header)


@dataclass(frozen=True, kw_only=True)
class Shown:
    """Rows that the user declared public. `digest`: SHA-256 of their file's bytes."""

    data: io_table.Table = field(repr=False)
    digest: str

    @property
    def note(self) -> str:
        """What the ledger says of them."""
        return f"{len(self.data.cells)} rows were declared public by the user: a file of SHA-256 {self.digest}."


def open_public(path: Path | str, schema: Schema | None) -> Shown:
    """A table that the user declares public, read by the schema of the private one.

    Raises UsageError where that has no schema, TableError or SchemaError, naming no cell, where the file does not meet
    it.
    """
    if schema is None:
        raise UsageError("--public needs a declared schema: public rows are read by it. `medsynth schema draft` helps.")
    data = io_table.read(path)
    check_header(data, schema)
    encode(data, schema.core)
    return Shown(data=data, digest=hashlib.sha256(Path(path).read_bytes()).hexdigest())


def open_table(
    table: Path | str | pd.DataFrame, schema: Schema | Path | str | None, target: str | None, notice: Notice
) -> Opened:
    """The table at a path or in a frame, with the schema that a fit of it takes. Raises TableError or SchemaError."""
    path = Path(table) if isinstance(table, (str, Path)) else None
    data = io_table.read(path) if path else io_table.from_frame(table)  # type: ignore[arg-type]
    if data.form:
        notice(f"{data.where} is read as a table {data.form}.")
    declared = choose_schema(data, schema, path, notice)
    if declared is not None:
        declared = settle_target(declared, target, notice)
        if declared.unit:
            patients(data, declared.unit)  # a row without one is found before anything else is done
    goal = target or data.header[-1]
    if goal not in data.header:
        raise SchemaError(f"The target {goal!r} is no column. The columns are: {', '.join(data.header)}.")
    kinds = io_table.dtypes(data) if declared is None else {}
    return Opened(data=data, declared=declared, target=goal, kinds=kinds)


def patients(data: io_table.Table, unit: str) -> pd.Series:
    """The patient of each row. Raises SchemaError for a row without one."""
    empty = data.cells[unit].isin(list(io_table.MISSING_TOKENS)).to_numpy()
    if empty.any():
        row = int(empty.argmax()) + 1
        raise SchemaError(f"{data.where}, column {unit!r}, row {row}: no patient: whose privacy is kept is not told.")
    return data.cells[unit]


def choose_schema(
    data: io_table.Table, schema: Schema | Path | str | None, path: Path | None, notice: Notice
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
    """The schema with the target asked for, else its own, else the last column. Raises SchemaError for no column."""
    if target is None and schema.target is None:
        target = schema.names[-1]
        notice(f"Target: the last column, {target!r}. --target names another.")
    return schema.with_target(target) if target else schema


def check_target(schema: Schema) -> None:
    """Raises SchemaError for a target of one class or of levels not chosen yet, or a table of nothing else."""
    column = schema.columns[schema.target or schema.names[-1]]
    if isinstance(column, Categorical) and not column.levels:
        raise SchemaError(f"The target {schema.target!r} is in a hierarchy: name the levels to tell apart in `levels`.")
    if isinstance(column, Binary | Categorical) and len(column.levels) < 2:
        raise SchemaError(f"The target {schema.target!r} has one class: there is nothing to tell apart.")
    if len(schema.columns) < 2:
        raise SchemaError("The table has no column beside its target.")


def weight(schema: Schema) -> float:
    """Roughly the GiB that a generator of such a table takes while it is fitted: classes by levels by latent points."""
    levels = {n: len(c.levels) if isinstance(c, Binary | Categorical) else FINE for n, c in schema.columns.items()}
    return 4 * POINTS * COPIES * levels.get(schema.target or "", 1) * sum(levels.values()) / 2**30


def check_table(path: Path) -> int:
    """Read a table for its structure alone. Returns its row count, which the caller takes as public."""
    return len(io_table.read(path).cells)


def table_kinds(path: Path) -> dict[str, io_table.Kind]:
    """A table's header and dtypes, which count as public."""
    return io_table.dtypes(io_table.read(path))


def check_schema(path: Path, schema: Path | None) -> Schema:
    """The schema that a fit of the table would take, once every cell has met it. Raises SchemaError."""
    data = io_table.read(path)
    found = choose_schema(data, schema, path, lambda text: None)
    if found is None:
        raise SchemaError(f"{path}: no schema. `medsynth schema draft {path}` writes one to finish, or give --schema.")
    keys = [name for name, column in found.columns.items() if isinstance(column, Identifier)]
    encode(data, found.model_copy(update={"columns": {n: c for n, c in found.columns.items() if n not in keys}}))
    if found.unit:
        patients(data, found.unit)
    return found
