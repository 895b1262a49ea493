"""Limits of assays and levels in order are shown where they belong: at the ends of a scale, and in their order."""

import numpy as np
import pandas as pd
import pytest

from medsynth.report.data.columns import levels_in_order, limits_of
from medsynth.report.data.tables import Tables
from medsynth.report.sections.fidelity import column_summaries, level_bars, number_bars
from medsynth.report.sections.relations import relations
from medsynth.report.sections.table_one import table_one
from medsynth.report.sections.utility import subgroups
from medsynth.schema import Schema
from medsynth.schema.columns.date import Date

LEVELS = ["neg", "(+)", "+", "++"]
SCHEMA = Schema.from_dict({"name": "t", "columns": {
    "urine": {"kind": "ordinal", "levels": LEVELS},
    "dimer": {"kind": "continuous", "bounds": [0.5, 9], "decimals": 1, "below": "<0.5"},
    "rate": {"kind": "count", "bounds": [5, 60], "above": ">60"},
    "troponin": {"kind": "continuous", "bounds": [5, 90], "decimals": 1, "below": ["<3", "<5"], "above": ">90"},
}})  # fmt: skip
CELLS = pd.DataFrame({
    "urine": ["++", "++", "++", "neg", "neg", "(+)"], "dimer": ["<0.5", "<0.5", "2.5", "4", "0.5", "8"],
    "rate": [">60", ">60", "5", "59", "60", "12"], "troponin": ["<3", "<5", "5", ">90", "90", "12"],
})  # fmt: skip


def test_limits_are_at_the_ends_and_levels_in_their_order() -> None:
    shown = {column.name: column for column in column_summaries(CELLS, SCHEMA).columns}
    assert shown["urine"].labels == ["neg", "(+)", "++"]
    assert shown["dimer"].labels[0] == "<0.5"
    assert shown["dimer"].shares[0] == pytest.approx(1 / 3, abs=1e-4)
    assert shown["rate"].labels[-1] == ">60"
    assert [shown["troponin"].labels[k] for k in (0, 1, -1)] == ["<3", "<5", ">90"]
    assert all(sum(column.shares) == pytest.approx(1, abs=1e-3) for column in shown.values())


@pytest.mark.parametrize("side", [0, 1])
def test_a_table_of_limits_alone_has_bars(side: int) -> None:
    limits = limits_of(SCHEMA)["dimer"]
    alone = pd.Series([*limits] * 4)
    tables = [alone, pd.Series([0.5, 2.5, 9.0])]
    labels, _ = number_bars(tables[side], tables[1 - side], limits)
    assert "<0.5" in labels


def test_rare_levels_are_in_their_order_too() -> None:
    words = pd.Series(["++"] * 5 + ["+"] * 3 + ["neg"])
    order = levels_in_order(SCHEMA)
    assert level_bars(words, words, order["urine"])[0] == ["neg", "+", "++"]
    lines = table_one(pd.DataFrame({"urine": words}), None, frozenset(), in_order=order).lines
    assert [one.level for one in lines] == ["neg", "+", "++"]


def test_dates_are_shown_as_dates() -> None:
    """They are compared as years, such as 2020.459, which no reader knows as 16 June."""
    column = Date(bounds=("2020-01-01", "2021-12-31"), format="%d.%m.%Y")
    days = pd.Series(pd.date_range("2020-01-01", periods=700).strftime("%d.%m.%Y"))
    years = column.compared(days)
    assert [column.shown(float(year)) for year in years] == list(days)
    labels, _ = number_bars(years, years, {}, column)
    assert labels[0].startswith("04.01.2020 to ") and labels[-1].endswith(".2021")
    frame = pd.DataFrame({"seen": years, "late": np.where(np.arange(700) < 350, "no", "yes")})
    tables = Tables(frame, frame, None, None, frozenset({"seen"}), dates={"seen": column})
    assert subgroups(tables, ["seen"], None, np.random.default_rng(0)).groups[0].group.startswith("up to 24.06.2020")
    found = relations(tables, np.random.default_rng(0))
    assert found is not None
    texts = [text for one in found.listed for text in (one.name, *one.labels, *one.row_labels)]
    assert any(".2020" in text for text in texts) and not any("2020.4" in text for text in texts)
