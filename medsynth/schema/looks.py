"""See what the cells of a column look like, and propose kind and form: for a person who may see the table.

NO NOISE: a single cell may change a look. It is for that person's screen. What is taken from it into a schema are
kinds, forms, and words that nearly all cells share, such as a unit: never a value, level, minimum, maximum or count.
What a form cannot say stays open, and a fit learns it with noise.

The first reading that explains nearly all cells wins: dates, numbers, codes of a hierarchy, numbers in a text, several
numbers, few words, keys, free text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from functools import cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from pydantic import ValidationError

from ..arrays import Floats, Mask, Texts
from ..io.table import is_number, is_padded, whole_text
from .cells import FREE_TEXT_CHARACTERS, FREE_TEXT_WORDS, MISSING_NUMBERS, MISSING_WORDS
from .columns.date import CLOCK_DAY, Date
from .columns.hierarchies import SYSTEMS
from .columns.number_text import number_text

Entry = dict[str, Any]
NEARLY, MOSTLY = 0.97, 0.6  # shares of the cells that a form must explain, and plain numbers among words
MOST_TEXTS = 3000  # different texts of a column that are read, the commonest first
FEW_WORDS, SHARED, FEW_NUMBERS = 60, 4, 6  # levels at most; rows of each on average; whole numbers that are levels
FEW_LEVELS = 10  # whole numbers that are levels if each is in many rows, such as answers and their codes
FEW_FLAGS, FEW_LETTERS, MANY = 4, 12, 20  # texts around numbers; letters between some; rows of a word that is in many
GAP = "\x1f"  # stands for a number among texts
SAME = 0.75  # part of a code that its group has at least
RARE = 0.01  # of the rows: levels that a fit probably merges
MOST_DIGITS, MOST_PLACES = 9, 12  # of a fresh key; after the point of a number
KEY_SHARE, KEY_ROWS = 0.98, 50  # of the cells that differ; rows from which on that means a key
DAYS = ("%Y-%m-%d", "%Y%m%d", "%d.%m.%Y", "%-d.%-m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%-d/%-m/%Y", "%-m/%-d/%Y",
        "%Y/%m/%d", "%d-%m-%Y", "%d.%m.%y", "%d/%m/%y", "%m/%d/%y", "%-m/%-d/%y", "%d-%b-%Y", "%d-%b-%y", "%d %b %Y",
        "%d%b%Y", "%d%^b%Y", "%d-%^b-%Y", "%B %-d, %Y", "%b %-d, %Y", "%d. %B %Y", "%-d. %B %Y", "%-d %B %Y",
        "%Y-%m", "%m/%Y", "%m.%Y")  # fmt: skip
TIMES = ("", " %H:%M", " %-H:%M", " %H:%M:%S", "T%H:%M", "T%H:%M:%S", "T%H:%M:%SZ", " %I:%M %p", " %-I:%M %p",
         " %H:%M:%S.000", "T%H:%M:%S.000", "T%H:%M:%S.000Z", "T%H:%M:%S+00:00")  # fmt: skip
CLOCKS = ("%H:%M", "%-H:%M", "%H:%M:%S", "%H.%M", "%Hh%M", "%I:%M %p", "%-I:%M %p")
OLDEST = 1920  # the first of the years that two digits mean
_NUMBER = re.compile(r"[+\-−]?[0-9]{1,3}(?:[,.'’\s][0-9]{3})+(?:[.,][0-9]+)?(?![0-9])|[+\-−]?[0-9]+(?:[.,][0-9]+)?")
_GROUPED = re.compile(r"[0-9]{1,3}([,.'’\s])[0-9]{3}(?![0-9])")
_POWER = re.compile(r"-?[0-9](?:\.(?P<rest>[0-9]+))?[eE](?P<power>[+-]?[0-9]{1,3})")
_THOUSANDS = re.compile(r"-?(?!0)[0-9]{1,3}(?:\.[0-9]{3})*")
_LIMIT = re.compile(r"[<>≤≥]=?\s*[0-9.,]+")
_LENGTH = re.compile(r"[0-9]+(\s?h\s?|:)([0-5]?[0-9])(\s?[a-zA-Z]*)")
_PART = re.compile(r"[0-9]+(?:\.[0-9]+)?")


class Look(NamedTuple):
    """What cells look like, for a screen; what a schema could declare of the column; and what a fit would lose."""

    cells: str
    entry: Entry
    loss: str = ""
    words: frozenset[str] = frozenset()  # all, of a column of few words; some of those next to numbers
    codes: tuple[str, ...] = ()  # usual codes of missing values among the cells
    shape: str = ""  # that of nearly all cells, with # for a digit


class KnownTexts(NamedTuple):
    """Different texts except usual words for missing values, with the rows of each, and how many texts there are."""

    texts: Texts
    rows: Floats
    different: int
    comma: bool  # whether the file has decimal commas, which are read as points

    def share(self, fits: Mask) -> float:
        """Return the share of the cells whose text fits, (texts,)."""
        return float(self.rows[fits].sum() / self.rows.sum())

    def rows_of_a_text(self) -> float:
        """Return the rows of a text on average."""
        return float(self.rows.sum() / self.different)

    def matched(self, pattern: re.Pattern[str]) -> list[re.Match[str] | None]:
        """Return the whole match of each text."""
        return [pattern.fullmatch(str(text)) for text in self.texts]


def look(cells: pd.Series, *, comma: bool = False) -> Look:
    """Return what the cells of a column look like. `cells`: all of them, as texts; of a file with decimal `comma`s."""
    gone = cells.isin(MISSING_WORDS)
    there = cells[~gone]
    if there.empty:
        return Look("only empty cells", {"kind": "identifier", "drop": True}, "all of it: it has no value")
    counts = there.value_counts()
    some = counts.iloc[:MOST_TEXTS]
    known = KnownTexts(some.index.to_numpy(object), some.to_numpy().astype(np.float64), len(counts), comma)
    found = next(found for reading in READINGS for found in reading(known))
    codes = tuple(code for code in (*MISSING_WORDS, *MISSING_NUMBERS) if code in {*cells[gone], *some.index})
    gaps = bool(gone.any()) and found.entry["kind"] != "identifier"
    shape = _shape(known)
    key = found.entry["kind"] == "identifier" and "drop" not in found.entry
    entry = found.entry | ({"missing": True} if gaps else {}) | ({"shape": shape} if key and shape else {})
    return found._replace(entry=entry, codes=codes, shape=shape)


def _shape(known: KnownTexts) -> str:
    """Return the shape of nearly all texts, with # for a digit; "" if there is none, or without digits."""
    shapes = pd.Series(known.texts).astype(str).str.replace(r"[0-9]", "#", regex=True).to_numpy(object)
    shape = str(shapes[known.rows.argmax()])
    return shape if 1 <= shape.count("#") <= MOST_DIGITS and known.share(shapes == shape) > NEARLY else ""


def _dates(known: KnownTexts) -> Iterator[Look]:
    """Yield the form of dates that writes nearly all texts as they are."""
    found = list[tuple[float, Date]]()
    for form in sorted({form for text in known.texts[:5] for form in _forms().get(_signs(str(text)), ())}):
        for months in ("en", "de") if "b" in form.lower() else ("en",):
            column = _date(form, months)
            if column is not None and _written_alike(column, known.texts[:5]).any():
                found.append((known.share(_written_alike(column, known.texts)), column))
    share, first = max(found, key=lambda one: one[0], default=(0.0, None))
    if first is None or share < NEARLY:
        return
    orders = {column.format.replace("-", "") for one, column in found if one == share}
    clock = first.format in CLOCKS
    left = set() if clock and share < 1 else {"unknown", "missing"}
    own = {key: one for key, one in first.to_dict().items() if key not in left and (clock or key != "bounds")}
    own |= {"format": first.format}
    what = "times" if clock else "dates"
    yield Look(f"{what} such as {known.texts[0]}{' (is the day first?)' if len(orders) > 1 else ''}", own)


def _signs(text: str) -> str:
    """Return a text's signs and blanks alone."""
    return re.sub(r"\w", "", text)


@cache
def _forms() -> dict[str, list[str]]:
    """Return the forms of dates and times by their signs: few of them need to be tried."""
    found = dict[str, list[str]]()
    for form in (*map("".join, product(DAYS, TIMES)), *CLOCKS):
        found.setdefault(_signs(re.sub("%[-^]?[a-zA-Z]", "", form)), []).append(form)
    return found


@cache
def _date(form: str, months: str) -> Date | None:
    """Return a column of dates in a form, None if the form is ambiguous."""
    resolution = "second" if "%S" in form else "minute" if "%M" in form else "day"
    first, last = (1980, 2046) if resolution == "second" else (1800, 2199)  # seconds need codes of 32 bits
    bounds = (CLOCK_DAY, CLOCK_DAY) if form in CLOCKS else (date(first, 1, 1), date(last, 12, 31))
    given = {"bounds": bounds, "format": form, "resolution": resolution, "months": months, "missing": True}
    given |= {"unknown": "missing"} | ({"pivot": OLDEST} if "%y" in form else {})
    try:
        return Date.model_validate(given)
    except ValidationError:
        return None


def _written_alike(column: Date, texts: Texts) -> Mask:
    """Return which texts a column reads and writes again as they are, (texts,)."""
    codes = column.read(texts).codes
    there = (codes >= 0) & (codes < column.size)
    again = column.csv_cells(np.where(there, codes, 0).astype(np.int32), {}).to_numpy(object)
    return np.asarray(there & (again == texts), np.bool_)


def _numbers(known: KnownTexts) -> Iterator[Look]:
    """Yield a column of plain numbers, with words among them."""
    plain = np.array([is_number(str(text)) for text in known.texts], np.bool_)
    limits = np.array([_LIMIT.fullmatch(str(text)) is not None for text in known.texts], np.bool_)
    numeric = known.share(plain) >= MOSTLY or (plain.any() and known.share(plain | limits) > NEARLY)
    numbers = [str(text) for text in known.texts[plain]]
    if not numeric or any(is_padded(str(text)) or str(text).startswith("+") for text in known.texts):
        return
    if known.comma and all(map(_THOUSANDS.fullmatch, numbers)) and any("." in text for text in numbers):
        return  # 250.000 is a quarter of a million where 0,5 is a half
    whole = all(whole_text(text) is not None for text in numbers)
    digits = max(len(text.partition(".")[2]) for text in numbers)
    powers = [found for text in numbers if (found := _POWER.fullmatch(text))]
    words = [str(text) for text in known.texts[~plain][:3]] if known.share(~plain) > RARE else []
    limit: Entry = {"limits": "learn"} if known.share(limits) > RARE else {}
    beside = f", next to {', '.join(words)}" if words else ""
    if powers and len(powers) > MOSTLY * len(numbers):
        places = max(len(one["rest"] or "") - int(one["power"]) for one in powers)
        form = f"{{{max((one[0] for one in powers), key=len)}}}"
        form = re.sub("[0-9]", "1", form)
        yield Look(f"numbers written as {known.texts[0]}", {"kind": "continuous", "text": form, "decimals": places})
    elif whole and _all_differ(known):
        yield Look("whole numbers that all differ", {"kind": "identifier"}, "the numbers: keys come back as fresh ones")
    elif whole and known.different <= (FEW_LEVELS if known.rows_of_a_text() >= MANY else FEW_NUMBERS):
        yield _levels(known, "few whole numbers")
    elif whole:
        floats = {"dtype": "float64"} if sum(text.endswith(".0") for text in numbers) > MOSTLY * len(numbers) else {}
        yield Look(f"whole numbers{beside}", {"kind": "count", **floats, **limit}, words=frozenset(words))
    else:
        written = {"decimals": digits, **_zeros(numbers, digits)} if digits <= MOST_PLACES else {}
        entry = {"kind": "continuous", **written, **limit}
        yield Look(f"numbers with {digits} decimals at most{beside}", entry, words=frozenset(words))


def _zeros(numbers: list[str], digits: int) -> Entry:
    """Return the zeros at the end of numbers, as 8.50 has, if they are written: to all digits, or to one."""
    after = [text.partition(".")[2] for text in numbers]
    if not any(rest.endswith("0") for rest in after):
        return {}
    return {"zeros": "all" if all(len(rest) == digits for rest in after) else "one"}


def _lengths(known: KnownTexts) -> Iterator[Look]:
    """Yield lengths of time in hours and minutes."""
    found = [one for one in known.matched(_LENGTH) if one is not None]
    around = {(one[1], one[3]) for one in found}
    if len(around) == 1:
        between, after = around.pop()
        form = f"{{h}}{between}{{{'mm' if all(len(one[2]) == 2 for one in found) else 'm'}}}{after}"
        if known.share(np.array([bool(np.isfinite(number_text(form).read(str(t)))) for t in known.texts])) > NEARLY:
            yield Look(f"hours and minutes such as {known.texts[0]}", {"kind": "count", "text": form, "unit": "min"})


def _numbers_in_text(known: KnownTexts) -> Iterator[Look]:
    """Yield numbers with the same text around them in nearly all cells: a unit, a sign, marks of thousands."""
    around = dict[tuple[str, str], float]()
    inside = list[str]()
    for text, rows in zip(known.texts, known.rows, strict=True):
        if (found := _NUMBER.search(str(text))) is not None:
            key = (str(text)[: found.start()], str(text)[found.end() :])
            around[key] = around.get(key, 0.0) + rows
            inside.append(found[0])
    if not around:
        return
    before, after = max(around, key=lambda key: around[key])
    padded = any(is_padded(text) for text in inside)
    if padded or any(letter.isdigit() or letter in "{}" for letter in before + after):
        return
    grouped = next((found[1] for text in inside if (found := _GROUPED.match(text.lstrip("+-−")))), "")
    commas = [text for text in inside if re.search(r",[0-9]+$", text)]
    comma = any(grouped != "," or not re.search(r",[0-9]{3}$", text) for text in commas)
    point = "," if comma else "."
    digits = max((len(text.rpartition(point)[2]) for text in inside if point in text and grouped != point), default=0)
    if _all_differ(known) and not digits and before.strip() and not after:
        return  # keys such as P-1042
    example = f"1{grouped}234" if grouped else "0" if comma else ""
    example += f"{point}{'5' * digits}" if digits and (grouped or comma) else ""
    sign = next((text[0] for text in inside if text[0] in "+−"), "")
    form = f"{before}{{{sign}{example or ('0' if sign else '')}}}{after}"
    fits = np.array([bool(np.isfinite(number_text(form).read(str(text)))) for text in known.texts], np.bool_)
    if known.share(fits) > NEARLY and known.different <= FEW_NUMBERS:
        yield _levels(known, "few numbers in a text")  # such as doses: others do not exist
    elif known.share(fits) > NEARLY:
        kind: Entry = {"kind": "count", "text": form}
        if digits:
            zeros = _zeros([f"0.{text.rpartition(point)[2]}" if point in text else "0" for text in inside], digits)
            kind = {"kind": "continuous", "text": form, "decimals": digits, **zeros}
        yield Look(f"numbers written as {known.texts[0]}", kind)


def _several_numbers(known: KnownTexts) -> Iterator[Look]:
    """Yield two to four numbers with the same texts between. Their bounds follow from the digits: no part is open."""
    between = np.array([GAP.join(_PART.split(str(text))) for text in known.texts], dtype=object)
    shape = str(pd.Series(known.rows).groupby(between).sum().idxmax())
    texts = shape.split(GAP)
    usual = all(text and text not in ".," and not set(text) & set("{}<>") for text in texts[1:-1])
    usual = usual and sum(map(len, texts)) <= FEW_LETTERS  # more is a sentence
    if not 3 <= len(texts) <= 5 or not usual or known.share(between == shape) < NEARLY:
        return
    numbers = [_PART.findall(str(text)) for text in known.texts[between == shape]]
    if any(is_padded(number) for cell in numbers for number in cell):
        return  # such as telephone numbers
    parts = list[Entry]()
    for some in zip(*numbers, strict=True):
        digits = max(len(number.partition(".")[0]) for number in some)
        places = max(len(number.partition(".")[2]) for number in some)
        kind = {"kind": "continuous", "decimals": places} if places else {"kind": "count"}
        parts.append({**kind, "bounds": [0, 10**digits - 1]})
    odd = {} if (between == shape).all() else {"missing": True, "unknown": "missing"}
    entry = {"kind": "parts", "text": "{}".join(texts), "parts": parts, **odd}
    yield Look(f"{len(parts)} numbers, such as {known.texts[0]}", entry)


def _flagged(known: KnownTexts) -> Iterator[Look]:
    """Yield numbers with one of few texts around them, such as flags: `4.2 H`, `3.1 L` and `4.0`."""
    if known.different <= FEW_NUMBERS:
        return  # such as doses and stages: others do not exist
    found = [_PART.search(str(text)) for text in known.texts]
    both = zip(known.texts, found, strict=True)
    around = [f"{text[: one.start()]}{GAP}{text[one.end() :]}" if one else "" for text, one in both]
    rows = pd.Series(known.rows).groupby(around).sum().sort_values(ascending=False, kind="stable")
    usual = [one for one in rows.index if one and not re.search(f"[0-9{{}}<>≤≥,]|[+−-]{GAP}", one)]
    some = [one for one in usual if rows[one] > RARE * rows.sum()]
    inside = [f[0] for f, one in zip(found, around, strict=True) if f and one in some]
    if not 2 <= len(some) <= FEW_FLAGS or rows[some].sum() < NEARLY * rows.sum() or any(map(is_padded, inside)):
        return
    digits = max(len(text.partition(".")[2]) for text in inside)
    kind: Entry = {"kind": "continuous", "decimals": digits, **_zeros(inside, digits)} if digits else {"kind": "count"}
    forms = ["{}".join(one.split(GAP)) for one in some]
    yield Look(f"numbers with {len(some)} texts around them, such as {known.texts[0]}", {**kind, "text": forms})


def _codes(known: KnownTexts) -> Iterator[Look]:
    """Yield codes of a public hierarchy, if nearly all texts are some."""
    if known.different <= FEW_NUMBERS:
        return
    for name, system in SYSTEMS.items():
        chains = [system.chain(str(text)) for text in known.texts]
        fits = np.array(
            [len(c) > 1 and _is_code(c[-1].label, str(t)) for c, t in zip(chains, known.texts, strict=True)]
        )
        if known.share(fits) > NEARLY:
            entry = {"kind": "categorical", "hierarchy": name, "unknown": "other"}
            yield Look(f"codes of {name}, such as {known.texts[0]}", entry, "rare codes: they join their group")
            return


def _is_code(group: str, text: str) -> bool:
    """Return whether a text is a code of a group and not one that only begins like it, as A10BA02 of ATC does."""
    plain = text.replace(".", "")
    return text[3:4] == "." or len(group.replace(".", "")) >= SAME * len(plain)


def _few_words(known: KnownTexts) -> Iterator[Look]:
    """Yield words of which each is in many rows, also if they are numbers with signs between."""
    if known.different <= FEW_WORDS / 2 and known.rows_of_a_text() >= MANY:
        yield _levels(known, "words")


def _words(known: KnownTexts) -> Iterator[Look]:
    """Yield few words that rows share."""
    if known.different <= FEW_WORDS and known.rows_of_a_text() >= SHARED:
        yield _levels(known, "words")


def _levels(known: KnownTexts, what: str) -> Look:
    shown = ", ".join(map(str, known.texts[:4])) + (", ..." if known.different > 4 else "")
    rare = int((known.rows < RARE * known.rows.sum()).sum())
    kind = "binary" if known.different == 2 else "categorical"
    loss = f"probably {rare} rare ones" if rare else ""
    return Look(f"{known.different} {what}: {shown}", {"kind": kind}, loss, frozenset(map(str, known.texts)))


def _rest(known: KnownTexts) -> Iterator[Look]:
    """Yield keys or free text: what no model can learn."""
    long = [len(str(t)) > FREE_TEXT_CHARACTERS or len(str(t).split()) >= FREE_TEXT_WORDS for t in known.texts]
    blanks = known.share(np.array([" " in str(text) for text in known.texts], np.bool_))
    if _all_differ(known) and not any(long) and blanks < 0.5:
        yield Look("texts that all differ", {"kind": "identifier"}, "the texts: keys come back as fresh ones")
    dropped = {"kind": "identifier", "drop": True}
    yield Look(f"{known.different} texts, most of them rare", dropped, "all of it: a sentence can name a patient")


def _all_differ(known: KnownTexts) -> bool:
    return bool(known.rows.max() <= 2) and known.different >= max(KEY_ROWS, KEY_SHARE * known.rows.sum())


READINGS = (_dates, _codes, _flagged, _numbers, _lengths, _numbers_in_text, _few_words, _several_numbers, _words, _rest)
