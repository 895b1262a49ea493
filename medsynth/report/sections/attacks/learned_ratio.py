"""Membership by a density ratio that boosted trees learn."""

from __future__ import annotations

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier

from .registry import MembershipAttack, Points


def _learned_ratio(candidates: Points, reference: Points, synthetic: Points) -> Points:
    """Log odds that a row is synthetic and not real, by boosted trees trained on synthetic and reference rows."""
    rows = np.concatenate([synthetic[: 4 * len(reference)], reference])
    marks = np.repeat([1, 0], [len(rows) - len(reference), len(reference)])
    model = HistGradientBoostingClassifier(random_state=0, max_iter=60).fit(rows, marks)
    return np.asarray(model.decision_function(candidates))


ATTACK = MembershipAttack(
    name="learned density ratio", how="the same ratio, learned by boosted trees", score=_learned_ratio
)
