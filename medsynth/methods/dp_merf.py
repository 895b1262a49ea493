"""DP-MERF: the mean embedding of rows and classes in random Fourier features, noised once; then free training.

Harder, Adamczewski, Park 2020 ("DP-MERF: Differentially private mean embeddings with random features for practical
privacy-preserving data generation"). A row's embedding is its random features in the place of its class: the product
of the paper's features of the row and of its one-hot class. Its norm is one, so the sum over rows has sensitivity one,
and one Gaussian measurement of it is all that the generator's training, of any length, ever reads. So it is DP-CGAN
with a single lot of all rows.

Differences, with their reasons in docs/methods/dp-merf.md: frequencies are scaled by noisy marginals and not by the
rows' median distance; classes are drawn by noisy shares; each class's distance weighs by its signal over its noise.
"""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from ..privacy.accounting.calibration import Query
from .adversarial import setup_queries
from .dp_cgan import DpCgan
from .registry import Count, MethodConfig, Positive, Share

EMBEDDING = "mean embedding"


class DpMerfConfig(MethodConfig):
    """Privacy parameters. Shares are of the privacy loss; the mean embedding takes the rest."""

    lots: ClassVar[int] = 1
    clip: ClassVar[float] = 1.0  # a row's norm is one exactly: clipping at it changes nothing
    microbatches: ClassVar[None] = None
    features: Count = Field(default=1000, description="random Fourier features")
    phase: Positive = Field(default=2.0, description="mean phase difference between two rows, in radians")
    spread: Positive = Field(default=0.7, description="half the range of the log frequencies")
    histogram_share: Share = Field(default=0.15, description="share of the one-way marginals")
    class_share: Share = Field(default=0.05, description="share of the class marginal")
    steps: Count = Field(default=1500, description="generator steps; they cost time, not privacy")

    def sampling_rate(self, rows: int) -> float:
        """All rows are in the lot."""
        return 1.0

    def terms(self, lot: float) -> float:
        """How many terms the sum has: one a row."""
        return lot


class DpMerf(DpCgan):
    """DP-MERF."""

    Config = DpMerfConfig
    label = EMBEDDING

    def queries(self, config: DpMerfConfig, rows: int, columns: int, epsilon: float) -> list[Query]:
        """One-way marginals, the class marginal, and the mean embedding, once."""
        rest = 1 - (config.histogram_share + config.class_share)
        start = setup_queries(config.histogram_share, config.class_share)
        return [*start, Query(label=EMBEDDING, weight=rest**-0.5)]

    def length(self, config: DpMerfConfig) -> tuple[int, int]:
        """As many steps as are set; the rate falls over all of them."""
        return config.steps, config.steps
