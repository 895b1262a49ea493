"""The text of each cell, from its own value: no other cell and no chunk changes it.

In a file, the declared type of a column counts, too. In a frame it does not, because pandas chooses types by looking at
all cells: equal values have one text in all of its types, and True is the word that `to_csv` writes.
"""

from __future__ import annotations

import datetime
import re
import struct
import uuid
from collections.abc import Callable, Iterable
from decimal import Decimal
from fractions import Fraction
from functools import cache
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from pandas.api.types import is_float_dtype, is_object_dtype, is_string_dtype

from ..arrays import Texts, Whole

if TYPE_CHECKING:
    import pyarrow

TextOf = Callable[[object], str]
LARGEST_WHOLE = 2.0**53  # Whole floats below it are exact, and are written as whole numbers.
LARGEST_TYPED = 2.0**64  # Above the whole numbers of all types.
MOST_DIGITS = 4300  # of a whole number that Python writes
FLOAT32 = float(np.finfo(np.float32).max)
_BITS32 = struct.Struct("f")
LONG_TEXT, SHORTER = 12, 5  # Length of a text that may have digits of 32 bits; by how many digits it is shorter then.
SECOND, DAY = 10**9, 86_400 * 10**9  # In nanoseconds.
NANOSECONDS = {"s": SECOND, "ms": 10**6, "us": 1000, "ns": 1}  # Per unit of time.
MARK = np.iinfo(np.int64).min  # Marks a missing moment or span.
# pandas groups texts as C strings: a NUL or a lone surrogate would make two different texts equal.
_NOT_TEXT = re.compile("[\0\ud800-\udfff]")
# Days since 1970 in the years whose moments have a Python date in every zone.
FIRST_DAY, LAST_DAY = ((datetime.date(year, 1, 1) - datetime.date(1970, 1, 1)).days for year in (2, 9999))


NOT_A_VALUE_CURE = "Give each part its own column, as a number or a text, or remove the column."
# Types of objects that are not single values, in words.
_PARTS: dict[type, str] = {
    list: "lists", tuple: "tuples", dict: "dictionaries", set: "sets", frozenset: "sets", np.ndarray: "arrays",
    pd.Series: "series", pd.Index: "indexes", pd.DataFrame: "frames", pd.api.extensions.ExtensionArray: "arrays",
    bytes: "bytes", bytearray: "bytes", memoryview: "bytes", complex: "complex numbers",
    np.complexfloating: "complex numbers", np.void: "records",
}  # fmt: skip
# Types of objects of which equal ones have one text, unless they have a zone.
_ONE_TEXT = {
    str, np.str_, int, float, Decimal, Fraction, datetime.date, datetime.datetime, datetime.time, datetime.timedelta,
    pd.Timestamp, pd.Timedelta, pd.Period, uuid.UUID,
}  # fmt: skip
_INNER = ("pyarrow_dtype", "subtype", "value_type")  # how a dtype names the one of its values


class NotAValue(Exception):
    """A column contains something other than single values. Its message names what, and no value."""


def _check_value(kind: type) -> None:
    """Raise NotAValue for a type whose objects are not single values, or have no text of their own."""
    if found := next((words for part, words in _PARTS.items() if issubclass(kind, part)), None):
        raise NotAValue(found)
    own: Any = kind
    if own.__str__ is object.__str__ and own.__repr__ is object.__repr__:
        raise NotAValue("objects without a text")


def check_type(kind: pyarrow.DataType) -> None:
    """Raise NotAValue for an Arrow type of lists, structures or bytes."""
    import pyarrow

    types = pyarrow.types
    if isinstance(kind, pyarrow.BaseExtensionType):
        if kind.extension_name not in ("pandas.interval", "arrow.uuid"):
            check_type(kind.storage_type)
    elif types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        check_type(kind.value_type)
    elif types.is_nested(kind):
        raise NotAValue("lists or structures")
    elif "binary" in str(kind):
        raise NotAValue("bytes")


def has_floats(kind: Any) -> bool:
    """Return whether a dtype of pandas or Arrow is one of floats, or of categories, intervals or runs of floats."""
    if inner := next((getattr(kind, name) for name in _INNER if hasattr(kind, name)), None):
        return has_floats(inner)
    if isinstance(kind, pd.CategoricalDtype):
        return has_floats(kind.categories.dtype)
    return str(kind) in ("halffloat", "float", "double") or is_float_dtype(kind)


def is_text(kind: Any) -> bool:
    """Return whether a dtype of pandas is one of texts, of objects, or of categories that are texts."""
    if isinstance(kind, pd.CategoricalDtype):
        return is_text(kind.categories.dtype)
    if isinstance(kind, pd.ArrowDtype):
        return "string" in str(getattr(kind.pyarrow_dtype, "value_type", kind.pyarrow_dtype))
    return is_string_dtype(kind)


def plain_text(word: str) -> str:
    r"""Return a word without surrounding blanks; its NULs and lone surrogates are escaped, as in text files.

    >>> plain_text(" icu\0x ")
    'icu\\x00x'
    """
    word = word.strip()
    return _NOT_TEXT.sub(lambda found: ascii(found[0])[1:-1], word) if _NOT_TEXT.search(word) else word


def value_text(value: object) -> str:
    """Return the text of a file's value that is not missing: booleans in lower case, whole floats without a point.

    >>> [value_text(value) for value in (True, 2.0, 0.5, 2**60 + 1)]
    ['true', '2', '0.5', '1152921504606846977']
    """
    if isinstance(value, bool | np.bool_):
        return str(value).lower()
    if isinstance(value, float | np.floating):
        number = float(value)
        return str(int(number)) if number.is_integer() and abs(number) < LARGEST_WHOLE else _decimal_text(number)
    return frame_text(value) if isinstance(value, pd.Interval) else plain_text(str(value))


def _decimal_text(number: float) -> str:
    """Return the digits of a number. One that is not whole and has 32 bits has the digits of these, if they are fewer.

    The column's type plays no part, because one cell may turn float32 into float64.

    >>> _decimal_text(float(np.float32(0.1))), _decimal_text(0.1), _decimal_text(1.0625)
    ('0.1', '0.1', '1.0625')
    """
    text = str(number)
    if len(text) < LONG_TEXT or number.is_integer() or not abs(number) < FLOAT32:
        return text
    if _BITS32.unpack(_BITS32.pack(number))[0] != number:
        return text
    short = str(np.float32(number))
    return short if len(short) <= len(text) - SHORTER else text


def frame_text(value: object) -> str:
    """Return the text of a frame's value that is not missing: equal numbers have one text, whatever their type.

    >>> [frame_text(value) for value in (True, 2.0, Decimal("2.00"), 0.5, 2.0**60, 2**60 + 1)]
    ['True', '2', '2', '0.5', '1152921504606846976', '1152921504606846977']
    """
    if isinstance(value, np.datetime64 | np.timedelta64):  # numpy counts a span as a whole number, too.
        return str(frame_texts(pd.Series(np.array([value])))[0])
    if isinstance(value, Real | Decimal) and not isinstance(value, bool | np.bool_):
        return _number_text(int(value) if isinstance(value, np.integer) else value)
    if isinstance(value, datetime.timedelta):
        nanoseconds = value.nanoseconds if isinstance(value, pd.Timedelta) else 0
        seconds = value.days * 86_400 + value.seconds
        return span_text(seconds * SECOND + value.microseconds * 1000 + nanoseconds)
    if isinstance(value, pd.Interval):
        left, right = "[" if value.closed_left else "(", "]" if value.closed_right else ")"
        return f"{left}{frame_text(value.left)}, {frame_text(value.right)}{right}"
    return plain_text(str(value))


def _number_text(value: Real | Decimal) -> str:
    """Return the text of a number. One that no float equals has all of its digits, but no zeros at their end."""
    try:
        number = float(value)
    except OverflowError:
        number = float("inf")
    if number == value:
        return str(int(number)) if number.is_integer() and abs(number) < LARGEST_TYPED else _decimal_text(number)
    if not isinstance(value, Decimal):
        return str(value)
    if abs(value.adjusted()) > MOST_DIGITS:
        return str(value)
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def workbook_text(cell: object) -> str:
    """Return the text of a workbook's cell, as it would be saved as CSV: a moment at midnight is a day."""
    if cell is None:
        return ""
    return value_text(cell.date() if isinstance(cell, datetime.datetime) and cell.time() == datetime.time() else cell)


def span_text(nanoseconds: int) -> str:
    """Return the text of a length of time, as pandas writes it.

    >>> span_text(-1), span_text(90 * SECOND)
    ('-1 days +23:59:59.999999999', '0 days 00:01:30')
    """
    days, rest = divmod(nanoseconds, DAY)
    return f"{days} days {'+' if days < 0 else ''}{clock_text(rest)}"


def clock_text(nanoseconds: int) -> str:
    """Return the text of a time of day, with no, six or nine digits after the second, as it needs."""
    minutes, rest = divmod(nanoseconds, 60 * SECOND)
    seconds, part = divmod(rest, SECOND)
    return f"{minutes // 60:02}:{minutes % 60:02}:{seconds:02}{_digits(part)}"


def _digits(part: int) -> str:
    """Return the digits of a part of a second in nanoseconds, none for zero."""
    return f".{part:09}" if part % 1000 else f".{part // 1000:06}" if part else ""


def moment_texts(counts: Whole, unit: str, zone: datetime.tzinfo | None) -> list[str]:
    """Return the texts of moments, (values,) `unit`s after 1970 in UTC, as the clocks of a zone show them.

    Moments outside the years of Python's dates are in UTC. numpy marks a missing moment with the least count: "".
    """
    days = counts // (DAY // NANOSECONDS[unit])
    usual = (days > FIRST_DAY) & (days < LAST_DAY) & (counts > MARK)
    stamps = pd.DatetimeIndex(counts[usual].view(f"M8[{unit}]"))
    known = map(str, stamps if zone is None else stamps.tz_localize("UTC").tz_convert(zone))
    texts = np.empty(len(counts), dtype=object)
    texts[usual] = list(known)
    texts[~usual] = [_far(int(count), unit, zone is not None) for count in counts[~usual]]
    return list(texts)


def _far(count: int, unit: str, zoned: bool) -> str:
    seconds, part = divmod(count * NANOSECONDS[unit], SECOND)
    moment = str(np.datetime64(seconds, "s")).replace("T", " ")
    return "" if count == MARK else f"{moment}{_digits(part)}{'+00:00' if zoned else ''}"


def _spans(counts: Whole, unit: str) -> list[str]:
    return ["" if count == MARK else span_text(count * NANOSECONDS[unit]) for count in counts.tolist()]


def placed(texts: Iterable[str], place: Whole) -> Texts:
    """Return the text of each row, (rows,), from its index among distinct texts; "" for an index of -1."""
    return texts_of(as_categories([(texts, place)]))


def as_categories(parts: Iterable[tuple[Iterable[str], Whole]]) -> pd.Categorical:
    """Return texts as categories, (rows,), from those of parts, and each row's index among its part's; "" for -1."""
    known: dict[str, int] = {}  # keeps each distinct text once in memory
    codes = [np.empty(0, np.int64)]
    for texts, place in parts:
        codes.append(np.array([known.setdefault(text, len(known)) for text in (*texts, "")])[place])
    return pd.Categorical.from_codes(np.concatenate(codes), pd.Index([*known], dtype=object))  # type: ignore[arg-type]


def texts_of(cells: pd.Categorical) -> Texts:
    """Return the text of each row, (rows,), from its category."""
    texts: Texts = np.asarray(cells.categories, dtype=object)
    return texts.take(cells.codes)


# Columns of frames.


def frame_texts(column: pd.Series) -> Texts:
    """Return the text of each cell of a frame's column, (rows,): missing ones as "".

    Equal values of a typed column have one text, so each distinct value becomes text once.
    """
    kind: Any = column.dtype
    if isinstance(kind, pd.ArrowDtype):
        check_type(kind.pyarrow_dtype)
        return arrow_texts(column.array.__arrow_array__(), frame_text)
    if isinstance(kind, pd.CategoricalDtype):
        if is_object_dtype(kind.categories.dtype):
            _check_categories(kind.categories)
        place = np.asarray(column.cat.codes, np.int64)
        return placed(frame_texts(pd.Series(kind.categories)), place)
    if isinstance(kind, pd.SparseDtype):
        # Stored and omitted values are converted apart: together they may have another type.
        sparse: Any = column.array
        rest = np.array([sparse.fill_value], dtype=sparse.dtype.subtype if pd.notna(sparse.fill_value) else object)
        texts = np.repeat(frame_texts(pd.Series(rest)), len(column))
        texts[sparse.sp_index.indices] = frame_texts(pd.Series(sparse.sp_values))
        return texts
    if isinstance(kind, pd.StringDtype) or (isinstance(kind, np.dtype) and kind.kind == "O"):
        return _object_texts(column.to_numpy(object))
    _check_value(kind.type)
    place, distinct = pd.factorize(column)
    return placed(_distinct_texts(pd.Series(distinct)), place)


def _check_categories(categories: pd.Index) -> None:
    """Raise NotAValue for objects that may equal others of another text, such as True and 1, or a moment in two zones.

    pandas takes them for one category, and the first row decides how the others are written. Where all categories have
    one type, that type is public.
    """
    for value in categories:
        _check_value(type(value))
        zoned = getattr(value, "tzinfo", None) is not None
        if zoned or not (type(value) in _ONE_TEXT or isinstance(value, np.number)):
            raise NotAValue(f"categories of the type {type(value).__name__}{' in zones' * zoned}")


def _distinct_texts(values: pd.Series) -> Iterable[str]:
    """Return the texts of distinct values of one type, none of them missing."""
    kind = values.dtype
    if isinstance(kind, pd.DatetimeTZDtype):
        counts = values.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy().view(np.int64)
        return moment_texts(counts, kind.unit, kind.tz)
    if isinstance(kind, np.dtype) and kind.kind in "mM":
        counts = values.to_numpy().view(np.int64)
        unit = np.datetime_data(kind.str)[0]
        return moment_texts(counts, unit, None) if kind.kind == "M" else _spans(counts, unit)
    return (_known_text(value, frame_text) for value in values.astype(object))


def _object_texts(values: Texts) -> Texts:
    """Return the texts of objects, each by its own value."""
    for kind in set(map(type, values)):
        _check_value(kind)
    missing = pd.isna(values)
    words = cache(plain_text)  # Keeps each distinct word once in memory.
    return np.array(
        [
            "" if gone else words(value) if type(value) is str else frame_text(value)
            for value, gone in zip(values, missing, strict=True)
        ],
        dtype=object,
    )


# Columns of Arrow.


def arrow_texts(column: pyarrow.ChunkedArray, text: TextOf = value_text) -> Texts:
    """Return the text of each cell of an Arrow column, (rows,): missing ones as "", other values by `text`."""
    return texts_of(arrow_categories(column, text))


def arrow_categories(column: pyarrow.ChunkedArray, text: TextOf = value_text) -> pd.Categorical:
    """Return the same as categories, (rows,): each distinct value becomes text once per chunk."""
    return as_categories(_chunk_texts(chunk, text) for chunk in column.chunks)


def _chunk_texts(chunk: pyarrow.Array, text: TextOf) -> tuple[Iterable[str], Whole]:
    """Return texts of a chunk, and each row's index among them, -1 for a missing cell."""
    import pyarrow
    import pyarrow.compute

    kind = chunk.type
    if isinstance(kind, pyarrow.BaseExtensionType):
        return _extension_texts(chunk, text)
    if pyarrow.types.is_run_end_encoded(kind):
        return _chunk_texts(pyarrow.compute.run_end_decode(chunk), text)
    if pyarrow.types.is_null(kind):
        return (), np.full(len(chunk), -1)
    if not pyarrow.types.is_dictionary(kind):
        try:
            chunk = chunk.dictionary_encode()
        except pyarrow.ArrowNotImplementedError:  # depends on the type alone
            return _arrow_values(chunk, text), np.arange(len(chunk))
        distinct = _arrow_values(chunk.dictionary, text)
    else:
        distinct = placed(*_chunk_texts(chunk.dictionary, text))
    place = chunk.indices.cast(pyarrow.int64()).fill_null(-1)
    return distinct, place.to_numpy(zero_copy_only=False)


def _extension_texts(chunk: pyarrow.Array, text: TextOf) -> tuple[Iterable[str], Whole]:
    """Return texts of an Arrow extension: pandas' months and intervals and UUIDs as such, others as they are stored."""
    kind = chunk.type
    stored = chunk.storage
    values = list[object]()
    if kind.extension_name == "pandas.period":
        values = [None if k is None else pd.Period(ordinal=k, freq=kind.freq) for k in stored.to_pylist()]
    elif kind.extension_name == "pandas.interval":
        ends = [None if row is None or None in row.values() else row for row in stored.to_pylist()]
        values = [None if row is None else pd.Interval(row["left"], row["right"], kind.closed) for row in ends]
    elif kind.extension_name == "arrow.uuid":
        values = chunk.to_pylist()
    else:
        return _chunk_texts(stored, text)
    return map(_known_text, values), np.arange(len(chunk))


def _known_text(value: object, text: TextOf = value_text) -> str:
    """Return the text of a value, "" for None and NaN."""
    return "" if value is None or value != value else text(value)


def _arrow_values(values: pyarrow.Array, text: TextOf) -> Iterable[str]:
    """Return the texts of values of one type other than dictionaries and extensions; missing ones as ""."""
    import pyarrow

    kind, types = values.type, pyarrow.types
    if types.is_temporal(kind):
        return _arrow_times(values)
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        raw = values.cast(pyarrow.large_binary())
        # An undecodable byte is escaped in its own cell, as in a text file.
        words = (None if cell is None else cell.decode("utf-8", "backslashreplace") for cell in raw.to_pylist())
        return ["" if word is None else plain_text(word) for word in words]
    return (_known_text(value, text) for value in values.to_pylist())


def _arrow_times(values: pyarrow.Array) -> list[str]:
    """Return the texts of dates, times, moments and spans, from their stored whole numbers."""
    import pyarrow

    kind, types = values.type, pyarrow.types
    if types.is_interval(kind):
        return list(map(_known_text, values.to_pylist()))
    missing = values.is_null().to_numpy(zero_copy_only=False)
    whole = values.view(pyarrow.int32() if kind.bit_width == 32 else pyarrow.int64()).fill_null(0)
    counts = whole.to_numpy(zero_copy_only=False).astype(np.int64)
    if types.is_timestamp(kind):
        texts = moment_texts(counts, kind.unit, None if kind.tz is None else kind.to_pandas_dtype().tz)
    elif types.is_duration(kind):
        texts = _spans(counts, kind.unit)
    elif types.is_date(kind):
        days = counts if types.is_date32(kind) else counts // (DAY // NANOSECONDS["ms"])
        texts = list(map(str, days.astype("M8[D]")))
    else:
        texts = [clock_text(count * NANOSECONDS[kind.unit]) for count in counts.tolist()]
    return ["" if gone else text for text, gone in zip(texts, missing, strict=True)]
