"""DP-MERF: the mean embedding of rows and classes in random Fourier features, noised once; then free training.

Source: Harder, Adamczewski, Park 2020 ("DP-MERF: Differentially private mean embeddings with random features for
practical privacy-preserving data generation"). A row's embedding is its random features in the block of its class: the
product of the paper's features of the row and of its one-hot class. Its norm is one, so the sum over rows has
sensitivity one. The generator's training reads only one Gaussian measurement of this sum, however long it takes. So
the method is DP-CGAN with a single lot of all rows.

docs/methods/dp-merf.md gives reasons for the differences. Frequencies are scaled by noisy marginals, not by the rows'
median distance. Classes are drawn by noisy shares. Each class's distance is weighted by signal over noise.
"""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from ..privacy.accounting.calibration import Charge
from .adversarial import setup_queries
from .random_features import RandomFeatures
from .registry import Count, MethodConfig, Positive, Share

EMBEDDING = "mean embedding"


class DpMerfConfig(MethodConfig):
    """Privacy parameters. Shares are of the privacy loss; the mean embedding takes the rest."""

    lots: ClassVar[int] = 1
    clip: ClassVar[float] = 1.0  # a row's norm is exactly one: clipping changes nothing
    microbatches: ClassVar[None] = None
    features: Count = Field(default=1000, description="random Fourier features")
    phase: Positive = Field(default=2.0, description="mean phase difference between two rows, in radians")
    spread: Positive = Field(default=0.7, description="half the range of the log frequencies")
    histogram_share: Share = Field(default=0.15, description="share of the one-way marginals")
    class_share: Share = Field(default=0.05, description="share of the class marginal")
    steps: Count = Field(default=1500, description="generator steps; they cost time, not privacy")

    def sampling_rate(self, rows: int) -> float:
        """Return the rate of a lot, which is one: it contains all rows."""
        return 1.0

    def terms(self, lot: float) -> float:
        """Return the number of terms in the sum: one per row."""
        return lot


class DpMerf(RandomFeatures):
    """DP-MERF: the mean of random features, measured once."""

    Config = DpMerfConfig
    label = EMBEDDING

    def queries(self, config: DpMerfConfig, rows: int, columns: int, epsilon: float) -> list[Charge]:
        """Return the one-way marginals, the class marginal, and the mean embedding."""
        rest = 1 - (config.histogram_share + config.class_share)
        start = setup_queries(config.histogram_share, config.class_share)
        return [*start, Charge(label=EMBEDDING, weight=rest**-0.5)]

    def length(self, config: DpMerfConfig) -> tuple[int, int]:
        """Return the number of steps twice: the learning rate falls over all of them."""
        return config.steps, config.steps
