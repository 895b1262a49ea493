"""A table's file: what it is, found from its own bytes; its text, unpacked and decoded; files of tables by name."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import re
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TextIO, cast

from ..errors import TableError, UsageError

# Encodings with states, escapes or a decoding of the whole text: what one cell holds changes others.
WITH_STATES = ("hz", "iso2022", "utf-7", "punycode", "idna", "unicode-escape", "raw-unicode-escape")
DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
SUFFIXES = (".xlsx", ".csv", ".tsv", ".txt", ".parquet", ".pq", ".gz", ".bz2", ".xz", ".zip")  # of tables
# Under which a table is looked for by its name.
SUFFIXES_TRIED = (".csv", ".parquet", ".csv.gz", ".tsv", ".pq", ".xlsx", ".txt")
PARQUET, WORKBOOK = b"PAR1", b"\xd0\xcf\x11\xe0"
ESCAPED = re.compile(r"\\x[0-9a-f]{2}")  # how a byte that is no text is kept
DAMAGE_ERRORS = (EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, gzip.BadGzipFile, RuntimeError)


@dataclass(frozen=True)
class Form:
    """How a table's text is written."""

    encoding: str
    delimiter: str

    @property
    def description(self) -> str:
        """The form in words where it is not UTF-8 and commas, else nothing."""
        parts = [] if self.delimiter == "," else [f"separated by {DELIMITERS[self.delimiter]}, 1,5 read as 1.5"]
        parts += [] if self.encoding == "utf-8-sig" else [f"encoding {self.encoding}"]
        return "; ".join(parts)


def name_of(path: Path) -> str:
    """The table's name: its file's without the suffixes of tables.

    >>> name_of(Path("ward/visits.csv.gz"))
    'visits'
    """
    name = path.name
    while (suffix := Path(name).suffix.lower()) in SUFFIXES and Path(name).stem:
        name = name[: -len(suffix)]
    return name


def beside(path: Path, ending: str) -> Path:
    """The file beside a table that is named after it: visits.csv.gz and .schema.yaml give visits.schema.yaml."""
    return path.parent / (name_of(path) + ending)


def named(folder: Path, name: str) -> Path | None:
    """The table of that name in a folder, in any of the usual forms, or None."""
    return next((folder / (name + kind) for kind in SUFFIXES_TRIED if (folder / (name + kind)).exists()), None)


def check_regular(path: Path) -> None:
    """Raises TableError for a device or a pipe, which cannot be read twice, and for a name that no file can have.

    What is not there is not its business.
    """
    try:
        mode = path.stat().st_mode
    except OSError:
        return
    except ValueError:
        raise TableError("The table's name holds a null character, or others of no file's name. Name a file.") from None
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise TableError(f"{path} is a device or a pipe. Copy its content into a file, and name that.")


def is_parquet(path: Path) -> bool:
    """Whether the file begins as Parquet does."""
    with path.open("rb") as file:
        return file.read(4) == PARQUET


@contextmanager
def unpacked(path: Path) -> Iterator[BinaryIO]:
    """The file's bytes, unpacked where it begins as gzip, bzip2, xz or a zip of one file does.

    Raises TableError for workbooks of old and zips of several files.
    """
    with path.open("rb") as file:
        start = file.read(6)
        file.seek(0)
        openers: dict[bytes, Callable[[BinaryIO], BinaryIO]] = {
            b"\x1f\x8b": lambda f: cast(BinaryIO, gzip.GzipFile(fileobj=f)),
            b"BZh": lambda f: cast(BinaryIO, bz2.BZ2File(f)),
            b"\xfd7zXZ": lambda f: cast(BinaryIO, lzma.LZMAFile(f)),  # noqa: SIM115
            b"PK\x03\x04": lambda f: _only_member(f, path),
            b"PK\x05\x06": lambda f: _only_member(f, path),
        }
        if start.startswith(WORKBOOK):
            raise TableError(f"{path} is a workbook. Save the sheet as 'CSV UTF-8'.")
        opener = next((made for magic, made in openers.items() if start.startswith(magic)), None)
        yield opener(file) if opener else file


def _only_member(file: BinaryIO, path: Path) -> BinaryIO:
    archive = zipfile.ZipFile(file)
    names = [name for name in archive.namelist() if not name.endswith("/")]
    if len(names) != 1:
        raise TableError(f"{path} is an archive of {len(names)} files. Unpack it and name one table.")
    return cast(BinaryIO, archive.open(names[0]))


def check_encoding(encoding: str | None) -> None:
    """Raise UsageError for an encoding that Python does not know, or in which a character changes later ones."""
    known = "`encoding` must be one that Python knows, such as utf-8, cp1252 or latin-1"
    try:
        "x".encode(name := "utf-8" if encoding is None else encoding)
    except (LookupError, ValueError):
        raise UsageError(f"{known}.") from None
    if codecs.lookup(name).name.replace("_", "-").startswith(WITH_STATES):
        raise UsageError(
            f"{known}. In this one a single cell can change how all later ones are read. Save it as UTF-8."
        )


def encoding_of(path: Path, declared: str | None) -> str:
    """The encoding of a text table: UTF-16 where the file begins with its mark, else the one declared, else UTF-8.

    No cell decides it: one that was found by trying would turn on a single byte of a single row.
    """
    with unpacked(path) as raw:
        start = raw.read(2)
    if start in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        return "utf-16"
    return "utf-8-sig" if declared is None or codecs.lookup(declared).name == "utf-8" else codecs.lookup(declared).name


def delimiter_of(line: str) -> str:
    """The delimiter that cuts a table's first line into most fields, a comma where two do; quotes hide delimiters."""
    outside = "".join(line.split('"')[::2])
    return max(DELIMITERS, key=outside.count)


@contextmanager
def text(path: Path, encoding: str) -> Iterator[TextIO]:
    r"""The file's text, unpacked and decoded, line ends as they are.

    A byte that is no text is escaped where it stands, as \xfc: it changes its own cell and no other. Encodings whose
    characters have two or more bytes throughout are strict: a lost byte would shift all that follows.
    """
    errors = "strict" if encoding.replace("_", "-").startswith(("utf-16", "utf-32")) else "backslashreplace"
    with unpacked(path) as raw, io.TextIOWrapper(raw, encoding=encoding, errors=errors, newline="") as file:
        yield file
