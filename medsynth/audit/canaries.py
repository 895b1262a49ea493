"""One fit, many canaries: a lower bound on epsilon for methods that sample lots or shards.

A fair coin includes each canary row, all canaries are attacked at once, and the number of right guesses bounds epsilon
(Steinke, Nasr, Jagielski 2023). One fit proves less than many fits, but more than none. The attacker knows the
canaries, the code, the plan and each noise scale, and sees every release. What one canary would add to a release is
known. The other canaries are noise to the attacker and part of the covariance.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import torch
from scipy.special import logsumexp
from torch import Tensor

from ..arrays import Codes, Floats, Mask
from ..privacy.accounting.calibration import Plan
from ..privacy.accounting.events import Event, PublicOrderGaussian
from ..privacy.accounting.ledger import Ledger
from ..privacy.clipping import pair_gradients
from ..privacy.exact_sums import factors
from ..privacy.queries.gradients import GradientSum, PairGradientSum
from ..privacy.queries.query import RowQuery
from ..privacy.queries.rows import CodedRows, Features
from ..privacy.queries.tables import Marginals, centred_axes
from ..privacy.queries.vectors import UNIT, VectorSum, clipped_vectors
from ..privacy.shards import CriticConfig, Shards
from ..privacy.vault import Vault
from ..rng import Entropy, NoNoise, numpy_stream, system_entropy
from ..schema import Schema
from .mechanisms import Recorder
from .statistics import DELTA, Finding, Step, one_run_epsilon, silent
from .whole_fits import Attacked, WholeFits, in_stds

Result = TypeVar("Result")
CANARIES = 400
EPSILON = 2.0  # Small enough to convict a fit without noise: 400 right guesses prove about 4.
SHARES = (0.02, 0.05, 0.1, 0.25, 0.5, 1.0)  # Shares of canaries that are guessed. The best one counts.
# Numbers of measurements, or of free steps, for a fit of half a minute. gs-wgan has one shard per canary.
SETTINGS: dict[str, dict[str, Any]] = {
    "dp-cgan": {"steps": 300},
    "dp-gan": {"lots": 150},
    "gs-wgan": {"shards": 100, "steps": 10, "gradients": 20},
}
SHARDED = ("gs-wgan", "pate-gan", "g-pate")  # Methods that are not attacked by whole fits.
PARTNERS = 4  # Draws of a pair's other row and coefficient over which a canary's gradient is averaged.
EXACT, MANY = "exact upstream gradient", 10**9
TINY = 1e-300


def audit_one_run(
    method: str, schema: Schema, confidence: float, entropy: Entropy | None = None, progress: Step = silent
) -> Finding:
    """Fit `method`, one of SETTINGS, once to random rows of `schema`, and guess from all releases who was included."""
    entropy = entropy or system_entropy()
    core = schema.core
    count = SETTINGS[method].get("shards", CANARIES)
    fits = WholeFits.of(method, schema, SETTINGS[method], count, EPSILON)
    stream = numpy_stream(int.from_bytes(entropy.bytes(8)), "canaries")
    codes = np.column_stack([stream.integers(0, column.size, count) for column in core.columns.values()])
    included = stream.random(count) < 0.5
    vault = CanaryVault(codes.astype(np.int32), included, core.names, fits.plan, entropy)
    fits.train(vault, progress=progress)
    return Finding(
        part="one fit", name=f"{method}, canaries",
        worst_case="random rows, each in the table by a fair coin; the attacker sees every release",
        claimed_epsilon=fits.plan.epsilon, proven_epsilon=_proven(vault.evidence, included, confidence),
        trials=count, confidence=confidence,
    )  # fmt: skip


def _proven(evidence: Floats, included: Mask, confidence: float) -> float:
    """Return the largest bound over SHARES of guessed canaries: half guessed as included, half as left out."""
    order = np.argsort(-evidence)
    found = 0.0
    for share in SHARES:
        half = round(share * len(order) / 2)
        right = int(included[order[:half]].sum() + (~included[order[len(order) - half :]]).sum())
        risk = (1 - confidence) / len(SHARES)
        found = max(found, one_run_epsilon(right, 2 * half, len(order), DELTA, risk))
    return found


class CanaryVault(Attacked):
    """A vault of the rows of `codes`, (canaries, columns), that are `included`, (canaries,).

    `evidence`, (canaries,): approximate log likelihood ratio of each canary's inclusion, from all releases so far.
    """

    def __init__(self, codes: Codes, included: Mask, names: tuple[str, ...], plan: Plan, entropy: Entropy) -> None:
        super().__init__(plan)
        self._codes, self._included, self._names, self._entropy = codes, included, names, entropy
        self._ledger = plan.ledger(entropy.source)
        self._recorder = Recorder(self._ledger, entropy)
        self._vault = Vault(codes[included], names, self._recorder)
        self.evidence = np.zeros(len(codes))

    def measure(self, label: str, query: RowQuery[Result]) -> Result:
        """Measure as the vault does. The attacker learns what each canary would add to the release."""
        found = self._vault.measure(label, query)
        if isinstance(query, Marginals):
            self._learn(label, query, self._cells(query))
        elif isinstance(query, VectorSum):
            self._learn(label, query, [clipped_vectors(query.vectors(self._codes)).double().numpy() * UNIT])
        elif isinstance(query, GradientSum):
            self._learn(label, query, self._gradients(query))
        elif isinstance(query, PairGradientSum):
            self._learn(label, query, self._pair_gradients(query))
        self.count()
        return found

    def _rows(self) -> CodedRows:
        """Return all canaries, included or not."""
        return CodedRows(self._codes, self._names, np.empty((len(self._codes), 0), np.uint64))

    def _cells(self, query: Marginals) -> list[Floats]:
        """Return the change by a canary: one in one cell of each table, minus the means along the centred axes."""
        rows = self._rows()
        found = []
        for name, axes in query.tables.items():
            shape = tuple(cells.cells for _, cells in axes)
            places = np.ravel_multi_index([rows.cells(*axis) for axis in axes], shape)
            own = np.eye(math.prod(shape))[places].reshape(len(places), *shape)
            for axis in centred_axes(len(shape)) if name in query.centred else ():
                own = own - own.mean(1 + axis, keepdims=True)
            found.append(own.reshape(len(places), -1))
        return found

    def _gradients(self, query: GradientSum) -> list[Floats]:

        def own(answer: Callable[[Tensor], Tensor], real: Tensor, fake: Tensor, mix: Tensor) -> Tensor:
            return query.loss(answer(real)[None, None])[0]

        rows = query.inputs(self._rows())
        sizes = [p.numel() for p in query.critic.parameters()]
        gradients = pair_gradients(query.critic, own, rows, rows, rows[:, 0])
        clipped = gradients * factors(torch.linalg.vector_norm(gradients, dim=1), query.bound)[:, None]
        return [part.double().numpy() for part in torch.split(clipped, sizes, 1)]

    def _pair_gradients(self, query: PairGradientSum) -> list[Floats]:
        """Return the change by a canary: a clipped gradient, whose average over partners the attacker knows."""
        groups = query.groups
        pool = query.pool
        rows = query.features(self._codes)
        total = torch.zeros(())
        for _ in range(PARTNERS):
            partner = pool[torch.randint(len(pool), (len(rows),))]
            gradients = pair_gradients(query.critic, query.loss, rows, partner, torch.rand(len(rows)), query.local)
            scales = torch.stack([factors(n, b) for n, b in zip(groups.norms(gradients).T, groups.bounds, strict=True)])
            total = total + gradients * scales.T[:, groups.of] / PARTNERS
        return [total[:, groups.of == j].double().numpy() for j in range(len(groups.bounds))]

    def _learn(self, label: str, query: RowQuery[Any], changes: list[Floats]) -> None:
        """Add a release's evidence for each canary, which adds its row of `changes`, (canaries, numbers), if included.

        This is the best linear test against the noise and all other canaries, as for Gaussians with the same moments.
        """
        rate = self.rate(label)
        std = self._recorder.std
        release = in_stds([np.ravel(array) for array in self._recorder.last[label].arrays], query, std)
        added = in_stds(changes, query, std)
        share = rate / 2  # The chance that a canary is included and takes part.
        spread = share * (1 - share)
        inner = added @ added.T
        ridge = max(1 / spread, 1e-9 * float(np.trace(inner)))
        inverse = np.linalg.inv(inner + ridge * np.eye(len(inner)))
        test = inverse @ (added @ (release - share * added.sum(0))) / spread
        own = 1 - np.einsum("ij,ji->i", inner, inverse)  # A canary is not noise in its own test.
        self.evidence += rate * test / np.maximum(own, 1e-6)

    def split_into_shards(self, count: int, features: Features, classes: int, config: CriticConfig) -> WatchedShards:
        """Split as the vault does, with canary k in shard k; the attacker's shards have all canaries, and none.

        This attacker knows which row is in which shard and the critics' secret seed. The proof allows this, since the
        claim rests on neither (docs/proofs/). Only the shard of each measurement, its noise and the coins are secret.
        """
        places = np.arange(len(self._codes), dtype=np.uint64)
        secret = self._entropy.bytes(8)

        def shards(kept: Mask, ledger: Ledger, kind: type[_Scripted], rest: Entropy) -> tuple[Recorder, Shards]:
            recorder = Recorder(ledger, kind([places[kept].tobytes(), secret], rest))
            vault = Vault(self._codes[kept], self._names, recorder)
            return recorder, vault.split_into_shards(count, features, classes, config)

        def known(kept: Mask) -> Shards:
            """Return shards without noise that allow computing each shard's gradient as often as needed."""
            event: Event = PublicOrderGaussian(multiplier=1.0, shards=count)
            ledger = Ledger(delta=0.5, accountant="rdp", random_source="audit", allowance={EXACT: (event, MANY)})
            return shards(kept, ledger, _Exact, NoNoise())[1]

        own = shards(self._included, self._ledger, _Scripted, self._entropy)
        return WatchedShards(self, *own, (known(self._included | True), known(self._included & False)), count)


class _Scripted:
    """Entropy that begins with bytes chosen by the attacker."""

    def __init__(self, script: list[bytes], rest: Entropy) -> None:
        self.source, self._script, self._rest = rest.source, script, rest

    def bytes(self, count: int) -> bytes:
        return self._script.pop(0) if self._script else self._rest.bytes(count)


class _Exact(_Scripted, NoNoise):
    """Scripted entropy without noise."""


class WatchedShards:
    """Shards whose every measurement is attacked. `known`: the attacker's own, with all canaries and with none."""

    def __init__(
        self, canaries: CanaryVault, recorder: Recorder, shards: Shards, known: tuple[Shards, Shards], count: int
    ) -> None:
        self._canaries, self._recorder, self._count = canaries, recorder, count
        self._shards, self._known = shards, known

    def train(self, fakes: Tensor) -> None:
        """Train every critic one step: the fit's and the attacker's."""
        for shards in (self._shards, *self._known):
            shards.train(fakes)

    def measure_upstream_gradient(self, label: str, fakes: Tensor, bound: float, *, joint: bool = False) -> Tensor:
        """Measure as the shards do: the gradient of one shard, which is with its canary or without.

        Let w[k] be the density of the release if it is of shard k, averaged over its canary's coin. Given that canary k
        is included, the density is the mean of all w with w[k] replaced by the density with the canary.
        """
        found = self._shards.measure_upstream_gradient(label, fakes, bound, joint=joint)
        release = self._recorder.last[label].arrays[0]
        logs = []  # With all canaries, with none: (shards,).
        for known in self._known:
            exact = [known.measure_upstream_gradient(EXACT, fakes, bound, joint=joint) for _ in range(self._count)]
            gaps = np.stack([gradient.double().cpu().numpy() for gradient in exact]) - release
            logs.append(-np.square(gaps).sum((1, 2)) / (2 * self._recorder.std**2))
        densities = np.exp(np.array(logs) - logsumexp(logs))
        either = densities.mean(0)
        rest = np.maximum(either.sum() - either, 0.0)
        self._canaries.evidence += np.log(rest + densities[0] + TINY) - np.log(rest + densities[1] + TINY)
        self._canaries.count()
        return found
