"""The loss-noise GAN as published, convicted: its generator alone tells whether a row was in the table.

The attacker sees the released generator and nothing else, knows the other rows and the public streams, and computes the
generator that each of the two tables would give, without any noise. The published noise is added to a number whose
gradient is taken: it never reaches the generator, which equals one of the two. Marginals are those of the table without
the target on both sides, so that only the GAN's own gradients can tell. All rows are read at each step, which the
paper's formula allows; the noise is so large that the formula prints an epsilon of about one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...methods import loss_noise, registry
from ...methods.registry import Arrays
from ...privacy.accounting.calibration import Plan, make_plan
from ...privacy.release import Releases
from ...privacy.vault import Vault
from ...rng import Entropy, NoNoise, system_entropy
from ...schema import Schema
from ..finding import DELTA, Finding
from ..statistics import errors_at
from .end_to_end import OTHERS, PART, reported, worst_case

METHOD = "loss-noise"
STEPS = 3
BOUND = 2.0  # of a loss, over the first batch's mean: at the published 0.7 the first steps change nothing at all
PRINTED_EPSILON = 1.0  # by the paper's formula
NO_DP_BUDGET = 300.0


class _OnlyGradients:
    """A vault whose marginals are of one table, and whose gradient sums are of another."""

    def __init__(self, marginals: Vault, gradients: Vault) -> None:
        self._marginals, self._gradients = marginals, gradients

    def __getattr__(self, name: str) -> Callable[..., Any]:
        of = self._gradients if name == "measure_gradient_sum" else self._marginals
        found: Callable[..., Any] = getattr(of, name)
        return found


def audit_loss_noise(
    schema: Schema,
    trials: int,
    confidence: float,
    entropy: Entropy | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Finding:
    """Fit the published method `trials` times without the target and as often with it, by what its formula claims."""
    entropy, core = entropy or system_entropy(), schema.core
    quiet = loss_noise.LossNoiseConfig(lots=STEPS, rate=1.0, largest_lot=OTHERS + 1, bound=BOUND, multiplier=0.0)
    noise = loss_noise.claimed(1.0, STEPS, 1.0, DELTA) / PRINTED_EPSILON
    loud = quiet.model_copy(update={"multiplier": noise})
    queries = registry.load(METHOD).queries(quiet, OTHERS + 1, len(core.columns), NO_DP_BUDGET)
    plan = make_plan(queries, epsilon=NO_DP_BUDGET, delta=DELTA, rows=OTHERS + 1)
    scores = []
    for _ in reported(trials, progress):
        seed = int.from_bytes(entropy.bytes(7))
        guesses = [_generator(core, quiet, plan, seed, side) for side in (False, True)]
        released = [_generator(core, loud, plan, seed, side) for side in (False, True)]
        scores.append([_distance(seen, guesses[0]) - _distance(seen, guesses[1]) for seen in released])
    found = errors_at(0.0, np.array(scores)[:, 0], np.array(scores)[:, 1], confidence)
    return Finding(
        part=PART,
        name=f"{METHOD}, as published",
        worst_case="one row unlike all others; the attacker sees the generator alone",
        claimed_epsilon=loss_noise.claimed(1.0, STEPS, noise, DELTA),
        proven_epsilon=found.epsilon(DELTA),
        published=True,
        trials=trials,
        confidence=confidence,
    )


def _generator(schema: Schema, config: loss_noise.LossNoiseConfig, plan: Plan, seed: int, present: bool) -> Arrays:
    """What a released generator's network adds to each column. No noise but the published one is added."""
    codes = worst_case(schema)
    vaults = [
        Vault(rows, schema.names, Releases(plan.ledger(NoNoise.source), NoNoise()))
        for rows in (codes[:-1], codes if present else codes[:-1])
    ]
    fit = registry.load(METHOD).fit
    tensors = fit(config, schema, _OnlyGradients(*vaults), plan, seed, "cpu", lambda done, total: None)
    return {name: tensor for name, tensor in tensors.items() if name.startswith("residual.")}


def _distance(one: Arrays, other: Arrays) -> float:
    return float(sum(np.square(tensor - other[name]).sum() for name, tensor in one.items()))
