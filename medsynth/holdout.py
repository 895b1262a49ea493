"""Hold rows out of training by independent secret coins, so that one row's fate moves no other row's."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from . import rng
from .errors import UsageError
from .files import atomic_write, refuse_existing
from .tables import records


def split(path: Path, fraction: float, train: Path, heldout: Path, *, force: bool, unit: str | None = None) -> None:
    """Write each row of the CSV `path` to `heldout` with probability `fraction`, else to `train`, fields unchanged.

    With `unit`, the name of the patients' column, one coin decides for all rows of a patient.

    Both files hold real rows: they are readable by their owner alone. Raises UsageError or OutputExists. The
    table must have been read by `tables.read` before, which finds what is wrong with it.
    """
    check(fraction)
    for output in (train, heldout):
        refuse_existing(output, force=force)
    with path.open(encoding="utf-8-sig", newline="") as file:
        header, *rows = records(file)
    out = rng.coins(rng.system_entropy(), len(rows), fraction)
    names = [name.strip() for name in header]
    if unit in names:
        first: dict[str, int] = {}
        who = [row[names.index(unit)].strip() for row in rows]
        out = out[[first.setdefault(key, k) for k, key in enumerate(who)]]
    for output, side in ((train, False), (heldout, True)):
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(row for row, coin in zip(rows, out, strict=True) if bool(coin) is side)
        content = text.getvalue().encode()
        atomic_write(output, lambda file, content=content: file.write(content), force=force, private=True)  # type: ignore[misc]


def check(fraction: float) -> None:
    """Raises UsageError unless the fraction lies strictly between 0 and 1."""
    if not 0 < fraction < 1:
        raise UsageError("--holdout must lie strictly between 0 and 1, such as 0.25.")
