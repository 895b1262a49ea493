"""A vault of canaries, each included by a fair coin, with the attacker's evidence for each: many attacks on one fit.

All rows are canaries. The attacker knows them, the code, the plan and each noise scale, and sees every release. What a
canary would add to a release is known; that of the others is noise to the attacker, and part of the covariance.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...privacy.accounting.calibration import Plan
from ...privacy.accounting.events import SubsampledGaussian
from ...privacy.clipping import Loss, factors
from ...privacy.networks import Mlp
from ...privacy.pair_clipping import Groups, PairLoss, pair_gradients
from ...privacy.vault import Axes, Codes, Vault, column_of
from ...rng import Entropy
from ..recorder import Recorder
from .watched import Done

Floats = NDArray[np.float64]
PARTNERS = 4  # draws of a pair's other row and coefficient, over which a canary's gradient is averaged


class CanaryVault:
    """A vault of those of `codes`, (canaries, columns), that are `included`, (canaries,).

    `evidence`, (canaries,): the log likelihood ratio of inclusion of each, nearly, from all releases so far.
    """

    def __init__(
        self, codes: Codes, included: NDArray[np.bool_], names: tuple[str, ...], plan: Plan, entropy: Entropy
    ) -> None:
        self.codes, self.included, self.names, self.plan, self.entropy = codes, included, names, plan, entropy
        self.ledger = plan.ledger(entropy.source)
        self.recorder = Recorder(self.ledger, entropy)
        self.vault = Vault(codes[included], names, self.recorder)
        self.evidence = np.zeros(len(codes))
        self._left = sum(times for _, times in plan.events.values())

    def measure_histograms(self, label: str, maps: Any) -> dict[str, Floats]:
        """As the vault's."""
        return self.measure_marginals(label, {name: [(name, cells)] for name, cells in maps.items()})

    def measure_marginals(
        self, label: str, tables: dict[str, Axes], weights: dict[str, float] | None = None
    ) -> dict[str, Floats]:
        """As the vault's: a canary adds its weight to one cell of each table."""
        found = self.vault.measure_marginals(label, tables, weights)
        each, cells, scale = weights or dict.fromkeys(tables, 1.0), [], []
        for key, axes in tables.items():
            shape = tuple(cells.cells for _, cells in axes)
            places = [cells.cell_of(column_of(self.codes, self.names, name)) for name, cells in axes]
            cells.append(each[key] * np.eye(int(np.prod(shape)))[np.ravel_multi_index(places, shape)])
            scale.append(np.full(int(np.prod(shape)), 1 / each[key]))
        self._learn(label, np.concatenate(cells, 1), np.concatenate(scale))
        return found

    def measure_gradient_sum(
        self,
        label: str,
        critic: Mlp,
        loss: Loss,
        features: Callable[[Codes], Tensor],
        bound: float,
        microbatches: int | None = None,
    ) -> tuple[Tensor, ...]:
        """As the vault's: a canary adds its clipped gradient."""
        found = self.vault.measure_gradient_sum(label, critic, loss, features, bound, microbatches)

        def own(answer: Callable[[Tensor], Tensor], real: Tensor, fake: Tensor, mix: Tensor) -> Tensor:
            return loss(answer(real)[None, None])[0]

        rows = features(self.codes)
        gradients = pair_gradients(critic, own, rows, rows, rows[:, 0])
        clipped = gradients * factors(torch.linalg.vector_norm(gradients, dim=1), bound)[:, None]
        self._learn(label, clipped.double().numpy())
        return found

    def measure_pair_gradient_sum(
        self, label: str, critic: Mlp, loss: PairLoss, features: Callable[[Codes], Tensor], pool: Tensor, groups: Groups
    ) -> tuple[Tensor, ...]:
        """As the vault's: a canary adds a clipped gradient of which the attacker knows the average over partners."""
        found = self.vault.measure_pair_gradient_sum(label, critic, loss, features, pool, groups)
        rows, total = features(self.codes), torch.zeros(())
        for _ in range(PARTNERS):
            partner = pool[torch.randint(len(pool), (len(rows),))]
            gradients = pair_gradients(critic, loss, rows, partner, torch.rand(len(rows)))
            scales = torch.stack([factors(n, b) for n, b in zip(groups.norms(gradients).T, groups.bounds, strict=True)])
            total = total + gradients * scales.T[:, groups.of] / PARTNERS
        # Divided by its group's bound, each parameter has the same noise.
        scale = torch.tensor(groups.bounds)[groups.of].double().numpy()
        self._learn(label, total.double().numpy() / scale, scale)
        return found

    def measure_norms_below(self, *arguments: Any) -> Floats:
        """As the vault's. The attacker makes nothing of it."""
        found = self.vault.measure_norms_below(*arguments)
        self.count()
        return found

    def _learn(self, label: str, changes: Floats, scale: Floats | float = 1.0) -> None:
        """Evidence from a release for each canary, which adds its row of `changes`, (canaries, numbers), if included.

        The best linear test against noise and all other canaries together: of Gaussians of the same mean and
        covariance. `scale`: what the numbers of the release are divided by.
        """
        event = self.plan.events[label][0]
        rate = event.rate if isinstance(event, SubsampledGaussian) else 1.0
        release = np.concatenate([np.ravel(array) for array in self.recorder.last[label].arrays]) / scale
        share = rate / 2  # the chance that a canary is included and takes part
        spread = share * (1 - share)
        inner = changes @ changes.T
        ridge = max(self.recorder.std**2 / spread, 1e-9 * float(np.trace(inner)))
        inverse = np.linalg.inv(inner + ridge * np.eye(len(inner)))
        test = inverse @ (changes @ (release - share * changes.sum(0))) / spread
        own = 1 - np.einsum("ij,ji->i", inner, inverse)  # a canary is no noise to its own test
        self.evidence += rate * test / np.maximum(own, 1e-6)
        self.count()

    def count(self) -> None:
        """Count a release. Raises Done after the last."""
        self._left -= 1
        if not self._left:
            raise Done
