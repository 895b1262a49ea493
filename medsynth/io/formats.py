"""The file of a table: its name, its format by its own bytes, and these bytes unpacked."""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import lzma
import re
import stat
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, cast

from ..errors import TableError, UsageError, nearest
from .statistical_process import WITH_STATES

STATISTICAL = {
    ".sav": "an SPSS file", ".zsav": "an SPSS file", ".dta": "a Stata file", ".sas7bdat": "a SAS file",
    ".xpt": "a SAS file",
}  # fmt: skip
ENDINGS = (".csv", ".csv.gz", ".tsv", ".txt", ".parquet", ".pq", ".sav", ".zsav", ".dta", ".xpt")  # of FileForm
READ_WHOLE = (".xlsx", *STATISTICAL)  # endings of tables that are not read in pieces
SUFFIXES = (*READ_WHOLE, ".csv", ".tsv", ".txt", ".parquet", ".pq", ".gz", ".bz2", ".xz", ".zip")  # endings of tables
# Endings that are tried to find a table by its name.
SUFFIXES_TRIED = (".csv", ".parquet", ".csv.gz", ".tsv", ".pq", ".xlsx", ".txt", *STATISTICAL)
PARQUET, OLD_WORKBOOK, ZIPS = b"PAR1", b"\xd0\xcf\x11\xe0", (b"PK\x03\x04", b"PK\x05\x06")
# How their files begin. The older ones of Stata begin with a version, an order of bytes, and a 1.
STATISTICAL_STARTS = {
    rb"\$FL[23]": "sav", rb"<stata_dta>|[\x69-\x73][\x01\x02]\x01": "dta",
    rb"\x00{12}\xc2\xea\x81\x60\xb3\x14\x11\xcf\xbd\x92\x08\x00": "sas7bdat", rb"HEADER RECORD\*{7}LIB(RARY|V8)": "xpt",
}  # fmt: skip
CATALOGUE = b"\0" * 12 + b"\xc2\xea\x81\x63\xb3\x14\x11\xcf\xbd\x92\x08\0"  # how a catalogue of SAS formats begins
MARKS = {"utf-8": (codecs.BOM_UTF8,), "utf-16": (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)}  # byte-order marks
PACKED: dict[bytes, Callable[..., Any]] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ": lzma.open}
_UNUSUAL = (OLD_WORKBOOK, *ZIPS, *PACKED)
DAMAGE_ERRORS = (EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, gzip.BadGzipFile, RuntimeError)


COUNTS_OF_LINES = ("skip_lines", "skip_rows", "skip_last_rows")  # attributes of SavedAs
_MERGED = re.compile(rb"""<(?:\w+:)?mergeCell\s[^>]*ref=["'][A-Z]+([0-9]+):[A-Z]+([0-9]+)["']""")
_HASHED = re.compile(r"[\ufeff\s]*#")


@dataclass(frozen=True, kw_only=True)
class SavedAs:
    """How a table's file was saved, as its user declares it: public facts that no row decides.

    Attributes:
        encoding: Of text, and of text in statistical files; None: UTF-8, or as a mark at the start says.
        skip_lines: The number of lines above the header of a text file or a workbook; None: the first is the header.
        header_lines: The number of lines of a text file's header, whose names may contain line breaks; None: one. 0: as
            many as close its quotes, for files that medsynth has written.
        header_is_names: Whether the header has names of columns, although they look like values.
        skip_rows: The number of rows below the header that are not patients, such as units; in text one line each.
        skip_last_rows: The number of rows at the end that are not patients, such as totals.
    """

    encoding: str | None = None
    skip_lines: int | None = None
    header_lines: int | None = None
    header_is_names: bool = False
    skip_rows: int | None = None
    skip_last_rows: int | None = None

    def check(self, kind: str = "text") -> None:
        """Raise UsageError for an encoding that is not possible, and for lines of another kind of file."""
        check_encoding(self.encoding)
        given = {name: count for name in COUNTS_OF_LINES if (count := getattr(self, name)) is not None}
        if wrong := [name for name, count in given.items() if count < 0]:
            raise UsageError(f"`{wrong[0]}` must be 0 or more: a number of lines.")
        lines = ["header_lines"] * bool(self.header_lines)
        if found := {"text": [], "workbook": lines}.get(kind, [*given, *lines]):
            raise UsageError(f"`{found[0]}` is for text files. Leave it out, or save the table as CSV.")


USUAL = SavedAs()
# Of files that medsynth has written: their header is that of a table it has read.
OWN = SavedAs(header_is_names=True, header_lines=0)


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turn whatever can go wrong while a table's file is read into a TableError with the cause and the cure."""
    try:
        yield
    except FileNotFoundError:
        near = nearest(path.name, [one.name for one in path.parent.glob("*") if one.is_file()])
        cure = f"Did you mean {near}?" if near else "Check the name and the folder."
        raise TableError(f"There is no file {path}. {cure}") from None
    except IsADirectoryError:
        raise TableError(f"{path} is a folder. Pass a table in it.") from None
    except csv.Error:
        raise TableError(f"{path} is not a CSV table. Check that its quotes are closed.") from None
    except DAMAGE_ERRORS:
        raise TableError(f"{path} is packed and damaged. Copy it again, or pack it again.") from None
    except OSError as error:
        raise TableError(f"{path} cannot be read ({error.strerror or 'damaged'}). Check the file.") from None


@dataclass(frozen=True)
class TableFile:
    """A table's file by its name and its first bytes, which are looked at once. No row decides what it is.

    Attributes:
        path: Where it is.
        kind: "text", "workbook", "parquet", or a statistical one: "sav", "dta", "sas7bdat" or "xpt".
        packed: Whether it is text in gzip, bzip2, xz or a zip of one file.
        mark: The encoding that a byte-order mark at the start of text names, or "".
    """

    path: Path
    kind: str
    packed: bool = False
    mark: str = ""

    @classmethod
    def of(cls, path: Path | str | TableFile) -> TableFile:
        """Look at the file at `path`, unless somebody has: then return what was found.

        Raises TableError for none, for another than its name says, for catalogues of SAS formats, for .por, for old
        workbooks, for archives of several files, and for damaged ones.
        """
        if isinstance(path, TableFile):
            return path
        path = Path(path)
        check_regular(path)
        with readable(path):
            with path.open("rb") as file:
                start = file.read(64)
            kind = _kind(path, start)
            if kind != "text":
                return cls(path, kind)
            with unpacked(path) if start.startswith(_UNUSUAL) else nullcontext() as content:
                begin = content.read(3) if content else start
                mark = next((name for name, marks in MARKS.items() if begin.startswith(marks)), "")
                return cls(path, kind, content is not None, mark)

    @property
    def statistical(self) -> bool:
        """Whether SPSS, Stata or SAS wrote it."""
        return f".{self.kind}" in STATISTICAL


def _kind(path: Path, start: bytes) -> str:
    if start.startswith(ZIPS) and _has_worksheets(path):
        return "workbook"
    if start.startswith(CATALOGUE):
        raise TableError(
            f"{path} is a catalogue of SAS formats, which has no rows. Pass it to `schema import`, after its SAS file."
        )
    ending = path.suffix.lower()
    if ending == ".por":
        raise TableError(f"{path} is a portable SPSS file. Save it as .sav.")
    kind = next((kind for begin, kind in STATISTICAL_STARTS.items() if re.match(begin, start)), None)
    if kind is None and (named := STATISTICAL.get(ending)):
        raise TableError(f"{path} is not {named}, despite its name. Export the table again, or correct the name.")
    return kind or ("parquet" if start.startswith(PARQUET) else "text")


def _has_worksheets(path: Path) -> bool:
    """Return whether a zip archive has the parts of a workbook."""
    try:
        with zipfile.ZipFile(path) as archive:
            return "[Content_Types].xml" in archive.namelist()
    except zipfile.BadZipFile:
        return False


@dataclass(frozen=True)
class FileForm:
    """How the file of a table is written: by its name, its first bytes and its header line, or as declared.

    All of this is public, so a model stores it, and sampled rows are written alike.

    Attributes:
        ending: Of the name, such as .csv.gz; .csv if files of its type cannot be written.
        delimiter: Between the fields of text.
        encoding: Of text. The mark at the start of a file belongs to it: utf-8-sig has one.
        decimal: The decimal mark of numbers in text.
    """

    ending: str = ".csv"
    delimiter: str = ","
    encoding: str = "utf-8"
    decimal: str = "."

    def __post_init__(self) -> None:
        """Raise UsageError or ValueError for what no table has."""
        check_encoding(self.encoding)
        if self.ending not in ENDINGS or self.delimiter not in tuple(",;\t|") or self.decimal not in (".", ","):
            raise ValueError("not the form of a table's file")

    def of(self, path: Path) -> FileForm:
        """Return the form of a text file of that name: .tsv files have tabs."""
        return replace(self, delimiter="\t") if path.suffix.lower() == ".tsv" else self


def ending_of(file: TableFile) -> str:
    """Return the ending of synthetic rows from a table's file.

    Nobody writes workbooks and .sas7bdat files here; their rows are .csv.
    """
    name = file.path.name.lower()
    kind = file.kind
    fitting = {"text": (".csv.gz", ".tsv", ".txt"), "parquet": (".pq",), "sav": (".zsav",)}.get(kind, ())
    usual = f".{kind}" if f".{kind}" in ENDINGS else ".csv"
    return next((ending for ending in fitting if name.endswith(ending)), usual)


def name_of(path: Path) -> str:
    """Return the table's name: the file's name without the endings of tables.

    >>> name_of(Path("ward/visits.csv.gz"))
    'visits'
    """
    name = path.name
    while (suffix := Path(name).suffix.lower()) in SUFFIXES and Path(name).stem:
        name = name[: -len(suffix)]
    return name


def beside(path: Path, ending: str) -> Path:
    """Return the file named after a table next to it: visits.csv.gz and .schema.yaml give visits.schema.yaml."""
    return path.parent / (name_of(path) + ending)


def named(folder: Path, name: str) -> Path | None:
    """Return the table of that name in a folder, in any of the usual formats, or None."""
    return next((folder / (name + kind) for kind in SUFFIXES_TRIED if (folder / (name + kind)).exists()), None)


def check_regular(path: Path) -> None:
    """Raise TableError for a device or a pipe, which cannot be read twice, and for an impossible file name."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return
    except ValueError:
        raise TableError("The table's name contains a null character or is not possible. Pass a file.") from None
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise TableError(f"{path} is a device or a pipe. Copy its content into a file, and pass that.")


def check_encoding(encoding: str | None) -> None:
    """Raise UsageError for an encoding that Python does not have, or in which a character changes later ones."""
    known = "`encoding` must be a Python encoding, such as utf-8, cp1252 or latin-1"
    try:
        "x".encode(name := "utf-8" if encoding is None else encoding)
    except (LookupError, ValueError):
        raise UsageError(f"{known}.") from None
    if codecs.lookup(name).name.replace("_", "-").startswith(WITH_STATES):
        raise UsageError(f"{known}. In this encoding one cell can change all later ones. Save the file as UTF-8.")


def is_hashed(line: str) -> bool:
    """Return whether a line begins with #, as comments do, and headers that no quotes enclose.

    >>> is_hashed("#id,age"), is_hashed('"#id",age')
    (True, False)
    """
    return bool(_HASHED.match(line))


@contextmanager
def worksheets(path: Path) -> Iterator[list[Any]]:
    """Open a workbook's sheets, with the saved values of formulas. Raises ImportError without the package openpyxl."""
    import openpyxl

    with warnings.catch_warnings():  # the warnings quote cells
        warnings.simplefilter("ignore")
        with closing(openpyxl.load_workbook(path, read_only=True, data_only=True)) as book:
            for sheet in book.worksheets:
                sheet.reset_dimensions()  # a wrong statement of its size would leave rows out
            yield book.worksheets


def merges_rows(path: Path, below: int) -> bool:
    """Return whether a merged cell of a workbook covers several rows, one of them below the row of that number."""
    with zipfile.ZipFile(path) as archive:
        sheets = [archive.read(name) for name in archive.namelist() if name.startswith("xl/worksheets/")]
    merged = (found for sheet in sheets for found in _MERGED.findall(sheet))
    return any(int(first) < int(last) > below for first, last in merged)


def is_catalogue(path: Path) -> bool:
    """Return whether a file starts as a catalogue of SAS formats does."""
    with path.open("rb") as file:
        return file.read(len(CATALOGUE)) == CATALOGUE


@contextmanager
def unpacked(path: Path) -> Iterator[BinaryIO]:
    """Open the file's bytes, unpacked if it starts as gzip, bzip2, xz or a zip of one file does.

    Raises TableError for old workbooks and zips of several files.
    """
    with path.open("rb") as file:
        start = file.read(6)
        file.seek(0)
        if start.startswith(OLD_WORKBOOK):
            raise TableError(f"{path} is a workbook. Save the sheet as 'CSV UTF-8'.")
        if start.startswith(ZIPS):
            archive = zipfile.ZipFile(file)
            names = [name for name in archive.namelist() if not name.endswith("/")]
            if len(names) != 1:
                raise TableError(f"{path} is an archive of {len(names)} files. Unpack it and pass one table.")
            yield cast(BinaryIO, archive.open(names[0]))
        else:
            unpack = next((packed for magic, packed in PACKED.items() if start.startswith(magic)), None)
            yield unpack(file) if unpack else file
