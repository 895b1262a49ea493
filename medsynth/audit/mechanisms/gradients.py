"""Gradient sums on their worst neighbours: of all rows and of Poisson lots, of rows, microbatches, patients and pairs.

Of a Poisson lot the target is a part by chance: each measurement is attacked as a mixture of one that holds it and one
that does not. The rows beside it have no gradient, or give the same sum whichever of them are in the lot.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...privacy.accounting.events import SubsampledGaussian
from ...privacy.clipping import Groups
from ...privacy.networks import Mlp
from ...privacy.queries.rows import Codes
from ...privacy.vault import Vault
from .case import LABEL, RATE, SAMPLED_MU, Case, Table, of_vault
from .counts import OTHERS, PATIENT_ROWS, patient, single

Score = Callable[[Vault], float]
DIMENSIONS, HUGE, BOUND = 6, 1e6, 0.7
MANY = 40  # rows of which a lot holds some, but for a chance of RATE^MANY
PATIENT_LOT_MU = 4.0  # so large that a patient's rows are told from each other
GROUPS = Groups(torch.tensor([0, 0, 1, 1, 2, 2]), (0.3, 0.7, 2.0))


def _many(present: bool) -> Table:
    codes = np.ones((MANY + present, 1), np.int32)
    codes[MANY:] = 2
    return codes, None


def _alone(present: bool) -> Table:
    return np.full((int(present), 1), 2, np.int32), None


def _critic() -> Mlp:
    """Linear and without bias: a row's gradient is its input."""
    return Mlp([DIMENSIONS, 1], bias=False)


def _first(answer: Tensor) -> Tensor:
    return answer[:, 0]


def _opposed(codes: Codes) -> Tensor:
    """The others point one way, at the clipping norm each, and the target the other way, a million times as far."""
    x = torch.zeros(len(codes), DIMENSIONS)
    x[:, 0] = torch.from_numpy(np.where(codes[:, 0] == 2, HUGE, -BOUND).astype(np.float32))
    return x


def _target_alone(codes: Codes) -> Tensor:
    """The target points one way, and the others have no gradient."""
    x = torch.zeros(len(codes), DIMENSIONS)
    x[:, 0] = torch.from_numpy((codes[:, 0] == 2).astype(np.float32) * HUGE)
    return x


def _gradients(rows: int, features: Callable[[Codes], Tensor], without: float) -> Score:
    """Clipped gradients along one axis: their sum in units of the bound, `without` where there is no target."""
    critic = _critic()

    def score(vault: Vault) -> float:
        (found,) = vault.measure_gradient_sum(LABEL, critic, _first, features, BOUND)
        return (float(found[0, 0]) / BOUND - without) / rows

    return score


def _microbatch(vault: Vault) -> float:
    """One group of all rows: the target turns its clipped mean round, which is twice the clipping norm."""
    (found,) = vault.measure_gradient_sum(LABEL, _critic(), _first, _opposed, BOUND, microbatches=1)
    return (float(found[0, 0]) + BOUND) / (2 * BOUND)


def _every_group(codes: Codes) -> Tensor:
    """The target has a huge part in each group of parameters."""
    return torch.from_numpy((codes[:, :1] == 2).astype(np.float32) * HUGE).repeat(1, DIMENSIONS)


def _of_real(answer: Callable[[Tensor], Tensor], real: Tensor, fake: Tensor, mix: Tensor) -> Tensor:
    return answer(real)


def _pairs(vault: Vault) -> float:
    pool = torch.zeros(1, DIMENSIONS)
    (found,) = vault.measure_pair_gradient_sum(LABEL, _critic(), _of_real, _every_group, pool, GROUPS)
    parts = [float(found[0][GROUPS.of == j].sum()) / math.sqrt(2) / bound for j, bound in enumerate(GROUPS.bounds)]
    return sum(parts) / len(parts)


def _norms(others: int) -> Score:
    """The target's norms lie above every bound, those of the others below: a half each, and the target takes a half."""

    def score(vault: Vault) -> float:
        pool = torch.zeros(1, DIMENSIONS)
        found = vault.measure_norms_below(LABEL, _critic(), _of_real, _every_group, pool, GROUPS)
        return (others / 2 - float(found.mean())) * 2

    return score


def _lot(mu: float = SAMPLED_MU) -> dict[str, Any]:
    """What makes a case one of Poisson lots."""
    return {"mu": mu, "rate": RATE, "event": SubsampledGaussian(multiplier=1 / mu, rate=RATE)}


FAR, FOUR = "a row whose gradient is a million times the clipping norm", "four such rows of one patient"
TURNS, HUGE_IN_EACH = "a row that turns its group's clipped mean round", "a row that is huge in each of three groups"
ABOVE = "a row above the bound of each of three groups"
GRADIENTS = (
    Case(name="gradient sum", worst_case=FAR, attack=of_vault(_gradients(1, _opposed, -OTHERS), single)),
    Case(name="gradient sum, patients", worst_case=FOUR, max_rows=PATIENT_ROWS,
         attack=of_vault(_gradients(PATIENT_ROWS, _opposed, -OTHERS), patient)),
    Case(name="microbatch gradient sum", worst_case=TURNS, attack=of_vault(_microbatch, single)),
    Case(name="pair gradients in groups", worst_case=HUGE_IN_EACH, attack=of_vault(_pairs, single), slow=8),
    Case(name="norms below a bound", worst_case=ABOVE, attack=of_vault(_norms(OTHERS), single)),
    Case(name="lot's gradient sum", worst_case=FAR, attack=of_vault(_gradients(1, _target_alone, 0), _many), **_lot()),
    Case(name="lot's gradient sum, patients", worst_case=f"{FOUR}, who join a lot together", max_rows=PATIENT_ROWS,
         attack=of_vault(_gradients(PATIENT_ROWS, _target_alone, 0), patient), **_lot(PATIENT_LOT_MU)),
    Case(name="lot's microbatch gradients", worst_case=TURNS, attack=of_vault(_microbatch, _many), **_lot()),
    Case(name="lot's pair gradients", worst_case=HUGE_IN_EACH, attack=of_vault(_pairs, _alone), slow=4, **_lot()),
    Case(name="lot's norms below a bound", worst_case=ABOVE, attack=of_vault(_norms(0), _alone), **_lot()),
)  # fmt: skip
