"""Rules that a look proposes: those that arithmetic or structure explains are found, and no others."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from medsynth_cli.looking import draft_with, offers

from medsynth.fitting.looking import table_to_look_at
from medsynth.schema import Schema

N, ITEMS = 600, 14
NUMBERS = np.array([f"{20 + k % 60}" for k in range(N)])
Cells = dict[str, Any]


def base(seed: int = 0) -> Cells:
    """Columns without any relation."""
    rng = np.random.default_rng(seed)
    return {
        "dose": rng.integers(11, 97, N), "lab": rng.uniform(1, 99, N).round(1), "smoker": rng.choice(["no", "yes"], N),
        "site": rng.choice(["north", "south", "west"], N), "note": np.where(rng.random(N) < 0.4, "", "7"),
    }  # fmt: skip


def days(rng: np.random.Generator, first: str, most: int) -> pd.DatetimeIndex:
    return pd.to_datetime(pd.Timestamp(first) + pd.to_timedelta(rng.integers(0, most, N), unit="D"))


def planted(which: str) -> Cells:
    """Columns with one relation."""
    rng = np.random.default_rng(1)
    if which == "one of several":
        group = rng.choice(4, N, p=[0.5, 0.3, 0.185, 0.015])  # a rare one belongs to them
        return {f"type_{k}": (group == k).astype(int) for k in range(4)}
    if which == "one of several, apart":
        group = rng.choice(3, N)
        return {"a_x": (group == 0).astype(int), "old": rng.integers(0, 2, N), "a_y": (group == 1).astype(int),
                "weight": rng.integers(50, 99, N), "a_z": (group == 2).astype(int)}  # fmt: skip
    if which == "shares":
        percent = rng.multinomial(1000, [0.6, 0.3, 0.1], N) / 10
        return {f"p{k}": percent[:, k].round(1) for k in range(3)}
    if which == "shares, one of them known by its name":
        percent = rng.multinomial(100, [0.6, 0.3, 0.1], N)
        return {"other": percent[:, 0], "neutrophils (%)": percent[:, 1], "rest": percent[:, 2]}
    if which == "a total":
        parts = rng.integers(0, 40, (N, 3))
        return {**{f"part{k}": parts[:, k] for k in range(3)}, "far": rng.integers(0, 90, N), "score": parts.sum(1)}
    if which == "a score of answers":
        parts = rng.integers(0, 2, (N, ITEMS))
        return {**{f"item{k}": np.where(parts[:, k], "yes", "no") for k in range(ITEMS)}, "score": parts.sum(1)}
    if which == "a value and its date":
        there, day = rng.random(N) < 0.4, days(rng, "2020-01-01", 800).strftime("%Y-%m-%d")
        return {"troponin": np.where(there, rng.integers(20, 90, N).astype(str), ""), "day": np.where(there, day, "")}
    if which == "a skip pattern":
        ward = rng.choice(["no", "yes"], N, p=[0.7, 0.3])
        asked = (ward == "yes") & (rng.random(N) < 0.8)
        return {"icu": ward, "hours": np.where(asked, rng.integers(20, 90, N).astype(str), "")}
    if which == "a label":
        ward = rng.choice(6, N)
        return {"ward": [f"W{k}" for k in ward], "department": np.array(["surgery", "medicine", "neuro"])[ward // 2]}
    if which == "an age":
        born, seen = days(rng, "1930-01-01", 25_000), days(rng, "2020-01-01", 800)
        before = (seen.month < born.month) | ((seen.month == born.month) & (seen.day < born.day))
        return {"born": born.strftime("%d.%m.%Y"), "seen": seen.strftime("%d.%m.%Y"),
                "age": seen.year - born.year - before}  # fmt: skip
    if which == "an age, a year off":
        return {**(cells := planted("an age")), "age": np.asarray(cells["age"]) - rng.integers(0, 2, N)}
    if which == "a stay":
        start, long = days(rng, "2020-01-01", 800), rng.integers(0, 60, N)
        return {"came": start.strftime("%d.%m.%Y"), "los": long,
                "left": (start + pd.to_timedelta(long, unit="D")).strftime("%d.%m.%Y")}  # fmt: skip
    if which == "pregnancy":
        sex = rng.choice(["f", "m"], N)
        return {"sex": sex, "pregnant": np.where((sex == "f") & (rng.random(N) < 0.3), "yes", "no")}
    if which == "a pressure":
        high = rng.integers(90, 190, N)
        return {"blood pressure": [f"{a}/{b}" for a, b in zip(high, high - rng.integers(20, 70, N), strict=True)]}
    assert which == "a body"
    height, weight = rng.uniform(1.4, 2, N).round(2), rng.uniform(50, 99, N).round(1)
    return {"height": height, "weight": weight, "bmi": (weight / height**2).round(1)}


PLANTED = {
    "one of several": {"type_0 + type_1 + type_2 + type_3 = 1"},
    "one of several, apart": {"a_x + a_y + a_z = 1"},
    "shares": {"p0 + p1 + p2 = 100"},
    "shares, one of them known by its name": {"other + `neutrophils (%)` + rest = 100"},
    "a total": {"part0 + part1 + part2 = score"},
    "a score of answers": {" + ".join(f"item{k}" for k in range(ITEMS)) + " = score"},
    "a value and its date": {"troponin is present if and only if day is present"},
    "a skip pattern": {'hours is present implies icu = "yes"'},
    "a label": {"ward determines department"},
    "an age": {"seen >= born", "age = years(born, seen)"},
    "an age, a year off": {"seen >= born", "age = years(born, seen)"},
    "a stay": {"los = left - came"},
    "pregnancy": {'pregnant = "yes" implies sex = "f"'},
    "a pressure": {"`blood pressure.1` > `blood pressure.2`"},
    "a body": {"bmi = weight / height / height"},
}


def proposed(cells: Cells, folder: Path) -> set[str]:
    """Rules that a look proposes of a table, whose schema they are part of."""
    path = folder / "t.csv"
    pd.DataFrame(cells).to_csv(path, index=False)
    data = table_to_look_at(path)
    found = offers(data)
    schema = Schema.from_yaml(draft_with("t", data, [one.name for one in found]))
    assert {one.line for one in found if one.name.startswith("rule ")} == {*schema.rules} == {*schema.seen_rules}
    return {*schema.rules}


@pytest.mark.matrix
@pytest.mark.parametrize("which", PLANTED)
def test_a_relation_is_found_alone(which: str, tmp_path: Path) -> None:
    assert proposed({**planted(which), **base()}, tmp_path) == PLANTED[which]


@pytest.mark.matrix
@pytest.mark.parametrize("which", PLANTED)
def test_a_relation_that_a_few_rows_break_is_not_found(which: str, tmp_path: Path) -> None:
    """In one row of ten, all columns but the first are those of another row."""
    first, *rest = planted(which).items()
    places = np.r_[np.roll(np.arange(N // 5), 1), N // 5 : N]
    moved = {name: np.asarray(own)[places] for name, own in rest}
    cut = dict([first]) | moved
    if which == "a pressure":
        cut = {
            "blood pressure": [
                "/".join(reversed(one.split("/"))) if k < N // 10 else one for k, one in enumerate(first[1])
            ]
        }
    assert not proposed({**cut, **base()}, tmp_path) & PLANTED[which] - {"seen >= born"}


@pytest.mark.matrix
@pytest.mark.parametrize("seed", range(5))
def test_chance_makes_no_rule(seed: int, tmp_path: Path) -> None:
    """Also of few rows, and of columns that are nearly constant."""
    rng = np.random.default_rng(seed)
    rare = {f"rare{k}": np.where(rng.random(N) < 0.01, "yes", "no") for k in range(4)}
    gaps = {f"gap{k}": np.where(rng.random(N) < 0.01 * k, "", rng.integers(20, 90, N).astype(str)) for k in range(4)}
    small = {f"small{k}": rng.integers(0, 3, N) for k in range(6)}
    cells = {**base(seed), **rare, **gaps, **small}
    assert proposed(cells, tmp_path) == set()
    assert proposed({name: own[:29] for name, own in cells.items()}, tmp_path) == set()


def test_the_last_column_stays_a_target_and_no_rule_has_a_level_of_the_table(tmp_path: Path) -> None:
    """Only public levels: `hours is present implies ward = W1` would name one that cells decide."""
    own = planted("a label")
    hours = np.where(np.asarray(own["ward"]) == "W1", NUMBERS, "")
    cells = {"ward": own["ward"], "hours": hours, **base(), "department": own["department"]}
    assert proposed(cells, tmp_path) == set()


def test_few_rows_show_no_answer_without_which_a_value_is_missing(tmp_path: Path) -> None:
    """31 values, all of patients who answer no, as 570 of 600 do."""
    values = np.where(np.arange(N) < 31, NUMBERS, "")
    assert proposed({"fit": np.where(np.arange(N) < N - 30, "no", "yes"), "hours": values, **base()}, tmp_path) == set()


def test_a_limit_of_an_assay_is_a_value(tmp_path: Path) -> None:
    """`<5` has no number, but it is present, whatever a flag says."""
    low = np.random.default_rng(2).random(N) < 0.3
    numbers = np.random.default_rng(3).integers(20, 90, N).astype(str)
    cells = {"crp": np.where(low, "<5", numbers), "high": np.where(low, "no", "yes"), **base()}
    assert proposed(cells, tmp_path) == set()


def test_a_rule_that_the_draft_could_not_declare_is_not_proposed(tmp_path: Path) -> None:
    """A code with open levels may be missing, and a label with usual levels may not."""
    sex = np.random.default_rng(2).choice(["m", "w"], N)
    assert proposed({"code": np.where(sex == "m", "A", "B"), "sex": sex, **base()}, tmp_path) == set()


def test_both_rules_that_rows_break_and_those_that_are_taken_are_counted(tmp_path: Path) -> None:
    cells = planted("a label")
    cells["department"][0] = "neuro"
    pd.DataFrame({**cells, **base()}).to_csv(tmp_path / "t.csv", index=False)
    (found,) = [one for one in offers(table_to_look_at(tmp_path / "t.csv")) if one.name.startswith("rule")]
    assert found.line == "ward determines department" and found.cells == "1 rows break this rule."
