"""Partition selection on its worst neighbours: counts of a level that all rows have, and names that one row alone has.

A name that one row alone has must not be released but with a small chance, for the table without the row cannot give
it. The chance is charged to delta; here it is set large, so that few trials tell it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import pandas as pd

from ...io import table as io_table
from ...privacy import partition_selection
from ...privacy.accounting.events import Event, Thresholded
from ...privacy.accounting.ledger import Ledger
from ...rng import Entropy, system_entropy
from ..finding import Finding
from ..recorder import Recorder
from ..statistics import upper_rate
from .case import MU, PART, Case

LABELS = (partition_selection.TARGET, partition_selection.LEVELS)
COLUMNS = tuple(f"c{k}" for k in range(9))  # of text; the last is the target
COMMON, OWN = ("a", "b"), "c"  # levels that many rows have, and the one that the target alone has
ROWS, CHANCE = 400, 0.2
EVENT = Thresholded(multiplier=math.sqrt(len(LABELS)) / MU, delta=CHANCE)


def _raw_table(last: list[str], releases: Recorder) -> partition_selection.RawTable:
    """A table without a schema: many rows of both common levels, and `last` rows, each of one word in every column."""
    words = [COMMON[0]] * ROWS + [COMMON[1]] * ROWS + last
    table = io_table.from_frame(pd.DataFrame(dict.fromkeys(COLUMNS, words)))
    return partition_selection.RawTable(table, partition_selection.column_types(table), 2 * ROWS, releases)


def _counts(present: bool, releases: Recorder) -> Callable[[], float]:
    """The target has a level that many have: it adds one to its count in every column."""
    raw = _raw_table([COMMON[0]] * present, releases)

    def trial() -> float:
        raw.measure_schema("audit", COLUMNS[-1])
        scores = []
        for label, columns in zip(LABELS, (1, len(COLUMNS) - 1), strict=True):
            firsts = releases.last[label].arrays[::2][:columns]
            scores.append(sum(float(counts[0]) - ROWS for counts in firsts) / columns)
        return sum(scores) / len(scores)

    return trial


COUNTS_OF_LEVELS = (
    Case(name="counts of learned levels", worst_case="one row of a common level in each of nine columns",
         attack=_counts, labels=LABELS, event=EVENT, slow=8),
)  # fmt: skip


def audit_names(label: str, trials: int, confidence: float, entropy: Entropy | None = None) -> Finding:
    """How often a name that one row alone has is released, beside the chance that is charged to delta."""
    entropy = entropy or system_entropy()
    allowance: dict[str, tuple[Event, int]] = dict.fromkeys(LABELS, (EVENT, trials))
    ledger = Ledger(delta=0.5, accountant="rdp", random_source=entropy.source, allowance=allowance)
    releases = Recorder(ledger, entropy)
    raw, hits = _raw_table([OWN], releases), 0
    for _ in range(trials):
        raw.measure_schema("audit", COLUMNS[-1])
        hits += OWN in releases.last[label].names
    return Finding(
        part=PART,
        name=f"names released: {label.removeprefix('schema: ')}",
        worst_case="a row with a level of its own in every column",
        claimed_chance=CHANCE,
        proven_chance=1 - upper_rate(trials - hits, trials, 1 - confidence),
        trials=trials,
        confidence=confidence,
    )
