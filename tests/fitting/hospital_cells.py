"""Columns as hospitals write them, kind by kind: what a bare fit reads is right, or the fit names the column."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

N = 600
Draw = np.random.Generator
Cells = Callable[[Draw], Any]


def moments(draw: Draw, form: str, first: str = "2019-03-01", days: int = 900) -> list[str]:
    """Moments in an office's hours, in a format, in capitals after `^`."""
    day = draw.integers(0, days, N) * 1440
    minutes = pd.to_timedelta(day + draw.integers(8 * 60, 16 * 60, N), unit="min")
    found = [moment.strftime(form.replace("%^b", "%b")) for moment in pd.Timestamp(first) + minutes]
    return [text.upper() for text in found] if "%^b" in form else found


def numbers(draw: Draw, form: str = "{}", low: float = 20, high: float = 90, whole: bool = False) -> list[str]:
    """Numbers around the middle of a range, in a form."""
    found = np.clip(draw.normal((low + high) / 2, (high - low) / 6, N), low, high)
    return [form.format(round(one) if whole else one) for one in found]


def several(draw: Draw, form: str, *ends: tuple[int, int]) -> list[str]:
    """Several whole numbers within these ends, in a form."""
    return [form.format(*row) for row in np.column_stack([draw.integers(low, high, N) for low, high in ends])]


def one_of(draw: Draw, *words: str, tail: float = 0.7) -> Any:
    """Words, each `tail` times as frequent as the one before."""
    weight = tail ** np.arange(len(words))
    return draw.choice(np.array(words, dtype=object), N, p=weight / weight.sum())


def with_some(draw: Draw, cells: Cells, **shares: float) -> Any:
    """Cells of which shares are replaced by words."""
    found = np.array(cells(draw), dtype=object)
    for word, share in shares.items():
        found = np.where(draw.random(N) < share, word, found)
    return found


def each(make: Callable[..., Any], *arguments: Any, **more: Any) -> Cells:
    return partial(make, **more) if not arguments else lambda draw: make(draw, *arguments, **more)


def mixed(*parts: Cells) -> Cells:
    """Cells of several columns, in equal parts."""
    return lambda draw: np.array([part(draw) for part in parts], dtype=object)[
        draw.integers(0, len(parts), N), np.arange(N)
    ]


def swapped(cells: Cells, **marks: str) -> Cells:
    """Cells with other marks: `point` in place of the point, `comma` in place of the comma."""
    table = str.maketrans({{"point": ".", "comma": ",", "minus": "-"}[name]: mark for name, mark in marks.items()})
    return lambda draw: [text.translate(table) for text in cells(draw)]


WHOLE = each(numbers, "{:.0f}")
ONE = each(numbers, "{:.1f}")
DAY = each(moments, "%Y-%m-%d")
DAYS = (
    "%Y-%m-%d",
    "%d.%m.%Y",
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%-d.%-m.%Y",
    "%-d/%-m/%Y",
    "%-m/%-d/%Y",
    "%Y%m%d",
    "%Y/%m/%d",
    "%d-%m-%Y",
    "%m-%d-%Y",
    "%d.%m.%y",
    "%m/%d/%y",
    "%d-%b-%Y",
    "%d%^b%Y",
    "%d-%b-%y",
    "%d %B %Y",
    "%B %d, %Y",
    "%a %d %b %Y",
    "%d. %B %Y",
    "%Y.%m.%d",
    "%y%m%d",
    "%d.%m.",
    "%Y-%m",
    "%m/%Y",
    "%Y",
    "%G-W%V",
    "%b %Y",
)
TIMES = (
    "%Y-%m-%d %H:%M",
    "%Y-%m-%d %H:%M:%S",
    "%Y-%m-%dT%H:%M",
    "%Y-%m-%dT%H:%M:%S",
    "%Y-%m-%dT%H:%M:%SZ",
    "%Y-%m-%dT%H:%M:%S+01:00",
    "%Y-%m-%d %H:%M:%S.000",
    "%Y-%m-%d %H:%M:%S.%f",
    "%d.%m.%Y %H:%M",
    "%d.%m.%Y %H:%M:%S",
    "%d/%m/%Y %H:%M",
    "%m/%d/%Y %H:%M:%S",
    "%-m/%-d/%Y %H:%M",
    "%m/%d/%Y %I:%M %p",
    "%d.%m.%Y, %H:%M Uhr",
    "%Y%m%d%H%M",
    "%Y%m%d %H:%M",
    "%d-%b-%Y %H:%M",
    "%H:%M",
    "%H:%M:%S",
    "%-H:%M",
    "%H.%M",
    "%H%M",
    "%I:%M %p",
    "%H:%M Uhr",
)
PLAIN = ("{:.0f}", "{:.1f}", "{:.2f}", "{:.3f}", "{:.0f}.0", "{:.0f}.00", "{:g}", "{:.6f}")
MARKED = (
    "{:+.0f}",
    "{:+.1f}",
    "{:+.2f}",
    "{:+.0f}.0",
    "{:.2E}",
    "{:.1e}",
    "{:.3g}e-3",
    "{:.1f} mg",
    "{:.0f}mg",
    "{:.0f} %",
    "{:.1f}%",
    "{:.1f}°C",
    "${:.2f}",
    "€ {:.2f}",
    "{:.2f} €",
    "~{:.0f}",
    "ca. {:.0f}",
    "({:.1f})",
    "{:.1f}*",
    "{:.1f} H",
    "[{:.0f}]",
    "{:.0f} ans",
    "{:.0f} J.",
    "{:.0f} y",
    "> {:.0f}",
    "{:.0f}.",
    "{:07.2f}",
    "{:03.0f}",
    "'{:.0f}",
)
CASES: dict[str, Cells] = {
    **{f"days {form}": each(moments, form) for form in DAYS},
    **{f"times {form}": each(moments, form) for form in TIMES},
    "births": each(moments, "%Y-%m-%d", "1930-01-01", 29_000),
    "births of few years %d.%m.%Y": each(moments, "%d.%m.%Y", "1999-01-01", 700),
    "days and years": mixed(DAY, each(moments, "%Y")),
    "days in two forms": mixed(DAY, each(moments, "%d.%m.%Y")),
    "days and moments": mixed(DAY, each(moments, "%Y-%m-%d %H:%M")),
    "days of a spreadsheet": each(numbers, "{:.0f}", 43_000, 44_000),
    "seconds since 1970": each(numbers, "{:.0f}", 1.55e9, 1.6e9),
    "German months": each(several, "{}. Oktober {}", (1, 32), (2010, 2020)),
    "quarters": each(one_of, "Q1 2020", "Q2 2020", "Q3 2020", "Q4 2020"),
    "days with ongoing": each(with_some, DAY, ongoing=0.15),
    "days with a far one": lambda draw: with_some(draw, DAY, **{"9999-12-31": 0.1}),
    "days with dots": lambda draw: with_some(draw, DAY, **{"..": 0.1, "": 0.2}),
    **{f"numbers {form}": each(numbers, form) for form in (*PLAIN, *MARKED)},
    "changes with signs": each(numbers, "{:+.1f}", -9, 9),
    "whole changes with signs": each(numbers, "{:+.0f}", -30, 30),
    "signs in part": mixed(each(numbers, "{:+.1f}"), ONE),
    "grades with signs": each(one_of, "0", "+1", "+2", "+3"),
    "steps with signs": each(one_of, "+0.25", "+0.50", "-0.25", "0.00", "-1.00"),
    "minus as a dash": swapped(each(numbers, "{:.1f}", -9, 9), minus="−"),
    "large powers": each(numbers, "{:.2E}", 2e7, 9e7),
    "powers of viruses": each(numbers, "{:.1E}", 2e3, 9e5),
    "huge powers": each(numbers, "{:.2E}", 2e10, 9e11),
    "small powers": each(numbers, "{:.2e}", 2e-8, 9e-8),
    "powers in part": mixed(each(numbers, "{:.2E}", 2e5, 9e5), each(numbers, "{:.0f}", 2e5, 9e5)),
    "thousands": each(numbers, "{:,.0f}", 2000, 90_000),
    "Swiss thousands": swapped(each(numbers, "{:,.0f}", 2000, 90_000), comma="'"),
    "thousands with blanks": swapped(each(numbers, "{:,.0f}", 2000, 90_000), comma=" "),
    "thousands with points": swapped(each(numbers, "{:,.0f}", 2000, 90_000), comma="."),
    "decimal commas": swapped(ONE, point=","),
    "decimal commas and units": swapped(each(numbers, "{:.1f} mg"), point=","),
    "no zero in front": lambda draw: [text.removeprefix("0") for text in numbers(draw, "{:.2f}", 0.1, 0.9)],
    "two kinds of decimals": mixed(ONE, each(numbers, "{:.2f}")),
    "decimal commas in part": mixed(ONE, swapped(ONE, point=",")),
    "units in part": mixed(ONE, each(numbers, "{:.1f} mg")),
    "flags in part": lambda draw: [f"{text} H" if text > "60" else text for text in numbers(draw, "{:.1f}")],
    "ranges": lambda draw: [f"{a}-{a + b}" for a, b in draw.integers(1, 40, (N, 2))],
    "fractions": lambda draw: [f"{a}/{b}" for a, b in draw.integers(1, 40, (N, 2))],
    "pressures": each(several, "{}/{}", (90, 180), (50, 99)),
    "scores of coma": lambda draw: [f"E{a}V{b}M{c}" for a, b, c in draw.integers(1, 5, (N, 3))],
    "weeks and days": each(several, "{}+{}", (24, 42), (0, 7)),
    "hours and minutes": each(several, "{}h{:02}", (0, 9), (0, 60)),
    "lengths of time": each(several, "{}:{:02}:00", (20, 90), (0, 60)),
    "years and months": each(several, "{} y {} mo", (1, 17), (0, 12)),
    "acuity": each(one_of, "20/20", "20/25", "20/40", "20/200"),
    "titres": each(one_of, "<1:40", "1:40", "1:80", "1:160", "1:320", "1:640"),
    "many titres": lambda draw: [f"1:{2**k}" for k in draw.integers(1, 12, N)],
    "doses a day": each(one_of, "1-0-1", "1-0-0", "1-1-1", "0-0-1"),
    "doses": each(one_of, "5 mg", "10 mg", "2,5 mg", "20 mg"),
    "limits": lambda draw: with_some(draw, ONE, **{"<22.0": 0.15}),
    "limits with blanks": lambda draw: with_some(draw, ONE, **{"< 22.0": 0.15, "> 80.0": 0.1}),
    "mostly limits": lambda draw: with_some(draw, WHOLE, **{">60": 0.83}),
    "many limits": lambda draw: [f"<{x}" if x < 40 else str(x) for x in draw.integers(20, 90, N)],
    "limits with signs": lambda draw: with_some(draw, ONE, **{"≤22": 0.2}),
    **{
        f"numbers and {code!r}": lambda draw, code=code: with_some(draw, WHOLE, **{code: 0.15})
        for code in (
            "-9",
            "999",
            "9999",
            "-1",
            "n.a.",
            "k.A.",
            ".",
            "NULL",
            "nan",
            "hemolysed",
            "see note",
            "#DIV/0!",
            "TNTC",
            "99",
            "5-10",
        )
    },
    "decimals and -9": lambda draw: with_some(draw, ONE, **{"-9": 0.15}),
    "several codes": lambda draw: with_some(draw, WHOLE, **{"-7": 0.05, "-8": 0.1, "-9": 0.15}),
    "first code takes all": lambda draw: with_some(draw, WHOLE, **{"n.a.": 0.2, "refused": 0.01, "lost": 0.01}),
    "codes alone": each(one_of, "", "-7", tail=0.05),
    "mostly empty numbers": each(with_some, ONE, **{"": 0.97}),
    "half empty words": lambda draw: with_some(draw, each(one_of, "a", "b"), **{"": 0.5}),
    "answers with codes": each(one_of, "1", "2", "3", "4", "5", "97", "98", "99"),
    "zero and one with codes": each(one_of, "0", "1", "9", tail=0.3),
    "zero and one, rare codes": lambda draw: with_some(draw, each(one_of, "0", "1"), **{"8": 0.004, "9": 0.004}),
    "rare level": lambda draw: with_some(draw, each(one_of, "a", "b", "c"), rare=0.02),
    "many levels": lambda draw: [f"ward {k}" for k in draw.zipf(1.3, N) % 60],
    "plus signs": each(one_of, "neg", "(+)", "+", "++", "+++"),
    "grades": each(one_of, "1", "2", "3a", "3b", "4"),
    "Roman": each(one_of, "I", "II", "III", "IV"),
    **{
        f"answers {words}": each(one_of, *words.split())
        for words in (
            "ja nein",
            "Y N",
            "TRUE FALSE",
            "True False",
            "yes no Yes",
            "oui non",
            "0 1",
            "1 2",
            "m w d",
            "Male male M Female",
            "0.0 1.0",
            "x",
            "+ -",
            "A+ 0+ B+ AB-",
            "T t",
            "1 0 unknown",
            "01 02 03 10",
            "0 1 2 3 4 5 6",
            "0.5 1 1.5 2",
            "mild/moderate severe",
            "A/A A/G G/G",
            "-1 0 1",
        )
    },
    "quotes": each(one_of, 'a "b"', "c, d", "e;f"),
    "line ends": each(one_of, "a\nb", "c"),
    "other alphabets": each(one_of, "жен", "муж", "näk", "女"),
    "several answers": each(one_of, "A", "A;B", "B;C", "A;B;C"),
    "answers with commas": each(one_of, "1", "1,2", "2,3"),
    "diagnoses": each(one_of, *(f"I{k}.{j}" for k in range(10, 30) for j in range(3)), tail=0.98),
    "drugs": each(one_of, "C09AA05", "B01AC06", "A10BA02"),
    "SNOMED": each(one_of, "362969004123456789", "38341003123456781", "22298006123456782"),
    "SNOMED short": each(one_of, "38341003", "22298006", "73211009"),
    "LOINC": each(one_of, "718-7", "2160-0", "4548-4"),
    "postcodes": each(one_of, "01067", "10115", "80331"),
    "many postcodes": lambda draw: [f"{k:05}" for k in draw.integers(1000, 99_999, N)],
    "keys": lambda draw: [f"P-{k}" for k in draw.permutation(N) + 1000],
    "numbers that differ": lambda draw: (draw.permutation(N) + 70_001).astype(str),
    "long numbers that differ": lambda draw: [f"{k}" for k in draw.integers(10**11, 10**12, N)],
    "row numbers": lambda draw: np.arange(1, N + 1).astype(str),
    "hashes": lambda draw: [f"{k:016x}" for k in draw.integers(10**17, 10**18, N)],
    "mails": lambda draw: [f"p{k}@clinic.org" for k in range(N)],
    "phones": lambda draw: [f"+49 351 {k}" for k in draw.integers(10**5, 10**6, N)],
    "free text": lambda draw: [f"complains of pain since day {k}, call {k * 97}" for k in range(N)],
    "stages": each(one_of, "pT1N0M0", "pT2N0M0", "pT2N1M0", "pT3N1M1"),
    "variants": lambda draw: [f"c.{k}G>A" for k in draw.integers(1, 2000, N)],
    "large counts": each(numbers, "{:.0f}", 2e8, 9e9),
    "costs": lambda draw: [f"{x:.2f}" for x in draw.lognormal(7, 1.5, N)],
    "many zeros": lambda draw: with_some(draw, each(numbers, "{:.0f}", 100, 900), **{"0": 0.6}),
    "tails": lambda draw: [f"{x:.1f}" for x in draw.lognormal(1.5, 1.4, N)],
    "rounded to fives": lambda draw: (draw.integers(8, 30, N) * 5).astype(str),
    "rounded to hundreds": lambda draw: (draw.integers(8, 30, N) * 100).astype(str),
    "ages of children": lambda draw: [f"{x:.2f}" if x < 2 else f"{x:.0f}" for x in draw.gamma(2, 4, N)],
    "constant": each(one_of, "Dresden"),
    "constant number": each(one_of, "3"),
    "nothing": each(one_of, ""),
    "few cells": lambda draw: with_some(draw, each(one_of, "a"), **{"": 0.99}),
    "infinite": lambda draw: with_some(draw, ONE, inf=0.1),
    "years": lambda draw: draw.integers(1990, 2021, N).astype(str),
    "a point in part": mixed(WHOLE, each(numbers, "{:.0f}.0")),
    "shares and percent": mixed(each(numbers, "{:.2f}", 0, 1), WHOLE),
    "kilograms and grams": mixed(each(numbers, "{:.1f}", 2, 5), each(numbers, "{:.0f}", 2000, 5000)),
    "half years": lambda draw: [f"{k / 2:g}" for k in draw.integers(2, 60, N)],
    "signed grades": each(one_of, *["-5", "-4", "-3", "-2", "-1", "0", "+1", "+2", "+3", "+4"], tail=0.85),
    "case numbers and blanks": lambda draw: np.where(
        draw.random(N) < 0.2, "", draw.integers(2_000_000, 2_990_000, N).astype(str)
    ),
    "case numbers with zeros in front": lambda draw: [f"{k:010}" for k in draw.integers(10**6, 10**7, N)],
    "hours up to 24": each(several, "{:02}:{:02}", (0, 25), (0, 60)),
    "moments of SAS": lambda draw: [text.upper() for text in moments(draw, "%d%b%Y:%H:%M:%S")],
    "seconds of SPSS": each(numbers, "{:.0f}", 1.37e10, 1.38e10),
    "missing of SAS": lambda draw: with_some(draw, ONE, **{".": 0.1, ".A": 0.06}),
    "missing of SPSS": lambda draw: with_some(draw, each(numbers, "{:.2f}", 1, 9), **{"99.00": 0.08}),
    "missing of REDCap": lambda draw: with_some(draw, WHOLE, **{"-998": 0.06, "-999": 0.05}),
    "comments of a laboratory": lambda draw: with_some(draw, ONE, **{"siehe Text": 0.1, "Material fehlt": 0.04}),
    "rates": swapped(each(numbers, "{:.1f} ml/h"), point=","),
    "two units": lambda draw: [f"{x:.1f} °F ({(x - 32) / 1.8:.1f} °C)" for x in draw.normal(98.6, 1, N)],
    "numbers of persons": each(several, "{}{}-{}", (20, 99), (1010, 1299), (1000, 9999)),
    "moments of midnight %Y-%m-%d 00:00": each(moments, "%Y-%m-%d 00:00"),
    "a day zero": lambda draw: with_some(draw, DAY, **{"1900-01-00": 0.1}),
    "ages with words": mixed(WHOLE, each(numbers, "{:.0f} years")),
    "escapes": each(one_of, "m\\xe4nnlich", "weiblich"),
}
