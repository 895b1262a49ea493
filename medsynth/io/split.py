"""Hold rows out of training by independent secret coins, so that one row never decides about another.

A split has a number, in a file next to its held-out rows, and a model notes the number of its split. So rows that
another fit held out, or an earlier one of the same name, do not pass as unseen. The system draws the number: it does
not depend on the rows. The file also contains the table's path, which leads to the table's budget file.
"""

from __future__ import annotations

import math
import os
import re
import secrets
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, TypeVar, cast

import numpy as np
import pandas as pd

from .. import rng
from ..arrays import Mask
from ..errors import UsageError
from .atomic import atomic_write, refuse_existing
from .formats import OWN
from .reader import read_large
from .table import LargeTable, Table, check_rows
from .text import form
from .writer import Sink, WrittenText

Part = TypeVar("Part", bound=Table | LargeTable)
LONGEST = 1 << 13  # bytes of a split's file that are read: a number, and the longest path of a table
_NUMBER = re.compile(r"[0-9a-f]{16}")


def check_fraction(fraction: float) -> None:
    """Raise UsageError unless the fraction is between 0 and 1, both excluded."""
    if not 0 < fraction < 1:
        raise UsageError("`holdout` must be above 0 and below 1, such as 0.25.")


def split(table: Part, fraction: float, train: Path, heldout: Path, *, force: bool, unit: str | None = None) -> Part:
    """Write each row of a table from a file to `heldout` with probability `fraction`, else to `train`.

    Both parts keep the form of the table: Parquet with its types, text as UTF-8 with its delimiter and its fields as
    written. With `unit`, the name of the patients' column, one coin decides for all rows of a patient. Both files
    contain real rows: only their owner can read them.

    Returns the part to train on. Raises UsageError, OutputExists, or TableError if too few rows are left to learn from.
    """
    check_fraction(fraction)
    for output in (train, heldout):
        refuse_existing(output, force=force)
    known = dict[str, bool]()
    left, stay = 0, np.zeros(0, np.bool_)  # the number of rows to train on, and a mask of them in the latest piece

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
        check_rows(left, f"The part of {table.where} that `holdout` leaves for training")

    def both(first: BinaryIO) -> None:
        atomic_write(heldout, lambda second: write(first, second), force=force, private=True)

    atomic_write(train, both, force=force, private=True)
    if isinstance(table, LargeTable):
        part: Table | LargeTable = read_large(train, OWN)
    else:
        how = form(table.written.delimiter) if isinstance(table.written, WrittenText) else ""
        part = replace(table.only(np.flatnonzero(stay)), where=str(train), form=how, written=None)
    return expecting(cast(Part, part), table, 1 - fraction)


def _coins(piece: Table, unit: str | None, fraction: float, known: dict[str, bool]) -> Mask:
    """Toss a secret coin per row, (rows,), or per patient: at the first row, and `known` from then on."""
    entropy = rng.system_entropy()
    if unit is None:
        return rng.coins(entropy, piece.rows, fraction)
    place, found = pd.factorize(piece.cells[unit], use_na_sentinel=False)
    new = [text for text in found if text not in known]
    known.update(zip(new, rng.coins(entropy, len(new), fraction).tolist(), strict=True))
    return np.array([known[text] for text in found], np.bool_)[place]


def expecting(part: Part, table: Table | LargeTable, share: float) -> Part:
    """Return a part of a table, of its form, with the expected number of rows, from its `share`.

    The drawn number is secret.
    """
    rows = table.public_rows
    spread = math.sqrt(rows * share * (1 - share))
    return replace(
        part, expected_rows=max(2, round(rows * share)), expected_std=spread, file_form=table.file_form
    )  # fmt: skip


def file_beside(rows: Path) -> Path:
    """Return the file with the number of the split whose held-out rows, a file or a folder, are at `rows`.

    >>> file_beside(Path("ward/visits.heldout.csv")).name
    'visits.heldout.csv.split'
    """
    return rows.with_name(f"{rows.name}.split")


def number_split(rows: Path, table: Path) -> str:
    """Give the split of `table` whose held-out rows are at `rows` a new number, in a file next to them."""
    number = secrets.token_hex(8)
    content = f"{number}\n".encode() + os.fsencode(table.absolute()) + b"\n"
    atomic_write(file_beside(rows), content, force=True, private=True)
    return number


def number_of(rows: Path) -> str | None:
    """Return the number on file of the split whose held-out rows are at `rows`; None without one."""
    text = _lines(rows)[0].decode("ascii", "replace").strip()
    return text if _NUMBER.fullmatch(text) else None


def table_of(rows: Path) -> Path | None:
    """Return the table on file of the split whose held-out rows are at `rows`; None without one."""
    lines = _lines(rows)
    return Path(os.fsdecode(lines[1])) if len(lines) > 1 and lines[1] else None


def _lines(rows: Path) -> list[bytes]:
    """Return the lines of the file of a split; one empty line without a file."""
    try:
        return file_beside(rows).read_bytes()[:LONGEST].split(b"\n")
    except OSError:
        return [b""]
