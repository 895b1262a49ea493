"""How well an attribute attack does on members, beside controls who were not in the training table."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ....rng import Stream
from ...data.cells import points
from ...data.records import Estimate, Record
from ...data.statistics import Floats, interval, resampled
from ...data.tables import Tables, words
from .registry import AttributeAttack, Values


class Attribute(Record):
    """Guessing one column from all others by the synthetic rows: share guessed right, of members and of controls."""

    attack: str
    how: str
    column: str
    members: float
    controls: float
    excess: Estimate
    most_frequent: float


def attribute(
    attack: AttributeAttack, tables: Tables, frames: Sequence[pd.DataFrame], column: str, rng: Stream
) -> Attribute:
    """The figures of one attack on one column; `frames` are members, controls, synthetic rows.

    Numbers count as right within their fifth of the real rows.
    """
    others = [name for name in tables.names if name != column]
    rest = Tables(tables.real[others], tables.synthetic[others], None, others[0], tables.numbers)
    *candidates, synthetic = points(rest, [frame[others] for frame in frames])
    *truth, values = (_values(frame, column, tables) for frame in frames)
    right = [attack.guess(rows, synthetic, values) == v for rows, v in zip(candidates, truth, strict=True)]
    members, controls = (float(r.mean()) for r in right)
    own = [tables.patients_of(frame, part) for frame, part in zip(frames, ("train", "real"), strict=False)]
    draws = [resampled(len(r), rng, partial(_share, r), p) for r, p in zip(right, own, strict=True)]
    return Attribute(
        attack=attack.name,
        how=attack.how,
        column=column,
        members=members,
        controls=controls,
        excess=interval(members - controls, draws[0] - draws[1]),
        most_frequent=float(pd.Series(truth[1]).value_counts(normalize=True).iloc[0]),
    )


def _share(right: NDArray[np.bool_], weights: Floats) -> Floats:
    """The weighted share of rows guessed right, for every resample (draws, rows)."""
    return np.asarray(weights @ right / np.maximum(weights.sum(1), 1))


def _values(frame: pd.DataFrame, column: str, tables: Tables) -> Values:
    if column not in tables.numbers:
        return words(frame[column]).fillna("").to_numpy(object)
    known = tables.real[column].dropna().to_numpy(np.float64)
    edges = np.unique(np.quantile(known, np.linspace(0, 1, 6)[1:-1])) if len(known) else known
    return np.searchsorted(edges, frame[column].to_numpy(np.float64)).astype(object)
