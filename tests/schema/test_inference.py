"""Rules that turn noisy counts into columns: no single cell decides, and what noise alone shows is not believed."""

import datetime
from typing import Any

import numpy as np
import pandas as pd
import pytest

from medsynth.errors import SchemaError
from medsynth.io.table import from_frame
from medsynth.schema import Schema, inference
from medsynth.schema.inference import ColumnKind
from medsynth.transforms.table_codec import encode

STD = 10.0
KINDS: dict[str, tuple[list[float], ColumnKind]] = {
    "whole numbers": ([0, 1000, 0, 0, 0, 0], ColumnKind("whole", False)),
    "one decimal among them": ([0, 999, 1, 0, 0, 0], ColumnKind("whole", False)),
    "one word among them": ([0, 999, 0, 0, 0, 1], ColumnKind("whole", False)),
    "decimals, of which a tenth are whole": ([0, 100, 900, 0, 0, 0], ColumnKind("decimal", False)),
    "a few decimals": ([0, 960, 40, 0, 0, 0], ColumnKind("whole", False)),
    "clearly missing": ([200, 800, 0, 0, 0, 0], ColumnKind("whole", True)),
    "not clearly missing": ([29, 971, 0, 0, 0, 0], ColumnKind("whole", False)),
    "words among numbers": ([0, 800, 0, 0, 0, 200], ColumnKind("whole", False, words=True)),
    "numbers among words": ([0, 400, 0, 0, 0, 600], ColumnKind("word", False)),
    "booleans": ([50, 0, 0, 950, 0, 0], ColumnKind("boolean", True)),
    "dates": ([0, 0, 0, 0, 990, 10], ColumnKind("date", False)),
    "nothing but noise": ([-9, 12, 8, -20, 25, 5], ColumnKind("word", False)),
    "nothing at all": ([1000, 0, 0, 0, 0, 0], ColumnKind("word", True)),
}


@pytest.mark.parametrize("name", KINDS)
def test_a_kind_is_what_most_cells_clearly_are(name: str) -> None:
    counts, kind = KINDS[name]
    assert inference.column_kind(np.array(counts, np.float64), STD) == kind


@pytest.mark.parametrize("name", ["whole numbers", "decimals, of which a tenth are whole", "booleans", "dates"])
@pytest.mark.parametrize("cell", range(6))
def test_one_cell_more_or_less_leaves_the_kind(name: str, cell: int) -> None:
    counts, kind = KINDS[name]
    for change in (-1, 1):
        moved = np.array(counts, np.float64)
        moved[cell] += change
        assert inference.column_kind(moved, STD) == kind


def test_bounds_of_a_small_table_come_from_a_range_of_magnitudes() -> None:
    """No single cell is clear; four together are."""
    values = np.geomspace(4.0, 15.9, 400)
    counts = np.bincount(inference.magnitude_cell(values), minlength=inference.MAGNITUDES).astype(np.float64)
    low, high = inference.bounds(counts, 40.0)
    assert 2 <= low <= 4 and 15.9 <= high <= 32
    assert inference.bounds(counts, 1000.0) == (0.0, 1.0) and inference.bounds(counts, 1.0) == (4.0, 16.0)


def test_years_of_dates() -> None:
    days = [datetime.date.fromisoformat(day).toordinal() for day in ("2019-03-01", "2020-03-01", "1066-10-14")]
    cells = inference.year_cell(np.array([*days, np.nan]))
    assert cells.tolist() == [2019 - 1850, 2020 - 1850, inference.YEARS - 1, inference.YEARS - 1]
    counts = np.zeros(inference.YEARS)
    counts[[169, 170]] = 500
    recent: Any = inference.day(counts, STD, ColumnKind("date", True))
    assert recent.bounds == (datetime.date(2018, 1, 1), datetime.date(2021, 12, 31)) and recent.unknown == "missing"
    thin = np.zeros(inference.YEARS)
    thin[70:150] = 30  # births: no year is clear, every decade is
    spread: Any = inference.day(thin, STD, ColumnKind("date", False))
    assert spread.bounds == (datetime.date(1919, 1, 1), datetime.date(2000, 12, 31))
    none: Any = inference.day(np.zeros(inference.YEARS), STD, ColumnKind("date", False))
    assert none.bounds == (datetime.date(1850, 1, 1), datetime.date(2109, 12, 31))


def test_levels_of_booleans_and_of_mixed_columns() -> None:
    boolean: Any = inference.levels({"true": 60.0, "false": 40.0}, 0.0, 1.0, ColumnKind("boolean", False), rows=100)
    assert boolean.levels == (False, True) and boolean.unknown is True and not boolean.missing
    mixed: Any = inference.levels({"1": 50.0, "2": 40.0, "3+": 10.0}, 0.0, 1.0, ColumnKind("whole", False), rows=100)
    assert mixed.levels == ("1", "2", "3+")
    assert inference.levels({"1": 50.0}, 50.0, 1.0, ColumnKind("whole", False), rows=100) is None


COLUMNS: dict[str, Any] = {
    "count": {"kind": "count", "bounds": [0, 9], "unknown": 3},
    "dose": {"kind": "continuous", "bounds": [0, 9], "decimals": 1, "missing": True, "unknown": "missing"},
    "day": {"kind": "date", "bounds": ["2020-01-01", "2020-12-31"], "unknown": "2020-01-03"},
    "word": {"kind": "binary", "levels": ["a", "b"], "unknown": "b"},
}


def test_unknown_is_what_an_unreadable_cell_is_read_as() -> None:
    schema = Schema.from_dict({"name": "t", "columns": COLUMNS})
    assert Schema.from_yaml(schema.to_yaml()) == schema
    frame = pd.DataFrame({"count": ["5", "x", ""], "dose": ["1.5", "x", ""], "day": ["2020-01-02", "x", ""],
                          "word": ["a", "x", ""]})  # fmt: skip
    assert encode(from_frame(frame), schema).T.tolist() == [[5, 3, 3], [15, 91, 91], [1, 2, 2], [0, 1, 1]]
    for cell in ("inf", "1e999", "1e308"):
        encode(from_frame(frame.assign(count=["5", cell, "1"], dose=["5", cell, "1"])), schema)


def test_bounds_that_are_errors_stay_errors_beside_unknown() -> None:
    schema = Schema.from_dict({"name": "t", "columns": {"x": {**COLUMNS["count"], "out_of_range": "error"}}})
    with pytest.raises(SchemaError, match="outside"):
        encode(from_frame(pd.DataFrame({"x": ["5", "77"]})), schema)


@pytest.mark.parametrize(
    ("name", "unknown"),
    [("count", 10), ("count", "missing"), ("count", "x"), ("count", "2020-01-01"), ("dose", float("inf")),
     ("day", 5), ("day", "2021-01-01"), ("dose", 9.2)],
)  # fmt: skip
def test_what_cannot_be_unknown(name: str, unknown: Any) -> None:
    with pytest.raises(SchemaError):
        Schema.from_dict({"name": "t", "columns": {"x": {**COLUMNS[name], "unknown": unknown}}})
