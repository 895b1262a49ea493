"""Define the settings of the default method and of its baseline, with their defaults."""

from __future__ import annotations

from pydantic import Field

from ..methods.marginals import ONE_WAY
from ..methods.registry import Count, Share, ShareOrNone
from ..methods.regressions import DeclaringConfig
from . import constants as k
from .constants import COARSE, VALUES

EARLIER = frozenset({
    "histogram_share", "remeasured_share", "selection_share", "critic_share", "moments_share", "candidates", "pairs",
})  # fmt: skip


class Settings(DeclaringConfig):
    """Shares of the squared noise budget, and the length of the fit."""

    earlier = EARLIER
    coarse_share: Share = Field(default=k.COARSE_SHARE, description="share of even cells of numbers")
    values_share: Share = Field(default=k.VALUES_SHARE, description="share of the search for frequent values")
    one_way_share: Share = Field(default=k.ONE_WAY_SHARE, description="share of the one-way marginals")
    steps: Count = Field(default=k.STEPS, description="steps of the fit; they cost time, not privacy")
    public: bool = Field(default=False, description="whether the prior follows declared public rows")

    @property
    def one_way_shares(self) -> dict[str, float]:
        """The shares of measurements of single columns, by label."""
        return {COARSE: self.coarse_share, VALUES: self.values_share, ONE_WAY: self.one_way_share}


class MixtureConfig(Settings):
    """Settings of the mixture. Pairs of columns by class get the rest of the budget."""

    by_class_share: Share = Field(default=k.BY_CLASS_SHARE, description="share of the columns by class")
    strongest_share: ShareOrNone = Field(
        default=k.STRONG_SHARE, description="share of the second measurement of strong pairs"
    )
    products: float = Field(default=0.0, ge=0, lt=1, description="share of products of two and of three columns")


class IndependentConfig(Settings):
    """Settings of the baseline. The columns by class get the rest of the budget."""
