"""SPSS, Stata and SAS files: the columns by name, each cell as text by its value and its column's format.

pyreadstat reads them in a process of its own (decision 65). No label, note or time of the file is read.
"""

from __future__ import annotations

import codecs
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ..arrays import Texts
from ..errors import OTHER_ENCODING, Problem, TableError
from .calendars import Calendar, calendar_of, clock, day, moment, text_of
from .cell_text import arrow_texts, placed, plain_text, value_text
from .formats import STATISTICAL, TableFile
from .statistical_process import ENCODING, LARGE, LENGTH
from .table import OpenTable, Table, check_names
from .writer import WrittenText

SCRIPT = Path(__file__).with_name("statistical_process.py")
MOST_CELLS = 1 << 25  # of a file, which is read whole: about 4 GiB in the process that reads
MEMORY = 1 << 33  # bytes of address space of that process
SECONDS = 600  # that it may take
MOST_BYTES = 1 << 32  # of its answer
ALONE = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")  # threads reserve address space
CURE = "Save the table as CSV or Parquet."
SHOWN: dict[Callable[[int], str], str] = {day: "date", moment: "datetime", clock: "time"}


class FileVariable(NamedTuple):
    """What a statistical file declares of a column: texts as a cell of it would have them.

    Attributes:
        form: "text", "number", "date", "datetime" or "time".
        decimals: Of an SPSS format, None without one.
        values: Each code with its label.
        missing: The lowest and highest value of each range of user-missing values.
        measure: "nominal", "ordinal" or "scale", or another word if it is not known.
    """

    name: str
    form: str
    decimals: int | None
    label: str
    values: tuple[tuple[str, str], ...]
    missing: tuple[tuple[str, str], ...]
    measure: str


@contextmanager
def opened(path: Path, kind: str, encoding: str | None) -> Iterator[OpenTable]:
    """Open the file at `path`, which `TableFile.of` found to be of a kind. Its rows are one piece.

    Raises TableError for a damaged file, one that is too large, one with text in another encoding, and without the
    package pyreadstat.
    """
    import pyarrow

    form = f"of {STATISTICAL[f'.{kind}']}"
    with _answer("rows", path, kind, encoding) as answer:
        head, header = _head(answer, path)
        calendars = [calendar_of(kind, field.metadata[b"format"].decode()) for field in head.schema]
        if kind == "xpt" and pyarrow.float64() not in head.schema.types:
            raise TableError(
                f"{path} has no column of numbers. In such a file, empty last rows look like padding, so it is not "
                f"read. {CURE}"
            )

        def pieces(most: int | None) -> Iterator[Table]:
            found = _table(answer(None))
            texts = [_texts(found, place, calendar, kind) for place, calendar in enumerate(calendars)]
            frame = pd.DataFrame(dict(zip(header, texts, strict=True)), dtype=object)
            yield Table(str(path), header, frame, form, WrittenText(header, ","))

        yield OpenTable(header, form, pieces)


def names(path: Path, kind: str, encoding: str | None) -> tuple[str, ...]:
    """Return the names of the columns. No row is read. Raises TableError as `opened` does."""
    with _answer("header", path, kind, encoding) as answer:
        return _head(answer, path)[1]


def variables(path: Path, kind: str, encoding: str | None, catalogue: Path | None = None) -> list[FileVariable]:
    """Return what the file declares of each column. No row is read, but programs make labels from rows.

    The `catalogue` of a SAS file has the labels of its formats. Raises TableError as `opened` does.
    """
    with _answer("labels", path, kind, encoding, catalogue) as answer:
        head, header = _head(answer, path)
        return [_variable(name, field, kind) for name, field in zip(header, head.schema, strict=True)]


def _variable(name: str, field: Any, kind: str) -> FileVariable:
    import pyarrow

    found = json.loads(field.metadata[b"labels"])
    form = field.metadata[b"format"].decode()
    words = field.type == pyarrow.large_string()
    calendar = calendar_of(kind, form)
    shown = "text" if words else SHOWN[calendar.shown] if calendar else "number"
    places = re.fullmatch(r"F\d+\.(\d+)", form) if kind == "sav" else None

    def text(code: object) -> str:
        if isinstance(code, str):
            return plain_text(code) if words else f".{code}"
        return text_of(float(code), calendar, kind) if calendar else value_text(float(code))  # type: ignore[arg-type]

    return FileVariable(
        name, shown, int(places[1]) if places else None, str(found["label"]),
        tuple((text(code), str(label)) for code, label in found["values"]),
        tuple((text(low), text(high)) for low, high in found["missing"]), str(found["measure"]),
    )  # fmt: skip


def _head(answer: Callable[[int | None], bytes], path: Path) -> tuple[Any, tuple[str, ...]]:
    """Return the columns without rows, and their names. Raise TableError without any."""
    head = _table(answer(int.from_bytes(answer(LENGTH), "little")))
    header = check_names([field.metadata[b"name"].decode() for field in head.schema], str(path))
    if not header:
        raise TableError(f"{path} has no columns. Export the table again.")
    return head, header


def cells_of(path: Path) -> pd.DataFrame:
    """Return all cells of the statistical file at `path`: of synthetic rows, to compare them with others.

    Raises TableError as `opened` does, ValueError for another file.
    """
    found = TableFile.of(path)
    if not found.statistical:
        raise ValueError("not a file of SPSS, Stata or SAS")
    with opened(path, found.kind, None) as file:
        return next(file.pieces(None)).cells


def _table(stream: bytes) -> Any:
    """Return the columns of an answer. The process is not trusted: they are checked to be numbers and texts."""
    import pyarrow

    found = pyarrow.ipc.open_stream(stream).read_all()
    found.validate(full=True)
    if not set(found.schema.types) <= {pyarrow.float64(), pyarrow.large_string()}:
        raise ValueError("a type that the process does not write")
    return found


def _texts(found: Any, place: int, calendar: Calendar | None, kind: str) -> Texts:
    """Return the texts of a column's cells: letters of kinds of missing values as .a, as the programs write them."""
    column = found.column(str(place))
    if calendar is None or column.type != "double":
        texts = arrow_texts(column)
    else:
        codes, values = pd.factorize(column.to_numpy())
        texts = placed((text_of(float(value), calendar, kind) for value in values), codes)
    if (name := f"{place}.tag") in found.schema.names:
        tags = arrow_texts(found.column(name))
        texts = np.where(tags == "", texts, "." + tags)
    return texts


@contextmanager
def _answer(
    what: str, path: Path, kind: str, encoding: str | None, catalogue: Path | None = None
) -> Iterator[Callable[[int | None], bytes]]:
    """Start the process that reads `what` of the file. Yield what reads from its answer: some bytes, or all others.

    That raises TableError if the process fails, crashes, takes too long or writes too much. Of its errors only a code
    gets here: their texts may quote a cell. An answer in another form is a TableError, too.
    """
    import pyarrow

    if importlib.util.find_spec("pyreadstat") is None:
        raise TableError(f"{path} is {STATISTICAL[f'.{kind}']}. {CURE} Or run: pip install 'medsynth[stats]'.")
    charset = codecs.lookup(encoding).name if encoding else ""
    limits = map(str, (MOST_CELLS, MEMORY, SECONDS))
    formats = str(catalogue.absolute()) if catalogue else ""
    words = [sys.executable, "-P", str(SCRIPT), what, kind, str(path.absolute()), charset, formats, *limits]
    with subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd="/",
        env={**os.environ, **dict.fromkeys(ALONE, "1")},
    ) as process:  # fmt: skip
        timer = Timer(SECONDS, process.kill)
        timer.start()

        def read(size: int | None) -> bytes:
            assert process.stdout is not None
            found = process.stdout.read(min(MOST_BYTES + 1 if size is None else size, MOST_BYTES + 1))
            if len(found) > MOST_BYTES:
                raise _failure(path, kind, LARGE)
            if size is None or len(found) < size:
                code = process.wait()
                if code or size is not None:
                    raise _failure(path, kind, -signal.SIGXCPU if timer.finished.is_set() else code)
            return found

        try:
            yield read
        except (pyarrow.ArrowException, KeyError, TypeError, ValueError):
            raise _error(path, kind, "is damaged. Copy it again.") from None
        finally:
            timer.cancel()
            process.kill()


def _failure(path: Path, kind: str, code: int) -> TableError:
    """Return the error for an exit code of the process."""
    if code == -signal.SIGXCPU:
        return _error(path, kind, f"could not be read in {SECONDS} seconds. {CURE}")
    if code == LARGE:
        return _error(path, kind, f"is too large, or states a size that it does not have. {CURE}")
    if code == ENCODING:
        what = f"has text in another encoding. Set its `encoding`, such as cp1252. Or: {CURE}"
        return _error(path, kind, what, OTHER_ENCODING)
    return _error(path, kind, f"is damaged, or uses features that pyreadstat does not read. {CURE}")


def _error(path: Path, kind: str, what: str, *problems: Problem) -> TableError:
    return TableError(f"{path} is {STATISTICAL[f'.{kind}']} that {what}", *problems)
