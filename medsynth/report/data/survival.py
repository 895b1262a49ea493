"""Survival curves by Kaplan and Meier (1958), with weights for resamples."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from ...arrays import Floats, Mask
from ...rng import Stream
from .statistics import largest, resampled
from .verdict import Estimate, Record

DRAWN = 40  # Points of a drawn curve.
POINTS = 10  # Times at which two curves are compared.
LEFT = 0.2  # Share of units that must be left where curves are compared. Later, chance alone moves them.


class Survival(Record):
    """Share of units without the event by time, for drawing; real shares are None where too few units are left."""

    times: list[float]
    real: list[float | None] | None
    synthetic: list[float]


class Times(NamedTuple):
    """How long each unit was followed, (units,), and whether the event ended it, (units,)."""

    time: Floats
    event: Mask

    def known(self) -> Times:
        """Return the units with a known time."""
        kept = np.isfinite(self.time)
        return Times(self.time[kept], self.event[kept])


def surviving(found: Times, at: Floats, weights: Floats | None = None) -> Floats:
    """Return the share without the event at each time: (draws, times), by the product-limit estimate.

    weights: (draws, units), how often each resample has each unit; None for one draw of every unit once. A draw without
    a unit at risk keeps its last share.

    >>> surviving(Times(np.array([1.0, 2.0, 3.0]), np.array([True, False, True])), np.array([0.0, 1.0, 3.0])).round(3)
    array([[1.   , 0.667, 0.   ]])
    """
    weights = np.ones((1, len(found.time))) if weights is None else weights
    if not len(found.time):
        return np.full((len(weights), len(at)), np.nan)
    order = np.argsort(found.time, kind="stable")
    time, event, sorted_weights = found.time[order], found.event[order], weights[:, order]
    starts = np.flatnonzero(np.diff(time, prepend=-np.inf))
    at_risk = np.cumsum(sorted_weights[:, ::-1], axis=1)[:, ::-1][:, starts]
    hit = np.add.reduceat(sorted_weights * event, starts, axis=1)
    left = np.cumprod(1 - hit / np.maximum(at_risk, 1), axis=1)
    before = np.concatenate([np.ones((len(left), 1)), left], axis=1)
    return np.asarray(before[:, np.searchsorted(time[starts], at, side="right")])


def compared_times(real: Times, synthetic: Times, fewest: int) -> Floats:
    """Return up to POINTS times, (times,), at which both tables follow `fewest` units and a share LEFT; [] if none."""
    if min(len(real.time), len(synthetic.time)) < fewest:
        return np.zeros(0)
    end = min(np.sort(side.time)[-max(fewest, round(LEFT * len(side.time)))] for side in (real, synthetic))
    early = real.time[real.time <= end]
    return np.unique(np.quantile(early, np.linspace(0, 1, POINTS), method="nearest")) if len(early) else np.zeros(0)


def drawn(real: Times | None, synthetic: Times, fewest: int) -> Survival:
    """Return both curves for drawing; the real one ends where fewer than `fewest` units are left."""
    sides = [np.sort(side.time) for side in (real, synthetic) if side is not None and len(side.time) >= fewest]
    longest = max((float(time[-fewest]) for time in sides), default=0.0)
    at = np.linspace(0, longest, DRAWN)
    curve: list[float | None] | None = None
    if real is not None:
        left = len(real.time) - np.searchsorted(np.sort(real.time), at, side="left")
        shares = surviving(real, at)[0].round(5).tolist()
        curve = [share if n >= fewest else None for share, n in zip(shares, left, strict=True)]
    made = np.nan_to_num(surviving(synthetic, at)[0], nan=1.0)
    return Survival(times=at.round(4).tolist(), real=curve, synthetic=made.round(5).tolist())


def largest_gap(real: Times, synthetic: Times, fewest: int, rng: Stream) -> Estimate:
    """Return the largest difference of the curves at the times of `compared_times`; None without such a time."""
    at = compared_times(real, synthetic, fewest)
    if not len(at):
        return Estimate(value=None)
    draws = [resampled(len(one.time), rng, partial(surviving, one, at)) for one in (synthetic, real)]
    return largest(surviving(synthetic, at)[0] - surviving(real, at)[0], draws[0] - draws[1])
