"""What learns a schema, on its worst neighbours: counts of kinds, levels and formats, and names that one row alone has.

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
from ...schema.cells import CellKinds
from ...schema.magnitudes import MAGNITUDES
from ..finding import Finding
from ..recorder import Recorder
from ..statistics import upper_rate
from .case import MU, PART, Case

LABELS = (partition_selection.TARGET, partition_selection.LEVELS)  # of partition selection
ALL_LABELS = (partition_selection.KINDS, *LABELS, partition_selection.FORMATS)
COLUMNS = tuple(f"c{k}" for k in range(9))  # of text; the last is the target
COMMON, OWN = ("a", "b"), "c"  # levels that many rows have, and the one that the target alone has
USUAL = ("no", "yes")  # levels that many rows of every other column have, whose names are public
ROWS, CHANCE = 400, 0.2
CAUTION = 0.1  # of the risk: a chance is charged to the full, so that its bound alone would be wrong as often as it may
EVENT = Thresholded(multiplier=math.sqrt(len(ALL_LABELS)) / MU, delta=CHANCE)


def _raw_table(last: list[tuple[str, ...]], releases: Recorder) -> partition_selection.RawTable:
    """A table without a schema: many rows of both common levels, and `last` rows, whose words take turns in a row."""
    words = [[own[0]] * ROWS + [own[1]] * ROWS + [row[k] for row in last] for k, own in enumerate((COMMON, USUAL))]
    table = io_table.from_frame(pd.DataFrame({name: words[k % 2] for k, name in enumerate(COLUMNS)}))
    return partition_selection.RawTable(table, 2 * ROWS, releases)


def _counts(present: bool, releases: Recorder) -> Callable[[], float]:
    """The target is one word more, of a level that many rows have, in every column: it adds one to each count of it."""
    raw = _raw_table([(COMMON[0], USUAL[0])] * present, releases)
    usual = CellKinds().usual.index(USUAL[0])

    def mean(label: str, columns: int, step: int, cell: int, rows: int) -> float:
        counts = releases.last[label].arrays[::step][:columns]
        return sum(float(some[cell]) - rows for some in counts) / columns

    def mean_of_levels() -> float:
        """Of eight columns: names that passed the threshold, and public names, by turns."""
        counts = releases.last[ALL_LABELS[2]].arrays
        named = [float(counts[2 * k + k % 2][usual if k % 2 else 0]) for k in range(len(COLUMNS) - 1)]
        return sum(named) / len(named) - ROWS

    def trial() -> float:
        raw.measure_schema("audit", COLUMNS[-1])
        kinds, target, _, formats = ALL_LABELS
        return (
            mean(kinds, len(COLUMNS), 1, -1, 2 * ROWS)  # cells that are words
            + mean(target, 1, 2, 0, ROWS)
            + mean_of_levels()
            + mean(formats, len(COLUMNS), 1, MAGNITUDES - 1, 2 * ROWS)  # cells that are no number
        ) / len(ALL_LABELS)

    return trial


COUNTS_OF_LEVELS = (
    Case(name="kinds, levels and formats", worst_case="one row of a common level in each of nine columns",
         attack=_counts, labels=ALL_LABELS, event=EVENT, slow=8),
)  # fmt: skip


def audit_names(label: str, trials: int, confidence: float, entropy: Entropy | None = None) -> Finding:
    """How often a name that one row alone has is released, beside the chance that is charged to delta."""
    entropy = entropy or system_entropy()
    allowance: dict[str, tuple[Event, int]] = dict.fromkeys(ALL_LABELS, (EVENT, trials))
    ledger = Ledger(delta=0.5, accountant="rdp", random_source=entropy.source, allowance=allowance)
    releases = Recorder(ledger, entropy)
    raw, hits = _raw_table([(OWN, OWN)], releases), 0
    for _ in range(trials):
        raw.measure_schema("audit", COLUMNS[-1])
        hits += OWN in releases.last[label].names
    return Finding(
        part=PART,
        name=f"names released: {label.removeprefix('schema: ')}",
        worst_case="a row with a level of its own in every column",
        claimed_chance=CHANCE,
        proven_chance=1 - upper_rate(trials - hits, trials, (1 - confidence) * CAUTION),
        trials=trials,
        confidence=confidence,
    )
