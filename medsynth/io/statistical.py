"""SPSS, Stata and SAS files: the columns by name, each cell as text by its value and its column's format.

pyreadstat reads them in a process of its own (decision 65). No label, note, time or type of the file is read.
"""

from __future__ import annotations

import codecs
import importlib.util
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Timer
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ..errors import TableError
from .cell_text import SECOND, Texts, arrow_texts, clock_text, moment_texts, placed, value_text
from .formats import STATISTICAL
from .statistical_process import ENCODING, LARGE
from .table import OpenTable, Table, check_names
from .writer import WrittenText

SCRIPT = Path(__file__).with_name("statistical_process.py")
MOST_CELLS = 1 << 25  # of a file, which is read whole: about 4 GiB in the process that reads
MEMORY = 1 << 33  # bytes of address space of that process
SECONDS = 600  # that it may take
MOST_BYTES = 1 << 32  # of its answer
ALONE = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")  # threads reserve address space
CURE = "Save the table as CSV or Parquet."
DAY = 86_400_000  # in milliseconds, the unit in which dates and times are rounded
DAYS_AT_MOST = 10_000_000  # from 1970: a number beyond stays a number
BEFORE_1970 = {"sav": 141_428, "dta": 3653, "sas7bdat": 3653, "xpt": 3653}  # days from the program's day 0


class Unit(NamedTuple):
    """What a column's format makes of its numbers: each counts so many milliseconds, and is shown as `shown`."""

    milliseconds: int
    shown: Callable[[int], str]


def day(milliseconds: int) -> str:
    """Return the text of a day from milliseconds since 1970."""
    return str(np.datetime64(milliseconds // DAY, "D"))


def moment(milliseconds: int) -> str:
    """Return the text of a day and a time from milliseconds since 1970."""
    return moment_texts(np.array([milliseconds], np.int64), "ms", None)[0]


def clock(milliseconds: int) -> str:
    """Return the text of a time of day or a length of time, in hours, minutes and seconds.

    >>> clock(30_600_000), clock(-1500), clock(93_600_000)
    ('08:30:00', '-00:00:01.500000', '26:00:00')
    """
    return "-" * (milliseconds < 0) + clock_text(abs(milliseconds) * SECOND // 1000)


SECONDS_OF = {shown: Unit(1000, shown) for shown in (day, moment, clock)}
SPSS = (
    ("(DATE|[AEJS]DATE|MOYR|QYR|WKYR)", SECONDS_OF[day]), ("(DATETIME|YMDHMS)", SECONDS_OF[moment]),
    ("([DM]?TIME)", SECONDS_OF[clock]),
)  # fmt: skip
STATA = (
    ("%-?t?d.*", Unit(DAY, day)), (r"%-?t[cC]hh:?mm(:?ss(\.s+)?)?(_?[ap]\.?m\.?)?", Unit(1, clock)),
    ("%-?t[cC].*", Unit(1, moment)),
)  # fmt: skip
SAS = (
    ("(DATE|WEEKDAT[EX]|WORDDAT[EX]|NLDATE|JULIAN|MONYY|YYMON|YYMM|MMYY|(DDMMYY|MMDDYY|YYMMDD)[BCDNPS]?)",
     Unit(DAY, day)),
    ("((IS|E|B)8601DA)", Unit(DAY, day)), ("(DTDATE|B8601DN|E8601DN)", SECONDS_OF[day]),
    ("(DATETIME|NLDATM|DATEAMPM|MDYAMPM|(IS|E|B)8601DT)", SECONDS_OF[moment]),
    ("(TIME|HHMM|MMSS|TOD|TIMEAMPM|(IS|E|B)8601TM)", SECONDS_OF[clock]),
)  # fmt: skip
FORMATS = {"sav": SPSS, "dta": STATA, "sas7bdat": SAS, "xpt": SAS}


def unit_of(kind: str, form: str) -> Unit | None:
    """Return what a format of a kind of file makes of a number; None for a plain number.

    >>> unit_of("sav", "DATE11") == Unit(1000, day), unit_of("dta", "%9.0g")
    (True, None)
    """
    ending = "" if kind == "dta" else r"\d*(\.\d*)?"
    return next((unit for pattern, unit in FORMATS[kind] if re.fullmatch(pattern + ending, form, re.IGNORECASE)), None)


def opened(path: Path, kind: str, encoding: str | None) -> OpenTable:
    """Read the header of the file at `path`, which `formats.statistical_kind` found to be of a kind.

    Its rows are read when they are asked for, as one piece. Raises TableError for a damaged file, one that is too
    large, one with text in another encoding, and without the package pyreadstat.
    """
    if importlib.util.find_spec("pyreadstat") is None:
        raise TableError(f"{path} is {STATISTICAL[f'.{kind}']}. {CURE} Or run: pip install 'medsynth[stats]'.")
    header = _columns(path, kind, encoding, "header")[0]
    form = f"of {STATISTICAL[f'.{kind}']}"

    def pieces(most: int | None) -> Iterator[Table]:
        names, texts = _columns(path, kind, encoding, "rows")
        if names != header:
            raise TableError(f"{path} was changed while it was read. Try again when nobody writes to it.")
        frame = pd.DataFrame(dict(zip(header, texts, strict=True)), dtype=object)
        yield Table(str(path), header, frame, form, WrittenText(header, ","))

    return OpenTable(header, form, pieces)


def _columns(path: Path, kind: str, encoding: str | None, what: str) -> tuple[tuple[str, ...], list[Texts]]:
    """Return the names of the columns and the texts of their cells, (rows,) each; of a `header`, none."""
    import pyarrow

    try:
        found = pyarrow.ipc.open_stream(_answer(path, kind, encoding, what)).read_all()
        found.validate(full=True)
        shapes = [(int(field.name), field.metadata) for field in found.schema if field.name.isdigit()]
        names = check_names([facts[b"name"].decode() for _, facts in shapes], str(path))
        units = [unit_of(kind, facts[b"format"].decode()) for _, facts in shapes]
        texts = [_texts(found, place, unit, kind) for (place, _), unit in zip(shapes, units, strict=True)]
    except (pyarrow.ArrowException, KeyError, TypeError, ValueError):
        raise _error(path, kind, "is damaged. Copy it again.") from None
    if not names:
        raise TableError(f"{path} has no columns. Export the table again.")
    return names, texts


def _texts(found: Any, place: int, unit: Unit | None, kind: str) -> Texts:
    """Return the texts of a column's cells: letters of kinds of missing values as .a, as the programs write them."""
    import pyarrow

    column = found.column(str(place))
    if pyarrow.types.is_large_string(column.type) or unit is None:
        texts = arrow_texts(column)
    else:
        codes, values = pd.factorize(column.to_numpy())
        texts = placed((_moment_text(float(value), unit, kind) for value in values), codes)
    if (name := f"{place}.tag") in found.schema.names:
        tags = arrow_texts(found.column(name))
        texts = np.where(tags == "", texts, "." + tags)
    return texts


def _moment_text(value: float, unit: Unit, kind: str) -> str:
    """Return the text of a date or a time, rounded to milliseconds; of a number beyond all calendars, the number."""
    if not abs(value) * unit.milliseconds < DAYS_AT_MOST * DAY:
        return value_text(value)
    count = round(value * unit.milliseconds)
    return unit.shown(count if unit.shown is clock else count - BEFORE_1970[kind] * DAY)


def _answer(path: Path, kind: str, encoding: str | None, what: str) -> bytes:
    """Return what the process that reads the file wrote. Raise TableError if it fails, crashes, or takes too long.

    Of its errors only a code gets here: their texts may quote a cell.
    """
    words = [sys.executable, "-P", str(SCRIPT), kind, str(path.absolute()), codecs.lookup(encoding).name if encoding
             else "", str(MOST_CELLS), str(MEMORY), str(SECONDS), what]  # fmt: skip
    with subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd="/",
        env={**os.environ, **dict.fromkeys(ALONE, "1")},
    ) as process:  # fmt: skip
        assert process.stdout is not None
        timer = Timer(SECONDS, process.kill)
        timer.start()
        try:
            answer = process.stdout.read(MOST_BYTES + 1)
            code = process.wait() if len(answer) <= MOST_BYTES else LARGE
            late = timer.finished.is_set() or code == -signal.SIGXCPU
        finally:
            timer.cancel()
            process.kill()
    if late:
        raise _error(path, kind, f"could not be read in {SECONDS} seconds. {CURE}")
    if code == LARGE:
        raise _error(path, kind, f"is too large, or states a size that it does not have. {CURE}")
    if code == ENCODING:
        raise _error(path, kind, f"has text in another encoding. Set its `encoding`, such as cp1252. Or: {CURE}")
    if code:
        raise _error(path, kind, f"is damaged, or uses features that pyreadstat does not read. {CURE}")
    return answer


def _error(path: Path, kind: str, what: str) -> TableError:
    return TableError(f"{path} is {STATISTICAL[f'.{kind}']} that {what}")
