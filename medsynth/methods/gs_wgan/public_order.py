"""GS-WGAN with critics in a public order: the sound form of the paper's schedule, and what it costs.

Where the server sees which critic is used, as in the paper's federated setting, no secret sampling amplifies. Each of K
critics is measured ceil(T / K) times, plain Gaussians, and a row is in one shard: parallel composition over shards.
"""

from __future__ import annotations

import math

from pydantic import Field

from ...privacy.accounting import accountant
from ...privacy.accounting.events import PublicOrderGaussian
from . import method as gs_wgan

queries, train, generate = gs_wgan.queries, gs_wgan.train, gs_wgan.generate
PAPER_SETTINGS = {"shards": 1000, "noise": 1.07, "rows": 32, "steps": 20_000, "delta": 1e-5}


class Config(gs_wgan.Config):
    """GS-WGAN's settings, in a public order."""

    public_order: bool = Field(
        default=True, description="critics in a public order: no secret sampling of shards, no amplification"
    )


def notes(config: Config, rows: int, columns: int, epsilon: float) -> list[str]:
    """Notes on the plan, for a person: among them the epsilon of the paper's own settings."""
    shards, times = config.shard_count(rows), config.measurements
    step = PublicOrderGaussian(
        multiplier=PAPER_SETTINGS["noise"] / (2 * math.sqrt(PAPER_SETTINGS["rows"])),
        shards=int(PAPER_SETTINGS["shards"]),
    )
    paper = accountant.epsilon([(step, int(PAPER_SETTINGS["steps"]))], PAPER_SETTINGS["delta"], "rdp")
    return [
        f"{shards} critics are measured in a public order, {math.ceil(times / shards)} times each. Sampling amplifies "
        "nothing, and the claim holds against whoever sees the order.",
        f"The paper's own settings (1000 critics, noise 1.07, 32 rows a step, 20,000 steps) cost epsilon {paper:.0f} "
        "in this order, not 10: its accountant counts a draw of a shard for each row, and half the sensitivity.",
    ]
