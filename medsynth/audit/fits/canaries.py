"""A vault of canaries, each included by a fair coin, with the attacker's evidence for each: many attacks on one fit.

All rows are canaries. The attacker knows them, the code, the plan and each noise scale, and sees every release. What a
canary would add to a release is known; that of the others is noise to the attacker, and part of the covariance.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...privacy.accounting.calibration import Plan
from ...privacy.accounting.events import SubsampledGaussian
from ...privacy.clipping import factors, pair_gradients
from ...privacy.queries.gradients import GradientSum, PairGradientSum
from ...privacy.queries.measurements import Measurements
from ...privacy.queries.query import RowQuery
from ...privacy.queries.rows import CodedRows, Codes
from ...privacy.queries.tables import Marginals, centred_axes
from ...privacy.vault import Vault
from ...rng import Entropy
from ..recorder import Recorder
from .watched import Done, in_stds

Floats = NDArray[np.float64]
Result = TypeVar("Result")
PARTNERS = 4  # draws of a pair's other row and coefficient, over which a canary's gradient is averaged


class CanaryVault(Measurements):
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

    @property
    def max_rows(self) -> None:
        """The row is the unit of privacy."""

    def measure(self, label: str, query: RowQuery[Result]) -> Result:
        """As the vault's, and the attacker learns from it what each canary would add to the release, if anything."""
        found = self.vault.measure(label, query)
        if isinstance(query, Marginals):
            self._learn(label, query, self._cells(query))
        elif isinstance(query, GradientSum):
            self._learn(label, query, self._gradients(query))
        elif isinstance(query, PairGradientSum):
            self._learn(label, query, self._pair_gradients(query))
        self.count()
        return found

    def _cells(self, query: Marginals) -> list[Floats]:
        """A canary adds one to one cell of each table, less the means along the axes that are centred."""
        rows, found = CodedRows(self.codes, self.names, np.empty((len(self.codes), 0), np.uint64)), []
        for name, axes in query.tables.items():
            shape = tuple(cells.cells for _, cells in axes)
            places = np.ravel_multi_index([rows.cells(*axis) for axis in axes], shape)
            own = np.eye(math.prod(shape))[places].reshape(len(places), *shape)
            for axis in centred_axes(len(shape)) if name in query.centred else ():
                own = own - own.mean(1 + axis, keepdims=True)
            found.append(own.reshape(len(places), -1))
        return found

    def _gradients(self, query: GradientSum) -> list[Floats]:
        """A canary adds its clipped gradient."""

        def own(answer: Callable[[Tensor], Tensor], real: Tensor, fake: Tensor, mix: Tensor) -> Tensor:
            return query.loss(answer(real)[None, None])[0]

        rows = query.features(self.codes)
        gradients = pair_gradients(query.critic, own, rows, rows, rows[:, 0])
        clipped = gradients * factors(torch.linalg.vector_norm(gradients, dim=1), query.bound)[:, None]
        return [
            part.double().numpy() for part in torch.split(clipped, [p.numel() for p in query.critic.parameters()], 1)
        ]

    def _pair_gradients(self, query: PairGradientSum) -> list[Floats]:
        """A canary adds a clipped gradient of which the attacker knows the average over partners."""
        groups, pool, rows = query.groups, query.pool, query.features(self.codes)
        total = torch.zeros(())
        for _ in range(PARTNERS):
            partner = pool[torch.randint(len(pool), (len(rows),))]
            gradients = pair_gradients(query.critic, query.loss, rows, partner, torch.rand(len(rows)), query.local)
            scales = torch.stack([factors(n, b) for n, b in zip(groups.norms(gradients).T, groups.bounds, strict=True)])
            total = total + gradients * scales.T[:, groups.of] / PARTNERS
        return [total[:, groups.of == j].double().numpy() for j in range(len(groups.bounds))]

    def _learn(self, label: str, query: RowQuery[Any], changes: list[Floats]) -> None:
        """Evidence from a release for each canary, which adds its row of `changes`, (canaries, numbers), if included.

        The best linear test against noise and all other canaries together: of Gaussians of the same mean and
        covariance.
        """
        event = self.plan.events[label][0]
        rate = event.rate if isinstance(event, SubsampledGaussian) else 1.0
        release = in_stds([np.ravel(array) for array in self.recorder.last[label].arrays], query, self.recorder.std)
        added = in_stds(changes, query, self.recorder.std)
        share = rate / 2  # the chance that a canary is included and takes part
        spread = share * (1 - share)
        inner = added @ added.T
        ridge = max(1 / spread, 1e-9 * float(np.trace(inner)))
        inverse = np.linalg.inv(inner + ridge * np.eye(len(inner)))
        test = inverse @ (added @ (release - share * added.sum(0))) / spread
        own = 1 - np.einsum("ij,ji->i", inner, inverse)  # a canary is no noise to its own test
        self.evidence += rate * test / np.maximum(own, 1e-6)

    def count(self) -> None:
        """Count a release. Raises Done after the last."""
        self._left -= 1
        if not self._left:
            raise Done
