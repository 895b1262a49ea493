"""dp-GAN: a Wasserstein GAN with gradient penalty whose critic learns from clipped, noised gradients of pairs of rows.

Zhang, Ji, Wang 2018 ("Differentially private releasing via deep generative model"), with these differences, whose
reasons are in docs/methods/dp-gan.md: k groups of parameters are charged as one Gaussian measurement of
sensitivity sqrt(k); noise is added once to a lot's sum; lots are Poisson; a row is paired with one generated row, with
a coefficient of its own; clipping norms follow rows that the user declared public, or noised quantiles that are charged
(Andrew et al. 2021).
"""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from pydantic import Field

from ...privacy.accounting.calibration import Plan, Query
from ...privacy.clipping import MOST_STEPS, Groups, LocalTraining
from ...privacy.queries.measurements import Measurements
from ...privacy.queries.rows import Codes
from ...schema import Schema
from ..protocol import Arrays, Progress
from ..settings import Count, MethodConfig, Positive, Rate, Share
from ..shared.adversarial.training_setup import TrainingSetup, setup_queries
from ..shared.labels import CRITIC_GRADIENTS
from ..shared.sampler import generate as generate
from .grouping import GROUP_COUNTS, BoundRule, Grouping, groups_of, next_bounds
from .training import DpGanSize, Training

QUANTILES = "clipping quantiles"


class Config(MethodConfig):
    """Privacy parameters. Shares are of the privacy loss; the critic's gradient sums take the rest."""

    size: ClassVar[DpGanSize] = DpGanSize()
    lots: Count = Field(default=600, description="noised gradient sums of the critic")
    rate: Rate = Field(default=0.1, description="Poisson sampling rate of a lot")
    largest_lot: Count = Field(default=2048, description="expected rows of a lot beyond which the rate falls")
    clip: Positive = Field(default=0.5, description="clipping norm of every group of parameters, at first")
    histogram_share: Share = Field(default=0.15, description="share of the one-way marginals")
    class_share: Share = Field(default=0.05, description="share of the class marginal")
    groups: Grouping = Field(default="global", description="which parameters are clipped together")
    bounds: BoundRule = Field(default="quantile", description="whether clipping norms follow noised quantiles")
    bound_share: Share = Field(default=0.03, description="share of the clipping quantiles")
    bound_lots: Count = Field(default=50, description="lots at which clipping quantiles are measured")
    critic_steps: Count = Field(default=2, description="lots a generator step")
    local_steps: int = Field(
        default=1, ge=1, le=MOST_STEPS, description="steps that a row trains the critic by itself, clipped together"
    )
    local_rate: Positive = Field(default=0.05, description="learning rate of these steps, where there are several")
    public: bool = Field(default=False, description="rows were declared public: clipping norms follow them")

    def sampling_rate(self, rows: int) -> float:
        """The Poisson rate at a declared number of rows."""
        return min(self.rate, self.largest_lot / rows)

    @property
    def local(self) -> LocalTraining:
        """What a row does before it is clipped."""
        return LocalTraining(self.local_steps, self.local_rate)

    @property
    def quantiles(self) -> int:
        """How often clipping quantiles are measured."""
        return min(self.bound_lots, self.lots) if self.bounds == "quantile" and not self.public else 0


def queries(config: Config, rows: int, columns: int, epsilon: float) -> list[Query]:
    """What a fit measures: noise weights that give each query its share of the privacy loss."""
    rate = config.sampling_rate(rows)
    below = config.bound_share if config.quantiles else 0.0
    rest = 1 - config.histogram_share - config.class_share - below
    found = setup_queries(config.histogram_share, config.class_share)
    for label, share, times in ((CRITIC_GRADIENTS, rest, config.lots), (QUANTILES, below, config.quantiles)):
        if share:
            found.append(Query(label=label, weight=rate * math.sqrt(times / share), rate=rate, times=times))
    return found


def notes(config: Config, rows: int, columns: int, epsilon: float) -> list[str]:
    """Notes on the plan, for a person: none."""
    return []


def train(
    config: Config, schema: Schema, vault: Measurements, plan: Plan, seed: int | None, device: str, progress: Progress,
    public: Codes | None = None,
) -> Arrays:  # fmt: skip
    """Fit the generator. Returns its tensors and the noisy marginals that decode its rows.

    `public`: codes of rows that the user declared public, (rows, columns). Critic and generator begin on them without
    noise, and each step's clipping norms are the mean norms of their gradients.
    """
    setup = TrainingSetup.measure(schema, vault, plan, device)
    run = Training(setup, config.size, seed)
    shown = None if public is None else setup.encode(public)
    for step in range(0 if shown is None else run.size.warm):
        run.critic_step(run.public_gradients(shown).mean(0))
        if step % config.critic_steps == 0:
            run.generator_step()
    of = groups_of(config.groups, run.critic, run.public_gradients(shown))
    groups = Groups(of, (config.clip,) * GROUP_COUNTS[config.groups])
    lot = config.sampling_rate(plan.equivalent_rows) * setup.rows
    every = config.lots // max(1, config.quantiles)
    for step in range(config.lots):
        # Clipping norms: by public rows, or by the median of the rows' norms, measured.
        if shown is not None:
            norms = groups.norms(run.public_gradients(shown, config.local)).mean(0)
            groups = Groups(of, tuple(norms.clamp(min=1e-6).tolist()))
        elif step % every == 0 and step // every < config.quantiles:
            below = vault.measure_norms_below(
                QUANTILES, run.critic, run.pair_loss, setup.encode, run.pool(), groups, config.local
            )
            groups = Groups(of, next_bounds(groups.bounds, (below / lot + 0.5).tolist()))
        # Critic step: the noised sum of clipped gradients over a lot. Then, not at each lot, a generator step.
        total = vault.measure_pair_gradient_sum(
            CRITIC_GRADIENTS, run.critic, run.pair_loss, setup.encode, run.pool(), groups, config.local
        )
        run.critic_step(torch.cat([t.flatten() for t in total]) / lot)
        if step % config.critic_steps == config.critic_steps - 1:
            run.generator_step()
        progress(step + 1, config.lots)
    run.averaged.copy_to_network()
    return setup.tensors()
