"""Hold rows out of training by independent secret coins, so that one row's fate moves no other row's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .. import rng
from ..errors import UsageError
from .atomic import atomic_write, refuse_existing
from .table import Table, check_rows


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


def expecting(part: Table, table: Table, share: float) -> Table:
    """A part of a table with the number of rows that its `share` makes expected: what the draws left is secret."""
    return replace(part, expected_rows=max(2, round(table.public_rows * share)))


def _part(table: Table, rows: NDArray[np.bool_], output: Path, *, force: bool) -> Table:
    """Some rows of a table, (rows,), written to `output`."""
    written = table.written
    if written is None:
        raise ValueError("a table that was not read from a file cannot be written as it was")
    content = written.content(table.cells, rows)
    atomic_write(output, lambda file: file.write(content), force=force, private=True)
    cells = table.cells[rows].reset_index(drop=True)
    return replace(table, where=str(output), cells=cells, form=written.form, written=None)


def _coins(patients: pd.Series | None, rows: int, fraction: float) -> NDArray[np.bool_]:
    """A secret coin a row, or one for all rows of each of the `patients`: (rows,)."""
    out = rng.coins(rng.system_entropy(), rows, fraction)
    return out if patients is None else out[pd.factorize(patients, use_na_sentinel=False)[0]]


def check_fraction(fraction: float) -> None:
    """Raises UsageError unless the fraction lies strictly between 0 and 1."""
    if not 0 < fraction < 1:
        raise UsageError("`holdout` must lie strictly between 0 and 1, such as 0.25.")
