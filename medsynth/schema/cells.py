"""The kind of a cell by its text alone: a usual code of a missing value, a number, a boolean, a date, a word or a text.

The lists are public knowledge; docs/reference documents them. Other cells and rows do not change a cell's kind.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

import numpy as np

from ..arrays import Whole
from ..io.table import is_number, is_padded, whole_text

MISSING_WORDS = (
    "", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NaT", "null", "NULL", "None", "<NA>", "?", "-", "--", ".", "*",
    "unknown", "Unknown", "UNKNOWN", "missing", "Missing", "not available", "Not available", "not known", "not done",
    "not recorded", "n.a.", "k.A.",
)  # fmt: skip
MISSING_NUMBERS = ("-1", "-7", "-8", "-9", "-77", "-88", "-99", "-777", "-888", "-999", "-9999", "-99999",
                   "77", "88", "99", "777", "888", "999", "9999", "99999")  # fmt: skip
USUAL_NUMBERS = tuple("0123456789")  # each with the number below and the number above
USUAL_WORDS = (
    ("no", "yes"), ("n", "y"), ("f", "t"), ("f", "m"), ("female", "male"), ("negative", "positive"), ("neg", "pos"),
    ("normal", "abnormal"), ("absent", "present"), ("alive", "dead"), ("alive", "deceased"), ("survived", "died"),
    ("benign", "malignant"), ("healthy", "sick"), ("control", "case"), ("left", "right"), ("low", "normal", "high"),
    ("low", "medium", "high"), ("mild", "moderate", "severe"), ("never", "former", "current"),
    ("single", "married", "divorced", "widowed"),
)  # fmt: skip
WARDS = (  # names of wards and departments, by language
    ("Allgemeinchirurgie", "Chirurgie", "Dermatologie", "Gastroenterologie", "Geburtshilfe", "Geriatrie", "Gynäkologie",
     "HNO", "IMC", "ITS", "Innere", "Innere Medizin", "Intensiv", "Intensivstation", "Kardiologie", "Nephrologie",
     "Neurologie", "Notaufnahme", "Onkologie", "Orthopädie", "Pneumologie", "Psychiatrie", "Pädiatrie",
     "Unfallchirurgie", "Urologie"),
    ("CCU", "Cardiology", "ED", "Emergency", "General Medicine", "General Surgery", "Geriatrics", "Gynaecology",
     "Gynecology", "ICU", "Intensive Care", "Internal Medicine", "Medicine", "Neurology", "Obstetrics", "Oncology",
     "Orthopaedics", "Orthopedics", "Paediatrics", "Pediatrics", "Psychiatry", "Surgery", "Urology"),
    ("Cardiologie", "Chirurgie", "Gynécologie", "Gériatrie", "Maternité", "Médecine", "Médecine interne", "Neurologie",
     "Oncologie", "Orthopédie", "Psychiatrie", "Pédiatrie", "Pneumologie", "Réanimation", "Soins intensifs", "Urgences",
     "Urologie"),
    ("Cardiología", "Cirugía", "Ginecología", "Medicina Interna", "Neurología", "Obstetricia", "Oncología", "Pediatría",
     "Psiquiatría", "Traumatología", "UCI", "Urgencias", "Urología"),
)  # fmt: skip
USUAL_SETS = (
    *(tuple(map(spelled, words)) for words in USUAL_WORDS for spelled in (str, str.capitalize, str.upper)), *WARDS,
)  # fmt: skip
ODD = "odd"  # a number in another form than a learned column writes: +8, 8E3, 8. or .5
NUMBERS = ("whole", "pointed", "decimal", "fine", ODD)  # 8, 8.0, 8.5 or 8.25, 8.125
ZEROS = ("pointed zeros", "decimal zeros", "fine zeros")  # with a zero at the end that could be left out: 8.00, 8.50
WHOLES, FINES = ("whole", "pointed"), ("fine", "fine zeros")
DECIMALS = ("pointed zeros", "decimal", "decimal zeros", *FINES, ODD)  # 8.00 has the decimals of 8.50
_PLAIN = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
PADDED = "padded"  # 007: a number whose zeros would be lost, and so a code; or one of more digits than numbers keep
LONG_NUMBER = re.compile(r"[1-9][0-9]{15,}")
SHORT_DIGITS = 2  # after the point; a number with more digits is fine
BOOLEANS, FALSE = ("true", "True", "TRUE"), ("false", "False", "FALSE")  # spellings, in the same order
FAR = "far day"  # a date that is usually written for an unknown one, or for one that has not come
FAR_DAYS = ("0001-01-01", "1753-01-01", "1799-12-31", "1800-01-01", "1899-12-30", "1899-12-31", "1900-01-01",
            "1900-12-31", "1901-01-01", "1904-01-01", "1960-01-01", "1970-01-01", "2099-01-01", "2099-12-31",
            "2100-01-01", "2100-12-31", "2199-12-31", "2200-01-01", "2299-12-31", "2999-12-31", "3000-01-01",
            "9999-01-01", "9999-12-30", "9999-12-31")  # fmt: skip
WORDS = ("text", PADDED, "word", FAR)
# Other forms are words, which a schema declares. As a number, 20200229 would come back as days that do not exist.
DAYS = ("%Y-%m-%d", "%Y%m%d", "%d.%m.%Y", "%-d.%-m.%Y", "%-d/%-m/%Y", "%-m/%-d/%Y", "%d/%m/%Y", "%m/%d/%Y")
UNTIMED = ("%Y%m%d", "%-d.%-m.%Y")  # read without a time: each kind of cell costs noise
EITHER = "day and month in either order"  # 03/04/2020 does not show the order
SHORT_EITHER = "short day and month in either order"  # 3/4/2020
SHORT = (SHORT_EITHER, "%-d/%-m/%Y", "%-m/%-d/%Y")  # with hours and minutes at most
SHORT_CLOCK = "%-H:%M"
CLOCKS = ("%H:%M", "%H:%M:%S", SHORT_CLOCK)  # times without a day
TIMES = ("", " %H:%M", " %H:%M:%S", "T%H:%M", "T%H:%M:%S", "T%H:%M:%SZ", " %H:%M:%S.000", "T%H:%M:%S.000",
         "T%H:%M:%S.000Z")  # fmt: skip
MIDNIGHTS = tuple(DAYS[0] + re.sub("%.", "00", time) for time in TIMES[1:] if "Z" not in time)  # days with a time
WITH_SECONDS = " and seconds"  # marks timestamps whose seconds are not zero
MOMENTS = tuple(
    day + time + more
    for day in (*DAYS, EITHER, SHORT_EITHER)
    for time in (TIMES if day == DAYS[0] else TIMES[:1] if day in UNTIMED else TIMES[:2] if day in SHORT else TIMES[:3])
    for more in (("", WITH_SECONDS) if "%S" in time else ("",))
) + (*MIDNIGHTS, *CLOCKS)
FREE_TEXT_CHARACTERS, FREE_TEXT_WORDS = 60, 8  # a text with more of either is free text, not a level
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}|(?:19|20)[0-9]{6}(?![0-9])|[0-9]{1,2}([./])[0-9]{1,2}\1[0-9]{4}")
_ONE_DIGIT = re.compile(r"(?<![0-9])[1-9](?![0-9])")
_CLOCK = re.compile(r"(?:([0-9])|[01][0-9]|2[0-3]):[0-5][0-9](?(1)|(:[0-5][0-9])?)$")
_TIME = re.compile(
    r"([ T])(?:[01][0-9]|2[0-3]):[0-5][0-9](?::([0-5][0-9])(?:\.([0-9]{1,9}))?(Z|[+-][0-9]{2}:[0-9]{2})?)?$"
)


@dataclass(frozen=True)
class CellKinds:
    """The kinds of cells that are counted in each column, codes of missing values first. `more`: codes to add."""

    more: tuple[str, ...] = ()

    @cached_property
    def codes(self) -> tuple[str, ...]:
        """The codes of missing values, whole numbers without a point."""
        added = tuple(whole_text(code) or code for code in self.more)
        return tuple(dict.fromkeys((*MISSING_WORDS, *MISSING_NUMBERS, *added)))

    @cached_property
    def usual(self) -> tuple[str, ...]:
        """Levels that are public before a table is seen, in counting order."""
        found = dict.fromkeys([*USUAL_NUMBERS, *(word for words in USUAL_SETS for word in words)])
        return tuple(level for level in found if level not in self.codes)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """All kinds, in counting order."""
        return (*self.codes, *NUMBERS, *ZEROS, *BOOLEANS, *MOMENTS, *WORDS)

    def places(self, texts: Iterable[object]) -> Whole:
        """Return the index of each text's kind in `names`, from that text alone.

        >>> kinds = CellKinds()
        >>> [kinds.names[k] for k in kinds.places(["?", "-9.0", "8", "8.0", "8.5", "True", "29.02.2020", "007", "x"])]
        ['?', '-9', 'whole', 'pointed', 'decimal', 'True', '%d.%m.%Y', 'padded', 'word']
        """
        place = {name: k for k, name in enumerate(self.names)}
        codes = set(self.codes)
        return np.array([place[_kind(str(text), codes)] for text in texts], np.int64)


def partners(level: str, cells: str) -> set[str]:
    """Return the usual partners of a level in a column of such cells: words of its sets, or neighbouring numbers.

    >>> sorted(partners("F", "word")), sorted(partners("1", "whole")), partners("1", "decimal")
    (['M', 'T'], ['0', '2'], set())
    """
    if level in USUAL_NUMBERS:
        beside = {str(int(level) - 1), str(int(level) + 1)} if cells in ("whole", "word") else set()
        return beside.intersection(USUAL_NUMBERS)
    return {word for words in USUAL_SETS if level in words for word in words} - {level}


def is_code_of_a_number(code: str) -> bool:
    """Return whether a code of missing values is a number, which may be a value elsewhere."""
    return whole_text(code) is not None


def level_of(text: str, cells: str) -> str:
    """Return a text's level in a column of such cells: 8.0 is 8 among whole numbers, True is true among booleans."""
    if cells == "whole":
        return whole_text(text) or text
    return text.lower() if cells == "boolean" and text.lower() in ("true", "false") else text


def _kind(text: str, codes: set[str]) -> str:
    whole = whole_text(text)
    if (whole if whole is not None else text) in codes:
        return whole if whole is not None else text
    if text.isdecimal() and (form := moment(text)):
        return form
    if whole is None and LONG_NUMBER.fullmatch(text):
        return PADDED  # a code of as many digits as those of SNOMED CT, which no number keeps
    if whole is not None or is_number(text):
        return _number_kind(text, whole=whole is not None)
    if text in BOOLEANS or text in FALSE:
        return text if text in BOOLEANS else BOOLEANS[FALSE.index(text)]
    if is_padded(text) and _PLAIN.fullmatch(text):
        return PADDED
    free = len(text) > FREE_TEXT_CHARACTERS or len(text.split()) > FREE_TEXT_WORDS
    return moment(text) or ("text" if free else "word")


def _number_kind(text: str, *, whole: bool) -> str:
    if not _PLAIN.fullmatch(text):
        return ODD
    digits = text.partition(".")[2]
    if whole:
        return "pointed zeros" if len(digits) > 1 else "pointed" if "." in text else "whole"
    kind = "decimal" if 0 < len(digits.rstrip("0")) <= SHORT_DIGITS else "fine"
    return f"{kind} zeros" if digits.endswith("0") else kind


def moment(text: str) -> str | None:
    """Return the form of a date, a timestamp or a time of day, one of MOMENTS; None for another text.

    An offset such as +01:00, as tz-aware columns have it, is left out: the time is read as its clock shows it.

    >>> moment("2020-02-29"), moment("2020-02-30"), moment("2020-02-29 00:00:00"), moment("13/4/2020 13:45")
    ('%Y-%m-%d', None, '%Y-%m-%d 00:00:00', '%-d/%-m/%Y %H:%M')
    """
    if clock := _CLOCK.match(text):
        return SHORT_CLOCK if clock[1] else CLOCKS[clock[2] is not None]
    if (found := _DAY.match(text)) is None:
        return None
    iso = {day: own for day in DAYS if "-" not in day[:2] and (own := _iso(found.group(), day))}
    if not iso or set(FAR_DAYS).intersection(iso.values()):
        return FAR if iso else None
    day = EITHER if len(iso) > 1 else next(iter(iso))
    if _ONE_DIGIT.search(found.group()):
        day = SHORT_EITHER if day == EITHER else day.replace("%d", "%-d").replace("%m", "%-m")
    return _with_time(day, text[found.end() :])


def _with_time(day: str, rest: str) -> str | None:
    """Return the form of a day and the rest of its text: nothing, or a time of day."""
    if not rest:
        return day
    time = _TIME.match(rest)
    if time is None or (time[4] not in (None, "Z") and day != DAYS[0]):
        return None
    seconds = int(time[2] or 0) or int(time[3] or 0)
    zone = "Z" if time[4] == "Z" else ""
    form = f"{day}{time[1]}%H:%M{':%S' if time[2] else ''}{'.000' if time[3] == '000' else ''}{zone}"
    form = form if form in MOMENTS else form.replace(".000", "")
    if day == DAYS[0] and rest[1:6] == "00:00" and not (seconds or zone):
        return midnight(form)
    form += WITH_SECONDS if seconds else ""
    return form if form in MOMENTS else None


def is_timed(form: str) -> bool:
    """Return whether a format has a time of day."""
    return "%H" in form.replace("%-", "%")


def midnight(form: str) -> str:
    """Return the form of a day that is written with the time of midnight, in a form with times.

    >>> midnight("%Y-%m-%dT%H:%M")
    '%Y-%m-%dT00:00'
    """
    return re.sub("%[HMS]", "00", form)


def _iso(text: str, order: str) -> str | None:
    try:
        return datetime.strptime(text, order).date().isoformat()
    except ValueError:
        return None
