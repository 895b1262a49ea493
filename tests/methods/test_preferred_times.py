"""Kinds of days and moments: counted and drawn exactly, and hours of the day come back from a fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import medsynth
from medsynth.methods.digit_preference import DigitKinds, kinds_of
from medsynth.methods.preferred_times import DAYS, HOURS, DayKinds, HourKinds
from medsynth.privacy.queries.content import QueryError
from medsynth.schema import Date

YEARS = ("2019-12-30", "2021-02-02")
KINDS = {
    "days": Date(bounds=YEARS),
    "minutes": Date(bounds=("2020-02-27", "2020-03-01"), resolution="minute", format="%Y-%m-%d %H:%M"),
    "seconds": Date(bounds=("2020-02-28", "2020-02-29"), resolution="second", format="%Y-%m-%d %H:%M:%S"),
}


@pytest.mark.parametrize("name", KINDS)
def test_kinds_are_counted_and_found_one_by_one(name: str) -> None:
    column = KINDS[name]
    kinds, low = kinds_of(column), column.units[0]
    cells = kinds.cell_of(np.arange(column.size, dtype=np.int32))
    moments = [column._moment((low + code) / column.per_day) for code in range(column.size)]
    expected = [DAYS if (m.month, m.day) == (1, 1) else m.day - 1 for m in moments]
    hours = [4 * m.hour + (3 if m.second else sum(m.minute % some > 0 for some in (60, 15, 5))) for m in moments]
    assert cells.tolist() == (expected if name == "days" else hours)
    assert kinds.cell_of(np.array([column.size], np.int32)).tolist() == [kinds.cells - 1]
    spans = [(0, column.size - 1), (7, 7), (3, column.size // 2), (column.size // 3, column.size - 2)]
    first, last = (np.array(ends) + low for ends in zip(*spans, strict=True))
    counted = kinds.count(first, last)
    for k, (start, end) in enumerate(spans):
        inside = cells[start : end + 1]
        assert counted[:, k].tolist() == np.bincount(inside, minlength=kinds.cells)[:-1].tolist()
        for kind in (0, 11, 23, kinds.cells - 2):
            own = start + np.flatnonzero(inside == kind)
            found = kinds.nth(np.full(len(own), kind), np.full(len(own), start + low), np.arange(len(own)))
            assert (found - low).tolist() == own.tolist()


def test_which_columns_have_which_kinds() -> None:
    assert isinstance(kinds_of(KINDS["days"]), DayKinds) and isinstance(kinds_of(KINDS["minutes"]), HourKinds)
    clock = Date(bounds=("1900-01-01", "1900-01-01"), resolution="minute", format="%H:%M")
    after = Date(bounds=(0, 900), after="a")
    assert isinstance(kinds_of(clock), HourKinds) and isinstance(kinds_of(after), DigitKinds)
    earlier = DigitKinds(0, 9).cells  # of a model of an earlier version
    assert isinstance(kinds_of(KINDS["days"], earlier), DigitKinds)
    hours = kinds_of(KINDS["minutes"], HOURS + 1)
    assert hours.cell_of(np.arange(0, 48 * 60, 30, dtype=np.int32)).tolist() == [*np.repeat(range(24), 2)] * 2
    assert len({earlier, HOURS + 1, kinds_of(KINDS["minutes"]).cells, DAYS + 2}) == 4


@pytest.mark.parametrize("wrong", [(0, 9), (5, 4_000_000)])
def test_days_that_do_not_exist_are_refused(wrong: tuple[int, int]) -> None:
    with pytest.raises(QueryError):
        DayKinds(*wrong)
    with pytest.raises(QueryError):
        HourKinds(*wrong, 7)


def clinic(count: int) -> Any:
    """Visits from 8 to 15 o'clock, on any day, or with an unknown time; and dates that are known by month alone."""
    rng = np.random.default_rng(0)
    day = pd.Timestamp("2018-01-01") + pd.to_timedelta(rng.integers(0, 1400, count), unit="D")
    seen = day + pd.to_timedelta(rng.integers(8 * 60, 15 * 60, count), unit="min")
    put = np.where(rng.random(count) < 0.6, day, seen.round("15min"))
    onset = day - pd.to_timedelta(rng.integers(0, 2000, count), unit="D")
    sick = rng.choice(["n", "y"], count)
    texts = {"seen": seen.strftime("%Y-%m-%d %H:%M"), "onset": onset.strftime("%Y-%m-01"),
             "put": pd.Series(put).dt.strftime("%Y-%m-%d %H:%M"), "sick": sick}  # fmt: skip
    return pd.DataFrame(texts)


@pytest.mark.nightly
@pytest.mark.nightly_for("declared")
@pytest.mark.filterwarnings("ignore::medsynth.errors.MedsynthWarning")  # few columns, on purpose
@pytest.mark.parametrize("form", ["bare", "declared"])
def test_hours_of_visits_and_firsts_of_months_come_back(form: str, quick: None) -> None:
    """The noise is drawn anew: a preferred hour has 430 of 3,000 rows, and the noise of its count is below ten."""
    table = clinic(3000)
    moment = {"format": "%Y-%m-%d %H:%M", "resolution": "minute"}
    schema = {"name": "c", "target": "sick", "columns": {
        "seen": {"kind": "date", "bounds": ["2018-01-01", "2021-12-31"], **moment},
        "put": {"kind": "date", "bounds": ["2018-01-01", "2021-12-31"], **moment},
        "onset": {"kind": "date", "bounds": ["2010-01-01", "2021-12-31"]},
        "sick": {"kind": "binary", "levels": ["n", "y"]},
    }}  # fmt: skip
    model = medsynth.fit(table, epsilon=10.0, schema=schema if form == "declared" else None)
    drawn = medsynth.sample(model, 2000, seed=1)
    hours = pd.to_datetime(drawn["seen"]).dt.hour
    assert hours.between(8, 14).mean() > 0.9
    put = pd.to_datetime(drawn["put"]).dropna().dt
    assert abs(((put.hour == 0) & (put.minute == 0)).mean() - 0.6) < 0.06
    assert (put.minute % 15 == 0).mean() > 0.9
    assert (pd.to_datetime(drawn["onset"]).dropna().dt.day == 1).mean() > 0.9
