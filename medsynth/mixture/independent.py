"""The baseline: the mixture without pairs. Given its class, a row's columns are drawn independently."""

from __future__ import annotations

from ..methods.shared.labels import BY_CLASS, COARSE, DECLARED, ONE_WAY, VALUES
from ..methods.shared.sampler import generate as generate
from ..privacy.accounting.calibration import Query
from .method import Settings
from .method import notes as notes
from .method import replicated as replicated
from .method import train as train


class Config(Settings):
    """Settings of the baseline. The columns by class get the rest of the budget."""


def queries(config: Config, rows: int, columns: int, epsilon: float) -> list[Query]:
    """Return what a fit measures, each with its noise relative to the others'."""
    shares = {COARSE: config.coarse_share, VALUES: config.values_share, ONE_WAY: config.one_way_share}
    shares[BY_CLASS] = 1 - sum(shares.values())
    shares = config.with_declared(shares, DECLARED)
    return [Query(label=label, weight=share**-0.5) for label, share in shares.items()]
