"""Epsilon of GS-WGAN's own settings: as claimed, as its accountant counts, and as its theorem requires.

1000 critics, noise 1.07, 32 generated rows a step, 20,000 steps, clipping at 1, delta 1e-5. The claim is 10.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.stats import binom, norm

from medsynth.privacy.accounting import accountant
from medsynth.privacy.accounting.events import PublicOrderGaussian, ShardSampledGaussian
from tests.benchmarks.common import options

CRITICS, SIGMA, ROWS, STEPS, DELTA = 1000, 1.07, 32, 20_000, 1e-5


def least(noise: float) -> float:
    """Return a lower bound: one critic's gradient differs from all others; an attacker counts large gradients."""
    best = 0.0
    for threshold in np.linspace(0.5, 1.0, 51):
        absent = norm.sf(threshold / noise)
        there = absent + (norm.sf((threshold - 1) / noise) - absent) / CRITICS
        for count in range(2, 30):
            seen = binom.sf(count - 1, STEPS, there) - DELTA
            if seen > 0:
                # Without that critic: at most the choices of `count` steps, times the chance that all are large.
                choices = math.lgamma(STEPS + 1) - math.lgamma(count + 1) - math.lgamma(STEPS - count + 1)
                best = max(best, math.log(seen) - choices - count * float(norm.logsf(threshold / noise)))
    return best


def main(words: list[str]) -> None:
    """Print the table."""
    options("paper-epsilons", __doc__).parse_args(words)
    each = [(ShardSampledGaussian(multiplier=SIGMA, shards=CRITICS), STEPS * ROWS)]
    halved = [(ShardSampledGaussian(multiplier=SIGMA / 2, shards=CRITICS), STEPS * ROWS)]
    noise = SIGMA / (2 * math.sqrt(ROWS))
    due = [(ShardSampledGaussian(multiplier=noise, shards=CRITICS), STEPS)]
    in_order = [(PublicOrderGaussian(multiplier=noise, shards=CRITICS), STEPS)]
    lines = [
        ("the paper's claim", 10.0),
        ("its accountant: one shard sampled per generated row, sensitivity C", accountant.epsilon(each, DELTA, "rdp")),
        ("the same with the theorem's sensitivity, 2 C", accountant.epsilon(halved, DELTA, "rdp")),
        ("one shard sampled a step, as it is: at least", least(noise)),
        ("one shard sampled a step, as it is: by the Renyi bound at most", accountant.epsilon(due, DELTA, "rdp")),
        ("shards in a public order, no amplification: at most", accountant.epsilon(in_order, DELTA, "rdp")),
    ]
    for what, epsilon in lines:
        print(f"{what:<72} {epsilon:>12,.2f}")
