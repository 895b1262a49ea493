"""The number of a split and the table that was split, in a file next to its held-out rows.

A model notes the split whose rows it has not seen. So rows that another fit held out, or an earlier one of the same
name, are not taken for unseen ones. The number is drawn by the system: it says nothing of the rows. Both parts of a
split are named after the model; the table's path leads from them to the table's budget file.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Sequence
from pathlib import Path

from .atomic import atomic_write

ENDING = ".split"
LONGEST = 1 << 13  # bytes of such a file that are read: a number, and the longest path of a table
NOTED = "Rows were held out of this fit, by independent draws: split "  # how the note in a ledger begins
_NUMBER = re.compile(r"[0-9a-f]{16}")


def file_beside(rows: Path) -> Path:
    """The file with the number of the split whose held-out rows, a file or a folder, are at `rows`.

    >>> file_beside(Path("ward/visits.heldout.csv")).name
    'visits.heldout.csv.split'
    """
    return rows.with_name(rows.name + ENDING)


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


def note(number: str) -> str:
    """How a ledger notes the split of that number."""
    return f"{NOTED}{number}."


def noted(notes: Sequence[str]) -> str | None:
    """The number of the split that the notes of a ledger name; None where no rows were held out."""
    return next((text.removeprefix(NOTED).rstrip(".") for text in notes if text.startswith(NOTED)), None)
