"""One kind of measurement on its worst neighbours, and what an attacker who sees its releases proves of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ...privacy.accounting.calibration import Plan
from ...privacy.accounting.events import Event, Gaussian
from ...privacy.contribution import PrivacyUnits
from ...privacy.queries.rows import Codes
from ...privacy.vault import Vault
from ...rng import Entropy, system_entropy
from ..finding import Finding, epsilon_of
from ..recorder import Recorder
from ..statistics import best_threshold, errors, errors_at

Floats = NDArray[np.float64]
Table = tuple[Codes, PrivacyUnits | None]
FIXED_RISK = 0.8  # of the risk that a bound fails: for the threshold that is fixed beforehand
MU = 2.4  # of an audited event: where error rates tell most of mu with few trials
SAMPLED_MU, RATE = 3.0, 0.5  # of one that the target takes part in by chance
LABEL = "audited measurement"
PART = "measurements"


@dataclass(frozen=True, kw_only=True)
class Case:
    """One kind of measurement. `attack(present, releases)` builds a table and gives a function that makes one trial.

    A trial's score is the release projected on the change that the target makes, in units of that change: near 0
    without the target, near 1 where it takes part, which it does with the chance `rate`. All noise of a trial together
    is one Gaussian measurement of separation `mu`. `slow`: so many times fewer trials are made.
    """

    name: str
    worst_case: str
    attack: Callable[[bool, Recorder], Callable[[], float]]
    event: Event = Gaussian(multiplier=1 / MU)
    mu: float = MU
    rate: float = 1.0
    max_rows: int | None = None
    labels: tuple[str, ...] = (LABEL,)
    releases: int = 1  # of each label in a trial
    slow: int = 1

    def scores(self, present: bool, trials: int, entropy: Entropy) -> Floats:
        """The scores of so many trials, in standard deviations of the noise."""
        times = trials * self.releases
        plan = Plan(
            epsilon_asked=1.0, epsilon=1.0, delta=1e-5, rows=1, accountant="rdp", max_rows=self.max_rows,
            events=dict.fromkeys(self.labels, (self.event, times)),
        )  # fmt: skip
        trial = self.attack(present, Recorder(plan.ledger(entropy.source), entropy))
        return self.mu * np.array([trial() for _ in range(trials)])


def of_vault(score: Callable[[Vault], float], table: Callable[[bool], Table]) -> Callable[..., Callable[[], float]]:
    """The attack that builds one vault a side and scores one release of it a trial."""

    def attack(present: bool, releases: Recorder) -> Callable[[], float]:
        codes, units = table(present)
        vault = Vault(codes, tuple(f"c{k}" for k in range(codes.shape[1])), releases, units)
        return lambda: score(vault)

    return attack


def audit_mechanism(case: Case, trials: int, confidence: float, entropy: Entropy | None = None) -> Finding:
    """Make `trials` trials without the target and as many with it, and bound mu from the attacker's errors.

    One threshold is fixed beforehand, where a sound mechanism tells most; another is learned from half of the trials,
    for mechanisms that are not what they claim. The risk of a wrong bound is divided among them. For a target that
    takes part by chance, mu is the least in the family of such measurements; epsilon follows from the accountant.
    """
    entropy = entropy or system_entropy()
    without, present = (case.scores(side, trials, entropy) for side in (False, True))
    risk = FIXED_RISK * (1 - confidence)
    threshold = best_threshold(case.mu, case.rate, trials, risk / 2)
    fixed = errors_at(threshold, without, present, 1 - risk)
    learned = errors(without, present, 1 - (1 - confidence) * (1 - FIXED_RISK), case.rate)
    proven = max(fixed.mu(case.rate), learned.mu(case.rate))
    return Finding(
        part=PART,
        name=case.name,
        worst_case=case.worst_case,
        claimed_mu=case.mu,
        proven_mu=proven,
        rate=case.rate,
        claimed_epsilon=_epsilon(case, case.mu),
        proven_epsilon=_epsilon(case, proven),
        trials=trials,
        confidence=confidence,
    )


def _epsilon(case: Case, mu: float) -> float:
    """The epsilon of a trial's releases together, were their separation `mu`."""
    if mu <= 0:
        return 0.0
    return epsilon_of(Gaussian(multiplier=1 / mu) if case.rate == 1 else replace(case.event, multiplier=1 / mu))
