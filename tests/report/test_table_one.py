"""Table 1 against pandas: means, quartiles, counts, standardised differences; what decides between mean and median."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import medsynth
from medsynth.report.build import build
from medsynth.report.page.render import page
from medsynth.report.sections.table_one import MOST_LEVELS, TableOne, table_one
from medsynth.sampling.structure import structure_model
from medsynth.schema import Schema

NUMBERS = frozenset({"age", "tsh", "visits"})


def clinic(rows: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    made = {"age": rng.normal(60, 10, rows), "tsh": rng.lognormal(0, 1.2, rows), "visits": rng.poisson(9, rows) * 1.0}
    sex = pd.Series(rng.choice(["F", "M"], rows), dtype=object).mask(rng.random(rows) < 0.1, None)
    ward = [f"w{k}" for k in rng.geometric(0.1, rows)]
    return pd.DataFrame(made | {"sex": sex, "ward": ward, "sick": rng.choice(["no", "yes"], rows, p=[0.8, 0.2])})


def line(found: TableOne, column: str, level: str | None = None) -> Any:
    return next(one for one in found.lines if one.column == column and one.level == level)


def test_figures_are_those_of_pandas() -> None:
    real, made = clinic(400, 1).assign(visits=lambda t: t.visits.where(t.visits > 5)), clinic(700, 2)
    found = table_one(made, real, NUMBERS, "sick")
    (rarer,) = {one.level for one in found.lines if one.column == "sex"} - {"missing"}
    age, tsh, women = line(found, "age"), line(found, "tsh"), line(found, "sex", rarer)
    for k, (side, table) in enumerate((("real", real), ("synthetic", made))):
        of_groups = [table, *(table[table.sick == level] for level in ("no", "yes"))]
        for j, group in enumerate(of_groups):
            one = getattr(age, side)[j]
            assert (one.value, one.low) == pytest.approx((group.age.mean(), group.age.std()))
            one = getattr(tsh, side)[j]
            quartiles = group.tsh.quantile([0.5, 0.25, 0.75])
            assert (one.value, one.low, one.high) == pytest.approx(tuple(quartiles))
            one = getattr(women, side)[j]
            assert (one.value, one.low) == pytest.approx(((group.sex == rarer).sum(), (group.sex == rarer).mean()))
        assert [found.rows_real, found.rows_synthetic][k] == [len(group) for group in of_groups]
    spread = np.sqrt((real.age.var(ddof=0) + made.age.var(ddof=0)) / 2)
    assert age.difference == pytest.approx((made.age.mean() - real.age.mean()) / spread)
    p, q = (real.sex == rarer).mean(), (made.sex == rarer).mean()
    assert women.difference == pytest.approx((q - p) / np.sqrt((p * (1 - p) + q * (1 - q)) / 2))
    assert [age.summary, tsh.summary, women.summary] == ["mean (SD)", "median [quartiles]", "n (%)"]
    assert line(found, "visits", "missing").real[0].value == real.visits.isna().sum()


def test_columns_that_differ_most_come_first_and_rare_levels_share_a_line() -> None:
    real, made = clinic(400, 1), clinic(700, 2)
    found = table_one(made.assign(age=made.age + 30), real, NUMBERS, "sick")
    worst = {
        one.column: max(abs(x.difference or 0) for x in found.lines if x.column == one.column) for one in found.lines
    }
    assert next(iter(worst)) == "age" and list(worst.values()) == sorted(worst.values(), reverse=True)
    wards = [one for one in found.lines if one.column == "ward"]
    assert len(wards) == MOST_LEVELS + 1 and wards[-1].level == "(other levels)"
    assert sum(one.real[0].value or 0 for one in wards if one.real) == len(real)


def test_real_rows_do_not_choose_the_summary() -> None:
    """Which of mean and median is printed is the same on a shareable page."""
    made = clinic(700, 2)
    for real in (clinic(400, 1), clinic(400, 1).assign(age=lambda t: np.exp(t.age / 10), tsh=lambda t: np.log(t.tsh))):
        internal, shareable = table_one(made, real, NUMBERS, "sick"), table_one(made, None, NUMBERS, "sick")
        kinds = [{(one.column, one.summary) for one in found.lines} for found in (internal, shareable)]
        assert kinds[0] == kinds[1]
        assert all(one.real is None and one.difference is None for one in shareable.lines)
    assert line(table_one(made, None, NUMBERS, skewed=frozenset({"age"})), "age").summary == "median [quartiles]"


ODD: dict[str, Any] = {
    "empty": np.nan, "constant": 7.0, "one value": [4.0] + [np.nan] * 59, "word": "k", "no word": None,
    "keys": [f"k{j}" for j in range(60)],
}  # fmt: skip


@pytest.mark.parametrize("where", ["real", "synthetic", "both"])
@pytest.mark.parametrize("odd", ODD)
def test_odd_columns_have_lines(odd: str, where: str) -> None:
    tables = {side: clinic(60, k) for k, side in enumerate(("real", "synthetic"))}
    number = odd in ("empty", "constant", "one value")
    for side, table in tables.items():
        other = np.arange(60.0) if number else ["a", "b"] * 30
        table["odd"] = pd.Series(ODD[odd] if where in (side, "both") else other, dtype=float if number else object)
    found = table_one(tables["synthetic"], tables["real"], NUMBERS | ({"odd"} if number else set()), "sick")
    lines = [one for one in found.lines if one.column == "odd"]
    assert lines and all(np.isfinite(one.difference or 0.0) for one in lines)


@pytest.mark.nightly
def test_the_page_has_it_in_both_variants() -> None:
    real, made = clinic(200, 1), clinic(300, 2)
    internal, shareable = (build(synthetic=made, real=table, target="sick") for table in (real, None))
    assert "standardised difference" in page(internal) and "age, mean (SD)" in page(shareable)
    record = shareable.sections["table_one"]
    assert isinstance(record, TableOne) and record.rows_real is None


def test_labels_are_next_to_names_and_escaped() -> None:
    """In Table 1 and the table of variables; they may come from somebody's dictionary."""
    column = {"kind": "binary", "levels": [1, 2]}
    columns = {
        "age": {"kind": "count", "bounds": [18, 90], "label": "<i>Age</i>"},
        "sex": {**column, "label": "Sex at birth", "value_labels": {1: "<b>f</b>", 2: "<b>f</b>"}},
        "sick": column,
    }
    schema = Schema.from_dict({"name": "t", "target": "sick", "columns": columns})
    rows = structure_model(schema).sample(80, seed=1)
    model = medsynth.fit(rows, epsilon=3.0, schema=schema, method="independent", rows=80, anyway=True)
    shown = page(build(synthetic=model.sample(80, seed=1), real=None, model=model))
    assert "age (&lt;i&gt;Age&lt;/i&gt;)" in shown and "(&lt;b&gt;f&lt;/b&gt;)" in shown and "<i>Age" not in shown
    assert "<td>sex</td><td>Sex at birth</td>" in shown
