"""Levels of a hierarchy: a node is kept, and its children are counted, where its noisy count passes the threshold."""

from typing import Any

import numpy as np
import pytest

from medsynth.privacy import hierarchy_selection as selection
from medsynth.privacy.accounting.calibration import make_plan
from medsynth.schema.columns.categorical import Categorical
from medsynth.schema.columns.hierarchies import hierarchy

TREE = {"north": {"hill": ["ward 1", "ward 2"], "lake": ["ward 3", "ward 4"]}, "south": ["ward 5", "ward 6"]}
COLUMN = Categorical(hierarchy=TREE, unknown="elsewhere")


def planned(rows: int = 1000, columns: int = 1) -> Any:
    queries = selection.queries({str(k): COLUMN for k in range(columns)})
    return make_plan(queries, epsilon=2.0, delta=1e-5, rows=rows)


def labels(cells: Any) -> list[str]:
    """The labels of a map's nodes, each by the place where it starts."""
    known, starts = hierarchy(TREE), dict[int, str]()
    nodes = known.children(None)
    while nodes:
        node = nodes.pop()
        starts[node.start] = node.label
        nodes += known.children(node)
    return [starts[int(cells.grid.edges[np.argmax(cells.place == k)])] for k in range(cells.cells - 1)]


def chosen(counts: Any, rows: int = 1000) -> Any:
    """The levels for counts by label of a node; nodes beyond them have no row."""
    measured = []

    def measure(label: str, maps: Any) -> dict[str, Any]:
        (cells,) = maps.values()
        measured.append((label, labels(cells)))
        return {name: np.array([counts.get(one, 0.0) for one in labels(cells)] + [0.0]) for name, cells in maps.items()}

    found = selection.select_levels({"place": COLUMN}, measure, planned(rows))
    return found["place"].levels, measured


def test_one_query_for_each_level_and_none_without_columns() -> None:
    queries = selection.queries({"place": COLUMN})
    assert [query.label for query in queries] == [f"hierarchy level {depth}" for depth in (1, 2, 3)]
    # First-order losses are 1 / weight^2: the levels share the selection's part of the budget evenly.
    assert sum(query.weight**-2 for query in queries) == pytest.approx(selection.LOSS_SHARE)
    assert selection.queries({}) == []


def test_children_are_counted_where_their_parent_is_kept() -> None:
    levels, measured = chosen({"north": 900, "hill": 700, "ward 2": 600})
    assert levels == ("hill", "north", "ward 2", "elsewhere")
    assert [label for label, _ in measured] == [f"hierarchy level {depth}" for depth in (1, 2, 3)]
    assert measured[0][1] == ["north", "south"] and set(measured[1][1]) == {"hill", "lake"}
    assert set(measured[2][1]) == {"ward 1", "ward 2"}  # lake's wards were never counted


def test_a_count_within_the_noise_keeps_no_node() -> None:
    plan = planned()
    threshold = selection.THRESHOLD_STDS * plan.noise("hierarchy level 1")
    assert threshold > selection.MIN_SHARE * 1000
    assert chosen({"north": threshold * 0.999})[0] == ("elsewhere",)
    assert chosen({"north": threshold * 1.001})[0] == ("north", "elsewhere")
    # In a large table a share of the rows is what counts.
    assert chosen({"north": 3_999.0}, rows=1_000_000)[0] == ("elsewhere",)
    assert chosen({"north": 4_001.0}, rows=1_000_000)[0] == ("north", "elsewhere")


def test_no_more_levels_than_the_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "MAX_LEVELS", 1)
    assert chosen({"north": 900, "south": 950, "ward 5": 940})[0] == ("elsewhere", "south")[::-1]


def test_a_place_is_in_the_node_that_contains_it() -> None:
    known = hierarchy(TREE)
    north, south = known.children(None)
    cells = selection.node_cells(known.children(None))
    codes = np.arange(known.size + 1, dtype=np.int32)
    expected = [0 if north.start <= c < north.stop else 1 if south.start <= c < south.stop else 2 for c in codes]
    assert cells.cells == 3 and cells.cell_of(codes).tolist() == expected
    assert selection.node_cells([]).cell_of(codes).tolist() == [0] * len(codes)
