"""A schema learned where the patient is the unit of privacy: sensitivities and thresholds are those of all its rows."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from open_tables import queries as bare_queries
from open_tables import raw_vault
from scipy import stats

from medsynth.errors import BudgetError
from medsynth.io.table import from_frame
from medsynth.privacy import partition_selection as selection
from medsynth.privacy.accounting.calibration import make_plan
from medsynth.privacy.accounting.events import Event, Thresholded
from medsynth.privacy.accounting.ledger import Ledger
from medsynth.privacy.contribution import PrivacyUnits
from medsynth.privacy.partition_selection import RawVault
from medsynth.privacy.release import Releases
from medsynth.rng import NoNoise, SeededEntropy
from medsynth.schema.learned import ColumnKind

R, DELTA = 3, 0.2  # rows of a patient; of partition selection, large enough to count by
KEYS: dict[str, Any] = {"keys": ("who",), "unit": "who", "max_rows": R}


class Kept(Releases):
    """Releases, whose outcomes are kept."""

    def release(self, label: Any, sensitivity: Any, draw: Any) -> Any:
        found = super().release(label, sensitivity, draw)
        taken: dict[str, Any] = self.__dict__.setdefault("taken", {})
        taken[label] = found
        return found


def visits(patients: int = 60) -> pd.DataFrame:
    """Three rows a patient. The last patient's are equal to one another, and hold what many others have."""
    draw, rows = np.random.default_rng(0), R * patients
    frame = pd.DataFrame({
        "who": np.repeat(np.arange(patients), R), "ward": draw.choice(["a", "b"], rows),
        "stage": draw.choice([1, 2], rows), "dose": np.round(draw.uniform(0, 9, rows), 3),
        "day": [f"20{k % 20 + 10}-01-05" for k in range(rows)],
        "later": [f"20{k % 20 + 10}-01-{k % 9 + 10}" for k in range(rows)], "sick": draw.choice(["no", "yes"], rows),
    })  # fmt: skip
    frame.iloc[-R:, 1:] = frame.iloc[0, 1:].to_list()
    return frame


def measured(frame: pd.DataFrame) -> tuple[Ledger, dict[str, Any]]:
    """What is charged, and the exact counts."""
    plan = make_plan(bare_queries(), epsilon=80.0, delta=1e-5, rows=len(frame), max_rows=R)
    releases = Kept(ledger := plan.ledger("t"), NoNoise())
    units = PrivacyUnits(frame["who"].to_numpy(np.int64), R)
    learned = raw_vault(from_frame(frame), len(frame), releases, "sick", units=units, **KEYS).measure_schema()
    assert (learned.schema.unit, learned.schema.max_rows) == ("who", R) and ledger.complete
    return ledger, releases.__dict__["taken"]


def test_the_worst_patient_changes_what_is_charged() -> None:
    """With equality: all of the patient's rows add to the same counts, in each column and pair of dates."""
    (ledger, full), (without, less) = measured(visits()), measured(visits()[:-R])
    charged = {entry.label: entry.sensitivity for entry in ledger.entries}
    assert charged == {entry.label: entry.sensitivity for entry in without.entries}
    for query in bare_queries():
        one, two = full[query.label], less[query.label]
        assert one.names == two.names
        change = np.linalg.norm(np.concatenate(one.arrays) - np.concatenate(two.arrays))
        assert change == pytest.approx(charged[query.label]), query.label
    assert charged[selection.KINDS] == pytest.approx(R * np.sqrt(6)) and charged[selection.TARGET] == R


@pytest.mark.statistical
def test_the_noise_is_as_large_as_the_patient() -> None:
    """The noise of the kinds of six columns by a Kolmogorov-Smirnov test. The seed is fixed."""
    frame, drawn = visits(), []
    units = PrivacyUnits(frame["who"].to_numpy(np.int64), R)
    plan = make_plan(bare_queries(), epsilon=3.0, delta=1e-5, rows=len(frame), max_rows=R)
    exact = np.concatenate(measured(frame)[1][selection.KINDS].arrays)
    for seed in range(4):
        releases = Kept(plan.ledger("t"), SeededEntropy(seed))
        raw_vault(from_frame(frame), len(frame), releases, "sick", units=units, **KEYS).measure_schema()
        drawn.append(np.concatenate(releases.__dict__["taken"][selection.KINDS].arrays) - exact)
    std = plan.events[selection.KINDS][0].multiplier * R * np.sqrt(6)
    assert stats.kstest(np.concatenate(drawn) / std, "norm").pvalue > 1e-4


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("words", "multiplier", "chance"),
    [(["lone"] * R, 0.2, DELTA / R), (["x", "y", "z"], 50.0, 1 - (1 - DELTA / R) ** R)],
    ids=["one level", "a level a row"],
)
def test_false_release_rate_of_a_level_of_one_patient(
    words: list[str], multiplier: float, chance: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Levels that one patient alone has, all rows the same one, or each its own. A large delta makes them countable.

    One level of all rows passes with chance delta / R; R levels under a noise far larger than R with nearly delta in
    all. Two-sided; false-alarm rate 1e-4. The seed is fixed as well.
    """
    entropy, runs, released = SeededEntropy(7), 250, 0

    def kinds(raw: Any, target: str) -> Any:
        found = {name: ColumnKind(cells="decimal" if name == target else "word") for name in raw._open}
        return found, found

    monkeypatch.setattr(RawVault, "_measure_kinds", kinds)
    table = from_frame(pd.DataFrame({"who": [0] * R, "c": words, "y": [0.5] * R}))
    units = PrivacyUnits(np.zeros(R, np.int64), R)
    for _ in range(runs):
        event = Thresholded(multiplier=multiplier, delta=DELTA)
        allowance: dict[str, tuple[Event, int]] = {query.label: (event, 1) for query in bare_queries()}
        ledger = Ledger(delta=1.0, accountant="prv", random_source="t", allowance=allowance, max_rows=R)
        releases = Kept(ledger, entropy)
        raw_vault(table, R, releases, "y", units=units, **KEYS).measure_schema()
        released += bool(releases.__dict__["taken"][selection.LEVELS].names)
    assert stats.binomtest(released, runs, chance).pvalue > 1e-4 and chance <= DELTA


def test_a_raw_table_refuses_units_that_the_ledger_does_not_state() -> None:
    table = from_frame(visits(4))
    ledger = make_plan(bare_queries(), epsilon=3.0, delta=1e-5, rows=12, max_rows=R).ledger("t")
    single = make_plan(bare_queries(), epsilon=3.0, delta=1e-5, rows=12).ledger("t")
    known = PrivacyUnits(np.repeat(np.arange(4), R), R)
    raw_vault(table, 12, Releases(ledger, NoNoise()), None, units=known, **KEYS)
    wrong: list[tuple[Ledger, PrivacyUnits | None]] = [
        (ledger, PrivacyUnits(np.zeros(12, np.int64), R)),  # twelve rows of one patient
        (ledger, PrivacyUnits(known.of_row[:6], R)),  # rows without a patient
        (ledger, None),
        (single, known),
    ]
    for charged, units in wrong:
        with pytest.raises(BudgetError, match="patients"):
            raw_vault(table, 12, Releases(charged, NoNoise()), None, units=units, **KEYS)
