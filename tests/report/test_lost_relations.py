"""The part of the relations between columns that is lost: of tables whose loss is known, and of codes by patient."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from medsynth.report.data.context import LinkedFacts
from medsynth.report.data.statistics import lost_relations
from medsynth.report.data.verdict import Estimate, Thresholds
from medsynth.report.sections.plausibility import TABLES
from medsynth.report.several_tables import _codes_lost
from medsynth.schema.linked import LinkedTables
from tests.linked.conftest import TABLES as TEXT


def rows(count: int, kept: float, rng: np.random.Generator) -> np.ndarray:
    """Three columns: the second follows the first in `kept` of all rows, the third follows nothing."""
    first = rng.integers(0, 3, count)
    second = np.where(rng.random(count) < kept, first, rng.integers(0, 3, count))
    return np.stack([first, second, rng.integers(0, 4, count)], 1)


@pytest.mark.parametrize("left", [1.0, 0.5, 0.0, -0.5])
def test_the_part_that_is_lost_is_found(left: float) -> None:
    """Of a relation that holds in 60 % of rows, `left` is kept; a negative part is a relation to other levels."""
    rng = np.random.default_rng(1)
    made = rows(40_000, 0.6 * abs(left), rng)
    if left < 0:  # each level now goes with the two others, which is half of the relation turned round
        made = rows(40_000, 0.6, rng)
        made[:, 1] = (made[:, 1] + rng.integers(1, 3, len(made))) % 3
    found = lost_relations([rows(40_000, 0.6, rng), made, rows(40_000, 0.6, rng)], [3, 3, 4], [None] * 3)
    assert found.value == pytest.approx(1 - left, abs=0.04)
    assert (found.low or 0) < (found.value or 0) < (found.high or 0)


def test_patients_and_not_their_rows_are_independent() -> None:
    rng = np.random.default_rng(2)
    samples = [rows(500, 0.6, rng).repeat(4, axis=0) for _ in range(3)]
    widths = list[float]()
    for patients in ([np.arange(500).repeat(4)] * 3, [None] * 3):
        found = lost_relations(samples, [3, 3, 4], patients)
        widths.append((found.high or 0) - (found.low or 0))
    assert widths[0] == pytest.approx(2 * widths[1], rel=0.01)


@pytest.mark.parametrize("few", ["no relation", "one column", "no row"])
def test_without_a_relation_there_is_no_figure(few: str) -> None:
    rng = np.random.default_rng(3)
    kept = 0.0 if few == "no relation" else 0.6
    samples = [rows(0 if few == "no row" else 400, kept, rng) for _ in range(3)]
    cells = [3, 3, 4]
    if few == "one column":
        samples, cells = [own[:, :1] for own in samples], cells[:1]
    assert lost_relations(samples, cells, [None] * 3).value is None


@pytest.mark.statistical
def test_the_interval_contains_the_truth() -> None:
    """At least 92 % of 200 tables each; the expected share is 95 %, and the seed is fixed."""
    rng = np.random.default_rng(4)
    found = [
        lost_relations([rows(600, 0.6, rng), rows(500, 0.3, rng), rows(700, 0.6, rng)], [3, 3, 4], [None] * 3)
        for _ in range(200)
    ]
    assert np.mean([(one.low or 0) <= 0.5 <= (one.high or 0) for one in found]) >= 0.92


def hospital(count: int, together: float, rng: np.random.Generator) -> dict[str, pd.DataFrame]:
    """Patients of whom half were on the ward for hearts. `together`: how many of them, and no other, consented."""
    keys = pd.Series([f"P-{k:04}" for k in range(count)])
    ward = rng.choice(["heart", "lung"], count)
    agreed = np.where(rng.random(count) < together, ward == "heart", rng.random(count) < 0.5)
    nothing = {"tests": ["patient", "stay", "taken", "value", "done"]}
    return {
        "patients": pd.DataFrame({"patient": keys}),
        "stays": pd.DataFrame({"patient": keys, "ward": ward, "died": "no"}),
        "consent": pd.DataFrame({"patient": keys, "given": np.where(agreed, "true", "false")}),
        **{name: pd.DataFrame(columns=columns) for name, columns in nothing.items()},
    }


def test_codes_of_different_tables_are_compared_by_patient() -> None:
    tables, rng = LinkedTables.from_yaml(TEXT), np.random.default_rng(5)
    real = hospital(3000, 0.8, rng)
    kept, gone = (_codes_lost(tables, hospital(3000, part, rng), real) for part in (0.8, 0.0))
    # Levels of one column exclude each other. That is kept in any case, and counts with the relation of both tables.
    assert kept.value == pytest.approx(0, abs=0.05) and 0.4 < (gone.value or 0) < 0.75
    facts = LinkedFacts(patients=3000, tables=[], broken=0, codes_lost=Estimate(value=0.9, low=0.8, high=1.0))
    assert facts.of_real_rows
    lines = TABLES.verdicts(facts, Thresholds())  # type: ignore[misc]
    assert {line.key: line.outcome for line in lines} == {"rows_apart": "within", "codes_apart": "beyond"}
    bare = LinkedFacts(patients=3000, tables=[], broken=0)
    assert [line.key for line in TABLES.verdicts(bare, Thresholds())] == ["rows_apart"]  # type: ignore[misc]
