"""One fit, many canaries: a lower bound on epsilon for methods that sample lots or shards.

Steinke, Nasr, Jagielski 2023: rows that are each included by a fair coin are attacked all at once, and the number of
right guesses bounds epsilon. One fit proves less of a claim than many do, and more than no fit.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np

from ...methods import registry
from ...privacy.accounting.calibration import make_plan
from ...rng import Entropy, numpy_stream, system_entropy
from ...schema import Schema
from ..finding import DELTA, Finding
from ..statistics import one_run_epsilon
from .canaries import CanaryVault, Floats
from .canary_shards import ShardedCanaryVault
from .watched import Done

CANARIES = 400
EPSILON = 2.0  # so small that a fit without noise is convicted: 400 right guesses prove about 4
SHARES = (0.02, 0.05, 0.1, 0.25, 0.5, 1.0)  # of the canaries that are guessed at: the best counts, the risk is divided
PART = "one fit"
# So many measurements that a fit takes half a minute; gs-wgan has a shard a canary.
SETTINGS: dict[str, dict[str, Any]] = {
    "dp-cgan": {"lots": 200},
    "dp-gan": {"lots": 150},
    "gs-wgan": {"shards": 100, "steps": 10, "gradients": 20},
}
SHARDED = ("gs-wgan", "pate-gan", "g-pate")  # methods of which whole fits are not watched


def audit_one_run(
    method: str,
    schema: Schema,
    confidence: float,
    entropy: Entropy | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Finding:
    """Fit `method`, one of SETTINGS, once to random rows of `schema`, and guess from all releases who was included."""
    entropy = entropy or system_entropy()
    core, module = schema.core, registry.load(method)
    config = registry.configured(method, module, SETTINGS[method])
    count = SETTINGS[method].get("shards", CANARIES)
    plan = make_plan(
        module.queries(config, count, len(core.columns), EPSILON), epsilon=EPSILON, delta=DELTA, rows=count
    )
    stream = numpy_stream(int.from_bytes(entropy.bytes(8)), "canaries")
    codes = np.column_stack([stream.integers(0, column.size, count) for column in core.columns.values()])
    included = stream.random(count) < 0.5
    kind = ShardedCanaryVault if method in SHARDED else CanaryVault
    vault = kind(codes.astype(np.int32), included, core.names, plan, entropy)
    with contextlib.suppress(Done):
        module.fit(config, core, vault, plan, None, "cpu", progress)
    return Finding(
        part=PART,
        name=f"{method}, canaries",
        worst_case="random rows, each in the table by a fair coin; the attacker sees every release",
        claimed_epsilon=plan.epsilon,
        proven_epsilon=_proven(vault.evidence, included, confidence),
        trials=count,
        confidence=confidence,
    )


def _proven(evidence: Floats, included: np.ndarray[Any, np.dtype[np.bool_]], confidence: float) -> float:
    """The largest bound over the shares of canaries that are guessed at: half as included and half as left out."""
    order, found = np.argsort(-evidence), 0.0
    for share in SHARES:
        half = round(share * len(order) / 2)
        right = int(included[order[:half]].sum() + (~included[order[len(order) - half :]]).sum())
        risk = (1 - confidence) / len(SHARES)
        found = max(found, one_run_epsilon(right, 2 * half, len(order), DELTA, risk))
    return found
