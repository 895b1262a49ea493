"""A report is written whatever a column holds, and says what cannot be estimated.

The columns: empty, nearly empty, constant, infinite, beyond what a float's square can hold.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest

import medsynth
from medsynth.errors import TableError
from medsynth.report.build import build
from medsynth.report.data import statistics as stats
from medsynth.report.data.columns import LARGEST, numbers_of
from medsynth.report.document import Report
from medsynth.report.page.charts import ticks
from medsynth.report.page.render import page
from medsynth.report.sections import fidelity
from medsynth.report.sections.fidelity import association, number_bars
from medsynth.report.sections.inference import Inference

Cells = Callable[[int, np.random.Generator], list[str]]  # the cells of a column of so many rows


def numbers(rows: int, rng: np.random.Generator) -> list[str]:
    """An ordinary column of numbers."""
    return [f"{value:.1f}" for value in rng.normal(5, 2, rows)]


def words(rows: int, rng: np.random.Generator) -> list[str]:
    """An ordinary column of words."""
    return [str(word) for word in rng.choice(["a", "b", "c"], rows)]


def with_one(cell: str) -> Cells:
    """Numbers, and this cell in their midst."""
    return lambda rows, rng: [cell, *numbers(rows - 1, rng)]


def only(*cells: str) -> Cells:
    """These cells; all others are empty."""
    return lambda rows, rng: [*cells[:rows], *[""] * (rows - len(cells))]


def every(cell: str) -> Cells:
    """The same cell in every row."""
    return lambda rows, rng: [cell] * rows


# Columns with fewer than two values that can be compared: no coefficient can be estimated.
EMPTY: dict[str, Cells] = {
    "empty": every(""),
    "one_number": only("4.2"),
    "one_word": only("w"),
    "one_day": only("2020-01-01"),
    "constant": every("7"),
    "constant_word": every("k"),
    "all_inf": every("inf"),
    "all_beyond_floats": every("1e400"),
    "all_large": lambda rows, rng: [f"{value:.6e}" for value in rng.normal(0, 1e300, rows)],
}
ODD: dict[str, Cells] = EMPTY | {
    "one_inf": with_one("inf"),
    "one_minus_inf": with_one("-Infinity"),
    "one_1e308": with_one("1e308"),
    "one_beyond_floats": with_one("-1e999"),
    "one_beyond_float32": with_one("1e39"),
    "both_infinities": lambda rows, rng: [str(word) for word in rng.choice(["inf", "-inf"], rows)],
    "two_values": only("1.5", "2.5"),
    "tiny": lambda rows, rng: [f"{value:.2e}" for value in rng.random(rows) * 1e-310],
    "fifteen_digits": lambda rows, rng: [str(value) for value in rng.integers(10**14, 10**15 - 1, rows)],
    "keys": lambda rows, rng: [f"P-{value:06}" for value in rng.permutation(10**5)[:rows]],
    "booleans": lambda rows, rng: [str(word) for word in rng.choice(["true", "False"], rows)],
    "days": lambda rows, rng: [f"2020-0{1 + k % 9}-1{k % 9}" for k in rng.integers(0, 99, rows)],
}


def people(rows: int, seed: int) -> pd.DataFrame:
    """Ordinary columns: age, sex, and a diagnosis that age makes likelier."""
    rng = np.random.default_rng(seed)
    age = rng.integers(20, 90, rows)
    sick = np.where(rng.random(rows) < age / 110, "yes", "no")
    return pd.DataFrame({"age": age.astype(str), "sex": rng.choice(["F", "M"], rows), "sick": sick}, dtype=object)


def with_columns(rows: int, seed: int, columns: dict[str, Cells]) -> pd.DataFrame:
    """People with odd columns."""
    rng = np.random.default_rng(seed + 100)
    return people(rows, seed).assign(**{name: cells(rows, rng) for name, cells in columns.items()})


SIDES = {"real": 60, "train": 70, "synthetic": 80}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, few_trees: None) -> None:
    monkeypatch.setattr(stats, "DRAWS", 10)
    monkeypatch.setattr(fidelity, "MOST_SCORED", 30)  # sdmetrics meets each odd column


def values(thing: Any) -> Iterator[Any]:
    """Every value of a record, however deep."""
    if isinstance(thing, dict):
        thing = list(thing.values())
    if isinstance(thing, list | tuple):
        for each in thing:
            yield from values(each)
    else:
        yield thing


def checked(**inputs: Any) -> Report:
    """The report on some tables: its page is written, and every number in its JSON is finite."""
    made = build(**{"target": "sick", "disjoint": True, "real": None, **inputs})
    assert "</html>" in page(made)
    assert all(math.isfinite(value) for value in values(made.model_dump()) if isinstance(value, float))
    json.loads(made.model_dump_json(), parse_constant=lambda word: pytest.fail(f"JSON has {word}"))
    return made


def sides(columns: dict[str, Cells], where: tuple[str, ...], others: Cells = numbers) -> dict[str, pd.DataFrame]:
    """The three tables with these columns in the tables `where`, and ordinary cells in the other ones."""
    ordinary = dict.fromkeys(columns, others)
    return {
        side: with_columns(rows, seed, columns if side in where else ordinary)
        for seed, (side, rows) in enumerate(SIDES.items())
    }


def not_estimable(made: Report) -> set[str]:
    """The predictors of the default regression without an estimate in either table."""
    record = made.sections["inference"]
    assert isinstance(record, Inference)
    return {c.predictor for c in record.coefficients if c.real.value is None and c.synthetic.value is None}


@pytest.mark.nightly
def test_odd_columns_in_every_table_are_reported_on() -> None:
    """All at once. A column without two values is named as not estimable; every column has its line of fidelity."""
    made = checked(**sides(ODD, tuple(SIDES)))
    fidelity: Any = made.sections["fidelity"]
    assert {"age", *ODD} <= {column.name for column in fidelity.columns}
    assert set(EMPTY) <= not_estimable(made) and not {"one_inf", "one_1e308", "booleans"} & not_estimable(made)
    notes = " ".join(made.notes)
    assert f"one_1e308: cells of the real table count as missing: beyond {LARGEST:g}." in notes
    text = page(made)
    empty = {c.name for c in fidelity.columns if c.missing_real == 1}
    assert empty == {c.name for c in fidelity.columns if not c.labels} > {"empty", "all_beyond_floats"}
    assert text.count("not estimable: the held-out rows have no value") == len(empty)
    assert '<td>empty</td><td class="n"><span class="none">not estimable</span></td>' in text


@pytest.mark.nightly
def test_columns_that_are_odd_in_the_held_out_rows_alone() -> None:
    """The training rows have values, and both together are what a regression is computed on."""
    some = ("empty", "one_word", "all_inf", "one_beyond_floats", "keys")
    made = checked(**sides({name: ODD[name] for name in some}, ("real",)))
    assert not {"empty", "one_beyond_floats"} & not_estimable(made)


@pytest.mark.nightly
@pytest.mark.slow
def test_every_odd_column_by_itself_and_all_in_every_set_of_tables() -> None:
    """By itself in one set of tables after another, next to numbers and next to words in turn."""
    every = [*itertools.chain.from_iterable(itertools.combinations(SIDES, k) for k in (1, 2, 3))]
    for k, where in enumerate(every):
        for j, (name, cells) in enumerate(ODD.items()):
            if j % 3 == k % 3:
                checked(**sides({name: cells}, where, (numbers, words)[(j + k) % 2]))
        checked(**sides(ODD, where, (numbers, words)[k % 2]))


@pytest.mark.nightly
def test_targets_without_two_classes_or_with_missing_values() -> None:
    """Of each table: one class, or missing values. A note says which rows are left out."""
    push = [("one", "both", "missing"), ("missing", "missing", "one"), ("one", "one", "one")]
    for kinds in push:
        tables = {s: people(n, k) for k, (s, n) in enumerate(SIDES.items())}
        for side, kind in zip(SIDES, kinds, strict=True):
            known = tables[side]["sick"]
            made_of = {"one": known.where(known == "yes", "yes"), "missing": known.mask(known.index % 3 == 0, "")}
            tables[side]["sick"] = made_of.get(kind, known)
        made = checked(**tables)
        assert any("Rows without the target 'sick' are left out" in n for n in made.notes) is ("missing" in kinds)


def wide(rows: int, rng: np.random.Generator) -> dict[str, list[str]]:
    """200 columns: half are numbers, half words."""
    return {f"w{k}": (numbers if k % 2 else words)(rows, rng) for k in range(200)}


def mostly_empty(rows: int, rng: np.random.Generator) -> dict[str, list[str]]:
    """Columns of which 97 % of the cells are empty, and one with a single value."""
    found = {f"e{k}": np.where(rng.random(rows) < 0.97, "", (numbers if k % 2 else words)(rows, rng)) for k in range(6)}
    return {name: [str(cell) for cell in cells] for name, cells in found.items()} | {"one": only("w")(rows, rng)}


def all_different(rows: int, rng: np.random.Generator) -> dict[str, list[str]]:
    """Words of which no two are alike, numbers of which no two are alike, and whole numbers in order."""
    keys = [f"k{value}" for value in rng.permutation(10**6)[:rows]]
    return {"word": keys, "number": [f"{value:.9f}" for value in rng.random(rows)], "line": [*map(str, range(rows))]}


def of_one_fold(rows: int, rng: np.random.Generator) -> dict[str, list[str]]:
    """Columns whose only values lie in the first or the last tenth of the rows, so that folds lack them."""
    tenth = max(rows // 10, 1)
    return {"early": only(*["3.5", "4.5"] * tenth)(rows, rng), "late": ["x"] * (rows - tenth) + ["y"] * tenth}


KINDS = (pytest.param(wide, marks=(pytest.mark.nightly, pytest.mark.slow)), mostly_empty, all_different, of_one_fold)
# Every section that a report of two tables of rows computes. Each has a record, which says why a figure is lacking.
COMPUTED = ("utility", "importance", "inference", "table_one", "fidelity", "relations", "quality", "subgroups")


@pytest.mark.nightly
@pytest.mark.nightly_for("all_different", "of_one_fold")
@pytest.mark.parametrize("kind", KINDS)
def test_every_section_computes_on_odd_tables(kind: Callable[..., dict[str, list[str]]]) -> None:
    """30 held-out rows; of each kind the real tables, the synthetic table, and all of them."""
    rows = {"real": 30, "train": 70, "synthetic": 80}
    for where in (("real", "train"), ("synthetic",), tuple(rows)) if kind is not wide else (tuple(rows),):
        tables = {}
        for seed, (side, count) in enumerate(rows.items()):
            rng = np.random.default_rng(seed)
            own = kind(count, rng) if side in where else {name: numbers(count, rng) for name in kind(count, rng)}
            tables[side] = pd.concat([people(count, seed), pd.DataFrame(own, dtype=object)], axis=1)
        made = checked(**tables)
        assert "No attack was run" in page(made)  # 30 rows are too few.
        assert [name for name in COMPUTED if made.sections[name] is None] == []


@pytest.mark.nightly
def test_every_section_computes_with_one_class_or_without_training_rows() -> None:
    tables = {side: people(rows, k) for k, (side, rows) in enumerate({"real": 30, "synthetic": 80}.items())}
    made = checked(**tables)
    assert [name for name in COMPUTED if made.sections[name] is None] == ["importance"]
    for side in tables:
        checked(**{**tables, side: tables[side].assign(sick="yes", constant="7")}, target="sick")


@pytest.mark.nightly
def test_tables_of_few_rows_repeated_rows_and_few_columns() -> None:
    few = {"real": 5, "train": 2, "synthetic": 2}
    checked(**{side: with_columns(rows, k, EMPTY) for k, (side, rows) in enumerate(few.items())})
    checked(**{side: pd.concat([people(4, 1)] * 15, ignore_index=True) for side in SIDES})
    checked(**{side: people(50, k)[["sick"]].assign(empty="") for k, side in enumerate(SIDES)})
    numeric = {side: with_columns(rows, k, {"empty": ODD["empty"]}) for k, (side, rows) in enumerate(SIDES.items())}
    checked(**numeric, target="age")
    for rows in (1, 4):  # too few to measure anything: an error with a cure, and no fault of ours
        with pytest.raises(TableError, match="few rows"):
            checked(real=people(rows, 1), synthetic=people(50, 2))


DECLARED: dict[str, Any] = {
    "number": {"kind": "continuous", "bounds": [0, 10], "decimals": 1, "missing": [-9, "refused", ""]},
    "cut": {"kind": "continuous", "bounds": [0, 10], "decimals": 1, "cut_points": [3, 6]},
    "count": {"kind": "count", "bounds": [0, 10**6], "missing": True},
    "log": {"kind": "continuous", "bounds": [0, 500], "scale": "log", "decimals": 2, "missing": True},
    "word": {"kind": "categorical", "levels": ["a", "b", "other"], "unknown": "other"},
    "date": {"kind": "date", "bounds": ["2015-01-01", "2024-12-31"], "missing": True},
}  # fmt: skip
CLEAN = {"word": "a", "date": "2020-01-01"}  # a cell of these kinds; a number for the others


def declared(kinds: dict[str, str], order: bool) -> dict[str, Any]:
    """A schema with columns of these kinds, of patients over time if there is an order."""
    people_columns = {"age": {"kind": "count", "bounds": [0, 120]}, "sex": {"kind": "binary", "levels": ["F", "M"]}}
    keys = {"pid": {"kind": "identifier"}, "day": {"kind": "date", "bounds": ["2015-01-01", "2024-12-31"]}}
    columns = {**(keys if order else {}), **people_columns, **{name: DECLARED[kind] for name, kind in kinds.items()}}
    columns["sick"] = {"kind": "binary", "levels": ["no", "yes"], "missing": True}
    over = {"unit": "pid", "order": "day", "max_rows": 4} if order else {}
    return {"name": "t", "target": "sick", "columns": columns, **over}


def over_time(frame: pd.DataFrame, seed: int, patients: int = 25) -> pd.DataFrame:
    """The rows as rows of patients."""
    rng = np.random.default_rng(seed)
    pid, day = rng.integers(0, patients, len(frame)), rng.integers(1, 28, len(frame))
    return frame.assign(pid=[f"{seed}-{k}" for k in pid], day=[f"2020-03-{k:02}" for k in day])


def reports_with_a_schema(kinds: dict[str, str], order: bool, every_set: bool = True) -> None:
    """Fit to ordinary rows of these kinds; compare with odd held-out rows, odd training rows, and both."""

    def clean(rows: int, seed: int) -> pd.DataFrame:
        ordinary = {name: CLEAN.get(kind, str(3 + seed % 2)) for name, kind in kinds.items()}
        rng = np.random.default_rng(seed)
        frame = people(rows, seed).assign(**ordinary)
        for name, kind in kinds.items():
            if kind not in CLEAN:
                frame[name] = [str(k) for k in rng.integers(0, 10, rows)]
        return over_time(frame, seed) if order else frame

    def odd(rows: int, seed: int, patients: int = 25) -> pd.DataFrame:
        frame = with_columns(rows, seed, {name: ODD[name] for name in kinds})
        return over_time(frame, seed, patients) if order else frame

    model = medsynth.fit(
        clean(120, 1),
        schema=declared(kinds, order),
        epsilon=5.0,
        method="independent",
        notice=lambda line: None,
        anyway=True,
    )
    drawn = medsynth.sample(model, 90, seed=1).astype(object)
    own: dict[str, Any] = {"model": model, "drawn_by_model": True, "synthetic": drawn.where(drawn.notna(), "")}
    checked(**own, real=odd(60, 2), train=odd(70, 3))
    if not every_set:
        return
    checked(**own, real=clean(60, 2), train=odd(70, 3))
    checked(**own, real=odd(60, 2))
    if order:
        checked(**own, train=odd(70, 3))
        checked(**own, real=odd(60, 2, 1), train=odd(70, 3, 60))
        checked(**own, real=odd(60, 2, 60), train=odd(70, 3, 2))


@pytest.mark.nightly
def test_odd_columns_with_a_declared_schema() -> None:
    """Each odd column with a kind in turn."""
    some = ("one_inf", "empty", "one_number", "one_beyond_floats", "one_word", "one_day")
    reports_with_a_schema(dict(zip(some, DECLARED, strict=True)), order=False, every_set=False)


@pytest.mark.nightly
@pytest.mark.slow
def test_odd_columns_of_every_kind_and_over_time() -> None:
    for number, kind in enumerate(DECLARED):
        reports_with_a_schema(dict.fromkeys(ODD, kind), order=False, every_set=number % 2 == 0)
        reports_with_a_schema(dict.fromkeys(ODD, kind), order=True, every_set=number % 2 == 1)


@pytest.mark.nightly
@pytest.mark.slow
def test_odd_columns_with_a_learned_schema() -> None:
    """The fit of the issue: no schema, and odd columns among those that it learns."""
    train = with_columns(300, 1, ODD)
    model = medsynth.fit(train, target="sick", epsilon=30.0, method="independent", notice=lambda line: None)
    drawn = medsynth.sample(model, 110, seed=1).astype(object)
    own: dict[str, Any] = {"model": model, "drawn_by_model": True, "synthetic": drawn.where(drawn.notna(), "")}
    assert "one_inf" not in not_estimable(checked(**own, real=with_columns(90, 2, ODD), train=train))
    checked(**own, real=with_columns(90, 2, ODD))
    checked(**own)


def test_numbers_are_finite_and_can_be_squared() -> None:
    cells = pd.Series(["1", "-2.5", "inf", "-Infinity", "1e400", "-1e308", "1e39", "1e30", "word", ""], dtype=object)
    found = numbers_of(cells)
    assert found.dropna().tolist() == [1.0, -2.5, 1e30] and np.isfinite(np.float32(found.dropna())).all()
    assert numbers_of(pd.Series(["1", "2"])).dtype == np.int64


def test_folds_without_a_class_or_a_value_teach_nothing() -> None:
    """A column without any value in the rows to learn from, and a fold of one class."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    rng = np.random.default_rng(0)
    x = np.column_stack([rng.normal(size=60), np.full(60, np.nan), np.r_[1.0, np.full(59, np.nan)]])
    y = np.arange(60) >= 30
    halves = [(np.arange(30), np.arange(30, 60)), (np.arange(0, 60, 2), np.arange(1, 30, 2))]
    assert stats.learnable(x)[:, 1].tolist() == [0.0] * 60 and np.isnan(stats.learnable(x)[1:, 2]).all()
    score = stats.out_of_fold(HistGradientBoostingClassifier(random_state=0), x, y, halves)
    assert (score[30:] == 0.5).all() and np.isfinite(score).all()


def test_axes_have_ticks_whatever_they_span() -> None:
    for span in (1e-9, 1e-3, 1.0, 7.0, 1e6, 1e9, 1e30):
        found = ticks(0.0, span)
        assert 1 <= len(found) <= 6 and max(found) <= span * (1 + 1e-9)


def test_codes_of_eighteen_digits_have_bars_and_one_row_has_no_association() -> None:
    """Beyond 2^53 floats have no halves, and nothing varies together in one row."""
    codes = pd.Series([900000000000207008.0] * 30)
    labels, shares = number_bars(codes, codes)
    assert len(labels) == len(shares[0]) and all(share.sum() == pytest.approx(1) for share in shares)
    assert association(np.zeros((1, 3), np.int64), [2, 2, 2]).tolist() == np.eye(3).tolist()
