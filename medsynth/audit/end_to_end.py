"""Whole fits with and without one row: every released number in one statistic, against an attacker who knows all else.

The attacker knows every row but the target's presence, the code, the plan and each noise scale, and sees each release
at its full precision. For Gaussian measurements chosen adaptively the best test adds up, over all of them, the release
projected on the change that the target would make: a sum of normal variables whose mu is that of the composition.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError
from ..methods import registry
from ..methods.protocol import MethodModule
from ..privacy.accounting.calibration import Plan, make_plan
from ..privacy.accounting.events import Gaussian
from ..privacy.vault import Vault
from ..rng import Entropy, NoNoise, system_entropy
from ..schema import Schema
from .finding import Finding, gaussian_epsilon
from .recorder import Recorder
from .statistics import errors_at

Codes = NDArray[np.int32]
Floats = NDArray[np.float64]
OTHERS = 40  # rows beside the target
DECLARED = 2_000  # rows that the plan is told of: enough for a method to plan all that it can measure
PART = "whole fits"
EPSILON, DELTA = 12.0, 1e-5  # where error rates tell most of mu with few fits


class _Done(Exception):
    """Raised once all that was planned is released: what follows is post-processing and tells an attacker no more."""


class _Watched:
    """A vault whose every measurement is also computed exactly, with the target and without: the attacker's notes."""

    def __init__(self, codes: Codes, present: bool, names: tuple[str, ...], plan: Plan, entropy: Entropy) -> None:
        sources: list[tuple[bool, Entropy]] = [(present, entropy), (False, NoNoise()), (True, NoNoise())]
        self._recorders = [Recorder(plan.ledger(source.source), source) for _, source in sources]
        self._ledger = plan.events
        self._vaults = [
            Vault(codes if with_target else codes[:-1], names, recorder)
            for (with_target, _), recorder in zip(sources, self._recorders, strict=True)
        ]
        self._left = sum(times for _, times in plan.events.values())
        self.score = 0.0  # sum of d . (release - middle) / std^2, with d the change that the target makes
        self.information = 0.0  # sum of |d|^2 / std^2

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if not name.startswith("measure_"):
            raise AttributeError(name)

        def measure(*arguments: Any, **options: Any) -> Any:
            if not self._left:
                raise _Done
            found = [getattr(vault, name)(*arguments, **options) for vault in self._vaults]
            self._left -= 1
            noisy, without, present = self._recorders
            label = str(arguments[0])
            seen = [recorder.last[label].arrays for recorder in (noisy, without, present)]
            for release, low, high in zip(*seen, strict=True):
                change = high - low
                self.score += float((change * (release - (low + high) / 2)).sum()) / noisy.std**2
                self.information += float(np.square(change).sum()) / noisy.std**2
            if not self._left:
                raise _Done
            return found[0]

        return measure


def audit_end_to_end(
    method: str,
    schema: Schema,
    trials: int,
    confidence: float,
    entropy: Entropy | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Finding:
    """Fit `method` to a simulated worst-case table of `schema`, `trials` times without the target and as often with it.

    Raises UsageError for a method whose measurements are not all plain Gaussian ones: these are audited one by one.
    """
    audited = WholeFits.of(method, schema)
    scores = [audited.scores(entropy or system_entropy()) for _ in reported(trials, progress)]
    return audited.conclude(np.array(scores), confidence)


@dataclass(frozen=True, kw_only=True)
class WholeFits:
    """Whole fits of a method to a simulated worst-case table, with and without its last row."""

    method: str
    schema: Schema
    module: MethodModule
    config: Any
    plan: Plan

    @classmethod
    def of(cls, method: str, schema: Schema) -> WholeFits:
        """Planned. Raises UsageError for a method whose measurements are not all plain Gaussian ones."""
        core, module = schema.core, registry.module(method)
        config = registry.configured(method, module, {})
        queries = module.queries(config, DECLARED, len(core.columns), EPSILON)
        plan = make_plan(queries, epsilon=EPSILON, delta=DELTA, rows=DECLARED)
        if not all(isinstance(event, Gaussian) for event, _ in plan.events.values()):
            raise UsageError(
                f"{method} samples lots or shards: it is audited by canaries in one fit, not by many whole fits."
            )
        return cls(method=method, schema=core, module=module, config=config, plan=plan)

    @property
    def mu(self) -> float:
        """What all measurements of a fit claim together."""
        return math.sqrt(sum(times / event.multiplier**2 for event, times in self.plan.events.values()))

    def scores(self, entropy: Entropy) -> tuple[float, float]:
        """The attacker's score of a fit without the target, and of one with it: below and above zero, on average."""
        without, present = (self._score(side, entropy) for side in (False, True))
        return without, present

    def _score(self, present: bool, entropy: Entropy) -> float:
        watched = _Watched(worst_case(self.schema), present, self.schema.names, self.plan, entropy)
        with contextlib.suppress(_Done):
            self.module.train(self.config, self.schema, watched, self.plan, None, "cpu", lambda done, total: None)
        return watched.score / math.sqrt(watched.information)

    def conclude(self, scores: Floats, confidence: float) -> Finding:
        """What the scores of many fits prove: (fits, 2), without the target and with it."""
        proven = errors_at(0.0, scores[:, 0], scores[:, 1], confidence).mu()
        return Finding(
            part=PART,
            name=f"{self.method}, end to end",
            worst_case="one row unlike all others; the attacker knows these and sees every release",
            claimed_mu=self.mu,
            proven_mu=proven,
            claimed_epsilon=gaussian_epsilon(self.mu),
            proven_epsilon=gaussian_epsilon(proven),
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
