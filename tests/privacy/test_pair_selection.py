"""Labels of codes: a pair is kept where its noisy count passes the threshold; other codes become one level."""

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from medsynth.privacy import pair_selection as selection
from medsynth.privacy.accounting.calibration import PARTITION_SELECTION_DELTA, make_plan
from medsynth.schema import Schema

COLUMNS: dict[str, Any] = {
    "ward": {"kind": "categorical", "levels": [1, 2, 3]},
    "department": {"kind": "categorical", "levels": ["medicine", "surgery"]},
    "y": {"kind": "binary", "levels": ["no", "yes"]},
}
RULE = "ward determines department"


def declared(*rules: str, **columns: Any) -> Schema:
    return Schema.from_dict({"name": "t", "target": "y", "columns": COLUMNS | columns, "rules": rules or (RULE,)})


def planned(schema: Schema, **unit: Any) -> Any:
    return make_plan(selection.queries(schema), epsilon=2.0, delta=1e-5, rows=1000, **unit)


def selected(schema: Schema, *tables: Any) -> Schema:
    """The schema after noisy counts of each rule's pairs, relative to the threshold."""
    plan = planned(schema)
    _, least = selection.threshold(plan, len(tables))

    def measure(label: str, asked: Any) -> dict[str, Any]:
        assert label == selection.LABEL
        found = [np.zeros([cells.cells for _, cells in axes]) for axes in asked.values()]
        for one, table in zip(found, tables, strict=True):
            one[: len(table), : len(table[0])] = least * np.array(table)
        return dict(zip(asked, found, strict=True))

    return Schema.from_dict(selection.select_pairs(schema, measure, plan).to_dict())  # as a model file is read


def test_a_pair_is_kept_above_the_threshold_and_the_largest_counts() -> None:
    found = selected(declared(), [[0, 1.01], [3, 4], [1.5, 0]])
    assert found.pairs == {"department": {"1": "surgery", "2": "surgery", "3": "medicine"}}
    assert found.columns == declared().columns and "department" not in found.core.columns


def test_of_equal_counts_the_first_level_counts() -> None:
    assert selected(declared(), [[2, 2]] * 3).pairs["department"] == dict.fromkeys("123", "medicine")


def test_a_code_without_a_pair_becomes_other_and_so_does_its_label() -> None:
    labels = {"kind": "ordinal", "levels": [1, 2, 3], "value_labels": {1: "old", 2: "new", 3: "closed"}}
    found = selected(declared(ward=labels), [[0, 1.01], [3, 0], [0.99, 0]])
    assert found.pairs == {"department": {"1": "surgery", "2": "medicine", "other": "other"}}
    ward, department = found.columns["ward"], found.columns["department"]
    assert ward.levels == (1, 2, "other") and ward.value_labels == {"1": "old", "2": "new"}
    assert ward.read(np.array(["2", "3", "7"], object)).codes.tolist() == [1, 2, 2]
    assert department.levels == ("medicine", "surgery", "other")


def test_declared_levels_of_unknown_cells_take_the_rest() -> None:
    columns = {
        "ward": {"kind": "categorical", "levels": [1, 2, 0], "unknown": 0},
        "department": {"kind": "categorical", "levels": ["medicine", "elsewhere"], "unknown": "elsewhere"},
    }
    found = selected(declared(**columns), [[2, 0], [0.5, 0.5], [0, 0]])
    assert found.pairs == {"department": {"1": "medicine", "0": "elsewhere"}}
    assert found.columns["ward"].levels == (1, 0) and found.columns["department"].levels == ("medicine", "elsewhere")
    # The level of unknown cells may be a code like others. Then it does not take codes without a pair.
    found = selected(declared(**columns), [[2, 0], [0.5, 0.5], [0, 3]])
    assert found.pairs == {"department": {"1": "medicine", "0": "elsewhere", "other": "other"}}


def test_other_is_no_code_of_its_own() -> None:
    ward = {"kind": "categorical", "levels": [1, "other"], "unknown": "other"}
    assert selected(declared(ward=ward), [[2, 0], [9, 0]]).pairs["department"] == {"1": "medicine", "other": "other"}


def test_missing_codes_have_missing_labels() -> None:
    some = {"missing": True}
    found = selected(declared(ward=COLUMNS["ward"] | some, department=COLUMNS["department"] | some), [[2, 0]] * 3)
    assert found.core.definitions["department"].codes(np.array([[0], [3]], np.int32)).tolist() == [0, 2]


def test_a_code_stays_if_one_of_its_rules_has_a_pair() -> None:
    schema = Schema.from_dict({"name": "t", "columns": COLUMNS, "rules": [RULE, "ward determines y"]})
    found = selected(schema, [[2, 0], [0, 0], [0, 0]], [[0, 0], [0, 2], [0, 0]])
    assert found.pairs["department"] == {"1": "medicine", "2": "other", "other": "other"}
    assert found.pairs["y"] == {"1": "other", "2": "yes", "other": "other"}
    assert found.columns["y"].kind == "categorical" and found.columns["y"].levels == ("no", "yes", "other")


@pytest.mark.parametrize(("rules", "most"), [(1, None), (1, 4), (3, 4)])
def test_a_pair_of_one_patient_is_kept_with_at_most_its_share_of_delta(rules: int, most: int | None) -> None:
    """A patient may have `most` rows in as many pairs of each rule, or all in one."""
    plan = planned(declared(), max_rows=most)
    std, least = selection.threshold(plan, rules)
    rows = most or 1
    event, times = plan.events[selection.LABEL]
    assert times == 1 and std == pytest.approx(event.multiplier * rows * math.sqrt(rules))
    chance = rules * rows * norm.sf((least - rows) / std)
    assert 0.9 < chance / (PARTITION_SELECTION_DELTA * plan.delta) <= 1


def test_one_query_for_all_rules_and_none_without_open_pairs() -> None:
    schema = declared()
    (query,) = selection.queries(schema)
    assert query.weight**-2 == pytest.approx(selection.LOSS_SHARE) and query.times == 1
    assert selection.queries(selected(schema, [[2, 0]] * 3)) == []
