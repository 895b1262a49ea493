"""The method as the registry knows it: what it measures, and its fit."""

from __future__ import annotations

from pydantic import Field

from ..methods.protocol import Arrays, Progress
from ..methods.settings import MethodConfig, Share, ShareOrNone
from ..methods.shared.labels import BY_CLASS, COARSE, ONE_WAY, PAIRS, STRONGEST, VALUES
from ..methods.shared.sampler import generate as generate
from ..privacy.accounting.calibration import Plan, Query
from ..privacy.queries.measurements import Measurements
from ..schema import Schema
from . import constants as k


class Config(MethodConfig):
    """Shares of the squared noise budget. Pairs of columns by class get the rest."""

    coarse_share: Share = Field(default=k.COARSE_SHARE, description="share of numbers on even cells")
    values_share: Share = Field(default=k.VALUES_SHARE, description="share of every single value, for frequent ones")
    one_way_share: Share = Field(default=k.ONE_WAY_SHARE, description="share of the one-way marginals")
    by_class_share: Share = Field(default=k.BY_CLASS_SHARE, description="share of the columns by class")
    strongest_share: ShareOrNone = Field(
        default=k.STRONG_SHARE, description="share of the strongest pairs, which are measured again"
    )


def queries(config: Config, rows: int, columns: int, epsilon: float) -> list[Query]:
    """Return what a fit measures, each with its noise relative to the others'.

    A table of fewer than two columns next to the target has no pairs. Their share goes to the others.
    """
    shares = {COARSE: config.coarse_share, VALUES: config.values_share}
    shares |= {ONE_WAY: config.one_way_share, BY_CLASS: config.by_class_share}
    if columns > 2:
        shares[PAIRS] = 1 - config.strongest_share - sum(shares.values())
        shares |= {STRONGEST: config.strongest_share} if config.strongest_share else {}
    total = sum(shares.values())
    return [Query(label=label, weight=(share / total) ** -0.5) for label, share in shares.items()]


def notes(config: Config, rows: int, columns: int, epsilon: float) -> list[str]:
    """Return notes on the plan, for a person: none."""
    return []


def train(
    config: Config, schema: Schema, vault: Measurements, plan: Plan, seed: int | None, device: str, progress: Progress
) -> Arrays:
    """Fit the mixture. Return its tensors and the noisy marginals that decode its rows."""
    from .fit import fitted  # with PyTorch, which plans and samples do without

    return fitted(schema, vault, plan, seed, device, progress)
