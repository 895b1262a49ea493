"""How well a membership attack does: AuROC, advantage, and hits at low rates of false alarms."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier

from ....rng import Stream
from ...data.records import Estimate, Record
from ...data.statistics import Areas, Patients, folds, interval, out_of_fold, resampled, simultaneous
from .registry import MembershipAttack, Points

Flags = NDArray[np.bool_]


class Membership(Record):
    """One membership attack. `advantage` is 2 AuROC - 1; rates are true positives.

    The intervals of the advantages hold for all attacks together, so that of the worst attack is right though it was
    looked at because it is the worst; the other intervals hold one by one.
    """

    name: str
    how: str
    auroc: Estimate
    advantage: Estimate
    at_one_percent: Estimate
    at_one_per_mille: Estimate


def memberships(
    scored: Sequence[tuple[MembershipAttack, Points]], member: Flags, rng: Stream, patients: Patients | None = None
) -> tuple[str, list[Membership]]:
    """The name of the attack with the largest advantage, and the figures of all, from their scores, (rows,)."""
    measured = Areas(np.stack([member] * len(scored)), np.stack([score for _, score in scored]))
    areas, draws = measured.value, resampled(len(member), rng, measured, patients)
    advantages = simultaneous(2 * areas - 1, 2 * draws - 1)
    found = [
        Membership(
            name=attack.name,
            how=attack.how,
            auroc=interval(areas[k], draws[:, k]),
            advantage=advantages[k],
            at_one_percent=_rate(member, score, 0.01, rng, patients),
            at_one_per_mille=_rate(member, score, 0.001, rng, patients),
        )
        for k, (attack, score) in enumerate(scored)
    ]
    return scored[int(areas.argmax())][0].name, found


def blind_baseline(candidates: Points, member: Flags, rng: Stream, patients: Patients | None = None) -> Estimate:
    """AuROC of boosted trees that separate members from controls, out of fold (Das, Zhang, Tramer 2024).

    Folds hold whole patients: another row of the same patient would tell which side a row is on.
    """
    model = HistGradientBoostingClassifier(random_state=0, max_iter=60)
    score = out_of_fold(model, candidates, member, folds(member, 3, patients))
    areas = Areas(member[None], score[None])
    return interval(areas.value[0], resampled(len(member), rng, areas, patients)[:, 0])


def _rate(member: Flags, score: Points, false: float, rng: Stream, patients: Patients | None) -> Estimate:
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

    return interval(float(rate(np.ones((1, len(member))))[0]), resampled(len(member), rng, rate, patients))
