"""Write synthetic rows as an SPSS, Stata or SAS file, with the schema's dates, decimals and codes of missing values."""

from __future__ import annotations

import importlib.util
import re
import shutil
import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from numbers import Number
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import pandas as pd
from pandas.api.types import is_bool_dtype, is_datetime64_dtype, is_integer_dtype, is_numeric_dtype

from ..errors import UsageError
from .calendars import BEFORE_1970, DAY
from .cell_text import frame_texts

ENDINGS = (".sav", ".zsav", ".dta", ".xpt")
LABEL = "Synthetic rows, made by medsynth"
# The most bytes of a column's name, and what it consists of.
NAMES = {"sav": (64, r"[^\W\d_][\w.@#$]*(?<!\.)"), "dta": (32, r"[^\W\d]\w*"), "xpt": (32, r"[A-Za-z_]\w*")}
FORMATS = {"sav": ("SDATE10", "DATETIME20"), "dta": ("%td", "%tc"), "xpt": ("DATE9", "DATETIME20")}  # day, moment
MILLISECONDS = {"sav": (1000, 1000), "dta": (DAY, 1), "xpt": (DAY, 1000)}  # that a day's and a moment's number counts
SMALL = (-(2**31) + 1, 2**31 - 28)  # whole numbers that Stata stores as such
WHOLE = re.compile(r"-?\d{1,15}")
TAG = re.compile(r"\.[a-z]")  # of Stata's kinds of missing values
MOST_CODES, LONGEST_CODE = 3, 8  # of user-missing values that SPSS keeps for a column; bytes of one
LONGEST_LABEL = {"sav": (256, 256), "dta": (80, 320), "xpt": (256, 256)}  # characters and bytes of a column's label
LONGEST_VALUE_LABEL = (120, 120)  # of a value's, in SPSS
CURE = "Use .csv or .parquet."


class DeclaredColumn(NamedTuple):
    """What a schema declares of a column: decimals, codes of missing values, labels, and the measurement level."""

    places: int = 0
    codes: tuple[int | str, ...] = ()
    label: str = ""
    value_labels: Mapping[str, str] = {}  # by code
    measure: str = ""  # "nominal", "ordinal", "scale" or unknown


class _Stored(NamedTuple):
    """A column as it is written: its values, its format, and the codes of its missing values."""

    values: pd.Series
    format: str = ""
    codes: tuple[int | str, ...] = ()


def check_package(path: Path) -> None:
    """Raise UsageError without the package that writes statistical files."""
    if importlib.util.find_spec("pyreadstat") is None:
        raise UsageError(f"{path} needs the package pyreadstat. {CURE} Or run: pip install 'medsynth[stats]'.")


def check_names(path: Path, names: Sequence[str]) -> None:
    """Raise UsageError for a column whose name the file at `path` cannot contain, and without pyreadstat."""
    check_package(path)
    kind = _kind(path)
    longest, usual = NAMES[kind]
    for k, name in enumerate(names):
        if len(name.encode()) > longest or not re.fullmatch(usual, name, re.ASCII if kind == "xpt" else 0):
            raise UsageError(
                f"{path} cannot have a column {name!r}: names there are at most {longest} bytes, begin with a letter "
                f"and have no blanks. {CURE}"
            )
        if kind != "dta" and name.lower() in [other.lower() for other in names[:k]]:
            raise UsageError(f"{path} cannot have two columns {name!r} that differ in capitals alone. {CURE}")


def write(
    file: BinaryIO,
    path: Path,
    frames: Iterable[pd.DataFrame],
    days: Collection[str],
    declared: Mapping[str, DeclaredColumn],
) -> None:
    """Fill the open `file` in the format that the name `path` gives. All rows are in memory at once.

    Raises UsageError for what the format cannot contain.
    """
    import pyreadstat

    kind = _kind(path)
    frame = pd.concat(list(frames), ignore_index=True)
    columns = {
        str(name): _stored(frame[name], kind, name in days, declared.get(str(name), DeclaredColumn())) for name in frame
    }
    rows = pd.DataFrame({name: column.values for name, column in columns.items()})
    known = {name: declared[name] for name in columns if name in declared}
    facts: dict[str, Any] = {
        "file_label": LABEL,
        "variable_format": {name: column.format for name, column in columns.items() if column.format},
        "column_labels": {name: _cut(one.label, *LONGEST_LABEL[kind]) for name, one in known.items() if one.label},
    }
    codes = {name: list(column.codes) for name, column in columns.items() if column.codes}
    labels = {name: _value_labels(columns[name], one, kind) for name, one in known.items()}
    if kind == "sav":
        measures = {name: one.measure for name, one in known.items() if one.measure}
        facts |= {"missing_ranges": codes, "compress": path.suffix.lower() == ".zsav", "variable_measure": measures}
    elif kind == "dta":
        facts |= {"missing_user_values": codes}
    if kind != "xpt":
        facts |= {"variable_value_labels": {name: found for name, found in labels.items() if found}}
    writers: dict[str, Any] = {
        "sav": pyreadstat.write_sav, "dta": pyreadstat.write_dta, "xpt": pyreadstat.write_xport
    }  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="medsynth-") as folder:
        made = Path(folder) / f"rows.{kind}"
        try:
            writers[kind](rows, made, **facts)
        except (pyreadstat.PyreadstatError, pyreadstat.ReadstatError) as error:
            raise UsageError(f"{path} cannot contain these rows: {str(error).rstrip('.')}. {CURE}") from None
        with made.open("rb") as source:
            shutil.copyfileobj(source, file)


def _cut(label: str, characters: int, size: int) -> str:
    """Return a label with at most this number of characters and of bytes, which no character is cut in."""
    return label[:characters].encode()[:size].decode(errors="ignore")


def _value_labels(column: _Stored, declared: DeclaredColumn, kind: str) -> dict[Any, str]:
    """Return the labels that a file of the kind can keep, by value. In Stata whole numbers and letters have labels."""
    labels = {code: _cut(label, *LONGEST_VALUE_LABEL) for code, label in declared.value_labels.items() if code}
    texts = not is_numeric_dtype(column.values) and not (kind == "dta" and column.codes)
    if texts:
        return {**labels} if kind == "sav" else {}
    whole = {int(code): label for code, label in labels.items() if WHOLE.fullmatch(code)}
    letters = {code[1:]: label for code, label in labels.items() if code[1:] in column.codes}
    return {code: label for code, label in whole.items() if SMALL[0] <= code <= SMALL[1] or kind == "sav"} | letters


def _kind(path: Path) -> str:
    return path.suffix.lower().removeprefix(".").replace("zsav", "sav")


def _stored(column: pd.Series, kind: str, is_day: bool, declared: DeclaredColumn) -> _Stored:
    """Return a column as numbers if all of its values are numbers or moments, else as texts."""
    if is_datetime64_dtype(column):
        which = 0 if is_day else 1
        moments = column.to_numpy().astype("datetime64[ms]")
        numbers = np.where(np.isnat(moments), np.nan, moments.astype(np.int64) + BEFORE_1970[kind] * DAY)
        return _Stored(pd.Series(numbers) / MILLISECONDS[kind][which], FORMATS[kind][which])
    if is_numeric_dtype(column) and not is_bool_dtype(column):
        return _of_numbers(column, kind, declared)
    codes = tuple(code for code in declared.codes if kind == "dta" and TAG.fullmatch(str(code)))
    values = column.astype(object)
    rest = values[values.notna() & ~values.isin(codes)]
    if codes and all(isinstance(value, Number) and not isinstance(value, bool) for value in rest):
        known = {code: str(code)[1:] for code in codes}
        mixed = [known[value] if value in known else None if pd.isna(value) else float(value) for value in values]
        return _Stored(pd.Series(mixed, dtype=object), "", tuple(known.values()))
    words = tuple(map(str, declared.codes))
    texts = pd.Series(frame_texts(column), dtype=object)
    return _Stored(texts.str.lower() if is_bool_dtype(column) else texts, "", _of_spss(words, kind))


def _of_numbers(column: pd.Series, kind: str, declared: DeclaredColumn) -> _Stored:
    """Return numbers with the format that shows their decimals."""
    numbers = column.astype("Float64").astype("float64")
    low = numbers.min()
    high = numbers.max()
    if kind == "dta" and is_integer_dtype(column) and low >= SMALL[0] and high <= SMALL[1]:
        return _Stored(column.astype("Int32"))
    width = len(str(int(max(abs(low), abs(high))))) if numbers.notna().any() else 1
    form = f"F{min(40, max(8, width + declared.places + 2))}.{declared.places}" if kind == "sav" else ""
    return _Stored(numbers, form, _of_spss(tuple(code for code in declared.codes if isinstance(code, int)), kind))


def _of_spss(codes: tuple[int | str, ...], kind: str) -> tuple[int | str, ...]:
    """Return the codes that SPSS can keep as user-missing values: all of a column's, or none."""
    kept = kind == "sav" and len(codes) <= MOST_CODES and all(len(str(code).encode()) <= LONGEST_CODE for code in codes)
    return codes if kept else ()
