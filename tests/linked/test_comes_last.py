"""A table of rows that come last, such as deaths: where its rows are drawn, and what a report counts."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from medsynth.errors import SchemaError
from medsynth.report.several_tables import linked_facts
from medsynth.sampling.patients import PatientRows
from medsynth.sampling.placing import view_of
from medsynth.sampling.rejection import widened
from medsynth.sampling.tables import _end, _first_rows
from medsynth.schema.codec import column_values
from medsynth.schema.linked import LinkedTables, chain_view, own

from .conftest import TABLES

DEATHS = """
  deaths:
    order: died_on
    max_rows: 2
    latest: {stay: stays}
    comes_last: true
    columns:
      patient: {kind: identifier}
      died_on: {kind: date, bounds: [1980-01-01, 2024-12-31]}
      cause: {kind: categorical, levels: [heart, other]}
      stay: {kind: identifier, missing: true, drop: true}
    rules: [died_on is present implies last row]
"""
EARLIER = {"stays": ("admitted", 3), "tests": ("taken", 4)}


def drawn(tables: LinkedTables, patients: int) -> dict[str, PatientRows]:
    """Rows of zero to `max_rows` at random days, in order, of tables before the deaths."""
    rng = np.random.default_rng(1)
    found = dict[str, PatientRows]()
    for name, (order, most) in EARLIER.items():
        schema = tables.view(name)
        whose = np.repeat(np.arange(patients), rng.integers(0, most + 1, patients))
        days = rng.integers(0, schema.columns[order].size, len(whose))
        codes = np.zeros((len(whose), len(schema.columns)), np.int32)
        codes[:, schema.names.index(order)] = days[np.lexsort((days, whose))]
        found[name] = PatientRows(codes, whose)
    return found


@pytest.mark.parametrize("placed", [True, False], ids=["by stays", "alone"])
def test_no_row_of_another_table_comes_later(placed: bool) -> None:
    """By plain loops: at the distance from the last stay that was drawn, moved to the last row if that is later."""
    deaths = DEATHS if placed else DEATHS.replace("    latest: {stay: stays}\n", "")
    tables = LinkedTables.from_yaml(TABLES + deaths)
    found, who = drawn(tables, 400), np.arange(400)
    chain, rng = chain_view(tables, "deaths"), np.random.default_rng(2)
    core = np.column_stack([rng.integers(0, min(column.size, 2000), 400) for column in chain.core.columns.values()])
    core = core.astype(np.int32)
    view = view_of(tables, "deaths", found, who)
    rows, never = view.rows(view.possible(core, who), None, who)
    schema = tables.view("deaths")
    died = schema.columns["died_on"]
    days = rows[:, schema.names.index("died_on")] + died.units[0]
    moved = 0
    for k in who:
        theirs = {}
        for name, (order, _) in EARLIER.items():
            view_there = tables.view(name)
            at = found[name].codes[found[name].whose == k, view_there.names.index(order)]
            theirs[name] = at + view_there.columns[order].units[0]
        last = max(np.concatenate([*theirs.values(), [died.units[0]]]))
        assert not never[k] and days[k] >= last
        moved += days[k] == last
        if placed and core[k, 0] and len(theirs["stays"]):
            due = max(theirs["stays"]) + core[k, 1]
            assert days[k] == np.clip(due, last, died.units[1])
    assert 0 < moved < 400


def test_what_lasts_ends_with_the_last_row_and_a_row_that_is_the_last_stays_alone() -> None:
    """Stays of patients who die end then, others as they did. A second death of a patient is not drawn."""
    tables = LinkedTables.from_yaml(TABLES + DEATHS)
    found, who = drawn(tables, 60), np.arange(40)
    found |= {"patients": PatientRows(np.zeros((60, 4), np.int32), np.arange(60)),
              "consent": PatientRows(np.zeros((0, 5), np.int32), np.arange(0))}  # fmt: skip
    stays, schema = found["stays"], tables.view("stays")
    stays.codes[:, schema.names.index("discharged")] = 30
    before = column_values(stays.codes, schema, "discharged")
    view = view_of(tables, "deaths", found, who)
    core = np.zeros((40, len(view.of_chain.core.names)), np.int32)
    rows, possible = _first_rows(view, core, np.where(who < 9, 2, 1), own(tables, "deaths"), 1)
    assert possible.tolist() == [1] * 40
    found["deaths"] = PatientRows(rows, who)
    _end(found, tables)
    died = column_values(rows, tables.view("deaths"), "died_on")
    ends, starts = (column_values(stays.codes, schema, name) for name in ("discharged", "admitted"))
    dead = stays.whose < 40
    due = np.minimum(before[dead], died[stays.whose[dead]])
    assert (ends[dead] == due).all() and (ends >= starts).all() and (due < before[dead]).any()
    assert (ends[~dead] == before[~dead]).all()


def test_a_row_that_no_day_is_left_for_is_impossible() -> None:
    text = (TABLES + DEATHS).replace("    latest: {stay: stays}\n    comes", "    comes")
    tables = LinkedTables.from_yaml(text.replace("[1980-01-01, 2024-12-31]", "[1980-01-01, 1999-12-31]"))
    schema = tables.view("stays")
    late = widened(np.zeros((2, len(schema.core.names)), np.int32), schema)
    late[1, schema.names.index("admitted")] = 8000
    found = {"stays": PatientRows(late, np.arange(2)), "tests": drawn(tables, 0)["tests"]}
    view = view_of(tables, "deaths", found, np.arange(2))
    core = np.zeros((2, len(view.of_chain.core.names)), np.int32)
    assert view.rows(core, None, np.arange(2))[1].tolist() == [False, True]


def test_a_report_counts_rows_that_do_not_come_last(frames: dict[str, pd.DataFrame]) -> None:
    tables = LinkedTables.from_yaml(TABLES + DEATHS)
    cells = {n: f.astype(str).replace({"NaT": "", "nan": ""}).reset_index(drop=True) for n, f in frames.items()}
    last = cells["stays"].groupby("patient")["admitted"].max()
    last = last.combine(cells["tests"].groupby("patient")["taken"].max(), max, "")
    cells["deaths"] = pd.DataFrame({"patient": last.index, "died_on": last.to_numpy(), "cause": "other"})
    assert linked_facts(tables, cells, None, {}).tables[-1].too_early == 0
    cells["deaths"].loc[[1, 5], "died_on"] = "1985-01-01"
    found = linked_facts(tables, cells, None, {})
    assert 2 <= found.tables[-1].too_early <= 4 and found.broken >= 2


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("  consent:\n", "  consent:\n    comes_last: true\n", "`comes_last`: move this table to the end"),
        ("    order: died_on\n    max_rows: 2\n    latest: {stay: stays}\n", "", "need orders of one kind"),
        (
            "1980-01-01, 2024-12-31]",
            "1980-01-01, 2024-12-31], resolution: minute, format: '%Y-%m-%d %H:%M'",
            "one kind",
        ),
    ],
)
def test_faults_are_named(old: str, new: str, words: str) -> None:
    text = (TABLES + DEATHS).replace("    rules: [died_on is present implies last row]\n", "")
    with pytest.raises(SchemaError, match=words):
        LinkedTables.from_yaml(text.replace(old, new), "ward")
