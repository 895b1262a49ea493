"""The origin of synthetic rows: a file next to them, and the proof that a model draws exactly these rows.

The proof is a second draw: the model, with the seed, count and conditions on file, must give the same rows to the last
byte. The file's text about the claim is not trusted; the file only defines what to draw. Costs no privacy.
"""

from __future__ import annotations

import hashlib
import io
import json
import secrets
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import ConfigDict, TypeAdapter

from .. import __version__
from ..artifact import Model, claim
from ..errors import MedsynthError, UsageError
from ..io import statistical_writer
from ..io.atomic import atomic_write
from ..io.formats import is_parquet, statistical_kind, unpacked
from ..io.statistical import cells_of
from ..io.statistical_writer import DeclaredColumn
from ..io.table import MISSING_TOKENS
from ..io.writer import encoded, write
from ..schema import Schema
from ..schema.codec import words
from ..schema.columns.column import Column
from .draw import Draw
from .pipeline import csv_bytes, csv_chunks, frames, replicates_apart

ONE_TABLE = (
    "This is one synthetic table. Standard errors that treat its rows as real are too small. For estimates with "
    "intervals draw `replicates` and combine their results."
)
FORM_ALONE = "Rows of a schema show the form of a table, to write and test code with. No result may rest on them."
SEVERAL = (
    "Replicates: run the analysis on each, then combine the estimates. They were fitted to the released measurements "
    "alone, so they cost no privacy."
)
LABELS = "The schema comes from the labels of {file}, which were declared public: no noise covers them."
SUFFIX = ".provenance.json"
NUMBER = "{replicate}"  # in a file's name: each replicate has its own file, with its number in this place
BLOCK = 1 << 20  # bytes compared at once
SEED_BITS = 53  # of a fresh seed: whole numbers that every JSON reader keeps exactly


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """How rows were drawn: all that is needed to draw them again.

    `claim` and `note` are for people; no program reads them. One of `rows` and `patients` is None. `replicates`: the
    number of models that drew the same amount each, None if the model itself did; `replicate`: the number of the one
    that drew these rows, None if all did.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")  # for `load`

    model: str
    model_sha256: str
    rows: int | None
    patients: int | None = None
    seed: int
    where: tuple[str, ...]
    where_any: tuple[str, ...] = ()
    balance: bool
    claim: str
    replicates: int | None = None
    replicate: int | None = None
    mark: bool = False
    note: str = ""
    medsynth: str = __version__

    @property
    def draw(self) -> Draw:
        """The request to the model. Raises UsageError if it is impossible."""
        return Draw(**{field.name: getattr(self, field.name) for field in fields(Draw)})

    def save(self, table: Path, *, force: bool = False) -> Path:
        """Write the file next to `table`, whole or not at all. Raise OutputExists unless `force`."""
        path = beside(table)
        content = json.dumps(asdict(self), indent=1).encode()
        atomic_write(path, lambda file: file.write(content + b"\n"), force=force)
        return path


def beside(table: Path) -> Path:
    """Return the provenance file of a table: patients.synthetic.csv has patients.synthetic.csv.provenance.json."""
    return table.with_name(table.name + SUFFIX)


def of(model: Model, path: Path, draw: Draw) -> Provenance:
    """Return the provenance of the rows that the model in the file `path` draws, with a seed."""
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert draw.seed is not None
    return Provenance(
        model=path.name,
        model_sha256=digest,
        claim=claim(model),
        note=(FORM_ALONE if model.structure_only else ONE_TABLE if draw.replicates is None else SEVERAL)
        + (f" {LABELS.format(file=model.schema.public_labels)}" if model.schema.public_labels else ""),
        **{**vars(draw), "where": words(draw.where), "where_any": words(draw.where_any)},
    )


def write_sample(model: Model, path: Path, table: Path, draw: Draw, *, force: bool = False) -> Provenance:
    """Draw rows of the model in the file `path` into the file `table`, and write their provenance next to it.

    The name of `table` decides its format. With `{replicate}` in it, each replicate has its own file and provenance.
    Returns the provenance, the last of several, with a fresh seed if `draw` has none. Nothing is measured or charged,
    with replicates either. Raises OutputExists unless `force`, UsageError as `sample` does.
    """
    if table.suffix.lower() in statistical_writer.ENDINGS:
        statistical_writer.check_names(table, [name for name, column in model.schema.columns.items() if column.written])
    draw = draw.of(model)
    draw = replace(draw, seed=secrets.randbits(SEED_BITS)) if draw.seed is None else draw
    found, form = of(model, path, draw), model.form.of(table)
    whole = iter([(draw, frames(model, draw), csv_chunks(model, draw, form))])
    for own, rows, texts in replicates_apart(model, draw, form) if NUMBER in table.name else whole:
        place = table.with_name(table.name.replace(NUMBER, str(own.replicate)))
        atomic_write(
            place,
            partial(
                write,
                path=place,
                frames=rows,
                texts=encoded(texts, form.encoding),
                facts=label(model),
                **_declared(model.schema),
            ),
            force=force,
        )
        found = replace(found, replicate=own.replicate)
        found.save(place, force=force)
    return found


def label(model: Model) -> dict[str, str]:
    """Return what the metadata of a Parquet file of synthetic rows states."""
    return {"synthetic": "true", "medsynth.claim": claim(model)}


def tables_of(table: Path, draw: Draw) -> list[Path]:
    """Return the files that a draw into `table` writes: one, or one per replicate.

    Raises UsageError if the name has a replicate's number but the draw has no replicates.
    """
    if NUMBER not in table.name:
        return [table]
    if draw.replicates is None:
        raise UsageError(f"{NUMBER} in a file's name stands for the number of a replicate. Set `replicates`.")
    return [table.with_name(table.name.replace(NUMBER, str(k + 1))) for k in range(draw.replicates)]


def load(table: Path) -> Provenance | None:
    """Return the provenance next to a table, or None if there is none that can be read."""
    try:
        found = TypeAdapter(Provenance).validate_json(beside(table).read_bytes(), strict=True)
    except (OSError, ValueError):
        return None
    return found if (found.rows is None) != (found.patients is None) else None


def drawn_by(model: Model, table: Path) -> bool:
    """Return whether the rows in the file `table` are exactly what `model` draws with the request on file.

    False without a provenance file, or if a single byte differs. Of Parquet and of files of SPSS, Stata and SAS, whose
    bytes vary, the cells are compared.
    """
    found = load(table)
    if found is None:
        return False
    try:
        draw = found.draw
        if is_parquet(table) or statistical_kind(table):
            return _same_cells(model, table, frames(model, draw))
        with unpacked(table) as file:
            for part in csv_bytes(model, draw, model.form.of(table)):
                known = io.BytesIO(part)
                while block := known.read(BLOCK):
                    if file.read(len(block)) != block:
                        return False
            return not file.read(1)
    except (MedsynthError, OSError, ValueError):
        return False


def _same_cells(model: Model, table: Path, parts: Iterator[pd.DataFrame]) -> bool:
    """Return whether a file contains the same cells as these rows; its bytes vary with the library and the time."""
    import pyarrow.parquet

    parquet = is_parquet(table)
    with tempfile.TemporaryDirectory(prefix="medsynth-") as folder:
        drawn = Path(folder) / f"rows.{'parquet' if parquet else statistical_kind(table)}"
        with drawn.open("wb") as file:
            write(file, drawn, parts, (), **_declared(model.schema))
        if parquet:
            return bool(pyarrow.parquet.read_table(table).equals(pyarrow.parquet.read_table(drawn)))
        return cells_of(table).equals(cells_of(drawn))


def _declared(schema: Schema) -> dict[str, Any]:
    """Return what a file with types can keep of a schema's declarations, as `write` accepts it."""
    return {"days": schema.days, "declared": {name: _of_column(column) for name, column in schema.columns.items()}}


def _of_column(column: Column) -> DeclaredColumn:
    codes = column.missing if isinstance(column.missing, tuple) else ()
    measure = ("ordinal" if column.ordered else "nominal") if column.categorical else "scale" * column.modelled
    return DeclaredColumn(
        column.places, tuple(code for code in codes if code not in MISSING_TOKENS), column.label or "",
        column.value_labels, measure,
    )  # fmt: skip
