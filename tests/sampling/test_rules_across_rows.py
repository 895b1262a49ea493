"""Rules across a patient's rows: on tables by hand, row by row as patients are drawn, and that both agree."""

import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from medsynth.arrays import Codes
from medsynth.sampling.rejection import broken, complete
from medsynth.sampling.rules_across_rows import Succession, broken_next, completed, in_order, values
from medsynth.schema import Schema
from medsynth.schema.rules import Rule

COLUMNS: dict[str, Any] = {
    "patient": {"kind": "identifier"},
    "day": {"kind": "date", "bounds": ["2020-01-01", "2020-01-31"]},
    "left": {"kind": "date", "after": "day", "bounds": [0, 9], "missing": True},
    "dose": {"kind": "continuous", "bounds": [-1, 4], "decimals": 1, "missing": True},
    "chronic": {"kind": "categorical", "levels": ["no", "mild", "yes"], "missing": True},
    "died": {"kind": "binary", "levels": ["no", "yes"]},
    "total": {"kind": "continuous", "bounds": [0, 6], "decimals": 2},
    "change": {"kind": "continuous", "bounds": [-2, 2], "decimals": 1, "missing": True},
    "rest": {"kind": "continuous", "bounds": [0, 6], "decimals": 2},
}
DEFINED = ["total = cumulative(dose)", "change = dose - previous(dose)", "rest = 6 - total"]
HELD = [
    "day >= previous(left)",
    "previous(chronic) = yes implies chronic = yes",
    "died = yes implies last row",
    "total >= 0.5 * previous(total)",
    "first row and chronic = mild implies dose > 0",
    "dose != 1.5",
]


def schema(rules: list[str] = DEFINED + HELD) -> Schema:
    head = {"name": "t", "target": "died", "unit": "patient", "max_rows": 5, "order": "day"}
    return Schema.from_dict({**head, "columns": COLUMNS, "rules": rules})


def rows(*wanted: dict[str, int], of: Schema) -> Codes:
    """Codes of rows, zero where none is given."""
    return np.array([[row.get(name, 0) for name in of.names] for row in wanted], np.int32)


def step(codes: Codes, of: Schema, name: str) -> list[Any]:
    """The values of a column, as rules compare them."""
    return list(values(codes, of, {name})[name])


def test_rows_of_a_table_follow_one_another_by_patient_and_order() -> None:
    """Ties stay as they stand in the file; a row without an order comes last."""
    found = Succession.of(np.array([2, 1, 2, 1, 2, 3, 1]), np.array([5, 4, 1, 4, np.nan, 0, 9]))
    assert found.before.tolist() == [2, -1, -1, 1, 0, -1, 3]
    assert found.last.tolist() == [False, False, False, False, True, True, True]
    assert [sorted(turn.tolist()) for turn in found.turns] == [[1, 2, 5], [0, 3], [4, 6]]
    place = found.position({"x": np.arange(7.0), "w": np.array(list("abcdefg"), object)})
    assert np.array_equal(place.before["x"], [2, np.nan, np.nan, 1, 0, np.nan, 3], equal_nan=True)
    assert list(place.before["w"]) == ["c", None, None, "b", "a", None, "d"]
    assert place.first.tolist() == [False, True, True, False, False, True, False]


def test_a_table_without_rows_has_none_that_follow() -> None:
    found = Succession.of(np.array([], np.int64), np.array([]))
    assert not len(found.before) and not len(found.running_sum(np.array([]), (0, 1)))


def test_a_running_sum_is_of_the_patient_alone_and_what_is_missing_adds_nothing() -> None:
    found = Succession.of(np.array([1, 2, 1, 2, 1]), np.array([2, 0, 1, 1, 3]))
    added = np.array([1, 10, 2, np.nan, 4])
    assert found.running_sum(added, (0, 100)).tolist() == [3, 10, 2, 10, 7]
    assert found.running_sum(added, (0, 6)).tolist() == [3, 6, 2, 6, 6]


@pytest.mark.parametrize(
    ("column", "keys", "before"),
    [
        ({"kind": "identifier"}, ["10", "9", "8"], [1, 2, -1]),
        ({"kind": "identifier", "shape": "V-##"}, ["V-10", "V-09", "V-11"], [1, -1, 0]),
        ({"kind": "date", "bounds": ["2020-01-01", "2020-12-31"], "format": "%d.%m.%Y"},
         ["01.03.2020", "02.01.2020", "03.02.2020"], [2, -1, 1]),
        ({"kind": "count", "bounds": [1, 20]}, ["10", "9", "8"], [1, 2, -1]),
    ],
)  # fmt: skip
def test_rows_are_ordered_by_numbers_dates_and_keys(column: dict[str, Any], keys: list[str], before: list[int]) -> None:
    columns = {"who": {"kind": "identifier"}, "when": column, "y": {"kind": "binary", "levels": ["0", "1"]}}
    declared = Schema.from_dict({"name": "t", "unit": "who", "max_rows": 3, "order": "when", "columns": columns})
    cells = pd.DataFrame({"who": ["a"] * 3, "when": keys})
    assert in_order(cells, declared).before.tolist() == before
    alone = in_order(cells.assign(who=""), declared)
    assert alone.before.tolist() == [-1] * 3 and alone.last.all()


def test_next_rows_are_completed_by_hand() -> None:
    """A sum from the row before, cut at its bounds; a difference that is missing in a first row; a rule of both."""
    table = schema()
    first = completed(rows({"dose": 20}, {"dose": 51}, {"dose": 0}, {"dose": 50}, of=table), None, table)
    assert step(first, table, "total") == [1.0, 0.0, 0.0, 4.0]  # 1.0; missing; -1.0; 4.0
    assert step(first, table, "rest") == [5.0, 6.0, 6.0, 2.0]
    assert np.isnan(step(first, table, "change")).all()
    second = completed(rows({"dose": 25}, {"dose": 25}, {"dose": 51}, {"dose": 50}, of=table), first, table)
    assert step(second, table, "total") == [2.5, 1.5, 0.0, 6.0]
    assert step(second, table, "rest") == [3.5, 4.5, 6.0, 0.0]
    assert np.array_equal(step(second, table, "change"), [0.5, np.nan, np.nan, 0.0], equal_nan=True)
    third = completed(rows({"dose": 51}, {"dose": 5}, {"dose": 0}, {"dose": 0}, of=table), second, table)
    assert step(third, table, "total") == [2.5, 1.0, 0.0, 5.0]


def test_next_rows_that_break_a_rule_are_found() -> None:
    table = schema(HELD[:3] + HELD[4:])
    no, yes = np.zeros(1, np.bool_), np.ones(1, np.bool_)
    before = rows({"day": 3, "left": 2, "chronic": 2}, of=table)
    for row, last, truth in [
        ({"day": 5, "chronic": 2}, no, False),  # on the day that the stay before ended
        ({"day": 4, "chronic": 2}, no, True),
        ({"day": 5, "chronic": 1}, no, True),
        ({"day": 5, "chronic": 3}, no, False),  # missing
        ({"day": 5, "chronic": 2, "died": 1}, no, True),
        ({"day": 5, "chronic": 2, "died": 1}, yes, False),
        ({"day": 5, "chronic": 2, "dose": 25}, no, True),  # a rule of single rows
    ]:  # fmt: skip
        assert broken_next(rows(row, of=table), before, last, table).tolist() == [truth], row
    mild = rows({"chronic": 1, "dose": 10}, of=table)
    assert broken_next(mild, None, no, table).tolist() == [True]
    assert broken_next(mild, rows({}, of=table), no, table).tolist() == [False]


def test_single_rows_are_held_to_rules_of_single_rows_alone() -> None:
    table, plain = schema(), schema([HELD[-1]])
    rng = np.random.default_rng(0)
    core = np.column_stack([rng.integers(0, c.size + c.gaps, 200) for c in table.core.columns.values()])
    codes = complete(core.astype(np.int32), table)
    assert np.array_equal(broken(codes, table), broken(codes, plain)) and broken(codes, table).any()
    assert np.isnan(step(codes, table, "change")).all()


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.booleans())
def test_row_by_row_and_on_the_whole_table_the_same_rules_are_broken(seed: int, most: int, shuffled: bool) -> None:
    """Random patients, whose rows are drawn turn by turn and then lie in any order in one table."""
    table, rng = schema(), np.random.default_rng(seed)
    counts = rng.integers(1, most + 1, 12)
    parts, found, whose, turns = list[Codes](), list[NDArray[np.bool_]](), list[NDArray[np.int64]](), list[int]()
    who, before = np.arange(len(counts)), None
    for turn in range(most):
        stays = counts[who] > turn
        who, before = who[stays], None if before is None else before[stays]
        drawn = [rng.integers(0, c.size + c.gaps, len(who)) if c.modelled else 0 * who for c in table.columns.values()]
        before = completed(np.column_stack(drawn).astype(np.int32), before, table)
        found.append(broken_next(before, parts[-1][stays] if parts else None, counts[who] == turn + 1, table))
        parts.append(before)
        whose.append(who)
        turns += [turn] * len(who)
    codes, patients, order = np.concatenate(parts), np.concatenate(whose), np.array(turns)
    mixed = rng.permutation(len(codes)) if shuffled else np.arange(len(codes))
    codes, patients, order, stepwise = codes[mixed], patients[mixed], order[mixed], np.concatenate(found)[mixed]
    succession = Succession.of(patients, order)
    whole = np.any([_broken(rule, codes, table, succession) for rule in table.parsed_rules if not rule.defines], axis=0)
    assert np.array_equal(whole, stepwise)
    own = values(codes, table, {"dose", "total", "change"})
    assert np.allclose(succession.running_sum(np.asarray(own["dose"], np.float64), (0, 6)), own["total"])
    plain = np.asarray(own["dose"], np.float64)
    change = plain - np.asarray(succession.position({"dose": plain}).before["dose"], np.float64)
    assert np.allclose(np.clip(change, -2, 2), own["change"], equal_nan=True)


def _broken(rule: Rule, codes: Codes, table: Schema, succession: Succession) -> NDArray[np.bool_]:
    return rule.broken(values(codes, table, rule.columns), succession.position(values(codes, table, rule.before)))


@pytest.mark.nightly
def test_no_rule_needs_torch() -> None:
    code = "import sys, medsynth.sampling.rules_across_rows; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
