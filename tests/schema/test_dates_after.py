"""Dates that come after others: by noisy counts of the days between them, where these clearly show it."""

from dataclasses import replace
from datetime import date
from typing import Any

import numpy as np
import pandas as pd
import pytest
from open_tables import queries as bare_queries
from open_tables import raw_vault

from medsynth.io.table import from_frame
from medsynth.privacy import partition_selection as selection
from medsynth.privacy.accounting.calibration import make_plan
from medsynth.privacy.release import Releases
from medsynth.rng import SeededEntropy
from medsynth.schema import Date, Schema, magnitudes
from medsynth.schema.codec import csv_cells, encode
from medsynth.schema.inference import MOST_PAIRS, date_pairs, dates_after
from medsynth.schema.learned import ColumnKind, LearnedColumn

ROWS, STD = 4000, 10.0
YEARS = (date(2015, 1, 1), date(2022, 12, 31))
START = date(2016, 1, 1).toordinal()


def counted(first: Any, second: Any) -> Any:
    """Exact counts of the differences."""
    cells = magnitudes.difference_cell(np.asarray(first, np.float64), np.asarray(second, np.float64))
    return np.bincount(cells, minlength=magnitudes.DIFFERENCES).astype(np.float64)


def stays(rows: int = ROWS) -> Any:
    return np.random.default_rng(0).integers(0, 30, rows)


def starts(rows: int = ROWS) -> Any:
    return START + np.random.default_rng(1).integers(0, 2000, rows)


def test_the_cell_of_a_difference_and_the_other_direction() -> None:
    """Turned counts are those of the pair the other way round; times of the day do not count, the same day is after."""
    first = np.array([10.0, 10.9, 10.0, 10.0, np.nan, 10.0, np.nan])
    second = np.array([10.0, 11.1, 8.0, 9000.0, np.nan, np.nan, 3.0])
    counts, middle = counted(first, second), (magnitudes.MAGNITUDES - 2) // 2
    assert counts.sum() == 7 and counts[:middle].sum() == 1 and counts[middle + magnitudes.SAME_DAY] == 1
    assert counts[-3:].tolist() == [1, 1, 1]
    assert (magnitudes.turned(counts) == counted(second, first)).all()
    assert (magnitudes.turned(magnitudes.turned(counts)) == counts).all()


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("rows", "days", "ends"),
    [
        (ROWS, lambda stay: stay, (0, 45)),
        (ROWS, lambda stay: stay * 0, (0, 1)),  # the same day
        (ROWS, lambda stay: 28 + stay // 15, (15, 45)),  # a visit four weeks later
        (ROWS, lambda stay: -stay - 1, None),  # before
        (ROWS, lambda stay: stay - 10, None),  # on both sides
        (ROWS, lambda stay: np.where(stay < 4, 4000, stay), (0, 5799)),  # some of them years later
        (ROWS, lambda stay: np.where(stay < 6, np.nan, stay), (0, 45)),  # the second is not known yet
        (400, lambda stay: stay, None),  # too few rows to show it
    ],
)  # fmt: skip
def test_the_range_of_days_after(rows: int, days: Any, ends: Any) -> None:
    """Under noise, twenty times; the seeds are fixed."""
    first = starts(rows)
    exact = counted(first, first + days(stays(rows)))
    for seed in range(20):
        noisy = exact + np.random.default_rng(seed).normal(0, STD, exact.shape)
        assert magnitudes.days_after(noisy, STD, rows, 0.0) == ends


def test_a_second_date_without_the_first_lies_elsewhere() -> None:
    """Counted from a date that is not there, it would be lost."""
    first = starts().astype(np.float64)
    second = first + stays()
    first[: ROWS // 8] = np.nan
    assert magnitudes.days_after(counted(first, second), STD, ROWS, 0.0) is None
    assert magnitudes.days_after(counted(second, first), STD, ROWS, 0.0) is None


def test_one_row_is_no_range() -> None:
    """Counts of which none is clear name no range, however many rows there should be; one odd row changes none."""
    alone = counted([START], [START + 3])
    assert magnitudes.days_after(alone, STD, 1, 0.0) is None
    assert magnitudes.days_after(np.zeros(magnitudes.DIFFERENCES), STD, 0, 0.0) is None
    first = starts()
    usual = counted(first, first + stays())
    odd = usual + counted([START], [START + 100_000])
    assert magnitudes.days_after(odd, STD, ROWS + 1, 0.0) == magnitudes.days_after(usual, STD, ROWS, 0.0)


def learned(**columns: Any) -> dict[str, LearnedColumn]:
    made = {name: {"bounds": YEARS, "missing": True, "unknown": "missing"} | column for name, column in columns.items()}
    dates = {name: Date(**column) for name, column in made.items()}
    return {name: LearnedColumn(kind=ColumnKind(cells="date", form=c.format), column=c) for name, c in dates.items()}


def afters(columns: dict[str, LearnedColumn], counts: Any) -> dict[str, str]:
    found = dates_after(columns, counts, STD, rows=ROWS, rows_std=0.0)
    schema = Schema(name="t", columns={name: c.column for name, c in found.items() if c.column})  # checks itself
    return {name: column.depends_on[0] for name, column in schema.columns.items() if column.depends_on}


def test_which_date_comes_after_which() -> None:
    """None counts from a date that itself counts from another; a range as wide as the bounds, or a time, is none."""
    a, days = starts(), stays()
    dates = {"a": a, "b": a + days, "c": a + 2 * days, "d": a[::-1].copy()}
    counts = {(one, two): counted(dates[one], dates[two]) for one, two in date_pairs(list(dates))}
    plain: dict[str, Any] = {name: {} for name in dates}
    assert afters(learned(**plain), counts) == {"b": "a", "c": "a"}
    backwards = {(two, one): magnitudes.turned(known) for (one, two), known in counts.items()}
    assert afters(learned(**plain), backwards) == {"b": "a", "c": "a"}
    timed: Any = {"resolution": "minute", "format": "%Y-%m-%d %H:%M"}
    assert afters(learned(**plain | {"c": timed}), counts) == {"b": "a"}
    assert afters(learned(**plain | {"a": timed}), counts) == {"b": "a", "c": "a"}
    found = learned(**plain)
    gaps = {name: replace(column, gaps={"": 400.0}) for name, column in found.items()}
    assert afters(found | {"a": gaps["a"]}, counts) == {"c": "b"}
    assert afters(found | {"b": gaps["b"]}, counts) == {"b": "a", "c": "a"}
    short: Any = {"bounds": (date(2020, 1, 1), date(2020, 4, 9))}  # 100 days
    assert afters(learned(**plain | {"b": short, "c": short}), counts) == {}


def test_pairs_are_few() -> None:
    names = list("abcdefgh")
    pairs = date_pairs(names)
    assert len(pairs) == MOST_PAIRS and pairs[:7] == list(zip(names, names[1:], strict=False))
    assert date_pairs(["a"]) == [] and len(date_pairs(list("abcde"))) == 10


@pytest.mark.statistical
def test_a_stay_comes_back_from_a_table_without_a_schema() -> None:
    """Admitted with a time; a few dates are gone, unreadable or before the other. The seed is fixed."""
    draw, stay = np.random.default_rng(2), stays()
    admitted = pd.Timestamp("2019-01-01") + pd.to_timedelta(draw.integers(0, 2_000_000, ROWS), unit="min")
    frame = pd.DataFrame({
        "admitted": admitted.strftime("%Y-%m-%d %H:%M"),
        "discharged": (admitted.normalize() + pd.to_timedelta(stay, unit="D")).strftime("%d.%m.%Y"),
        "long": stay > 14,
    })  # fmt: skip
    frame.loc[0, "admitted"], frame.loc[1, "discharged"], frame.loc[2, "discharged"] = "", "x", "01.01.1990"
    frame.loc[3, ["admitted", "discharged"]] = ""
    plan = make_plan(bare_queries(), epsilon=3.7, delta=1e-5, rows=ROWS)
    ledger = plan.ledger("t")
    found = raw_vault(from_frame(frame), ROWS, Releases(ledger, SeededEntropy(0)), "long").measure_schema()
    column: Any = found.schema.columns["discharged"]
    assert (column.after, column.bounds[0], column.missing) == ("admitted", 0, True) and 29 <= column.bounds[1] < 64
    assert "The model learns these dates as the time after another date: discharged after admitted." in found.summary()
    charged = {entry.label: entry.sensitivity for entry in ledger.entries}
    assert charged[selection.FORMATS] == pytest.approx(np.sqrt(3))  # years of two dates, days between them
    codes = encode(from_frame(frame), found.schema)  # nothing is refused
    again = csv_cells(codes, found.schema)
    assert (again.iloc[4:]["discharged"] == frame.iloc[4:]["discharged"]).all()
    assert set(again.index[again["discharged"] == ""]) == {0, 1, 3}  # the day before admission is that day


@pytest.mark.statistical
@pytest.mark.parametrize("seconds", [False, True])
def test_an_operation_of_minutes_comes_back_from_a_table_without_a_schema(seconds: bool) -> None:
    """The seed is fixed. Where noise hides the order of the two, that is said."""
    draw, form = np.random.default_rng(2), "%Y-%m-%d %H:%M:%S" if seconds else "%Y-%m-%d %H:%M"
    start = pd.Timestamp("2019-01-01") + pd.to_timedelta(draw.integers(0, 2_000_000, ROWS), unit="min")
    start += pd.to_timedelta(draw.integers(0, 60, ROWS), unit="s") * seconds
    end = start + pd.to_timedelta(draw.integers(30, 300, ROWS), unit="min")
    frame = pd.DataFrame({"start": start.strftime(form), "end": end.strftime(form), "long": draw.random(ROWS) < 0.5})
    said = list[str]()
    for epsilon in (3.7, 0.1):
        releases = Releases(
            make_plan(bare_queries(), epsilon=epsilon, delta=1e-5, rows=ROWS).ledger("t"), SeededEntropy(0)
        )
        found = raw_vault(from_frame(frame), ROWS, releases, "long").measure_schema(required=False)
        said.append(" ".join(found.summary()))
        if epsilon > 1:
            column: Any = found.schema.columns["end"]
            assert (column.after, column.resolution) == ("start", "second" if seconds else "minute")
            assert 300 <= column.bounds[1] / (60 if seconds else 1) < 800
            assert (csv_cells(encode(from_frame(frame), found.schema), found.schema) == frame.astype(str))["end"].all()
    assert ["the time between them, is not learned: start, end." in words for words in said] == [False, True]
    assert ["hours of the day are not kept: end." in words for words in said] == [True, False]
