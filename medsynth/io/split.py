"""Hold rows out of training by independent secret coins, so that one row's fate moves no other row's.

A split has a number, in a file next to its held-out rows. A model notes the split whose rows it has not seen. So rows
that another fit held out, or an earlier one of the same name, are not taken for unseen ones. The system draws the
number: it does not depend on the rows. The file also has the table's path, which leads to the table's budget file.
"""

from __future__ import annotations

import math
import os
import re
import secrets
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, TypeVar, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .. import rng
from ..errors import UsageError
from .atomic import atomic_write, refuse_existing
from .reader import read_large
from .table import LargeTable, Table, check_rows
from .text import form
from .writer import Sink, WrittenText

Part = TypeVar("Part", bound=Table | LargeTable)
LONGEST = 1 << 13  # bytes of a split's file that are read: a number, and the longest path of a table
NOTED = "Rows were held out of this fit, by independent draws: split "  # how the note in a ledger begins
_NUMBER = re.compile(r"[0-9a-f]{16}")


def check_fraction(fraction: float) -> None:
    """Raise UsageError unless the fraction lies strictly between 0 and 1."""
    if not 0 < fraction < 1:
        raise UsageError("`holdout` must lie strictly between 0 and 1, such as 0.25.")


def split(table: Part, fraction: float, train: Path, heldout: Path, *, force: bool, unit: str | None = None) -> Part:
    """Each row of a table that was read from a file goes to `heldout` with probability `fraction`, else to `train`.

    Writes both parts as they were read: Parquet with its types, text as UTF-8 with its delimiter and its fields as
    written. With `unit`, the name of the patients' column, one coin decides for all rows of a patient. Both files
    contain real rows: they are readable by their owner alone.

    Returns the part to train on. Raises UsageError, OutputExists, or TableError where too few rows are left to learn
    from.
    """
    check_fraction(fraction)
    for output in (train, heldout):
        refuse_existing(output, force=force)
    known = dict[str, bool]()
    left, stay = 0, np.zeros(0, np.bool_)  # rows to train on: how many, and which of the latest piece

    def write(first: BinaryIO, second: BinaryIO) -> None:
        nonlocal left, stay
        sinks = Sink(first), Sink(second)
        for piece in table.chunks():
            if piece.written is None:
                raise ValueError("a table that was not read from a file cannot be written as it was")
            out = _coins(piece, unit if unit in table.header else None, fraction, known)
            stay = ~out
            left += int(stay.sum())
            for sink, rows in zip(sinks, (stay, out), strict=True):
                sink.add(piece.cells, piece.written, rows)
        for sink in sinks:
            sink.close()
        check_rows(left, f"What `holdout` leaves of {table.where} to train on")

    def both(first: BinaryIO) -> None:
        atomic_write(heldout, lambda second: write(first, second), force=force, private=True)

    atomic_write(train, both, force=force, private=True)
    if isinstance(table, LargeTable):
        part: Table | LargeTable = read_large(train)
    else:
        how = form(table.written.delimiter) if isinstance(table.written, WrittenText) else ""
        part = replace(table.only(np.flatnonzero(stay)), where=str(train), form=how, written=None)
    return expecting(cast(Part, part), table, 1 - fraction)


def _coins(piece: Table, unit: str | None, fraction: float, known: dict[str, bool]) -> NDArray[np.bool_]:
    """A secret coin a row, (rows,); or one for each patient, tossed at their first row and `known` from then on."""
    entropy = rng.system_entropy()
    if unit is None:
        return rng.coins(entropy, piece.rows, fraction)
    place, found = pd.factorize(piece.cells[unit], use_na_sentinel=False)
    new = [text for text in found if text not in known]
    known.update(zip(new, rng.coins(entropy, len(new), fraction).tolist(), strict=True))
    return np.array([known[text] for text in found], np.bool_)[place]


def expecting(part: Part, table: Table | LargeTable, share: float) -> Part:
    """A part of a table with the number of rows that its `share` makes expected: what the draws left is secret."""
    rows = table.public_rows
    return replace(part, expected_rows=max(2, round(rows * share)), expected_std=math.sqrt(rows * share * (1 - share)))


def file_beside(rows: Path) -> Path:
    """The file with the number of the split whose held-out rows, a file or a folder, are at `rows`.

    >>> file_beside(Path("ward/visits.heldout.csv")).name
    'visits.heldout.csv.split'
    """
    return rows.with_name(f"{rows.name}.split")


def number_split(rows: Path, table: Path) -> str:
    """Give the split of `table` whose held-out rows are at `rows` a new number, in a file next to them."""
    number = secrets.token_hex(8)
    content = f"{number}\n".encode() + os.fsencode(table.absolute()) + b"\n"
    atomic_write(file_beside(rows), lambda file: file.write(content), force=True, private=True)
    return number


def number_of(rows: Path) -> str | None:
    """The number on file of the split whose held-out rows are at `rows`; None where there is none."""
    text = _lines(rows)[0].decode("ascii", "replace").strip()
    return text if _NUMBER.fullmatch(text) else None


def table_of(rows: Path) -> Path | None:
    """The table of the split whose held-out rows are at `rows`, as it is on file; None where it is not."""
    lines = _lines(rows)
    return Path(os.fsdecode(lines[1])) if len(lines) > 1 and lines[1] else None


def _lines(rows: Path) -> list[bytes]:
    """The lines of the file of a split; one that is empty where there is none."""
    try:
        return file_beside(rows).read_bytes()[:LONGEST].split(b"\n")
    except OSError:
        return [b""]


def number_kept(rows: Path, table: Path) -> str:
    """The number on file of a split that waits, else a new one."""
    return number_of(rows) or number_split(rows, table)


def note_of(number: str) -> str:
    """How a ledger notes the split of that number."""
    return f"{NOTED}{number}."


def noted(notes: Sequence[str]) -> str | None:
    """The number of the split that the notes of a ledger name; None where no rows were held out."""
    return next((text.removeprefix(NOTED).rstrip(".") for text in notes if text.startswith(NOTED)), None)
