"""Check a budget, and choose delta by default. It imports no accountant: the help of a fit uses it too."""

from __future__ import annotations

import math

from ...errors import UsageError

LARGEST_DEFAULT_DELTA = 1e-5


def default_delta(public_rows: int | None) -> float:
    """Return the default delta: 1e-5, or the largest power of ten that times ten public rows is at most 1.

    `public_rows`: the count that neighbouring tables share and a notice lists as public, never one that secret draws
    left. None if it is not known yet.

    >>> default_delta(None), default_delta(3_772), default_delta(101_766)
    (1e-05, 1e-05, 1e-07)
    """
    if public_rows is None:
        return LARGEST_DEFAULT_DELTA
    digits = len(str(10 * max(public_rows, 1) - 1))  # 10^digits is the least power of ten that is at least 10 rows.
    return min(LARGEST_DEFAULT_DELTA, float(f"1e-{digits}"))


def check_budget(epsilon: float, delta: float) -> None:
    """Raise UsageError unless epsilon is positive and finite and delta is in (0, 1)."""
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise UsageError("`epsilon` must be a positive, finite number. Zero does not switch privacy off; `no_dp` does.")
    if not (math.isfinite(delta) and 0 < delta < 1):
        raise UsageError("`delta` must be above 0 and below 1; 1e-5 is usual.")
