"""Draw patients row by row: the first row is given, the chain draws each later one."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from ..privacy.queries.rows import Codes
from ..rng import Stream
from .chain import Chain, blank

Whole = NDArray[np.int64]
Draw = Callable[[Codes, Stream], None]


def later_rows(chain: Chain, first: Codes, counts: Whole, rng: Stream, draw: Draw | None = None) -> Iterator[
    tuple[Whole, Codes]
]:  # fmt: skip
    """Yield for the second rows of patients, the third and so on: their patients, (rows,), and (rows, `later_columns`).

    `first`: (patients, columns of the core); `counts`: (patients,) rows of each; `draw`: replaces the chain's own.
    """
    width, last = first.shape[1], first.copy()
    for visit in range(int(counts.max(initial=1)) - 1):
        who = np.flatnonzero(counts > visit + 1)
        most = (counts[who] - 1).astype(np.int32)
        rows = blank(last[who], first[who], visit, most)
        (draw or chain.draw)(rows, rng)
        last[who] = rows[:, :width]
        yield who, rows


def second_rows(first: Codes, counts: Whole) -> Codes:
    """Return the second rows of patients, (rows, `later_columns`), before anything is drawn."""
    return blank(first, first, 0, (counts - 1).astype(np.int32))
