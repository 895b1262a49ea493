"""The baseline: noisy class-by-bin counts alone. Given its class, a row's columns are drawn independently."""

from __future__ import annotations

from pydantic import Field

from ..warm_dp_cgan import method as warm

queries, seconds, notes, train, generate = warm.queries, warm.seconds, warm.notes, warm.train, warm.generate


class Config(warm.Config):
    """The default method's settings without two-way marginals."""

    pairs: int | None = Field(default=0, ge=0, description="two-way marginals measured")
