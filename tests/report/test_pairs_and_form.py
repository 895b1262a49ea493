"""Pairs of columns and structural differences: figures against plain loops."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest

from medsynth.report.build import build
from medsynth.report.data.statistics import similarity_gap
from medsynth.report.data.verdict import Estimate
from medsynth.report.sections.fidelity import FIDELITY, two_way
from medsynth.report.sections.structure import structure
from medsynth.schema import Schema

CELLS = [3, 4, 2]


def coded(rows: int, rng: np.random.Generator, apart: float = 0.0) -> Any:
    """Three columns of cells; the second follows the first, except in a share `apart` of the rows."""
    one = rng.integers(0, 3, rows)
    other = np.where(rng.random(rows) < apart, rng.integers(0, 4, rows), (one + (rng.random(rows) < 0.3)) % 4)
    return np.stack([one, other, rng.integers(0, 2, rows)], 1)


def gap(tables: list[Any], patients: list[Any]) -> Estimate:
    """The gap of three tables: real, synthetic, second real rows."""
    made, twin = (two_way(tables[0], table, CELLS) for table in tables[1:])
    return similarity_gap(made, twin, patients)


def brute(one: Any, other: Any, weights: Any) -> float:
    """The similarity of pairs by a loop; `weights` of the rows of `one`."""
    found = []
    for i, j in itertools.combinations(range(3), 2):
        shares = np.zeros((2, 4, 4))
        for row, weight in zip(one, weights / weights.sum(), strict=True):
            shares[0, row[i], row[j]] += weight
        for row in other:
            shares[1, row[i], row[j]] += 1 / len(other)
        found.append(1 - np.abs(shares[0] - shares[1]).sum() / 2)
    return float(np.mean(found))


def test_pairs_and_their_derivative_are_those_of_a_loop() -> None:
    rng = np.random.default_rng(0)
    one, other = coded(41, rng), coded(59, rng, 0.5)  # No two shares are equal.
    found = two_way(one, other, CELLS)
    weights = np.ones(41)
    assert found.value == pytest.approx(brute(one, other, weights))
    for row in (0, 7, 21):  # The derivative of a share by a row's weight is the row less the mean.
        more = weights.copy()
        more[row] += 1e-6
        slope = (brute(one, other, more) - brute(one, other, weights)) / 1e-6
        assert slope == pytest.approx((found.one[row] - found.one.mean()) / 41, abs=1e-6)
    assert two_way(other, one, CELLS).other == pytest.approx(found.one)
    lost = two_way(one, other, CELLS, [1.0, 1.0, 1.0], 1)  # of six pairs, three are of a column that is lost
    assert lost.value == pytest.approx(found.value / 2) and lost.one == pytest.approx(found.one / 2)
    assert two_way(one, other, CELLS, [0.5, 1.0, 0.25]).value < found.value / 2


def test_rows_of_a_patient_count_once() -> None:
    rng = np.random.default_rng(1)
    tables = [coded(90, rng), coded(80, rng, 0.3), coded(90, rng)]
    rows = gap(tables, [None] * 3)
    many = [np.repeat(t, 5, axis=0) for t in tables]
    patients = [np.repeat(np.arange(len(t)), 5) for t in tables]
    same = gap(many, patients)
    assert (same.value, same.low, same.high) == pytest.approx((rows.value, rows.low, rows.high))


@pytest.mark.statistical
def test_the_interval_of_pairs_contains_the_gap() -> None:
    """At least 95 % of 200 tables of each kind, whose gap is the mean of all; seeds are fixed."""
    for apart in (0.0, 0.3):
        rng = np.random.default_rng([2, round(10 * apart)])
        large = [coded(200_000, rng), coded(200_000, rng, apart), coded(200_000, rng)]
        found = []
        for _ in range(200):
            tables = [t[rng.integers(0, len(t), 300)] for t in large]
            found.append(gap(tables, [None] * 3))
        middle = np.mean([one.value or 0.0 for one in found])
        assert np.mean([(one.low or 0) <= middle <= (one.high or 0) for one in found]) >= 0.95
        assert bool(middle > 0.02) is (apart > 0)


def test_the_verdict_has_the_interval(report: Any) -> None:
    assert FIDELITY.verdicts is not None
    fidelity = report.sections["fidelity"]
    gap = fidelity.two_way_gap
    assert gap.value == pytest.approx(fidelity.two_way_ceiling - fidelity.two_way) and gap.low < gap.value < gap.high
    assert next(line for line in report.verdicts if line.key == "two_way_gap").estimate == gap


REAL = pd.DataFrame(
    {
        "id": [f"P-{k}" for k in range(40)],
        "day": [f"2020-01-{1 + k % 28:02d}" for k in range(40)],
        "x": [f"{k / 4:.2f}" for k in range(40)],
        "sex": ["F", "M"] * 20,
        "ward": ["a", "b", "c", "d"] * 10,
        "note": ["", "x"] * 20,
        "gone": ["1", "2"] * 20,
        "grade": [str(k % 3) for k in range(40)],
    }
)
PLANTED: dict[str, tuple[Any, tuple[str | None, str], str, str]] = {
    "nothing": (lambda t: t, (None, "rows"), "40", "40"),
    "rows": (lambda t: t.head(30), (None, "rows"), "40", "30"),
    "a column less": (lambda t: t.drop(columns="note"), (None, "columns that the other lacks"), "note", "none"),
    "order": (
        lambda t: t[["sex", *(n for n in t if n != "sex")]], (None, "order of columns"), "id, day, x", "sex, id, day"
    ),
    "copied keys": (lambda t: t, ("id", "keys"), "40 different", "40 different, 40 of them"),
    "fresh keys": (lambda t: t.assign(id=t.id + "x"), ("id", "keys"), "40 different", "40 different, 0 of them"),
    "another form of days": (
        lambda t: t.assign(day=t.day.str[8:] + "." + t.day.str[5:7] + "." + t.day.str[:4]), ("day", "written as"),
        "9999-99-99", "99.99.9999",
    ),
    "decimals": (lambda t: t.assign(x=t.x.str[:-1]), ("x", "decimals"), "2", "1"),
    "a kind": (lambda t: t.assign(x=t.x + " mg"), ("x", "kind"), "numbers", "text"),
    "a level lost": (
        lambda t: t.assign(ward=t.ward.replace("d", "a")), ("ward", "levels that the other lacks"),
        "d (25.00% of rows)", "none",
    ),
    "a level more": (
        lambda t: t.assign(sex=t.sex.where(t.index != 3, "?")), ("sex", "levels that the other lacks"), "none",
        "? (2.50% of rows)",
    ),
    "never missing": (
        lambda t: t.assign(note="x"), ("note", "missing values"), "50.00%, written as an empty cell", "never"
    ),
    "missing otherwise": (
        lambda t: t.assign(note=t.note.replace("", "NA")), ("note", "missing values"), "an empty cell", "NA"
    ),
    "empty": (lambda t: t.assign(gone=""), ("gone", "values"), "2 different", "none"),
}  # fmt: skip
SCHEMA = Schema.from_dict(
    {
        "name": "t",
        "columns": {
            "id": {"kind": "identifier"},
            "sex": {"kind": "binary", "levels": ["F", "M"]},
            "ward": {"kind": "categorical", "levels": [*"abcd"]},
        },
    }
)


@pytest.mark.parametrize("name", PLANTED)
@pytest.mark.parametrize("declared", [True, False])
def test_each_difference_is_found(name: str, declared: bool) -> None:
    change, place, real, synthetic = PLANTED[name]
    halves = [REAL.iloc[:25], REAL.iloc[25:]]
    made = change(REAL.copy())
    found = structure(halves, made, frozenset({"day", "x"}), SCHEMA if declared else None)
    line = next(one for one in found.found if (one.column, one.what) == place)
    assert line.real.startswith(real) or real in line.real, line
    assert synthetic in line.synthetic and found.compared == len(made.columns), line
    expected = {(None, "rows"), ("id", "keys"), place, ("gone", "missing values") if name == "empty" else place}
    assert {(one.column, one.what) for one in found.found} == expected


def test_the_shareable_page_compares_no_structure(report: Any, synthetic: Any, model: Any) -> None:
    assert "structure" in {section.id for section in report.shown}
    shareable = build(synthetic=synthetic.head(200), real=None, model=model, drawn_by_model=True)
    assert "structure" not in {section.id for section in shareable.shown}
