"""What cells look like on the screen of a person who may see them, and what of it may enter a schema."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from medsynth.schema import Schema
from medsynth.schema.declared import yaml_text
from medsynth.schema.looks import look

N = 400
Cells = Callable[[np.random.Generator], Any]


def days(form: str) -> Cells:
    def made(rng: np.random.Generator) -> Any:
        minutes = pd.to_timedelta(rng.integers(0, 900 * 1440, N), unit="min")
        return [moment.strftime(form.replace("%^b", "%b")) for moment in pd.Timestamp("2019-03-01") + minutes]

    return (lambda rng: [text.upper() for text in made(rng)]) if "%^b" in form else made


def numbers(form: str, low: float = 20, high: float = 900) -> Cells:
    return lambda rng: [form.format(value) for value in rng.uniform(low, high, N)]


def one_of(*words: str) -> Cells:
    return lambda rng: rng.choice(words, N)


def date(form: str, **more: Any) -> dict[str, Any]:
    return {"kind": "date", "format": form, **more}


MINUTE, SECOND = {"resolution": "minute"}, {"resolution": "second"}
CLOCK = {"bounds": ["1900-01-01", "1900-01-01"]}
FORMS: dict[str, tuple[Cells, dict[str, Any]]] = {
    **{form: (days(form), date(form)) for form in (
        "%Y-%m-%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%-m/%-d/%Y", "%Y%m%d", "%d-%b-%Y", "%d%^b%Y", "%d. %B %Y",
        "%Y-%m")},
    "two digits": (days("%d.%m.%y"), date("%d.%m.%y", pivot=1920)),
    "minutes": (days("%d.%m.%Y %H:%M"), date("%d.%m.%Y %H:%M", **MINUTE)),
    "AM and PM": (days("%m/%d/%Y %I:%M %p"), date("%m/%d/%Y %I:%M %p", **MINUTE)),
    "seconds": (days("%Y-%m-%dT%H:%M:%S"), date("%Y-%m-%dT%H:%M:%S", **SECOND)),
    "clock": (days("%H:%M"), date("%H:%M", **CLOCK, **MINUTE)),
    "German months": (lambda rng: [f"{d}. Oktober 2020" for d in rng.integers(1, 32, N)],
                      date("%-d. %B %Y", months="de")),
    "whole": (numbers("{:.0f}"), {"kind": "count"}),
    "decimals": (numbers("{:.2f}"), {"kind": "continuous", "decimals": 2, "zeros": "all"}),
    "zeros": (lambda rng: [f"{x:.1f}" for x in rng.integers(20, 900, N) / 4],
              {"kind": "continuous", "decimals": 1, "zeros": "all"}),
    "whole floats": (numbers("{:.0f}.0"), {"kind": "count", "dtype": "float64"}),
    "short clock": (days("%-I:%M %p"), date("%-I:%M %p", **CLOCK, **MINUTE)),
    "limits": (lambda rng: np.where(rng.random(N) < 0.2, "<0.5", numbers("{:.1f}")(rng)),
               {"kind": "continuous", "decimals": 1, "zeros": "all", "limits": "learn"}),
    "hours and minutes": (lambda rng: [f"{x // 60}h{x % 60:02}" for x in rng.integers(5, 500, N)],
                          {"kind": "count", "text": "{h}h{mm}", "unit": "min"}),
    "unit": (numbers("{:.1f} mg"), {"kind": "continuous", "text": "{} mg", "decimals": 1, "zeros": "all"}),
    "per cent": (numbers("{:.0f}%"), {"kind": "count", "text": "{}%"}),
    "degrees": (numbers("{:.1f}°C", 35, 41), {"kind": "continuous", "text": "{}°C", "decimals": 1, "zeros": "all"}),
    "money": (numbers("${:,.2f}", 900, 9000), {"kind": "continuous", "text": "${1,234.55}",
              "decimals": 2, "zeros": "all"}),
    "Swiss": (lambda rng: [f"{x:,.0f}".replace(",", "'") for x in rng.uniform(1000, 9000, N)],
              {"kind": "count", "text": "{1'234}"}),
    "comma": (lambda rng: [f"{x:.1f} mg".replace(".", ",") for x in rng.uniform(1, 90, N)],
              {"kind": "continuous", "text": "{0,5} mg", "decimals": 1, "zeros": "all"}),
    "pressure": (lambda rng: [f"{rng.integers(90, 180)}/{rng.integers(50, 99)}" for _ in range(N)],
                 {"kind": "parts", "text": "{}/{}",
                  "parts": [{"kind": "count", "bounds": [0, 999]}, {"kind": "count", "bounds": [0, 99]}]}),
    "flags": (lambda rng: [f"{x:.1f}{' H' if x > 8 else ''}" for x in rng.uniform(0.1, 9.9, N)],
              {"kind": "continuous", "decimals": 1, "zeros": "all", "text": ["{}", "{} H"]}),
    "plus": (numbers("{:+.1f}"), {"kind": "continuous", "text": "{+0}", "decimals": 1, "zeros": "all"}),
    "three numbers": (lambda rng: [f"{a}/{b}/{c} x" for a, b, c in rng.integers(3, 99, (N, 3))],
                      {"kind": "parts", "text": "{}/{}/{} x", "parts": [{"kind": "count", "bounds": [0, 99]}] * 3}),
    "letters": (lambda rng: [f"E{a}V{b}" for a, b in rng.integers(1, 60, (N, 2))],
                {"kind": "parts", "text": "E{}V{}", "parts": [{"kind": "count", "bounds": [0, 99]}] * 2}),
    "milliseconds": (days("%Y-%m-%d %H:%M:%S.000"), date("%Y-%m-%d %H:%M:%S.000", **SECOND)),
    "months of years": (days("%m/%Y"), date("%m/%Y")),
    "mostly limits": (lambda rng: np.where(rng.random(N) < 0.8, ">=60", numbers("{:.0f}", 10, 59)(rng)),
                      {"kind": "count", "limits": "learn"}),
    "powers": (numbers("{:.2E}", 1e9, 9e9), {"kind": "continuous", "text": "{1.11E+11}", "decimals": -7}),
    "codes": (one_of(*(f"I{k}.{j}" for k in range(10, 30) for j in range(3))),
              {"kind": "categorical", "hierarchy": "icd10", "unknown": "other"}),
    "codes of two chapters": (one_of(*(f"{letter}{k}.{j}" for letter in "EI" for k in range(10, 20) for j in range(3))),
                              {"kind": "categorical", "hierarchy": "icd10", "unknown": "other"}),
    "few codes": (one_of("I10.00", "E11.90", "J18.9", "I50.01"), {"kind": "categorical"}),
    "codes of drugs": (one_of(*(f"C0{k}A{x}0{j}" for k in range(1, 10) for x in "AB" for j in (1, 2))),
                       {"kind": "categorical", "hierarchy": "atc", "unknown": "other"}),
    "two words": (one_of("m", "w"), {"kind": "binary"}),
    "words": (one_of("heart", "lung", "kidney"), {"kind": "categorical"}),
    "zero and one": (one_of("0", "1"), {"kind": "binary"}),
    "postcodes": (one_of("01067", "10115", "80331"), {"kind": "categorical"}),
    "keys": (lambda rng: [f"P-{k}" for k in rng.permutation(N) + 1000], {"kind": "identifier", "shape": "P-####"}),
    "numbers that differ": (lambda rng: (rng.permutation(N) + 70001).astype(str),
                            {"kind": "identifier", "shape": "#####"}),
    "sentences": (lambda rng: [f"complains of pain since day {k}, call {k * 97}" for k in range(N)],
                  {"kind": "identifier", "drop": True}),
    "empty": (one_of("", "NA"), {"kind": "identifier", "drop": True}),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_a_form_is_recognised_with_and_without_gaps_and_odd_cells(name: str) -> None:
    made, expected = FORMS[name]
    texts = pd.Series(np.asarray(made(np.random.default_rng(3)), dtype=object))
    found = look(texts)
    assert {key: one for key, one in found.entry.items() if key != "missing"} == expected
    texts[5], texts[9] = "", "see note"
    again = look(texts).entry
    kept = {key: one for key, one in again.items() if key not in ("missing", "unknown")}
    assert name in ("two words", "words", "zero and one", "postcodes", "few codes", "empty") or kept == {
        key: one for key, one in expected.items() if key != "unknown"
    }
    column = {"x": again, "y": {"kind": "binary", "levels": ["a", "b"]}}
    Schema.from_dict({"name": "t", "columns": column})  # whatever is proposed can be declared


@pytest.mark.parametrize("name", FORMS)
def test_an_entry_contains_no_cell(name: str) -> None:
    """Nor does it change with the values: those of another table of the same form give the same entry."""
    made, _ = FORMS[name]
    one, other = (pd.Series(np.asarray(made(np.random.default_rng(seed)), dtype=object)) for seed in (3, 4))
    entry = look(one).entry
    assert entry == look(other).entry
    words = {text for text in map(str, one) if len(text) > 1}
    assert words.isdisjoint(re.findall(r"[^\s,{}\[\]:'\"]+", yaml_text(entry)))


def test_points_are_marks_of_thousands_where_commas_are_decimal() -> None:
    cells = pd.Series([f"{k}.{k}" for k in range(101, 400)] * 2, dtype=object)
    assert look(cells, comma=True).entry == {"kind": "count", "text": "{1.234}"}
    assert look(cells).entry == {"kind": "continuous", "decimals": 3, "zeros": "all"}


def test_the_screen_shows_cells_and_what_is_lost() -> None:
    rare = np.where(np.arange(N) < 2, "rare", np.resize(["heart", "lung"], N))
    found = look(pd.Series(rare, dtype=object))
    assert "heart" in found.cells and found.loss == "probably 1 rare ones"
    assert "kidney" not in found.cells
