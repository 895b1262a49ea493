"""The loss-noise GAN (Han, Xue 2021) as published, for comparison. It protects nobody.

Each step generates two batches. Each row's loss on the second batch is clipped at a share of the mean loss on the
first. The losses are summed, and noise is added to the sum. A number added to a loss has no gradient, so the released
generator does not depend on the noise, and its critic saw the rows unclipped and without noise. Rows are still measured
through the vault, as in the other methods, but a fit of this method adds no noise there.
"""

from __future__ import annotations

import math

import torch
from pydantic import Field
from torch import Tensor

from ..arrays import Arrays
from ..privacy.accounting.calibration import Charge, Plan
from ..privacy.networks import Mlp
from ..privacy.queries.measurements import Measurements
from ..rng import torch_stream
from ..schema import Schema
from .adversarial import (
    CRITIC_GRADIENTS,
    AveragedWeights,
    LotConfig,
    TrainingSetup,
    clipped_sum,
    generated_loss,
    real_loss,
    setup_queries,
    step_along,
)
from .registry import Count, Positive, Progress
from .sampler import MixtureMethod

HIDDEN_WIDTH = 64  # of the critic
BATCH = 512  # generated rows per step
LEARNING_RATE = 2e-3  # of Adam
AVERAGING_DECAY = 0.98  # of the generator's averaged weights
UNREACHED_NORM = 1e3  # a clipping norm that no gradient reaches: the method clips losses, not gradients


class LossNoiseConfig(LotConfig):
    """The published settings, and the lots that read rows."""

    lots: Count = Field(default=800, description="gradient sums of the critic")
    bound: Positive = Field(default=0.7, description="largest loss, as a multiple of another batch's mean")
    multiplier: float = Field(
        default=1.0, ge=0, allow_inf_nan=False, description="deviation of the noise, as a multiple of the bound"
    )


class LossNoise(MixtureMethod):
    """The loss-noise GAN."""

    Config = LossNoiseConfig

    def queries(self, config: LossNoiseConfig, rows: int, columns: int, epsilon: float) -> list[Charge]:
        """Return what a fit measures. The planned noise is never added: the method is fitted without noise."""
        rate = config.sampling_rate(rows)
        return [*setup_queries(0.15, 0.05), Charge(label=CRITIC_GRADIENTS, weight=1.0, rate=rate, times=config.lots)]

    def notes(self, config: LossNoiseConfig, rows: int, columns: int, epsilon: float) -> list[str]:
        """Return a note on what the paper would claim here, and what is true."""
        printed = claimed(config.sampling_rate(rows), config.lots, config.multiplier, 1e-5)
        return [f"The paper's formula prints epsilon {printed:.3g} here, at delta 1e-5. No finite epsilon holds."]

    def fit(
        self, config: LossNoiseConfig, schema: Schema, vault: Measurements, plan: Plan, seed: int | None, device: str,
        progress: Progress,
    ) -> Arrays:  # fmt: skip
        """Fit the generator. Return its tensors and the marginals that decode its rows."""
        setup = TrainingSetup.measure(schema, vault, plan, device)
        latent, inert = torch_stream(seed, "latent", device), torch_stream(seed, "noise of the loss", device)
        sizes = [setup.classes * setup.width, HIDDEN_WIDTH, 1]
        critic = Mlp(sizes, "leaky_relu", torch_stream(seed, "critic")).to(device)
        net = setup.add_network(seed)
        of_critic, of_net = (torch.optim.Adam(n.parameters(), LEARNING_RATE, (0.5, 0.9)) for n in (critic, net))
        averaged = AveragedWeights(net, AVERAGING_DECAY)
        lot = config.sampling_rate(plan.equivalent_rows) * setup.rows
        for step in range(config.lots):
            first, second = (setup.by_class(setup.fakes(setup.labels(BATCH, latent), latent)) for _ in range(2))
            # Critic step: real rows without clipping, and the first generated batch.
            fake_sum = clipped_sum(critic, generated_loss, first.detach(), UNREACHED_NORM)
            real_sum = vault.measure_gradient_sum(
                CRITIC_GRADIENTS, critic, real_loss, setup.encode, UNREACHED_NORM, given=setup.given
            )
            both = zip(real_sum, fake_sum, strict=True)
            step_along(of_critic, critic, [real / lot + fake / BATCH for real, fake in both])
            # Generator step: the second batch's clipped losses, and noise that has no gradient.
            noise = config.multiplier * torch.randn((), generator=inert, device=device)
            loss = released_loss(real_loss(critic(first)), real_loss(critic(second)), config.bound, noise)
            step_along(of_net, net, torch.autograd.grad(loss, list(net.parameters())))
            averaged.update()
            progress(step + 1, config.lots)
        averaged.copy_to_network()
        return setup.tensors()


def claimed(rate: float, steps: int, multiplier: float, delta: float) -> float:
    """Return the epsilon that the paper's formula prints. No finite epsilon holds for this method.

    >>> round(claimed(0.01, 10_000, 1.0, 1e-5), 3)
    6.786
    """
    return 2 * rate * math.sqrt(steps * math.log(1 / delta)) / multiplier if multiplier else math.inf


def released_loss(first: Tensor, second: Tensor, bound: float, noise: Tensor) -> Tensor:
    """Return the published loss of the generator, from the losses of two batches, (rows,), and standard noise, ().

    The noise is scaled to the bound and added to the sum, so it has no gradient.
    """
    most = bound * first.detach().mean()
    return (second.minimum(most).sum() + noise * most) / len(second)
