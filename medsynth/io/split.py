"""Hold rows out of training by independent secret coins, so that one row's fate moves no other row's."""

from __future__ import annotations

import math
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .. import rng
from ..errors import UsageError
from .atomic import atomic_write, refuse_existing
from .large import LargeTable, read_large
from .table import Table, check_rows
from .written import Sink

Part = TypeVar("Part", bound=Table | LargeTable)


def split(
    table: Table, fraction: float, train: Path, heldout: Path, *, force: bool, unit: str | None = None
) -> tuple[Table, Table]:
    """Each row of a table that was read goes to `heldout` with probability `fraction`, else to `train`.

    Returns both parts as tables and writes them as files: Parquet with its types, text as UTF-8 with its delimiter and
    its fields as written. With `unit`, the name of the patients' column, one coin decides for all rows of a patient.

    Both files contain real rows: they are readable by their owner alone. Raises UsageError, OutputExists, or TableError
    where too few rows are left to learn from.
    """
    check_fraction(fraction)
    for output in (train, heldout):
        refuse_existing(output, force=force)
    out = _coins(table.cells[unit] if unit in table.header else None, len(table.cells), fraction)
    check_rows(int((~out).sum()), f"What `holdout` leaves of {table.where} to train on")
    first, second = _part(table, ~out, train, force=force), _part(table, out, heldout, force=force)
    return expecting(first, table, 1 - fraction), expecting(second, table, fraction)


def split_large(
    table: LargeTable, fraction: float, train: Path, heldout: Path, *, force: bool, unit: str | None = None
) -> LargeTable:
    """The same of a table that is read in pieces. Returns the part to train on.

    Raises UsageError, OutputExists, or TableError where too few rows are left to learn from.
    """
    check_fraction(fraction)
    for output in (train, heldout):
        refuse_existing(output, force=force)
    known = dict[str, bool]()

    def write(kept: BinaryIO, held: BinaryIO) -> None:
        with ExitStack() as stack:
            sinks = [stack.enter_context(Sink(file)) for file in (kept, held)]
            for piece in table.chunks():
                out = _coins_of_patients(piece, unit, fraction, known) if unit in table.header else _coins(
                    None, piece.rows, fraction
                )  # fmt: skip
                for sink, rows in zip(sinks, (~out, out), strict=True):
                    _add(sink, piece, rows)

    def both(kept: BinaryIO) -> None:
        atomic_write(heldout, lambda held: write(kept, held), force=force, private=True)

    atomic_write(train, both, force=force, private=True)
    return expecting(read_large(train), table, 1 - fraction)


def _coins_of_patients(piece: Table, unit: str, fraction: float, known: dict[str, bool]) -> NDArray[np.bool_]:
    """A secret coin for each patient, tossed at their first row and `known` from then on: (rows,)."""
    place, found = pd.factorize(piece.cells[unit], use_na_sentinel=False)
    new = [text for text in found if text not in known]
    known.update(zip(new, rng.coins(rng.system_entropy(), len(new), fraction).tolist(), strict=True))
    return np.array([known[text] for text in found], np.bool_)[place]


def expecting(part: Part, table: Table | LargeTable, share: float) -> Part:
    """A part of a table with the number of rows that its `share` makes expected: what the draws left is secret."""
    rows = table.public_rows
    return replace(part, expected_rows=max(2, round(rows * share)), expected_std=math.sqrt(rows * share * (1 - share)))


def _part(table: Table, rows: NDArray[np.bool_], output: Path, *, force: bool) -> Table:
    """Some rows of a table, (rows,), written to `output`."""

    def write(file: BinaryIO) -> None:
        with Sink(file) as sink:
            _add(sink, table, rows)

    form = "" if table.written is None else table.written.form
    atomic_write(output, write, force=force, private=True)
    return replace(table.only(np.flatnonzero(rows)), where=str(output), form=form, written=None)


def _add(sink: Sink, piece: Table, rows: NDArray[np.bool_]) -> None:
    """Some rows, (rows,), of a table or a piece of one, written as they were read."""
    if piece.written is None:
        raise ValueError("a table that was not read from a file cannot be written as it was")
    sink.add(piece.written, piece.cells, rows)


def _coins(patients: pd.Series | None, rows: int, fraction: float) -> NDArray[np.bool_]:
    """A secret coin a row, or one for all rows of each of the `patients`: (rows,)."""
    out = rng.coins(rng.system_entropy(), rows, fraction)
    return out if patients is None else out[pd.factorize(patients, use_na_sentinel=False)[0]]


def check_fraction(fraction: float) -> None:
    """Raises UsageError unless the fraction lies strictly between 0 and 1."""
    if not 0 < fraction < 1:
        raise UsageError("`holdout` must lie strictly between 0 and 1, such as 0.25.")
