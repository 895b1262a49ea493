"""The baseline: the mixture without pairs. Given its class, a row's columns are drawn independently."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..methods.protocol import Arrays, Progress
from ..methods.shared.labels import BY_CLASS, COARSE, DECLARED, ONE_WAY, VALUES
from ..methods.shared.sampler import generate as generate
from ..privacy.accounting.calibration import Plan, Query
from ..schema import Schema
from .method import Settings
from .method import notes as notes

if TYPE_CHECKING:
    from ..privacy.queries.measurements import Measurements


class Config(Settings):
    """Settings of the baseline. The columns by class get the rest of the budget."""


def queries(config: Config, rows: int, columns: int, epsilon: float) -> list[Query]:
    """Return what a fit measures, each with its noise relative to the others'."""
    shares = {COARSE: config.coarse_share, VALUES: config.values_share, ONE_WAY: config.one_way_share}
    shares[BY_CLASS] = 1 - sum(shares.values())
    shares = config.with_declared(shares, DECLARED)
    return [Query(label=label, weight=share**-0.5) for label, share in shares.items()]


def train(
    config: Config, schema: Schema, vault: Measurements, plan: Plan, seed: int | None, device: str, progress: Progress
) -> Arrays:
    """Fit each column by itself and by class. Return the tensors, and all that was released."""
    from .fit import fitted  # with PyTorch, which plans and samples do without

    return fitted(config, schema, vault, plan, seed, device, progress)


def replicated(
    config: Config, schema: Schema, plan: Plan, tensors: Arrays, count: int, seed: int | None
) -> Iterator[Arrays]:
    """Yield the tensors of `count` plausible models, by the released measurements among a model's `tensors` alone."""
    from .replicates import replicated as run  # with PyTorch

    yield from run(config, schema, plan, tensors, count, seed)
