"""Where synthetic rows come from: a file beside them, and the proof that a model draws exactly these rows.

The proof is a second draw: the model, with the seed, count and conditions on file, must give the same rows to the last
byte. Nothing that the file says of the claim is believed; it only tells what to draw. Costs no privacy.
"""

from __future__ import annotations

import hashlib
import io
import json
import secrets
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import pandas as pd

from .. import __version__
from ..artifact import Model, claim
from ..errors import MedsynthError
from ..io.atomic import atomic_write
from ..io.formats import is_parquet, unpacked
from ..io.writer import write
from ..transforms.conditions import Where, words
from .pipeline import csv_chunks, frames

ONE_TABLE = (
    "One synthetic table: standard errors that take its rows for real ones are too small. For estimates with intervals "
    "draw `replicates` and combine what each gives."
)
SEVERAL = (
    "Replicates: run the analysis on each, then combine the estimates. Fitted to the released measurements alone, so "
    "that they cost no privacy."
)
SUFFIX = ".provenance.json"
BLOCK = 1 << 20  # bytes compared at once
SEED_BITS = 53  # of a fresh seed: whole numbers that every reader of JSON keeps


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """How rows were drawn: all that is needed to draw them again.

    `claim` and `note` are for people; nobody reads them back. `replicates`: how many models drew `rows` rows each, None
    where the model itself did.
    """

    model: str
    model_sha256: str
    rows: int
    seed: int
    where: tuple[str, ...]
    balance: bool
    claim: str
    replicates: int | None = None
    note: str = ""
    medsynth: str = __version__

    def save(self, table: Path, *, force: bool = False) -> Path:
        """Write the file beside `table`, whole or not at all. Raises OutputExists unless `force`."""
        path = beside(table)
        content = json.dumps(asdict(self), indent=1).encode()
        atomic_write(path, lambda file: file.write(content + b"\n"), force=force)
        return path


def beside(table: Path) -> Path:
    """The provenance file of a table: patients.synthetic.csv has patients.synthetic.csv.provenance.json."""
    return table.with_name(table.name + SUFFIX)


def of(
    model: Model, path: Path, rows: int, seed: int, where: Where, balance: bool, replicates: int | None = None
) -> Provenance:
    """The provenance of `rows` rows that the model in the file `path` draws with `seed`."""
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return Provenance(
        model=path.name,
        model_sha256=digest,
        rows=rows,
        seed=seed,
        where=words(where),
        balance=balance,
        claim=claim(model),
        replicates=replicates,
        note=ONE_TABLE if replicates is None else SEVERAL,
    )


def write_sample(
    model: Model, path: Path, table: Path, rows: int, seed: int | None = None, where: Where = (),
    balance: bool = False, replicates: int | None = None, *, force: bool = False,
) -> int:  # fmt: skip
    """Draw rows of the model in the file `path` into the file `table`, and write their provenance beside it.

    `replicates`: so many plausible models draw as many rows each. Nothing is measured by that, and nothing charged.

    The name of `table` says in which form. Returns the seed, a fresh one where none is given.
    Raises OutputExists unless `force`, UsageError as `sample` does.
    """
    seed = secrets.randbits(SEED_BITS) if seed is None else seed
    drawn = (model, rows, seed, where, balance, replicates)
    atomic_write(table, lambda file: write(file, table, frames(*drawn), csv_chunks(*drawn)), force=force)
    of(model, path, rows, seed, where, balance, replicates).save(table, force=force)
    return seed


def load(table: Path) -> Provenance | None:
    """The provenance beside a table, or None where there is none that can be read."""
    try:
        content = json.loads(beside(table).read_text("utf-8"))
        found = Provenance(**{**content, "where": tuple(content["where"])})
    except (OSError, ValueError, TypeError, KeyError):
        return None
    kinds = {"rows": int, "seed": int, "balance": bool}
    several = found.replicates is None or (type(found.replicates) is int and found.replicates > 1)
    right = several and all(type(getattr(found, name)) is kind for name, kind in kinds.items()) and found.rows > 0
    return found if right and all(isinstance(word, str) for word in found.where) else None


def drawn_by(model: Model, table: Path) -> bool:
    """Whether the rows in the file `table` are exactly what `model` draws with the seed, count and conditions on file.

    False where there is no provenance file, or where a single byte (of Parquet: a single cell) differs.
    """
    found = load(table)
    if found is None:
        return False
    options = (model, found.rows, found.seed, found.where, found.balance, found.replicates)
    try:
        if is_parquet(table):
            return _same_cells(table, frames(*options))
        with unpacked(table) as file:
            for part in csv_chunks(*options):
                known = io.BytesIO(part.encode())
                while block := known.read(BLOCK):
                    if file.read(len(block)) != block:
                        return False
            return not file.read(1)
    except (MedsynthError, OSError, ValueError):
        return False


def _same_cells(table: Path, parts: Iterator[pd.DataFrame]) -> bool:
    """Whether a Parquet file holds the cells that the writer makes of these rows; its bytes vary with the library."""
    import pyarrow.parquet

    with tempfile.TemporaryFile() as file:
        write(file, table.with_suffix(".parquet"), parts, ())
        file.seek(0)
        drawn = pyarrow.parquet.read_table(file)
    return bool(pyarrow.parquet.read_table(table).equals(drawn))
