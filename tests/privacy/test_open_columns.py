"""Measurements of open columns: what they cost, and that declared columns are in none of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from medsynth.errors import SchemaError
from medsynth.io.table import from_frame
from medsynth.privacy import partition_selection as selection
from medsynth.privacy.accounting.calibration import make_plan
from medsynth.privacy.partition_selection import RawVault
from medsynth.privacy.release import Release, Releases
from medsynth.rng import NoNoise, SeededEntropy
from medsynth.schema import Schema
from tests.benchmarks.tables import PARTS, opened

ROWS = 400
CLOSED = Schema.from_yaml("""
name: t
target: sick
columns:
  ward: {kind: categorical, levels: [a, b, c], missing: true}
  dose: {kind: continuous, bounds: [0, 9], decimals: 3, missing: true}
  stage: {kind: ordinal, levels: [1, 2]}
  pulse: {kind: count, bounds: [30, 220]}
  day: {kind: date, bounds: [2010-01-01, 2030-12-31]}
  later: {kind: date, bounds: [2010-01-01, 2030-12-31]}
  side: {kind: binary, levels: [left, right]}
  sick: {kind: binary, levels: [no, yes]}
""")


class Kept(Releases):
    """Releases whose exact outcomes are kept."""

    def release(self, label: Any, sensitivity: Any, draw: Any) -> Release:
        found: Release = super().release(label, sensitivity, draw)
        self.__dict__.setdefault("taken", {})[label] = found
        return found


def patients(rows: int = ROWS) -> pd.DataFrame:
    """Rows of which the last has what many others have, in each column."""
    draw = np.random.default_rng(0)
    frame = pd.DataFrame({
        "ward": draw.choice(["a", "b"], rows), "dose": np.round(draw.uniform(0, 9, rows), 3),
        "stage": draw.choice([1, 2], rows), "pulse": draw.integers(40, 120, rows),
        "day": [f"20{k % 20 + 10}-01-05" for k in range(rows)],
        "later": [f"20{k % 20 + 10}-01-{k % 9 + 10}" for k in range(rows)],
        "side": draw.choice(["left", "right"], rows), "sick": draw.choice(["no", "yes"], rows),
    })  # fmt: skip
    frame.loc[:60, "pulse"] = 71  # a level that passes the threshold
    frame.iloc[-1] = frame.iloc[0]
    return frame.astype(str)


def measured(
    frame: pd.DataFrame, schema: Schema, epsilon: float = 80.0
) -> tuple[dict[str, float], dict[str, Release], Schema]:
    """What each measurement is charged, its exact outcome, and the settled schema."""
    plan = make_plan(selection.queries(schema), epsilon=epsilon, delta=1e-5, rows=len(frame))
    releases = Kept(ledger := plan.ledger("t"), NoNoise())
    settled = RawVault(from_frame(frame), len(frame), releases, schema).measure_schema().schema
    assert ledger.complete
    return {entry.label: entry.sensitivity for entry in ledger.entries}, releases.__dict__["taken"], settled


@pytest.mark.parametrize("part", PARTS)
def test_the_worst_row_changes_what_is_charged(part: str) -> None:
    """With equality: a row adds to one count of each open column, and of each pair of open dates."""
    schema = opened(CLOSED, part)
    (charged, full, _), (_, less, _) = measured(patients(), schema), measured(patients()[:-1], schema)
    assert charged.keys() == selection.asked(schema).keys()
    for label, one in full.items():
        change = np.linalg.norm(np.concatenate(one.arrays) - np.concatenate(less[label].arrays))
        assert change == pytest.approx(charged[label]), label


@pytest.mark.parametrize("part", PARTS)
def test_what_is_declared_is_never_measured(part: str) -> None:
    schema = opened(CLOSED, part)
    _, taken, settled = measured(patients(), schema)
    for label, release in taken.items():
        named = {name for text in release.of for name in schema.columns if name in text.replace(",", " ").split()}
        assert named and named <= {*selection.asked(schema)[label]}, label
    for name, column in CLOSED.columns.items():
        assert name in schema.open or settled.columns[name] == column


def test_declared_decimals_formats_and_levels_are_not_measured() -> None:
    schema = Schema.from_yaml("""{name: t, columns: {
        dose: {kind: continuous, decimals: 2}, day: {kind: date, format: "%Y-%m-%d"},
        ward: {kind: categorical, levels: [zz, b], others: learn}}}""")
    _, taken, settled = measured(patients()[["dose", "day", "ward"]], schema)
    assert [*taken[selection.FORMATS].of] == ["magnitudes of dose", "years of day"] and selection.KINDS not in taken
    assert settled.columns["dose"].places == 2 and settled.columns["ward"].levels == ("zz", "b", "a")
    # Noise may hide the rows of a declared level. They do not become a level `other`.
    rare = pd.DataFrame({"ward": ["zz"] * 16 + ["a"] * 384, "other": "x"})
    schema = Schema.from_yaml("""{name: t, columns: {
        ward: {kind: categorical, levels: [zz], others: learn}, other: {kind: binary, levels: [x, y]}}}""")
    assert measured(rare, schema, epsilon=1)[2].columns["ward"].levels == ("zz", "a")


@pytest.mark.parametrize("anchor", ["{kind: date}", "{kind: date, bounds: [2010-01-01, 2030-12-31]}"])
def test_days_after_a_date_are_learned_from_the_days_between_alone(anchor: str) -> None:
    schema = Schema.from_yaml(f"{{name: t, columns: {{day: {anchor}, later: {{kind: date, after: day}}}}}}")
    frame = patients()[["day", "later"]]
    (charged, full, settled), (_, less, _) = measured(frame, schema), measured(frame[:-1], schema)
    parts = [part for part in full[selection.FORMATS].of if "later" in part]
    assert parts == ["days from day to later"]
    for label, one in full.items():
        change = np.linalg.norm(np.concatenate(one.arrays) - np.concatenate(less[label].arrays))
        assert change == pytest.approx(charged[label]), label
    later = settled.columns["later"].to_dict()
    assert (later["after"], later["out_of_range"]) == ("day", "missing")
    assert settled.columns["later"].bounds[0] == 0 and 13 <= int(str(settled.columns["later"].bounds[1])) < 120


@pytest.mark.parametrize("kind", ["count", "continuous"])
def test_limits_of_an_assay_can_be_learned(kind: str) -> None:
    rng = np.random.default_rng(1)
    cells = [str(x) for x in rng.integers(1, 60, ROWS)]
    cells[:60], cells[60:200] = ["<2"] * 60, [">=60"] * 140
    cells[200:203] = ["lost"] * 3
    frame = pd.DataFrame({"rate": cells, "other": [str(k % 40) for k in range(ROWS)]})
    other = "{kind: count, limits: learn, bounds: [0, TODO]}"
    schema = Schema.from_yaml(f"{{name: t, columns: {{rate: {{kind: {kind}, limits: learn}}, other: {other}}}}}")
    (charged, full, settled), (_, less, _) = measured(frame, schema), measured(frame[:-1], schema)
    for label, one in full.items():
        change = np.linalg.norm(np.concatenate(one.arrays) - np.concatenate(less[label].arrays))
        assert change <= charged[label] * (1 + 1e-9), label
    rate = settled.columns["rate"].to_dict()
    assert (rate["below"], rate["above"], rate["bounds"]) == (["<2"], [">=60"], [2, 60])
    assert rate["missing"] == ["lost", ""] and not settled.columns["other"].to_dict().get("below")


def test_open_dates_are_read_with_the_months_and_years_that_are_declared() -> None:
    frame = pd.DataFrame({"seen": [f"{k % 28 + 1:02}-{'Mai' if k % 2 else 'Okt'}-{k % 10 + 10}" for k in range(ROWS)]})
    form = 'format: "%d-%b-%y", months: de, pivot: 1990'
    settled = measured(frame, Schema.from_yaml(f"{{name: t, columns: {{seen: {{kind: date, {form}}}}}}}"))[2]
    first, last = map(str, settled.columns["seen"].bounds)
    assert "2005" < first[:4] <= "2010" and "2019" <= last[:4] < "2025"


def test_a_column_with_two_declared_levels_gets_the_partner_of_the_one_that_is_found() -> None:
    frame = pd.DataFrame({"side": ["left"] * (ROWS - 1) + ["right"], "sick": ["0"] * (ROWS - 2) + ["1"] * 2})
    for kind, levels in (("binary", 2), ("categorical", 1)):
        schema = Schema.from_dict({"name": "t", "columns": dict.fromkeys(frame, {"kind": kind})})
        plan = make_plan(selection.queries(schema), epsilon=1.0, delta=1e-5, rows=ROWS)
        releases = Releases(plan.ledger("t"), SeededEntropy(3))
        settled = RawVault(from_frame(frame), ROWS, releases, schema).measure_schema().schema
        assert {len(column.levels) for column in settled.columns.values()} == {levels}


def test_a_format_alone_is_learned_from_the_kinds_of_cells() -> None:
    frame = patients()[["day"]].assign(day=lambda t: pd.to_datetime(t["day"]).dt.strftime("%d.%m.%Y"))
    schema = Schema.from_yaml("{name: t, columns: {day: {kind: date, bounds: [2010-01-01, 2030-12-31], format: TODO}}}")
    _, taken, settled = measured(frame, schema)
    assert [*taken] == [selection.KINDS] and settled.columns["day"].to_dict()["format"] == "%d.%m.%Y"


def test_a_half_open_range_keeps_the_end_that_is_declared() -> None:
    schema = Schema.from_yaml("""{name: t, columns: {
        pulse: {kind: count, bounds: [35, TODO]}, dose: {kind: continuous, bounds: [TODO, 12], decimals: 1},
        day: {kind: date, bounds: [2009-06-01, TODO], format: "%Y-%m-%d"}}}""")
    settled = measured(patients()[["pulse", "dose", "day"]], schema)[2].columns
    assert settled["pulse"].bounds[0] == 35 and 105 <= int(str(settled["pulse"].bounds[1])) < 500
    assert settled["dose"].bounds == (0.1, 12) and str(settled["day"].bounds[0]) == "2009-06-01"


def test_numbers_with_a_unit_are_read_in_their_form_before_they_are_counted() -> None:
    frame = pd.DataFrame({"dose": [f"{k % 40 + 1},5 mg" for k in range(ROWS)], "wait": ["1:20"] * 200 + ["0:05"] * 200})
    schema = Schema.from_yaml("""{name: t, columns: {
        dose: {kind: continuous, text: "{0,5} mg", below: ["<0,5 mg"], bounds: [0.5, TODO]},
        wait: {kind: count, text: "{h}:{mm}"}}}""")
    settled = measured(frame, schema)[2].columns
    dose = settled["dose"].to_dict()
    assert dose["text"] == "{0,5} mg" and dose["below"] == ["<0,5 mg"] and dose["decimals"] == 1
    assert 41 <= float(str(settled["dose"].bounds[1])) < 1000 and 80 <= int(str(settled["wait"].bounds[1])) < 4000
    with pytest.raises(SchemaError, match="need the lower bound"):
        Schema.from_yaml('{name: t, columns: {dose: {kind: continuous, below: ["<0.5"]}}}')
