"""Membership by the distance to the nearest synthetic row, alone and against the distance to other real rows."""

from __future__ import annotations

import numpy as np

from .distances import distance
from .registry import MembershipAttack, Points


def _nearest(candidates: Points, reference: Points, synthetic: Points) -> Points:
    return -distance(candidates, synthetic)


def _against_reference(candidates: Points, reference: Points, synthetic: Points) -> Points:
    return np.asarray((distance(candidates, reference) + 1e-6) / (distance(candidates, synthetic) + 1e-6))


NEAREST = MembershipAttack(
    name="nearest row", how="a row that is close to a synthetic row is called a member", score=_nearest
)
AGAINST_REFERENCE = MembershipAttack(
    name="nearest row against reference",
    how="the same, measured against the distance to other real rows",
    score=_against_reference,
)
