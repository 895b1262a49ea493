"""GS-WGAN with critics that answer in a public order: the sound form of the paper's schedule, and what it costs.

Where the server sees who answers, as in the paper's federated setting, nothing is amplified by a secret pick. Each of K
critics answers ceil(T / K) times, plain Gaussian answers, and a row is in one shard: parallel composition over shards.
"""

from __future__ import annotations

import math

from pydantic import Field

from ...privacy.accounting import accountant
from ...privacy.accounting.events import TurnGaussian
from . import method as gs_wgan

queries, seconds, train, generate = gs_wgan.queries, gs_wgan.seconds, gs_wgan.train, gs_wgan.generate
PAPER = {"shards": 1000, "noise": 1.07, "rows": 32, "steps": 20_000, "delta": 1e-5}


class Config(gs_wgan.Config):
    """GS-WGAN's settings, in public turns."""

    turns: bool = Field(default=True, description="critics in a public order: no secret pick, no amplification")


def notes(config: Config, rows: int, columns: int, epsilon: float) -> list[str]:
    """What a person should know of the plan: the epsilon of the paper's own settings among it."""
    parties, asked = config.parties(rows), config.asked
    step = TurnGaussian(multiplier=PAPER["noise"] / (2 * math.sqrt(PAPER["rows"])), shards=int(PAPER["shards"]))
    paper = accountant.epsilon([(step, int(PAPER["steps"]))], PAPER["delta"], "rdp")
    return [
        f"{parties} critics answer in a public order, {math.ceil(asked / parties)} times each: nothing is amplified, "
        "and this holds against whoever sees who answers.",
        f"The paper's own settings (1000 critics, noise 1.07, 32 rows a step, 20,000 steps) cost epsilon {paper:.0f} "
        "so, not 10: its accountant gives each of a step's rows a pick of its own, and takes half the sensitivity.",
    ]
