"""GS-WGAN: critics train without noise on shards of the rows; only the gradient that the generator receives is noised.

Source: Chen, Orekondy, Fritz 2020, in central form: all shards in one process. docs/methods/gs-wgan.md explains the
corrections. A step's generated rows share one draw of a shard and are charged as one measurement. Every critic
trains at every step, and the shard is drawn afterwards; otherwise the claimed amplification fails. A public rule
computes the number of shards from the rows. Classes are even in training, and follow the noisy marginal in samples.

If the server sees which critic is used, as in the paper's federated setting, secret sampling amplifies nothing. Then
each of K critics is measured ceil(T / K) times in a public order by plain Gaussians. A row is in one shard, so shards
compose in parallel. The preset `public-order` has this form. `AllCritics` samples nothing at all.
"""

from __future__ import annotations

import math

from pydantic import Field
from torch import Tensor

from ..arrays import Arrays
from ..privacy.accounting import accountant
from ..privacy.accounting.calibration import Charge, Plan, make_plan
from ..privacy.accounting.events import PublicOrderGaussian
from ..privacy.queries.measurements import ShardedMeasurements
from ..privacy.shards import CriticConfig
from ..privacy.vault import Vault
from ..schema import Schema
from .adversarial import ShardConfig, ShardMethod, ShardTraining, TrainingSetup
from .registry import Count, Positive, Progress

GRADIENTS = "upstream gradients"
LARGEST_EPSILON_NOTED = 100.0  # above this, the epsilon against a server is not noted
PAPER_SETTINGS = {"shards": 1000, "noise": 1.07, "rows": 32, "steps": 20_000, "delta": 1e-5}


class SharedConfig(ShardConfig):
    """Privacy parameters of both forms: gradients of one sampled critic, and sums over all critics."""

    most_shards: Count = Field(default=150, description="most shards, if their number is not set")
    steps: Count = Field(default=150, description="generator steps; all critics train at each")
    clip: Positive = Field(default=1.0, description="clipping norm of a gradient; slopes of critics are near one")
    joint: bool = Field(default=False, description="clip the gradients of a batch together, not row by row")


class SampledConfig(SharedConfig):
    """Privacy parameters. Shares are of the first-order privacy loss; the upstream gradients take the rest."""

    gradients: Count = Field(default=20, description="gradients measured per step, each at a random shard")
    batch: Count = Field(default=12, description="generated rows per gradient")
    public_order: bool = Field(default=False, description="use critics in a public order, without amplification")

    @property
    def measurements(self) -> int:
        """The number of upstream gradients that a fit measures."""
        return self.steps * self.gradients


class GsWgan(ShardMethod):
    """GS-WGAN with one critic per measurement, sampled in secret or in a public order."""

    Config = SampledConfig
    warm = 101
    threshold = 2.0
    critic = CriticConfig()

    def queries(self, config: SampledConfig, rows: int, columns: int, epsilon: float) -> list[Charge]:
        """Return the one-way marginals, the class marginal, and the upstream gradients of sampled critics."""
        shards = config.shard_count(rows)
        times = config.measurements
        ordered = config.public_order
        # To first order, shards divide the cost of a measurement by their number, or by its root in a public order.
        weight = config.weight(times) / (math.sqrt(shards) if ordered else shards)
        gradients = Charge(label=GRADIENTS, weight=weight, times=times, shards=shards, public_order=ordered)
        return config.with_setup(gradients)

    def notes(self, config: SampledConfig, rows: int, columns: int, epsilon: float) -> list[str]:
        """Return notes on what is measured, and the epsilon against whoever sees which critic is used."""
        shards = config.shard_count(rows)
        times = config.measurements
        if config.public_order:
            noise = PAPER_SETTINGS["noise"] / (2 * math.sqrt(PAPER_SETTINGS["rows"]))
            step = PublicOrderGaussian(multiplier=noise, shards=int(PAPER_SETTINGS["shards"]))
            theirs = accountant.epsilon([(step, int(PAPER_SETTINGS["steps"]))], PAPER_SETTINGS["delta"], "rdp")
            return [
                f"{shards} critics are measured in a public order, {math.ceil(times / shards)} times each. Sampling "
                "amplifies nothing, and the claim holds against anyone who sees the order.",
                "The paper's own settings (1000 critics, noise 1.07, 32 rows a step, 20,000 steps) cost epsilon "
                f"{theirs:.0f} in this order, not 10: its accountant assumes a draw of a shard for each row, "
                "and half the sensitivity.",
            ]
        schedule = (
            f"{times} gradients of {shards} critics will be measured, each at "
            f"{config.batch} generated rows. The row count sets these numbers (docs/methods/gs-wgan.md)."
        )
        if epsilon > LARGEST_EPSILON_NOTED:
            return [schedule]
        seen = self.epsilon_against_server(config, rows, columns, epsilon)
        return [
            schedule,
            f"epsilon {epsilon:g} holds if nobody sees which critic is sampled, as in this process. The server "
            f"of a federation sees it. Against the server, the same noise gives epsilon {seen:.3g} (delta 1e-5, "
            "critics in a public order).",
        ]

    def epsilon_against_server(self, config: SampledConfig, rows: int, columns: int, epsilon: float) -> float:
        """Return epsilon, at delta 1e-5, of the same measurements against those who see which critic is used.

        Without secret sampling nothing is amplified. Only a shard's own measurements count, as plain Gaussians, since
        shards compose in parallel.
        """
        delta = 1e-5
        plan = make_plan(self.queries(config, rows, columns, epsilon), epsilon=epsilon, delta=delta, rows=rows)
        event = PublicOrderGaussian(multiplier=plan.events[GRADIENTS][0].multiplier, shards=config.shard_count(rows))
        others = [pair for label, pair in plan.events.items() if label != GRADIENTS]
        return accountant.epsilon([*others, (event, config.measurements)], delta)

    def fit(
        self,
        config: SampledConfig,
        schema: Schema,
        vault: Vault,
        plan: Plan,
        seed: int | None,
        device: str,
        progress: Progress,
    ) -> Arrays:
        """Fit the generator. Return its tensors and the noisy marginals that decode its rows."""
        setup = TrainingSetup.measure(schema, vault, plan, device)
        count = config.shard_count(plan.equivalent_rows)
        shards = vault.split_into_shards(count, setup.encode, setup.classes, self.critic)
        training = ShardTraining(self, setup, shards.train, config.measurements, seed)

        def upstream(fake: Tensor) -> Tensor:
            return shards.measure_upstream_gradient(GRADIENTS, fake, config.clip, joint=config.joint)

        for _ in training.steps(config.steps, progress):  # all critics train, whichever is sampled next
            for number in range(config.gradients):
                training.follow(config.batch, number, upstream)
        return setup.tensors()


class AllCriticsConfig(SharedConfig):
    """Privacy parameters. Shares are of the first-order privacy loss; the sums of gradients take the rest."""

    batch: Count = Field(default=24, description="generated rows per step")


class AllCritics(ShardMethod):
    """GS-WGAN with the gradients of all critics: each step measures their sum, clipped by shard and noised once.

    Nothing is sampled, so nothing has to stay secret: the claim holds against anyone who sees which shards answer, such
    as the server of a federation. A row is in one shard and changes one term of the sum, by at most 2 C sqrt(B), or
    2 C. To first order, the noise on the mean gradient equals that of critics sampled in secret. In a public order, it
    is larger by the root of the number of critics. The sum is the aggregation of G-PATE (Long et al. 2021), applied to
    gradients instead of votes.
    """

    Config = AllCriticsConfig
    warm = 101
    threshold = 2.0
    critic = CriticConfig()

    def queries(self, config: AllCriticsConfig, rows: int, columns: int, epsilon: float) -> list[Charge]:
        """Return the one-way marginals, the class marginal, and the sums of all critics' gradients."""
        gradients = Charge(label=GRADIENTS, weight=config.weight(config.steps), times=config.steps)
        return config.with_setup(gradients)

    def notes(self, config: AllCriticsConfig, rows: int, columns: int, epsilon: float) -> list[str]:
        """Return a note on what is measured, and against whom the claim holds."""
        return [
            f"{config.steps} sums of the gradients of {config.shard_count(rows)} critics will be measured, each at "
            f"{config.batch} generated rows (docs/methods/gs-wgan.md). No critic is sampled, so the claim holds "
            "against anyone who sees which shards answer."
        ]

    def fit(
        self, config: AllCriticsConfig, schema: Schema, vault: ShardedMeasurements, plan: Plan, seed: int | None,
        device: str, progress: Progress,
    ) -> Arrays:  # fmt: skip
        """Fit the generator. Return its tensors and the noisy marginals that decode its rows."""
        setup = TrainingSetup.measure(schema, vault, plan, device)
        count = config.shard_count(plan.equivalent_rows)
        shards = vault.split_into_shards(count, setup.encode, setup.classes, self.critic)
        training = ShardTraining(self, setup, shards.train, config.steps, seed)

        def upstream(fake: Tensor) -> Tensor:
            """Return the mean over all critics."""
            return shards.measure_upstream_sum(GRADIENTS, fake, config.clip, joint=config.joint) / count

        for _ in training.steps(config.steps, progress):
            training.follow(config.batch, 0, upstream)
        return setup.tensors()
