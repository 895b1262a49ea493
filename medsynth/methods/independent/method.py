"""The baseline: noisy class-by-bin marginals alone. Given its class, a row's columns are drawn independently."""

from __future__ import annotations

from pydantic import Field

from ..settings import ShareByRule
from ..warm_dp_cgan import method as warm

queries, notes, train, generate, replicated = warm.queries, warm.notes, warm.train, warm.generate, warm.replicated


class Config(warm.Config):
    """The default method's settings without two-way marginals and without a critic, whatever the table's size."""

    critic_share: ShareByRule = Field(default=0.0, description="share of the critic")
    pairs: int | None = Field(default=0, ge=0, description="two-way marginals measured")
