"""Whole fits with and without one row: every released number in one statistic, against an attacker who knows all else.

The attacker knows every row but the target's presence, the code, the plan and each noise scale, and sees each release
at its full precision. For Gaussian measurements chosen adaptively the best test adds up the log likelihood ratios of
all of them (`watched`). Where no lot is sampled it is a normal variable, whose mu is that of the composition; where
lots are, what was proven is read off the plan's own trade-off curve (`composition`).
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import UsageError
from ...methods import registry
from ...methods.registry import Method
from ...privacy.accounting.calibration import Plan, make_plan
from ...privacy.accounting.events import Gaussian, SubsampledGaussian
from ...rng import Entropy, system_entropy
from ...schema import Schema
from ..finding import Finding, gaussian_epsilon
from ..statistics import errors_at
from .composition import proven_epsilon
from .watched import Done, WatchedVault

Codes = NDArray[np.int32]
Floats = NDArray[np.float64]
OTHERS = 40  # rows beside the target
DECLARED = 2_000  # rows that the plan is told of: enough for a method to plan all that it can measure
PART = "whole fits"
LOTS: dict[str, dict[str, Any]] = {"dp-cgan": {"lots": 20}, "dp-gan": {"lots": 20, "bound_lots": 4}}  # for quick fits
EPSILON, DELTA = 12.0, 1e-5  # where error rates tell most of mu with few fits


def audit_end_to_end(
    method: str,
    schema: Schema,
    trials: int,
    confidence: float,
    entropy: Entropy | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Finding:
    """Fit `method` to a simulated worst-case table of `schema`, `trials` times without the target and as often with it.

    Raises UsageError for a method that samples shards.
    """
    audited = WholeFits.of(method, schema)
    scores = [audited.scores(entropy or system_entropy()) for _ in reported(trials, progress)]
    return audited.conclude(np.array(scores), confidence)


@dataclass(frozen=True, kw_only=True)
class WholeFits:
    """Whole fits of a method to a simulated worst-case table, with and without its last row."""

    method: str
    schema: Schema
    module: Method
    config: Any
    plan: Plan

    @classmethod
    def of(cls, method: str, schema: Schema) -> WholeFits:
        """Planned. Raises UsageError for a method that samples shards."""
        core, module = schema.core, registry.load(method)
        config = registry.configured(method, module, LOTS.get(method, {}))
        queries = module.queries(config, DECLARED, len(core.columns), EPSILON)
        plan = make_plan(queries, epsilon=EPSILON, delta=DELTA, rows=DECLARED)
        if not all(isinstance(event, Gaussian | SubsampledGaussian) for event, _ in plan.events.values()):
            raise UsageError(f"{method} samples shards: it is audited by canaries in one fit, not by many whole fits.")
        return cls(method=method, schema=core, module=module, config=config, plan=plan)

    @property
    def mu(self) -> float | None:
        """What all measurements of a fit claim together, where all are plain Gaussian ones."""
        if not all(isinstance(event, Gaussian) for event, _ in self.plan.events.values()):
            return None
        return math.sqrt(sum(times / event.multiplier**2 for event, times in self.plan.events.values()))

    def scores(self, entropy: Entropy) -> tuple[float, float]:
        """The attacker's score of a fit without the target, and of one with it: below and above zero, on average."""
        without, present = (self._score(side, entropy) for side in (False, True))
        return without, present

    def _score(self, present: bool, entropy: Entropy) -> float:
        watched = WatchedVault(worst_case(self.schema), present, self.schema.names, self.plan, entropy)
        with contextlib.suppress(Done):
            self.module.fit(self.config, self.schema, watched, self.plan, None, "cpu", lambda done, total: None)
        return watched.evidence

    def conclude(self, scores: Floats, confidence: float) -> Finding:
        """What the scores of many fits prove: (fits, 2), without the target and with it."""
        found, mu = errors_at(0.0, scores[:, 0], scores[:, 1], confidence), self.mu
        return Finding(
            part=PART,
            name=f"{self.method}, end to end",
            worst_case="one row unlike all others; the attacker knows these and sees every release",
            claimed_mu=mu,
            proven_mu=None if mu is None else found.mu(),
            claimed_epsilon=self.plan.epsilon if mu is None else gaussian_epsilon(mu),
            proven_epsilon=proven_epsilon(self.plan, found, DELTA) if mu is None else gaussian_epsilon(found.mu()),
            trials=len(scores),
            confidence=confidence,
        )


def reported(total: int, progress: Callable[[int, int], None]) -> Iterator[int]:
    """The numbers below `total`, each reported once it is done."""
    for k in range(total):
        yield k
        progress(k + 1, total)


def worst_case(core: Schema) -> Codes:
    """Rows that share the first code of every column, and a last one at the last code of each."""
    codes = np.zeros((OTHERS + 1, len(core.columns)), np.int32)
    codes[-1] = [column.size - 1 for column in core.columns.values()]
    return codes
