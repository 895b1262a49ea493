"""The measurements that learn a schema: every number that they release has the noise that is charged."""

import math
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from open_tables import raw_vault
from scipy import stats

from medsynth.io.table import from_frame
from medsynth.privacy import partition_selection as selection
from medsynth.privacy.accounting.events import Event, Gaussian, Thresholded
from medsynth.privacy.accounting.ledger import Ledger
from medsynth.privacy.release import Release, Releases
from medsynth.rng import SeededEntropy
from medsynth.schema import magnitudes
from medsynth.schema.cells import CellKinds

MULTIPLIER, RUNS = 0.5, 120


class Recorder(Releases):
    """Releases that are kept, by their label."""

    __slots__ = ("kept",)

    def release(self, label: str, sensitivity: float, draw: Callable[[Event], Release]) -> Release:
        found = super().release(label, sensitivity, draw)
        self.kept = {**getattr(self, "kept", {}), label: (found, sensitivity)}
        return found


def released(frame: pd.DataFrame, label: str) -> list[tuple[Release, float]]:
    """What so many measurements of a table's schema release under the label, with the sensitivity charged."""
    table, found = from_frame(frame), []
    levels: tuple[Event, int] = (Thresholded(multiplier=MULTIPLIER, delta=1e-6), 1)
    formats: tuple[Event, int] = (Gaussian(multiplier=MULTIPLIER), 1)
    for seed in range(RUNS):
        allowance = {selection.TARGET: levels, selection.LEVELS: levels}
        allowance |= {selection.KINDS: formats, selection.FORMATS: formats}
        ledger = Ledger(delta=1e-5, accountant="prv", random_source="t", allowance=allowance)
        out = Recorder(ledger, SeededEntropy(seed))
        raw_vault(table, len(frame), out, table.header[-1]).measure_schema()
        found.append(out.kept[label])
    return found


@pytest.mark.statistical
def test_counts_of_levels_and_of_missing_cells_have_their_noise() -> None:
    """Four columns of words: a row has a level in each, or a missing cell. Seeds are fixed."""
    names = ["a", "b", "c", "d"]
    frame = pd.DataFrame({name: ["x"] * 60 + ["z"] * 50 + [""] * 40 for name in names} | {"t": ["p", "q"] * 75})
    frame["d"] = ["no"] * 110 + [""] * 40
    usual = CellKinds().usual
    noise = {part: list[float]() for part in ("levels", "missing", "other codes", "usual", "usual that no row has")}
    for found, sensitivity in released(frame, selection.LEVELS):
        assert sensitivity == pytest.approx(math.sqrt(len(names))) and found.names == ["x", "z"] * 3
        noise["usual"].append(float(found.arrays[7][usual.index("no")]) - 110)
        for counts, public in zip(found.arrays[::2], found.arrays[1::2], strict=True):
            codes = public[len(usual) :]
            noise["levels"] += (counts - np.array([60.0, 50.0])[: len(counts)]).tolist()
            noise["usual that no row has"] += public[usual.index("yes") :][:4].tolist()
            noise["missing"].append(float(codes[0]) - 40)
            noise["other codes"] += codes[1:4].tolist()
    for part in noise.values():
        assert stats.kstest(np.array(part) / (MULTIPLIER * math.sqrt(len(names))), "norm").pvalue > 1e-4


@pytest.mark.statistical
def test_counts_of_kinds_have_their_noise() -> None:
    """Four columns: a row has a cell of one kind in each. Seeds are fixed: it cannot fail by chance."""
    frame = pd.DataFrame({"a": ["1.5"] * 150, "b": ["x", "y"] * 75, "c": ["3"] * 150, "t": ["p", "q"] * 75})
    noise = []
    for found, sensitivity in released(frame, selection.KINDS):
        assert sensitivity == pytest.approx(2.0) and len(found.arrays) == 4
        for counts in found.arrays:
            exact = np.round(counts / 150) * 150
            assert exact.sum() == 150
            noise += (counts - exact).tolist()
    assert stats.kstest(np.array(noise) / (MULTIPLIER * 2.0), "norm").pvalue > 1e-4


@pytest.mark.statistical
def test_histograms_of_formats_have_their_noise() -> None:
    """Three columns of decimals: a row is in a cell of the magnitudes and of the decimals of each. Seeds are fixed."""
    frame = pd.DataFrame({name: ["1.5432"] * 150 for name in ("a", "b", "c")} | {"t": ["p", "q"] * 75})
    parts = []
    for found, sensitivity in released(frame, selection.FORMATS):
        assert sensitivity == pytest.approx(math.sqrt(6)) and len(found.arrays) == 6
        exact = np.concatenate([np.round(counts / 150) * 150 for counts in found.arrays])
        assert exact.sum() == 6 * 150
        parts.append(np.concatenate(found.arrays) - exact)
    noise = np.concatenate(parts)
    assert stats.kstest(noise[: 5 * len(parts[0])] / (MULTIPLIER * math.sqrt(6)), "norm").pvalue > 1e-4


@pytest.mark.statistical
def test_days_between_dates_have_their_noise() -> None:
    """Three dates: a row is in the years of each and in the days between any two. Seeds are fixed."""
    days = {name: [f"2020-01-{day:02}"] * 150 for name, day in (("a", 2), ("b", 4), ("c", 9))}
    frame = pd.DataFrame(days | {"t": ["p", "q"] * 75})
    parts = []
    for found, sensitivity in released(frame, selection.FORMATS):
        assert sensitivity == pytest.approx(math.sqrt(6)) and len(found.arrays) == 6
        exact = [np.round(counts / 150) * 150 for counts in found.arrays[3:]]
        assert [counts.sum() for counts in exact] == [150] * 3 and len(exact[0]) == magnitudes.DIFFERENCES
        parts.append(np.concatenate(found.arrays[3:]) - np.concatenate(exact))
    noise = np.concatenate(parts)
    assert stats.kstest(noise / (MULTIPLIER * math.sqrt(6)), "norm").pvalue > 1e-4
