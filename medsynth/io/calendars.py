"""Dates and times of SPSS, Stata and SAS: a column's format decides what its numbers count, and how they are shown."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .cell_text import SECOND, clock_text, moment_texts, value_text

DAY = 86_400_000  # in milliseconds, the unit in which dates and times are rounded
DAYS_AT_MOST = 10_000_000  # from 1970: a number beyond stays a number
BEFORE_1970 = {"sav": 141_428, "dta": 3653, "sas7bdat": 3653, "xpt": 3653}  # days from the program's day 0


class Calendar(NamedTuple):
    """What a column's format makes of its numbers: each counts a number of milliseconds, which `shown` writes."""

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


SECONDS_OF = {shown: Calendar(1000, shown) for shown in (day, moment, clock)}
SPSS = (
    ("(DATE|[AEJS]DATE|MOYR|QYR|WKYR)", SECONDS_OF[day]), ("(DATETIME|YMDHMS)", SECONDS_OF[moment]),
    ("([DM]?TIME)", SECONDS_OF[clock]),
)  # fmt: skip
STATA = (
    ("%-?t?d.*", Calendar(DAY, day)), (r"%-?t[cC]hh:?mm(:?ss(\.s+)?)?(_?[ap]\.?m\.?)?", Calendar(1, clock)),
    ("%-?t[cC].*", Calendar(1, moment)),
)  # fmt: skip
SAS = (
    ("(DATE|WEEKDAT[EX]|WORDDAT[EX]|NLDATE|JULIAN|MONYY|YYMON|YYMM|MMYY|(DDMMYY|MMDDYY|YYMMDD)[BCDNPS]?)",
     Calendar(DAY, day)),
    ("((IS|E|B)8601DA)", Calendar(DAY, day)), ("(DTDATE|B8601DN|E8601DN)", SECONDS_OF[day]),
    ("(DATETIME|NLDATM|DATEAMPM|MDYAMPM|(IS|E|B)8601DT)", SECONDS_OF[moment]),
    ("(TIME|HHMM|MMSS|TOD|TIMEAMPM|(IS|E|B)8601TM)", SECONDS_OF[clock]),
)  # fmt: skip
FORMATS = {"sav": SPSS, "dta": STATA, "sas7bdat": SAS, "xpt": SAS}


def calendar_of(kind: str, form: str) -> Calendar | None:
    """Return what a format of a kind of file makes of a number; None for a plain number.

    >>> calendar_of("sav", "DATE11") == Calendar(1000, day), calendar_of("dta", "%9.0g")
    (True, None)
    """
    ending = "" if kind == "dta" else r"\d*(\.\d*)?"
    return next(
        (calendar for pattern, calendar in FORMATS[kind] if re.fullmatch(pattern + ending, form, re.IGNORECASE)), None
    )


def text_of(value: float, calendar: Calendar, kind: str) -> str:
    """Return the text of a date or a time, rounded to milliseconds; of a number beyond all calendars, the number.

    >>> text_of(21_919, Calendar(DAY, day), "dta"), text_of(1e300, Calendar(DAY, day), "dta")
    ('2020-01-05', '1e+300')
    """
    if not abs(value) * calendar.milliseconds < DAYS_AT_MOST * DAY:
        return value_text(value)
    count = round(value * calendar.milliseconds)
    return calendar.shown(count if calendar.shown is clock else count - BEFORE_1970[kind] * DAY)
