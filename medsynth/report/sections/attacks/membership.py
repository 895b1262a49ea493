"""How well a membership attack does: AuROC, advantage, and hits at low rates of false alarms."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import StratifiedKFold, cross_val_predict

from ....rng import Stream
from ...data.records import Estimate, Record
from ...data.statistics import auroc, interval, resampled
from .registry import MembershipAttack, Points

Flags = NDArray[np.bool_]


class Membership(Record):
    """One membership attack on rows that did not choose it. `advantage` is 2 AuROC - 1; rates are true positives."""

    name: str
    how: str
    auroc: Estimate
    advantage: Estimate
    at_one_percent: Estimate
    at_one_per_mille: Estimate


def membership(attack: MembershipAttack, member: Flags, score: Points, rng: Stream) -> Membership:
    """The figures of one attack from its scores, (rows,)."""
    area = auroc(member, score)[0]
    areas = resampled(len(member), rng, lambda weights: auroc(member, score, weights))
    return Membership(
        name=attack.name,
        how=attack.how,
        auroc=interval(area, areas),
        advantage=interval(2 * area - 1, 2 * areas - 1),
        at_one_percent=_rate(member, score, 0.01, rng),
        at_one_per_mille=_rate(member, score, 0.001, rng),
    )


def blind_baseline(candidates: Points, member: Flags, rng: Stream) -> Estimate:
    """AuROC of boosted trees that separate members from controls, out of fold (Das, Zhang, Tramer 2024)."""
    model = HistGradientBoostingClassifier(random_state=0, max_iter=60)
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    score = cross_val_predict(model, candidates, member, cv=folds, method="predict_proba")[:, 1]
    return interval(auroc(member, score)[0], resampled(len(member), rng, lambda w: auroc(member, score, w)))


def _rate(member: Flags, score: Points, false: float, rng: Stream) -> Estimate:
    """True-positive rate at a false-positive rate of at most `false`. None with fewer than 1/false controls."""
    if (~member).sum() * false < 1:
        return Estimate(value=None)

    def rate(weights: Points) -> Points:
        found = []
        order = np.argsort(-score, kind="stable")
        for w in weights[:, order]:
            misses = np.cumsum(w * ~member[order])
            over = np.searchsorted(misses, false * misses[-1], side="right")
            found.append((w * member[order])[:over].sum() / max((w * member[order]).sum(), 1))
        return np.array(found)

    return interval(float(rate(np.ones((1, len(member))))[0]), resampled(len(member), rng, rate))
