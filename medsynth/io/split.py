"""Hold rows out of training by independent secret coins, so that one row's fate moves no other row's."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .. import rng
from ..errors import UsageError
from . import formats
from .atomic import atomic_write, refuse_existing
from .table import records


def split(path: Path, fraction: float, train: Path, heldout: Path, *, force: bool, unit: str | None = None) -> None:
    """Write each row of the table `path` to `heldout` with probability `fraction`, else to `train`, fields unchanged.

    Parquet goes to Parquet, text to UTF-8 text with the same delimiter. With `unit`, the name of the patients' column,
    one coin decides for all rows of a patient.

    Both files hold real rows: they are readable by their owner alone. Raises UsageError or OutputExists. The
    table must have been read by `tables.read` before, which finds what is wrong with it.
    """
    check(fraction)
    for output in (train, heldout):
        refuse_existing(output, force=force)
    if formats.is_parquet(path):
        frame = pd.read_parquet(path)
        out = _coins(list(frame[unit].astype(str)) if unit in frame else None, len(frame), fraction)
        for output, side in ((train, False), (heldout, True)):
            part = frame[out == side].to_parquet(index=None if frame.index.names != [None] else False)
            atomic_write(output, lambda file, part=part: file.write(part), force=force, private=True)  # type: ignore[misc]
        return
    form = formats.form(path)
    with formats.text(path, form.encoding) as file:
        header, *rows = records(file, form.delimiter)
    names = [name.strip() for name in header]
    who = [row[names.index(unit)].strip() for row in rows] if unit in names else None
    out = _coins(who, len(rows), fraction)
    for output, side in ((train, False), (heldout, True)):
        text = io.StringIO()
        writer = csv.writer(text, delimiter=form.delimiter, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(row for row, coin in zip(rows, out, strict=True) if bool(coin) is side)
        content = text.getvalue().encode()
        atomic_write(output, lambda file, content=content: file.write(content), force=force, private=True)  # type: ignore[misc]


def _coins(who: list[str] | None, rows: int, fraction: float) -> NDArray[np.bool_]:
    """A secret coin a row, or one for all rows of each patient in `who`: (rows,)."""
    out = rng.coins(rng.system_entropy(), rows, fraction)
    if who is None:
        return out
    first: dict[str, int] = {}
    return out[[first.setdefault(key, k) for k, key in enumerate(who)]]


def check(fraction: float) -> None:
    """Raises UsageError unless the fraction lies strictly between 0 and 1."""
    if not 0 < fraction < 1:
        raise UsageError("--holdout must lie strictly between 0 and 1, such as 0.25.")
