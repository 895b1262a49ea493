"""DP-CGAN, plain: a conditional GAN whose critic reads patients through random features.

Torkzadehmahani, Kairouz, Paten 2019 ("DP-CGAN"), with these differences, each measured in docs/methods/dp-cgan.md:
the critic's hidden layer is a public, fixed map to random Fourier features (Rahimi, Recht 2007) and only its output
layer, one row of weights a class, is trained. Its Wasserstein gradient at a real row is then that row's clipped
feature vector whatever the critic's weights are: all noised lots speak of one thing, and their average is a far
better critic than the last of them (the limit is the mean embedding of DP-MERF; Harder et al. 2021).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from ...privacy.accounting.calibration import Plan, Query
from ...privacy.networks import Averaged, Mlp
from ...privacy.vault import Codes, Vault
from ...rng import numpy_stream, torch_stream
from ...schema import Schema
from ..protocol import Arrays, Progress
from ..settings import Count, MethodConfig, Positive, Rate, Share
from ..shared.marginals import cleaned, without_ghosts
from .encoded_rows import Rows, histogram_maps
from .random_features import Embedding

HISTOGRAMS, CLASSES, GRADIENTS = "column histograms", "class counts", "critic gradients"


class Config(MethodConfig):
    """Privacy parameters. Shares are of the privacy loss; the critic's gradient sums take the rest."""

    lots: Count = Field(default=400, description="noised gradient sums of the critic")
    rate: Rate = Field(default=0.25, description="Poisson sampling rate of a lot")
    largest_lot: Count = Field(default=4096, description="expected rows of a lot beyond which the rate falls")
    clip: Positive = Field(default=1.0, description="clipping norm of a row's gradient")
    histogram_share: Share = Field(default=0.15, description="share of the column histograms")
    class_share: Share = Field(default=0.05, description="share of the class marginal")
    microbatches: int | None = Field(default=None, ge=1, description="groups a lot, whose means are clipped; else rows")
    features: Count = Field(default=400, description="random Fourier features, half sines and half cosines")
    phase: Positive = Field(default=2.0, description="radians between two rows, on average")
    spread: Positive = Field(default=0.7, description="of the frequencies' logarithm, both ways")

    def sampling_rate(self, rows: int) -> float:
        """The Poisson rate at a declared number of rows."""
        return min(self.rate, self.largest_lot / rows)

    def terms(self, lot: float) -> float:
        """How many clipped terms a sum holds on average: the rows of a lot, or its microbatches that are not empty."""
        m = self.microbatches
        return max(1.0, lot) if m is None else m * -math.expm1(-lot / m)


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Sizes of the public side: they cost time, not privacy."""

    latent: int = 16
    width: int = 128
    batch: int = 512
    steps: int = 700  # of the generator
    critic_steps: int = 4  # lots a generator step, until the planned lots are used up
    fall: int = 400  # last steps, over which Adam's rate falls to zero
    step: float = 2e-3  # Adam
    average: float = 0.99


def queries(config: Config, rows: int, columns: int, epsilon: float) -> list[Query]:
    """What a fit asks of the vault: noise weights that give each answer its share of the privacy loss."""
    rate = config.sampling_rate(rows)
    rest = 1 - config.histogram_share - config.class_share
    return [
        Query(label=HISTOGRAMS, weight=config.histogram_share**-0.5),
        Query(label=CLASSES, weight=config.class_share**-0.5),
        Query(label=GRADIENTS, weight=rate * math.sqrt(config.lots / rest), rate=rate, times=config.lots),
    ]


def notes(*public: object) -> list[str]:
    """What a person should know of the plan: nothing here."""
    return []


def seconds(config: Config, rows: int) -> float:
    """An estimate of a fit's seconds on one core of a laptop."""
    lot = config.sampling_rate(rows) * rows
    return 3.0 + (0.001 + 2e-6 * lot) * config.lots + 0.004 * Shape().steps


def train(
    config: Config,
    schema: Schema,
    vault: Vault,
    plan: Plan,
    seed: int | None,
    device: str,
    progress: Progress,
) -> Arrays:
    """Fit the generator. Returns its tensors and the noisy histograms that encode and decode its rows."""
    shape = Shape()
    counts = vault.measure_histograms(HISTOGRAMS, histogram_maps(schema))
    rows = Rows.of(schema, counts, plan.rows)
    target = {schema.target or "": rows.condition}
    class_counts = next(iter(vault.measure_histograms(CLASSES, target).values()))
    class_counts = without_ghosts(class_counts, schema.columns.get(schema.target or ""), plan.noise(CLASSES))
    prior = cleaned(class_counts, plan.rows)
    classes = rows.condition.classes
    embed = Embedding(
        rows, config.features, config.phase, config.spread, config.clip, torch_stream(seed, "features"), device
    )
    net = _generator(rows, shape, torch_stream(seed, "init")).to(device)
    list(net.parameters())[-1].data.copy_(rows.start_bias())
    averaged = Averaged(net, shape.average)
    adam = torch.optim.Adam(net.parameters(), shape.step, betas=(0.5, 0.9))
    latent = torch_stream(seed, "latent", device)

    lot = config.sampling_rate(plan.equivalent_rows) * plan.rows
    expected = torch.tensor(prior * config.terms(lot), dtype=torch.float32, device=device).clamp(min=1e-3)
    critic = Mlp([classes * embed.width, 1], bias=False).to(device)
    total = torch.zeros(classes, embed.width, device=device)
    noise = plan.noise(GRADIENTS) * config.clip * (1 if config.microbatches is None else 2)
    asked = 0
    for step in range(shape.steps):
        # Critic: noised lots. A real row's loss is minus the critic's answer: minus its gradient is the row's features.
        for _ in range(min(shape.critic_steps, config.lots - asked)):
            (gradient,) = vault.measure_gradient_sum(
                GRADIENTS,
                critic,
                lambda answer: -answer[:, 0],
                embed.by_class,
                config.clip,
                config.microbatches,
            )
            total -= gradient.reshape(classes, embed.width)
            asked += 1
        real = total / (asked * expected[:, None])
        # A class whose average is mostly noise should not steer: weight by signal over signal plus noise.
        blur = noise**2 * embed.width / (asked * expected**2)
        trust = (1 / (1 + blur))[:, None]
        # Generator: the critic's best answer is the difference of class means; follow it by Adam.
        labels = torch.arange(shape.batch, device=device) % classes
        fake = embed.clipped(rows.harden(_forward(net, labels, classes, shape, latent), latent))
        hot = torch.nn.functional.one_hot(labels, classes).to(fake)
        means = hot.T @ fake / hot.sum(0)[:, None].clamp(min=1)
        loss = (trust * (means - real).square()).sum()
        for group in adam.param_groups:
            group["lr"] = shape.step * min(1.0, (shape.steps - step) / shape.fall)
        adam.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        adam.step()
        averaged.keep()
        progress(step + 1, shape.steps)
    tensors = {f"generator.{k}": t.cpu().numpy() for k, t in enumerate(averaged.kept)}
    tensors |= {f"histogram.{name}": count.astype(np.float32) for name, count in counts.items()}
    return {**tensors, "prior": prior.astype(np.float32)}


def generate(tensors: Arrays, config: Config, schema: Schema, rows: int, count: int, seed: int | None) -> Codes:
    """`count` synthetic rows as codes, (count, columns): classes by their noisy shares, then the generator."""
    shape = Shape()
    encoded = Rows.of(schema, {n: tensors[f"histogram.{n}"].astype(np.float64) for n in schema.names}, rows)
    net = _generator(encoded, shape, torch_stream(0, "init"))
    with torch.no_grad():
        for k, p in enumerate(net.parameters()):
            p.copy_(torch.from_numpy(tensors[f"generator.{k}"]))
    rng, latent = numpy_stream(seed, "sample"), torch_stream(seed, "sample")
    prior = tensors["prior"].astype(np.float64)
    labels = rng.choice(len(prior), count, p=prior / prior.sum())
    chunks = []
    for chosen in np.array_split(labels, max(1, count // 65536)):
        with torch.no_grad():
            raw = _forward(net, torch.from_numpy(chosen), len(prior), shape, latent)
            chunks.append(encoded.decode(encoded.harden(raw, latent), chosen, rng))
    return np.concatenate(chunks)


def _generator(rows: Rows, shape: Shape, stream: torch.Generator) -> Mlp:
    wide = [shape.latent + rows.condition.classes, shape.width, shape.width, rows.layout.width]
    return Mlp(wide, "leaky_relu", stream)


def _forward(net: Mlp, labels: Tensor, classes: int, shape: Shape, stream: torch.Generator) -> Tensor:
    latent = torch.randn(len(labels), shape.latent, generator=stream, device=labels.device)
    hot = torch.nn.functional.one_hot(labels, classes).to(latent)
    result: Tensor = net(torch.cat([latent, hot], 1))
    return result
