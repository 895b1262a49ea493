"""The baseline: noisy class-by-bin counts alone. Given its class, a row's columns are drawn independently."""

from __future__ import annotations

from dataclasses import dataclass

from ..warm_dp_cgan import method as warm

queries, seconds, notes, train, generate = warm.queries, warm.seconds, warm.notes, warm.train, warm.generate


@dataclass(frozen=True, kw_only=True)
class Config(warm.Config):
    """The default method's settings without pairs."""

    pairs: int | None = 0
