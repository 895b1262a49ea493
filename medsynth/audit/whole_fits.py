"""Whole fits with and without one row, attacked with knowledge of every other row, the code, the plan and the noise.

- *End to end*: the attacker sees each release at its full precision. For adaptively chosen Gaussian measurements the
  best test adds the log likelihood ratios of all of them. Without lots the sum is normal, and its mu is that of the
  composition. With lots, the plan's own trade-off curve shows what was proven.
- *The loss-noise GAN as published*: its generator alone reveals whether a row was in the table.
- *Synthetic rows* alone are far too weak to refute a claim. If such an attack finds a leak, the leak is real; if it
  finds none, that proves nothing (Annamalai et al. 2024).
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from ..arrays import Arrays, Codes, Floats
from ..errors import UsageError
from ..fitting.settings import NO_DP_BUDGET
from ..methods import registry
from ..methods.loss_noise import claimed
from ..methods.registry import Method
from ..privacy.accounting import accountant
from ..privacy.accounting.calibration import PRV_FAILURES, Plan, make_plan
from ..privacy.accounting.events import Event, Gaussian, SubsampledGaussian
from ..privacy.queries.gradients import GradientSum
from ..privacy.queries.measurements import Measurements
from ..privacy.queries.query import RowQuery
from ..privacy.release import Releases
from ..privacy.vault import Vault
from ..rng import Entropy, NoNoise, numpy_stream, system_entropy
from ..schema import Schema
from .mechanisms import Recorder
from .statistics import DELTA, Errors, Finding, Step, errors, errors_at, gaussian_epsilon, gaussian_mu, silent

Result = TypeVar("Result")
PART, ROWS_PART = "whole fits", "synthetic rows, no proof"
OTHERS = 40  # Rows besides the target.
DECLARED = 2_000  # Rows that the plan is made for, enough for a method to plan all of its measurements.
EPSILON = 12.0  # At this epsilon few fits prove most of mu.
# For quick fits.
LOTS: dict[str, dict[str, Any]] = {"dp-cgan": {"lots": 20, "steps": 20}, "dp-gan": {"lots": 20, "bound_lots": 4}}
DRAWS, HALVINGS = 50_000, 9  # Simulated fits per side; halvings of the interval.
PUBLISHED = "loss-noise"
# Its settings. Losses are clipped at twice the first batch's mean, since at the published 0.7 the first steps change
# nothing. Each step reads all rows, which the paper's formula allows.
PUBLISHED_SETTINGS = {"lots": 3, "rate": 1.0, "largest_lot": OTHERS + 1, "bound": 2.0, "multiplier": 0.0}
PRINTED_EPSILON = 1.0  # By the paper's formula, for this noise.
BASELINE = "independent"  # The default's first measurements without its training: its rows are drawn very fast.
DRAWN, NEAR = 500, 0.05  # Synthetic rows of a fit; and the part of a column's range within which cells count as alike.


def worst_case(core: Schema) -> Codes:
    """Return rows with the first code of every column, and a last row with the last code of every column."""
    codes = np.zeros((OTHERS + 1, len(core.columns)), np.int32)
    codes[-1] = [column.size - 1 for column in core.columns.values()]
    return codes


class Done(Exception):
    """Raised after all planned releases. Later steps are post-processing and teach an attacker nothing."""


class Attacked(Measurements):
    """Rows whose every measurement is attacked until all planned releases are made."""

    max_rows = None  # The row is the unit of privacy.

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.left = sum(times for _, times in plan.events.values())

    def count(self) -> None:
        """Count a release. Raises Done after the last one."""
        self.left -= 1
        if not self.left:
            raise Done

    def rate(self, label: str) -> float:
        """Return the chance that a row joins a measurement."""
        event = self.plan.events[label][0]
        return event.rate if isinstance(event, SubsampledGaussian) else 1.0


class _Logged:
    """Entropy that keeps the draws since the last measurement began."""

    def __init__(self, entropy: Entropy) -> None:
        self.source = entropy.source
        self._entropy = entropy
        self.draws = list[bytes]()

    def bytes(self, count: int) -> bytes:
        self.draws.append(self._entropy.bytes(count))
        return self.draws[-1]


class _OthersDraws(NoNoise):
    """The other rows' draws again, and new ones for the target: a coin that says yes, or unknown draws."""

    def __init__(self, log: _Logged, sizes: list[int], present: bool) -> None:
        self._log, self._sizes, self._present = log, sizes, present
        self.calls = 0

    def bytes(self, count: int) -> bytes:
        """Return the first bytes of the same draw, which belong to the other rows, and new ones for the target."""
        number, self.calls = self.calls, self.calls + 1
        if not self._present:
            self._sizes.append(count)
        of_others = self._log.draws[number][: self._sizes[number]]
        own = count - len(of_others)
        return of_others + (bytes(own) if number == 0 else os.urandom(own))


class WatchedVault(Attacked):
    """A vault of `codes`, with the last row, the target's, only if `present`. It collects the attacker's evidence.

    Every measurement is also computed exactly, with the target and without. The attacker knows which other rows joined
    a lot and all their secret draws, since the claim is valid given these. The target's own coin and draws and the
    noise stay unknown. `evidence` is the log likelihood ratio of presence, summed over all releases. If the target
    joins a lot with chance q, a release adds log(1 - q + q exp(s)), where s is the ratio if the target surely takes
    part. `reached` is the squared distance of the two cases without noise, in standard deviations, over all releases.
    """

    def __init__(self, codes: Codes, present: bool, names: tuple[str, ...], plan: Plan, entropy: Entropy) -> None:
        super().__init__(plan)
        self._log = _Logged(entropy)
        self._sizes = list[int]()
        self.evidence = self.reached = 0.0
        self._others = [_OthersDraws(self._log, self._sizes, side) for side in (False, True)]
        sources: list[tuple[bool, Entropy]] = [(present, self._log), (False, self._others[0]), (True, self._others[1])]
        self._recorders = [Recorder(plan.ledger(source.source), source) for _, source in sources]
        self._vaults = [
            Vault(codes if with_target else codes[:-1], names, recorder)
            for (with_target, _), recorder in zip(sources, self._recorders, strict=True)
        ]

    def measure(self, label: str, query: RowQuery[Result]) -> Result:
        """Measure as the vault does, and update the attacker's evidence."""
        self._log.draws.clear()
        self._sizes.clear()
        for others in self._others:
            others.calls = 0
        found = [vault.measure(label, query) for vault in self._vaults]
        std = self._recorders[0].std
        rate = self.rate(label)
        seen = [[np.ravel(array) for array in recorder.last[label].arrays] for recorder in self._recorders]
        release, without, present = (in_stds(arrays, query, std) for arrays in seen)
        moved = present - without
        self.reached += float(moved @ moved)
        ratio = float(moved @ (release - (without + present) / 2))
        self.evidence += float(np.logaddexp(math.log(rate) + ratio, math.log1p(-rate))) if rate < 1 else ratio
        self.count()
        return found[0]


def in_stds(arrays: Sequence[Floats], query: RowQuery[Any], std: float) -> Floats:
    """Return a query's release with noise `std`, each number in standard deviations of its own noise.

    arrays: (..., numbers) each; returns (..., all numbers).
    """
    return np.concatenate([found / scale.std for found, scale in zip(arrays, query.scales(std), strict=True)], -1)


@dataclass(frozen=True, kw_only=True)
class WholeFits:
    """Whole fits of a method to simulated tables by one plan."""

    method: str
    schema: Schema
    module: Method
    config: Any
    plan: Plan

    @classmethod
    def of(
        cls, method: str, schema: Schema, settings: Mapping[str, object] | None = None, rows: int = DECLARED,
        epsilon: float = EPSILON, delta: float = DELTA,
    ) -> WholeFits:  # fmt: skip
        """Plan fits to this number of rows, with quick settings if none are given."""
        module = registry.load(method)
        core = schema.core
        config = registry.configured(method, module, LOTS.get(method, {}) if settings is None else settings)
        queries = module.queries(config, rows, len(core.columns), epsilon)
        plan = make_plan(queries, epsilon=epsilon, delta=delta, rows=rows)
        return cls(method=method, schema=core, module=module, config=config, plan=plan)

    @property
    def mu(self) -> float | None:
        """Return the mu of all measurements of a fit together; None unless all are plain Gaussian ones."""
        if not all(isinstance(event, Gaussian) for event, _ in self.plan.events.values()):
            return None
        return math.sqrt(sum(times / event.multiplier**2 for event, times in self.plan.events.values()))

    def train(self, rows: Measurements, seed: int | None = None, progress: Step = silent) -> Arrays:
        """Fit the method to rows. If they are attacked, stop after all planned releases."""
        with contextlib.suppress(Done):
            return self.module.fit(self.config, self.schema, rows, self.plan, seed, "cpu", progress)
        return {}

    def scores(self, entropy: Entropy) -> tuple[float, float, float]:
        """Return the attacker's scores of a fit without the target and with it, on average negative and positive.

        The third number is the separation of the two tables that the last fit's measurements reach without noise.
        """
        codes = worst_case(self.schema)
        names = self.schema.names
        without, present = (WatchedVault(codes, side, names, self.plan, entropy) for side in (False, True))
        self.train(without)
        self.train(present)
        return without.evidence, present.evidence, math.sqrt(present.reached)

    def conclude(self, scores: Floats, confidence: float) -> Finding:
        """Return what the scores of many fits prove: (fits, 3), without the target, with it, and what was reached."""
        without, present, apart = scores.T
        mu, delta = self.mu, self.plan.delta
        proven = None if mu is None else gaussian_mu(without, present, confidence)
        reached = None if mu is None else float(apart.max())
        exact = "" if reached is None else f"; exactly, without noise: {reached:.3f}"
        return Finding(
            part=PART, name=f"{self.method}, end to end",
            worst_case=f"one row unlike all others; the attacker knows these and sees every release{exact}",
            claimed_mu=mu, proven_mu=proven, reached_mu=reached, delta=delta,
            claimed_epsilon=self.plan.epsilon if mu is None else gaussian_epsilon(mu, delta),
            proven_epsilon=proven_epsilon(self.plan, errors_at(0.0, without, present, confidence))
            if proven is None else gaussian_epsilon(proven, delta),
            trials=len(scores), confidence=confidence,
        )  # fmt: skip


def audit_end_to_end(
    method: str, schema: Schema, trials: int, confidence: float, entropy: Entropy | None = None, progress: Step = silent
) -> Finding:
    """Fit `method` to a simulated worst-case table of `schema`: `trials` times without the target and as often with it.

    Raises UsageError for a method that samples shards.
    """
    fits = WholeFits.of(method, schema)
    if not all(isinstance(event, Gaussian | SubsampledGaussian) for event, _ in fits.plan.events.values()):
        raise UsageError(f"{method} samples shards, so it is audited by canaries in one fit and not by whole fits.")
    scores = [fits.scores(entropy or system_entropy()) for _ in _reported(trials, progress)]
    return fits.conclude(np.array(scores), confidence)


def _reported(total: int, progress: Step) -> Iterator[int]:
    """Yield the numbers below `total`, and report each one when it is done."""
    for k in range(total):
        yield k
        progress(k + 1, total)


def proven_epsilon(plan: Plan, errors: Errors) -> float:
    """Return the epsilon of the plan whose noise is scaled so that an attacker's `errors` are just possible.

    Plans with all noise divided by one factor make a family. The member that just allows the attacker's result is what
    was proven. The trade-off curve of each member is simulated.
    """
    low, high = 0.0, 4.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        impossible = _false_negatives(_louder(plan, middle), errors.false_positive) > errors.false_negative
        low, high = (middle, high) if impossible else (low, middle)
    if not low:
        return 0.0
    with contextlib.suppress(*PRV_FAILURES):  # The noise may be too small for PRV accounting to find a bound.
        return accountant.epsilon(_louder(plan, low), plan.delta, plan.accountant)
    return accountant.epsilon(_louder(plan, low), plan.delta, "rdp")


def _louder(plan: Plan, scale: float) -> list[tuple[Event, int]]:
    return [(replace(event, multiplier=event.multiplier / scale), times) for event, times in plan.events.values()]


def _false_negatives(events: list[tuple[Event, int]], false_positive: float) -> float:
    """Return by simulation the least false-negative rate at a false-positive rate.

    For each measurement the ideal attacker sees one Gaussian number, with the target or without, and adds up the log
    likelihood ratios.
    """
    stream = numpy_stream(0, "trade-off curve")
    without, present = np.zeros(DRAWS), np.zeros(DRAWS)
    for event, times in events:
        rate = event.rate if isinstance(event, SubsampledGaussian) else 1.0
        mu, times = (1 / event.multiplier, times) if rate < 1 else (times**0.5 / event.multiplier, 1)
        for _ in range(times):
            joined = stream.random(DRAWS) < rate
            for side, shift in ((without, 0.0), (present, mu * joined)):
                seen = stream.standard_normal(DRAWS) + shift
                side += np.log1p(rate * np.expm1(np.minimum(mu * seen - mu**2 / 2, 500.0)))
    return float((present <= np.quantile(without, 1 - false_positive)).mean())


class _OnlyGradients(Measurements):
    """Marginals of one table, and gradient sums of another."""

    max_rows = None

    def __init__(self, marginals: Vault, gradients: Vault) -> None:
        self._marginals, self._gradients = marginals, gradients

    def measure(self, label: str, query: RowQuery[Result]) -> Result:
        return (self._gradients if isinstance(query, GradientSum) else self._marginals).measure(label, query)


def audit_loss_noise(schema: Schema, trials: int, confidence: float, progress: Step = silent) -> Finding:
    """Fit the published method `trials` times without the target and as often with it, and test its formula's claim.

    The attacker sees only the released generator, and computes without noise the generators that both tables would
    give. The published noise is added to a number whose gradient is taken. It never reaches the generator, which equals
    one of the two. Marginals are from the table without the target on both sides, so that only the GAN's gradients can
    differ.
    """
    entropy = system_entropy()
    core = schema.core
    quiet = WholeFits.of(PUBLISHED, schema, PUBLISHED_SETTINGS, OTHERS + 1, NO_DP_BUDGET)
    noise = claimed(1.0, quiet.config.lots, 1.0, DELTA) / PRINTED_EPSILON
    loud = replace(quiet, config=quiet.config.model_copy(update={"multiplier": noise}))
    codes = worst_case(core)

    def generator(fits: WholeFits, seed: int, present: bool) -> Floats:
        """Return what a released generator's network adds to each column. Only the published noise is added."""
        vaults = [
            Vault(rows, core.names, Releases(fits.plan.ledger(NoNoise.source), NoNoise()))
            for rows in (codes[:-1], codes if present else codes[:-1])
        ]
        tensors = fits.train(_OnlyGradients(*vaults), seed)
        return np.concatenate([array.ravel() for name, array in tensors.items() if name.startswith("residual.")])

    scores = np.empty((trials, 2))
    for k in _reported(trials, progress):
        seed = int.from_bytes(entropy.bytes(7))
        guesses = [generator(quiet, seed, side) for side in (False, True)]
        for side in (False, True):
            without, present = (np.square(generator(loud, seed, side) - guess).sum() for guess in guesses)
            scores[k, int(side)] = without - present
    return Finding(
        part=PART, name=f"{PUBLISHED}, as published",
        worst_case="one row unlike all others; the attacker sees the generator alone", published=True,
        claimed_epsilon=claimed(1.0, quiet.config.lots, noise, DELTA),
        proven_epsilon=errors_at(0.0, scores[:, 0], scores[:, 1], confidence).epsilon(DELTA),
        trials=trials, confidence=confidence,
    )  # fmt: skip


def audit_rows(schema: Schema, trials: int, confidence: float, progress: Step = silent) -> list[Finding]:
    """Attack the rows of `trials` fits of BASELINE without the target and as many with it: membership and attribute."""
    entropy = system_entropy()
    fits = WholeFits.of(BASELINE, schema)
    core = fits.schema
    table = worst_case(fits.schema)
    scores = np.empty((trials, 2, 2))  # (trials, sides, attacks).
    for k in _reported(trials, progress):
        for side, rows in enumerate((table[:-1], table)):
            vault = Vault(rows, core.names, Releases(fits.plan.ledger(entropy.source), entropy))
            drawn = fits.module.generate(fits.train(vault), fits.config, core, DECLARED, DRAWN, None)
            scores[k, side] = _likeness(drawn, table[-1], core)
    return [
        Finding(
            part=ROWS_PART, name=f"{BASELINE}, {attack}",
            worst_case="one row unlike all others; the attacker sees synthetic rows alone",
            claimed_epsilon=fits.plan.epsilon,
            proven_epsilon=errors(scores[:, 0, k], scores[:, 1, k], confidence).epsilon(DELTA),
            trials=trials, confidence=confidence,
        )
        for k, attack in enumerate(("membership", "attribute"))
    ]  # fmt: skip


def _likeness(drawn: Codes, target: Codes, schema: Schema) -> tuple[float, float]:
    """Return how much synthetic rows are like the target; and of the most similar ones, the share with its class."""
    near = np.array([NEAR * (column.size - 1) if not column.categorical else 0 for column in schema.columns.values()])
    alike = np.abs(drawn - target) <= near
    at = schema.names.index(schema.target or schema.names[-1])
    others = np.delete(alike, at, axis=1).sum(1)
    return float(alike.mean()), float(alike[others == others.max(), at].mean())
