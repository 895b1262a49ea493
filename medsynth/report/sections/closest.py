"""How far synthetic rows are from the closest real row, next to a second real sample. This is not a privacy measure.

Such distances miss leaks of single people, and they alarm where nothing leaks (Yao et al. 2025, "The DCR Delusion";
Pilgram et al. 2025). So no verdict uses them. The section shows whether synthetic rows look like new patients.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from ...rng import Stream
from ..data.tables import Tables, points
from ..data.verdict import Record, of_both
from .attacks import distance
from .fidelity import number_bars, two_real_samples
from .registry import Section

ROWS = 2_000  # Rows of each table whose distances are drawn.
AMONG = 10_000  # Training rows among which the closest is looked for.


class Closest(Record):
    """Distances from `rows` held-out and `rows` synthetic rows to the closest of `among` other real rows.

    Distance 1 is that of two rows that differ in one level alone, or by the whole range of one number. `real` and
    `synthetic` are shares of rows in the bars `labels`. `equal_*`: share of rows that equal a real row.
    """

    rows: int
    among: int
    median_real: float
    median_synthetic: float
    equal_real: float
    equal_synthetic: float
    labels: list[str]
    real: list[float]
    synthetic: list[float]


def closest(tables: Tables, rng: Stream) -> Closest:
    """Return the distances to the training rows, or from one half of the held-out rows to the other without them."""
    first, second = two_real_samples(tables, rng)
    size = min(ROWS, len(first), len(tables.synthetic))
    frames = [frame.iloc[np.sort(rng.choice(len(frame), min(most, len(frame)), replace=False))]
              for frame, most in ((first, size), (tables.synthetic, size), (second, AMONG))]  # fmt: skip
    *rows, among = points(tables.numbers, frames)
    found = [distance(side, among) for side in rows]
    labels, shares = number_bars(pd.Series(found[0]), pd.Series(found[1]))
    return Closest(
        rows=size,
        among=len(among),
        **of_both("median", [float(np.median(side)) for side in found]),
        **of_both("equal", [float((side < 1e-9).mean()) for side in found]),
        labels=labels,
        real=np.round(shares[0], 5).tolist(),
        synthetic=np.round(shares[1], 5).tolist(),
    )


CLOSEST = Section(
    "closest", "Appendix: distance to the closest record", lambda c: closest(c.compared, c.rng), Closest,
    needs=("real rows",),
)  # fmt: skip
