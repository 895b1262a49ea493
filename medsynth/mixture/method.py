"""The method as the registry knows it: what it measures, and its fit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pydantic import Field

from ..errors import UsageError
from ..methods.protocol import Arrays, Progress
from ..methods.regressions import DeclaringConfig
from ..methods.settings import Count, Share, ShareOrNone
from ..methods.shared.labels import BY_CLASS, COARSE, DECLARED, MATRIX, ONE_WAY, PAIRS, STRONGEST, VALUES
from ..methods.shared.sampler import generate as generate
from ..privacy.accounting.calibration import Plan, Query
from ..schema import Schema
from . import constants as k

if TYPE_CHECKING:
    from ..privacy.queries.measurements import Measurements

EARLIER = frozenset({
    "histogram_share", "remeasured_share", "selection_share", "critic_share", "moments_share", "candidates", "pairs",
})  # fmt: skip


class Settings(DeclaringConfig):
    """Shares of the squared noise budget, and the length of the fit."""

    earlier = EARLIER
    coarse_share: Share = Field(default=k.COARSE_SHARE, description="share of numbers on even cells")
    values_share: Share = Field(default=k.VALUES_SHARE, description="share of every single value, for frequent ones")
    one_way_share: Share = Field(default=k.ONE_WAY_SHARE, description="share of the one-way marginals")
    steps: Count = Field(default=k.STEPS, description="steps of the fit, which cost time and no privacy")


class Config(Settings):
    """Settings of the mixture. Pairs of columns by class get the rest of the budget."""

    by_class_share: Share = Field(default=k.BY_CLASS_SHARE, description="share of the columns by class")
    strongest_share: ShareOrNone = Field(
        default=k.STRONG_SHARE, description="share of the strongest pairs, which are measured again"
    )


def queries(config: Config, rows: int, columns: int, epsilon: float) -> list[Query]:
    """Return what a fit measures, each with its noise relative to the others'.

    A table of fewer than two columns next to the target has no pairs. Their share goes to the others. A table of
    hundreds of columns gets matrices of second moments in place of pairs. Raises UsageError for regressions that are
    declared of such a table.
    """
    wide = columns > k.WIDE_COLUMNS
    if config.inference and wide:
        raise UsageError("`inference` is not taken for a table of more than 100 columns. Leave columns out.")
    shares = {COARSE: config.coarse_share, VALUES: config.values_share}
    shares |= {ONE_WAY: config.one_way_share, BY_CLASS: config.by_class_share}
    if wide:
        shares[MATRIX] = 1 - sum(shares.values())
    elif columns > 2:
        shares[PAIRS] = 1 - config.strongest_share - sum(shares.values())
        shares |= {STRONGEST: config.strongest_share} if config.strongest_share else {}
    shares = config.with_declared(shares, DECLARED)
    total = sum(shares.values())
    return [Query(label=label, weight=(share / total) ** -0.5) for label, share in shares.items()]


def notes(config: Config, rows: int, columns: int, epsilon: float) -> list[str]:
    """Return notes on the plan, for a person: none."""
    return []


def train(
    config: Settings, schema: Schema, vault: Measurements, plan: Plan, seed: int | None, device: str, progress: Progress
) -> Arrays:
    """Fit the mixture. Return its tensors, the noisy marginals that decode its rows, and all that was released."""
    from .fit import fitted  # with PyTorch, which plans and samples do without

    return fitted(config, schema, vault, plan, seed, device, progress)


def replicated(
    config: Settings, schema: Schema, plan: Plan, tensors: Arrays, count: int, seed: int | None
) -> Iterator[Arrays]:
    """Yield the tensors of `count` plausible mixtures, by the released measurements among a model's `tensors` alone."""
    from .replicates import replicated as run  # with PyTorch

    yield from run(config, schema, plan, tensors, count, seed)
