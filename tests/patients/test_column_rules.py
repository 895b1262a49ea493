"""Later rows never get a forbidden value, and states that end a patient's rows stay as frequent as measured."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import medsynth
from medsynth.fitting.opening import advice_on_ends
from medsynth.patients import training
from medsynth.patients.column_rules import ColumnRules
from medsynth.patients.plan import LAST_ROWS, LAST_SHARE, SHARES, shares
from medsynth.patients.split_rows import GAP, changing, ending, fixed
from medsynth.patients.stored import restored
from medsynth.schema import Schema

COLUMNS: dict[str, Any] = {
    "who": {"kind": "identifier"},
    "day": {"kind": "count", "bounds": [0, 400]},
    "sex": {"kind": "binary", "levels": ["F", "M"]},
    "marker": {"kind": "count", "bounds": [0, 100]},
    "half": {"kind": "continuous", "bounds": [0, 50], "decimals": 1},
    "dose": {"kind": "count", "bounds": [0, 9]},
    "total": {"kind": "count", "bounds": [0, 99]},
    "died": {"kind": "binary", "levels": ["no", "yes"]},
}
HEAD = {"name": "t", "target": "died", "unit": "who", "max_rows": 6, "order": "day", "constant": ["sex"]}


def schema(*rules: str) -> Schema:
    return Schema.from_dict({**HEAD, "columns": COLUMNS, "rules": ["half = marker / 2", *rules]})


@pytest.mark.parametrize(
    ("rule", "column"),
    [
        ("died = yes implies last row", "died"),
        ("last row implies dose = 0", "dose"),
        ("day > previous(day)", GAP),
        ("marker >= previous(marker)", "marker"),
        ("dose > 3 implies marker > 20", "dose"),
        ("half > 5", "marker"),  # by the column that it is computed from
        ("previous(half) > 5 implies dose > 0", "dose"),
        ("died = yes implies marker > 50 and sex = F", "died"),
        ("sex = F implies marker < 90", "marker"),
        ("previous(died) = no", None),  # about the previous row alone
        ("total >= previous(total)", None),  # a running sum
    ],
)
def test_the_last_drawn_column_of_a_rule_decides_it(rule: str, column: str | None) -> None:
    table = schema("total = cumulative(dose)", rule)
    found = ColumnRules.by_column(table, [GAP, *changing(table)], fixed(table))
    assert list(found.of) == ([column] if column else [])


@pytest.mark.parametrize(
    ("rules", "names"),
    [
        ((), []),
        (("died = yes implies last row",), ["died"]),
        (("last row implies dose = 0", "first row implies marker > 3"), ["dose"]),
        (("sex = F implies last row",), []),  # it does not change
        (("previous(dose) > 3 implies last row and marker > 1",), ["marker"]),
    ],
)
def test_columns_that_depend_on_the_last_row_get_a_query(rules: tuple[str, ...], names: list[str]) -> None:
    assert ending(schema(*rules)) == names
    found = shares(bool(names))
    assert sum(found.values()) == pytest.approx(1) and (LAST_ROWS in found) == bool(names)
    assert not names or found[LAST_ROWS] == LAST_SHARE and set(found) == {*SHARES, LAST_ROWS}


def patients(count: int, rng: np.random.Generator, rows: tuple[int, int] = (2, 6)) -> pd.DataFrame:
    """Patients with two to six `rows`; 40 % die at the last one, mostly those with a high marker there."""
    sizes = rng.integers(rows[0], rows[1] + 1, count)
    who = np.repeat(np.arange(count), sizes)
    last = np.append(np.diff(who) > 0, True)
    place = np.arange(len(who)) - np.searchsorted(who, who)
    marker = rng.integers(0, 101, len(who))
    died = last & (rng.random(len(who)) < np.where(marker > 50, 0.7, 0.1))
    return pd.DataFrame({
        "who": who, "day": 10 * place + rng.integers(0, 5, len(who)), "sex": np.where(who % 2 == 0, "F", "M"),
        "marker": marker, "half": marker / 2, "dose": rng.integers(0, 5, len(who)), "total": 0,
        "died": np.where(died, "yes", "no"),
    })  # fmt: skip


@pytest.mark.nightly
@pytest.mark.usefixtures("seeded_entropy")
def test_a_state_that_ends_a_patient_is_as_frequent_as_measured_and_related(monkeypatch: pytest.MonkeyPatch) -> None:
    """At each row of any patient with the same chance, and drawn again where a rule forbids it, a third would stay."""
    monkeypatch.setattr(training, "SIMULATED", 4000)
    real = patients(600, np.random.default_rng(0))
    own = schema("died = yes implies last row", "day > previous(day)")
    model = medsynth.fit(real, epsilon=50, delta=1e-5, schema=own, rows=len(real), method="independent", seed=0)
    assert "died" in restored(model.tensors, model.schema).ends
    made = model.sample(patients=4000, seed=1)
    last = [frame.groupby("who").tail(1) for frame in (real, made)]
    assert (made["died"] == "yes").sum() == (last[1]["died"] == "yes").sum()
    assert made.groupby("who")["day"].diff().dropna().min() > 0
    rates = [
        [(rows["died"][some] == "yes").mean() for some in (rows["marker"] > 50, rows["marker"] <= 50)] for rows in last
    ]
    assert (last[1]["died"] == "yes").mean() == pytest.approx((last[0]["died"] == "yes").mean(), abs=0.06)
    assert rates[1][0] - rates[1][1] > 0.6 * (rates[0][0] - rates[0][1])
    sizes = [frame.groupby("who").size().mean() for frame in (real, made)]
    assert sizes[1] == pytest.approx(sizes[0], abs=0.3)


@pytest.mark.nightly
@pytest.mark.usefixtures("seeded_entropy")
def test_a_fit_knows_what_the_rules_forbid(monkeypatch: pytest.MonkeyPatch) -> None:
    """No woman has a dose. A fit that measures no table of dose and sex must still keep the share of doses.

    Drawn by the share of all rows, and again where the rule forbids it, half of the doses would be lost.
    """
    monkeypatch.setattr(training, "SIMULATED", 4000)
    monkeypatch.setattr(training, "worthwhile", lambda distances, *others: list(distances)[:1])
    real = patients(600, np.random.default_rng(0))
    real["dose"] = np.where((real["sex"] == "F") | (np.arange(len(real)) % 5 == 0), 0, 1)
    own = schema("sex = F implies dose = 0")
    model = medsynth.fit(real, epsilon=50, delta=1e-5, schema=own, rows=len(real), method="independent", seed=0)
    made = model.sample(patients=4000, seed=1)
    later = [frame[frame.groupby("who").cumcount() > 0] for frame in (real, made)]
    shares = [(rows["dose"] > 0).mean() for rows in later]
    assert not (made["dose"] > 0)[made["sex"] == "F"].any()
    assert shares[1] == pytest.approx(shares[0], abs=0.05)


@pytest.fixture(scope="module")
def single() -> tuple[pd.DataFrame, medsynth.Model]:
    """Patients with one row, or two, who die half as often, and a model that draws first rows of unrelated columns."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "SIMULATED", 4000)
        real = patients(800, np.random.default_rng(1), (1, 2))
        spared = real["who"].duplicated() & (np.arange(len(real)) % 2 == 0)
        real["died"] = real["died"].mask(spared, "no")
        own = schema("died = yes implies last row", "first row implies marker >= 0", "day > previous(day)")
        own = own.with_target("sex")  # the method relates all columns to the target
        return real, medsynth.fit(real, epsilon=50, delta=1e-5, schema=own, rows=800, method="independent", seed=0)


@pytest.mark.nightly
def test_the_end_of_a_patient_with_one_row_is_related_to_that_row(single: tuple[pd.DataFrame, medsynth.Model]) -> None:
    """First rows alone have no relation here: the query of last rows counts only rows, too."""
    real, model = single
    rates = list[list[float]]()
    for frame in (real, model.sample(patients=4000, seed=1)):
        only = frame[frame.groupby("who")["day"].transform("size") == 1]
        died = only["died"] == "yes"
        rates.append([died[only["marker"] > 50].mean(), died[only["marker"] <= 50].mean(), died.mean()])
    assert rates[1][0] - rates[1][1] > 0.6 * (rates[0][0] - rates[0][1])
    assert rates[1][2] == pytest.approx(rates[0][2], abs=0.08)


@pytest.mark.nightly
def test_conditions_on_how_patients_end_stay(single: tuple[pd.DataFrame, medsynth.Model]) -> None:
    """`where` and `balance` are about first rows, which the end of an only row must not replace."""
    dead = single[1].sample(patients=300, seed=2, where="died=yes")
    assert set(dead["died"]) == {"yes"} and not dead["who"].duplicated().any()


def test_rules_of_first_rows_are_known_in_only_rows() -> None:
    """Before a patient's only row there is none: `previous` is missing there, and the row is the first."""
    own = schema("first row implies dose = 0", "previous(dose) > 3 implies marker > 1", "last row implies total >= 0")
    rules = ColumnRules.by_column(own, ["gap", *changing(own)], [])
    rows = np.zeros((2, len(own.core.names)), np.int32)
    rows[:, own.core.names.index("dose")] = 4
    only, last = np.array([True, False]), np.ones(2, np.bool_)
    assert rules.broken("dose", rows, rows, only, last).tolist() == [True, False]
    assert rules.broken("marker", rows * 0, rows, only, last).tolist() == [False, True]


def test_a_state_that_only_the_patient_has_gets_advice() -> None:
    """Its relation to last rows is measured through all rows between, and is lost in small tables."""
    alone = Schema.from_dict({**HEAD, "constant": ["sex", "died"], "columns": COLUMNS})
    advice = advice_on_ends([alone], "died")
    assert advice is not None and "If 'died' states how patients end" in advice
    tied = Schema.from_dict({**alone.to_dict(), "rules": ["last row implies dose = 0"]})
    unordered = alone.model_copy(update={"order": None})
    no_state = Schema.from_dict({**HEAD, "target": "marker", "constant": ["marker"], "columns": COLUMNS})
    sex = alone.with_target("sex")  # a sex ends nobody
    for given, target in (
        (tied, "died"), (unordered, "died"), (no_state, "marker"), (alone, None), (schema(), "died"), (sex, "sex")
    ):  # fmt: skip
        assert advice_on_ends([given], target) is None
