"""Membership by the ratio of the densities of synthetic and of reference rows (van Breugel et al. 2023, DOMIAS)."""

from __future__ import annotations

import numpy as np

from .distances import distance, nearest
from .registry import MembershipAttack, Points

NEIGHBOURS = 5  # whose distance is the spacing of the rows
WEIGHED = 50  # nearest rows, the only ones with a weight worth counting


def _density_ratio(candidates: Points, reference: Points, synthetic: Points) -> Points:
    """Log ratio of kernel densities of synthetic and reference rows, each at a bandwidth of its rows' spacing."""
    return _log_density(candidates, synthetic) - _log_density(candidates, reference)


def _log_density(rows: Points, others: Points) -> Points:
    """Log of a Gaussian kernel density, up to a constant: (rows,)."""
    spacing = distance(others[:2000], others, NEIGHBOURS + 1)  # the nearest row is the row itself
    width = max(float(np.median(spacing)), 1e-3)
    near = nearest(rows, others, WEIGHED)
    return np.asarray(np.logaddexp.reduce(-((near / width) ** 2) / 2, axis=1) - np.log(len(others)))


ATTACK = MembershipAttack(
    name="density ratio",
    how="rows where synthetic rows are denser than other real rows are called members (after DOMIAS)",
    score=_density_ratio,
)
