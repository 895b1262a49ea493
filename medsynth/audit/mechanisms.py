"""Each kind of measurement on its worst neighbours: how much an attacker who sees the release can prove.

A case builds a table in which one unit, the target, moves the measured value by as much as is charged, in a known
direction. The attacker projects each release on that direction, the best test there is against Gaussian noise, and
guesses "present" beyond the middle. No table of the user is opened, and no budget is spent.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..privacy.accounting.calibration import Plan
from ..privacy.accounting.events import Event, Gaussian
from ..privacy.contribution import PrivacyUnits
from ..privacy.networks import Mlp
from ..privacy.pair_clipping import Groups
from ..privacy.release import Releases
from ..privacy.vault import Axes, Vault
from ..rng import Entropy, system_entropy
from ..transforms.grid import Grid
from .statistics import errors, errors_at

Floats = NDArray[np.float64]
Codes = NDArray[np.int32]
Score = Callable[[Vault], float]  # one release of a vault, projected: near 0 without the target, near `MU` with it
FIXED_RISK = 0.8  # of the risk that a bound fails: for the threshold that is fixed beforehand
MU = 2.4  # of every audited event: where error rates tell most of mu with few trials
LABEL = "audited measurement"
COLUMNS, CELLS = 3, Grid(np.arange(4), 0)
DIMENSIONS, HUGE, BOUND = 6, 1e6, 0.7
OTHERS, PATIENT_ROWS = 3, 4  # rows beside the target; rows of a patient


@dataclass(frozen=True, kw_only=True)
class Case:
    """One kind of measurement: `vaults(present, trials, entropy)` gives a vault with `trials` releases to make."""

    name: str
    worst_case: str
    score: Score
    table: Callable[[bool], tuple[Codes, PrivacyUnits | None]]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What the attacker proved of one kind of measurement: claimed mu, and a lower bound on the true one."""

    name: str
    worst_case: str
    claimed_mu: float
    proven_mu: float
    trials: int
    confidence: float

    @property
    def refutes(self) -> bool:
        """Whether the claim is refuted at this confidence."""
        return self.proven_mu > self.claimed_mu


def audit_mechanism(case: Case, trials: int, confidence: float, entropy: Entropy | None = None) -> Finding:
    """Make `trials` releases without the target and as many with it, and bound mu from the attacker's errors.

    One threshold is fixed beforehand, in the middle, where a sound mechanism tells most; another is learned from half
    of the releases, for mechanisms that are not what they claim. The risk of a wrong bound is divided among them.
    """
    entropy = entropy or system_entropy()
    without, present = (_scores(case, side, trials, entropy) for side in (False, True))
    fixed = errors_at(MU / 2, without, present, 1 - (1 - confidence) * FIXED_RISK)
    learned = errors(without, present, 1 - (1 - confidence) * (1 - FIXED_RISK))
    return Finding(
        name=case.name,
        worst_case=case.worst_case,
        claimed_mu=MU,
        proven_mu=max(fixed.mu(), learned.mu()),
        trials=trials,
        confidence=confidence,
    )


def _scores(case: Case, present: bool, trials: int, entropy: Entropy) -> Floats:
    codes, units = case.table(present)
    events: dict[str, tuple[Event, int]] = {LABEL: (Gaussian(multiplier=1 / MU), trials)}
    plan = Plan(
        epsilon_asked=1.0, epsilon=1.0, delta=1e-5, rows=len(codes), accountant="rdp", events=events,
        max_rows=units.max_rows if units else None,
    )  # fmt: skip
    names = tuple(f"c{k}" for k in range(codes.shape[1]))
    vault = Vault(codes, names, Releases(plan.ledger(entropy.source), entropy), units)
    return np.array([case.score(vault) for _ in range(trials)])


def _rows(present: bool) -> Codes:
    """Some rows at code 1 and, where the target is present, one more at code 2."""
    codes = np.ones((OTHERS + present, COLUMNS), np.int32)
    codes[OTHERS:] = 2
    return codes


def _single(present: bool) -> tuple[Codes, None]:
    return _rows(present), None


def _patient(present: bool) -> tuple[Codes, PrivacyUnits]:
    """Three patients of one row each and, where present, one of as many equal rows as may be."""
    codes = np.ones((OTHERS, COLUMNS), np.int32)
    owner = np.arange(OTHERS)
    if present:
        codes = np.concatenate([codes, np.full((PATIENT_ROWS, COLUMNS), 2, np.int32)])
        owner = np.append(owner, np.full(PATIENT_ROWS, OTHERS))
    return codes, PrivacyUnits(owner, PATIENT_ROWS)


AXES: dict[str, Axes] = {
    "a": [("c0", CELLS)],
    "b": [("c1", CELLS)],
    "a x b": [("c0", CELLS), ("c1", CELLS)],
}


def _marginals(scale: float) -> Score:
    """The target's own cells, which k tables each gain by `scale` at once."""

    def score(vault: Vault) -> float:
        found = vault.measure_marginals(LABEL, AXES)
        total = found["a"][2] + found["b"][2] + found["a x b"][2, 2]
        return MU * float(total) / (scale * len(AXES))

    return score


def _distances(vault: Vault) -> float:
    """Guesses that lie below each count, so that the target moves every distance up by one."""
    guesses = {key: np.zeros([cells.cells for _, cells in axes]) for key, axes in AXES.items()}
    found = vault.measure_distances(LABEL, AXES, guesses)
    return MU * (sum(found.values()) / len(AXES) - OTHERS)  # so many rows lie there without the target


def _rows_per_patient(vault: Vault) -> float:
    return MU * float(vault.measure_rows_per_patient(LABEL)[PATIENT_ROWS - 1])


def _opposed(codes: Codes) -> Tensor:
    """The others point one way, at the clipping norm each, and the target the other way, a million times as far."""
    x = torch.zeros(len(codes), DIMENSIONS)
    x[:, 0] = torch.from_numpy(np.where(codes[:, 0] == 2, HUGE, -BOUND).astype(np.float32))
    return x


def _first(answer: Tensor) -> Tensor:
    return answer[:, 0]


def _gradients(scale: float) -> Score:
    """A linear critic without bias: a row's gradient is its input, and the target's is clipped to the bound."""
    critic = Mlp([DIMENSIONS, 1], bias=False)

    def score(vault: Vault) -> float:
        (found,) = vault.measure_gradient_sum(LABEL, critic, _first, _opposed, BOUND)
        return MU * (float(found[0, 0]) / BOUND + OTHERS) / scale

    return score


def _microbatch(vault: Vault) -> float:
    """One group of all rows: the target turns its clipped mean round, which is twice the clipping norm."""
    critic = Mlp([DIMENSIONS, 1], bias=False)
    (found,) = vault.measure_gradient_sum(LABEL, critic, _first, _opposed, BOUND, microbatches=1)
    return MU * (float(found[0, 0]) + BOUND) / (2 * BOUND)


GROUPS = Groups(torch.tensor([0, 0, 1, 1, 2, 2]), (0.3, 0.7, 2.0))


def _every_group(codes: Codes) -> Tensor:
    """The target has a huge part in each group of parameters."""
    return torch.from_numpy((codes[:, :1] == 2).astype(np.float32) * HUGE).repeat(1, DIMENSIONS)


def _of_real(answer: Callable[[Tensor], Tensor], real: Tensor, fake: Tensor, mix: Tensor) -> Tensor:
    return answer(real)


def _pairs(vault: Vault) -> float:
    critic = Mlp([DIMENSIONS, 1], bias=False)
    pool = torch.zeros(1, DIMENSIONS)
    (found,) = vault.measure_pair_gradient_sum(LABEL, critic, _of_real, _every_group, pool, GROUPS)
    parts = [float(found[0][GROUPS.of == j].sum()) / math.sqrt(2) / bound for j, bound in enumerate(GROUPS.bounds)]
    return MU * sum(parts) / len(parts)


def _norms(vault: Vault) -> float:
    """The target's norms lie above every bound, those of the others below."""
    critic = Mlp([DIMENSIONS, 1], bias=False)
    found = vault.measure_norms_below(LABEL, critic, _of_real, _every_group, torch.zeros(1, DIMENSIONS), GROUPS)
    return MU * (OTHERS / 2 - float(found.mean())) * 2  # the others give a half each; the target takes a half away


CASES = {
    case.name: case
    for case in (
        Case(name="marginals", worst_case="one row in one cell of each of three tables", score=_marginals(1.0),
             table=_single),
        Case(name="marginals, patients", worst_case="four equal rows of one patient",
             score=_marginals(float(PATIENT_ROWS)), table=_patient),
        Case(name="distances", worst_case="one row that moves three distances the same way", score=_distances,
             table=_single),
        Case(name="rows per patient", worst_case="one patient more", score=_rows_per_patient, table=_patient),
        Case(name="gradient sum", worst_case="a row whose gradient is a million times the clipping norm",
             score=_gradients(1.0), table=_single),
        Case(name="gradient sum, patients", worst_case="four such rows of one patient",
             score=_gradients(float(PATIENT_ROWS)), table=_patient),
        Case(name="microbatch gradient sum", worst_case="a row that turns its group's clipped mean round",
             score=_microbatch, table=_single),
        Case(name="pair gradients in groups", worst_case="a row that is huge in each of three groups", score=_pairs,
             table=_single),
        Case(name="norms below a bound", worst_case="a row above the bound of each of three groups", score=_norms,
             table=_single),
    )
}  # fmt: skip
