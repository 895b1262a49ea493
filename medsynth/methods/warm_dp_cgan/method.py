"""The default: a conditional generator started at noisy marginals, then fitted to two-way marginals and by critics.

1. Noisy histograms give bins, and values inside a bin. 2. Noisy class-by-bin marginals, re-measured more finely where a
column separates the classes, are where the generator starts. 3. A critic's noisy gradient sum over all pairs of
columns, then that of a critic of the strongest relations' second moments. 4. Two-way marginals of the pairs that the
critic of pairs finds farthest from independence; without it, of those with the largest noisy L1 errors, in rounds
(after AIM, McKenna et al. 2022). A table of hundreds of columns gets, in place of 3 and 4, a noisy matrix of second
moments a class.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from pydantic import Field

from ...errors import UsageError
from ...privacy.accounting.calibration import Plan, Query
from ...schema import Schema
from ..protocol import Arrays, Progress
from ..regressions import DeclaringConfig
from ..settings import Count, Share, ShareByRule, ShareOrNone
from ..shared.labels import (
    BY_CLASS,
    COARSE,
    CRITIC_GRADIENTS,
    DECLARED,
    MATRIX,
    MOMENTS,
    ONE_WAY,
    REMEASURED,
    SELECTION,
    TWO_WAY,
    VALUES,
)
from ..shared.sampler import generate as generate
from .budget_rule import Allocation, allocate

if TYPE_CHECKING:
    from ...privacy.queries.measurements import Measurements


class Config(DeclaringConfig):
    """Shares of the privacy loss, and the public rules by which two-way marginals are planned."""

    coarse_share: Share = Field(default=0.05, description="share of the coarse one-way marginals")
    values_share: Share = Field(default=0.03, description="share of looking for frequent values")
    histogram_share: Share = Field(default=0.15, description="share of the one-way marginals")
    remeasured_share: ShareOrNone = Field(default=0.15, description="share of the re-measured marginals")
    selection_share: Share = Field(default=0.05, description="share of selecting two-way marginals")
    critic_share: ShareByRule = Field(default=None, description="share of the critic; by a rule on rows if not given")
    moments_share: ShareByRule = Field(
        default=None, description="share of second moments, beside a critic of pairs; by a rule if not given"
    )
    candidates: Count = Field(
        default=100, description="pairs of columns compared in a round, drawn in public; none by a critic of pairs"
    )
    pairs: int | None = Field(
        default=None, ge=0, description="two-way marginals measured; by a rule on rows if not given"
    )

    def by_rule(self, rows: int, columns: int, epsilon: float) -> Allocation:
        """What the public rule allots, before settings change it."""
        return allocate(rows, columns, epsilon, matrix=not self.pairs and self.critic_share != 0)

    def allocation(self, rows: int, columns: int, epsilon: float) -> Allocation:
        """What is done about two-way marginals and the critic."""
        found = self.by_rule(rows, columns, epsilon)
        if self.critic_share is not None:
            found = replace(found, critic_share=self.critic_share)
        if not found.critic_share or found.critic != "pairs":  # which tells whose moments to measure
            found = replace(found, moments_share=0.0)
        elif self.moments_share is not None:
            found = replace(found, moments_share=self.moments_share)
        wanted = found.count if self.pairs is None else self.pairs
        return replace(found, count=wanted // found.rounds * found.rounds)  # a setting may have changed the rounds


def queries(config: Config, rows: int, columns: int, epsilon: float) -> list[Query]:
    """What a fit measures; without two-way marginals the class-by-bin ones take their shares."""
    plan = config.allocation(rows, columns, epsilon)
    if config.inference and plan.critic == "matrix":
        raise UsageError("`inference` is not taken for a table of so many columns, whose matrices hold no regression. "
                         "Leave columns out, or set critic_share=0 in `settings`.")  # fmt: skip
    shares = {COARSE: config.coarse_share, VALUES: config.values_share, ONE_WAY: config.histogram_share}
    shares |= {REMEASURED: config.remeasured_share} if config.remeasured_share and plan.remeasured else {}
    if plan.count:
        shares |= {SELECTION: config.selection_share} if plan.rounds > 1 else {}
        shares |= {TWO_WAY: plan.share}
    shares |= {MATRIX if plan.critic == "matrix" else CRITIC_GRADIENTS: plan.critic_share} if plan.critic_share else {}
    shares |= {MOMENTS: plan.moments_share} if plan.moments_share else {}
    shares[BY_CLASS] = 1 - sum(shares.values())
    shares = config.with_declared(shares, DECLARED)
    times = {SELECTION: plan.rounds, TWO_WAY: plan.rounds}
    labels = (
        COARSE,
        VALUES,
        ONE_WAY,
        BY_CLASS,
        REMEASURED,
        DECLARED,
        CRITIC_GRADIENTS,
        MATRIX,
        MOMENTS,
        SELECTION,
        TWO_WAY,
    )
    return [
        Query(label=label, weight=(shares[label] / times.get(label, 1)) ** -0.5, times=times.get(label, 1))
        for label in labels
        if label in shares
    ]


def notes(config: Config, rows: int, columns: int, epsilon: float) -> list[str]:
    """Notes on the plan, for a person."""
    plan = config.allocation(rows, columns, epsilon)
    pairs = f"{plan.count} pairs of columns will be measured" if plan.count else "No pair of columns is measured"
    share = plan.critic_share
    what = "second moments by class get" if plan.critic == "matrix" else "the critic gets"
    critic = f"{what} {share:.0%} of the privacy loss" if share else "no critic is trained"
    return [f"{pairs}, and {critic}: by a rule on rows, columns and epsilon (docs/methods/default.md)."]


def train(
    config: Config, schema: Schema, vault: Measurements, plan: Plan, seed: int | None, device: str, progress: Progress
) -> Arrays:
    """Fit the generator. Returns its tensors and the noisy marginals that decode its rows."""
    from .training import fitted  # with PyTorch, which plans and samples do without

    return fitted(config, schema, vault, plan, seed, device, progress)


def replicated(
    config: Config, schema: Schema, plan: Plan, tensors: Arrays, count: int, seed: int | None
) -> Iterator[Arrays]:
    """The tensors of `count` plausible generators, by the released measurements among a model's `tensors` alone."""
    from .posterior.replicates import replicated as run  # with PyTorch

    yield from run(config, schema, plan, tensors, count, seed)
