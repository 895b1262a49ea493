"""DP-CGAN: a conditional GAN whose critic is linear in random features of a row.

Source: Torkzadehmahani, Kairouz, Paten 2019 ("DP-CGAN"). docs/methods/dp-cgan.md measures each difference. The
critic's hidden layer is a fixed, public map to random Fourier features (Rahimi, Recht 2007). Only its output layer is
trained, with one row of weights per class. So its Wasserstein gradient at a real row is the row's clipped feature
vector, whatever the weights are. All noised lots measure the same quantity, and their average is a far better critic
than the last lot (the limit is the mean embedding of DP-MERF; Harder et al. 2021).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from ..arrays import Arrays, Codes
from ..privacy.accounting.calibration import Charge, Plan
from ..privacy.networks import Mlp
from ..privacy.queries.gradients import minus_output
from ..privacy.queries.measurements import Measurements
from ..rng import numpy_stream, torch_stream
from ..row_count import COUNTED_ROWS, NoisyTotal, likely_rows
from ..schema import Schema
from ..schema.columns.grid import grid
from .adversarial import CRITIC_GRADIENTS, AveragedWeights, ClippedLotConfig
from .encoded_rows import Embedding, EncodedRows
from .marginals import CLASSES, GRID_CELLS, ONE_WAY, cleaned, without_spurious_missing
from .registry import Count, Method, MethodConfig, Positive, Progress, Rate

LATENT, WIDTH = 16, 128  # latent numbers per row; width of the hidden layers
BATCH = 512  # generated rows per step
LEARNING_RATE = 2e-3  # of Adam
AVERAGING_DECAY = 0.99


class LinearCritic:
    """A critic that is linear in features: noised sums of the features of real rows by class, over all lots so far.

    `expected`: mean number of clipped terms of each class in a lot, (classes,). `noise`: standard deviation of a sum's
    noise. `label`: label of the measurement.
    """

    def __init__(
        self, embed: Embedding, expected: Tensor, clip: float, microbatches: int | None, noise: float, label: str
    ) -> None:
        self.embed, self.expected, self.noise, self._label = embed, expected, noise, label
        self._clip, self._microbatches = clip, microbatches
        self._weights = Mlp([len(expected) * embed.width, 1], bias=False).to(expected.device)
        self._total = torch.zeros(len(expected), embed.width, device=expected.device)
        self.lots = 0

    def measure(self, vault: Measurements) -> None:
        """Measure one lot. A real row's loss is minus the critic's output, so the gradient is minus its features."""
        (gradient,) = vault.measure_gradient_sum(
            self._label, self._weights, minus_output, self.embed.by_class, self._clip, self._microbatches
        )
        self._total -= gradient.reshape(self._total.shape)
        self.lots += 1

    def generator_loss(self, fake: Tensor, labels: Tensor) -> Tensor:
        """Return the squared distance between the mean features of real and of generated rows, summed over classes.

        fake: (rows, features). labels: (rows,). The best critic is the difference of these means. Each class is
        weighted by signal over signal plus noise, so that a class that is mostly noise has little influence.
        """
        real = self._total / (self.lots * self.expected[:, None])
        noise_share = self.noise**2 * self.embed.width / (self.lots * self.expected**2)
        weight = (1 / (1 + noise_share))[:, None]
        hot = torch.nn.functional.one_hot(labels, len(self.expected)).to(fake)
        means = hot.T @ fake / hot.sum(0)[:, None].clamp(min=1)
        return (weight * (means - real).square()).sum()


class RandomFeaturesConfig(ClippedLotConfig):
    """Privacy parameters. Shares are of the privacy loss; the critic's gradient sums take the rest."""

    lots: Count = Field(default=400, description="noisy gradient sums of the critic")
    rate: Rate = Field(default=0.25, description="sampling rate of a lot")
    largest_lot: Count = Field(default=4096, description="most expected rows per lot: the rate falls in larger tables")
    features: Count = Field(default=400, description="random Fourier features")
    phase: Positive = Field(default=2.0, description="mean phase difference between two rows, in radians")
    spread: Positive = Field(default=0.7, description="half the range of the log frequencies")


class RandomFeatures(Method):
    """DP-CGAN with a critic of random features. The sizes below cost time, not privacy."""

    Config: type[MethodConfig] = RandomFeaturesConfig
    label = CRITIC_GRADIENTS
    steps = 700  # of the generator
    fall = 400  # number of last steps, over which Adam's rate falls to zero
    critic_steps = 4  # lots per generator step, until the planned lots are used up

    def queries(self, config: Any, rows: int, columns: int, epsilon: float) -> list[Charge]:
        """Return what a fit measures, with noise weights that give each query its share of the privacy loss."""
        found: list[Charge] = config.queries(rows)
        return found

    def length(self, config: Any) -> tuple[int, int]:
        """Return the number of generator steps, and the number of last steps in which the learning rate falls."""
        return self.steps, self.fall

    def fit(
        self, config: Any, schema: Schema, vault: Measurements, plan: Plan, seed: int | None, device: str,
        progress: Progress,
    ) -> Arrays:  # fmt: skip
        """Fit the generator. Return its tensors and the noisy histograms that encode and decode its rows."""
        maps = {name: grid(column, GRID_CELLS) for name, column in schema.columns.items()}
        counts = vault.measure_histograms(ONE_WAY, maps)
        std = plan.noise(ONE_WAY) * math.sqrt(len(maps))
        totals = [NoisyTotal.of(found, std) for found in counts.values()]
        plan = plan.used_on(round(likely_rows(plan.rows, totals, plan.rows_std)))
        rows = EncodedRows.of(schema, counts, plan.rows)
        target = schema.target or ""
        (classes,) = vault.measure_histograms(CLASSES, {target: rows.condition}).values()
        classes = without_spurious_missing(classes, schema.columns.get(target), plan.noise(CLASSES))
        prior = cleaned(classes, plan.rows)
        stream = numpy_stream(seed, "features")
        embed = Embedding(rows, config.features, config.phase, config.spread, config.clip, stream, device)
        lot = config.sampling_rate(plan.equivalent_rows) * plan.rows
        expected = torch.tensor(prior * config.terms(lot), dtype=torch.float32, device=device).clamp(min=1e-3)
        noise = plan.noise(self.label) * config.clip * (1 if config.microbatches is None else 2)
        critic = LinearCritic(embed, expected, config.clip, config.microbatches, noise, self.label)
        net = self._follow(critic, rows, vault, config, seed, progress)
        tensors = {f"generator.{k}": t.cpu().numpy() for k, t in enumerate(net)}
        tensors |= {f"histogram.{name}": count.astype(np.float32) for name, count in counts.items()}
        return {**tensors, "prior": prior.astype(np.float32), COUNTED_ROWS: np.array([plan.rows], np.float32)}

    def _follow(
        self, critic: LinearCritic, rows: EncodedRows, vault: Measurements, config: Any, seed: int | None,
        progress: Progress,
    ) -> list[Tensor]:  # fmt: skip
        """Train a generator against a critic that measures all planned lots. Return the averaged weights."""
        device = str(critic.expected.device)
        classes = rows.condition.classes
        net = _network(rows, torch_stream(seed, "init")).to(device)
        list(net.parameters())[-1].data.copy_(rows.start_bias())
        averaged = AveragedWeights(net, AVERAGING_DECAY)
        adam = torch.optim.Adam(net.parameters(), LEARNING_RATE, betas=(0.5, 0.9))
        latent = torch_stream(seed, "latent", device)
        (steps, fall) = self.length(config)
        for step in range(steps):
            # Measure noised lots until the planned ones are used up.
            for _ in range(min(self.critic_steps, config.lots - critic.lots)):
                critic.measure(vault)
            # Generator step: Adam on the distance between class means, over all classes.
            labels = torch.arange(BATCH, device=device) % classes
            fake = critic.embed.clipped(rows.harden(_forward(net, labels, classes, latent), latent))
            loss = critic.generator_loss(fake, labels)
            for group in adam.param_groups:
                group["lr"] = LEARNING_RATE * min(1.0, (steps - step) / fall)
            adam.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            adam.step()
            averaged.update()
            progress(step + 1, steps)
        return averaged.values

    def generate(self, tensors: Arrays, config: Any, schema: Schema, rows: int, count: int, seed: int | None) -> Codes:
        """Draw `count` synthetic rows as codes, (count, columns): classes by their noisy shares, then the generator."""
        counts = {name: tensors[f"histogram.{name}"].astype(np.float64) for name in schema.names}
        encoded = EncodedRows.of(schema, counts, float(tensors.get(COUNTED_ROWS, [rows])[0]))
        net = _network(encoded, torch_stream(0, "init"))
        restore(net, tensors)
        rng = numpy_stream(seed, "sample")
        latent = torch_stream(seed, "sample")
        prior = tensors["prior"].astype(np.float64)
        labels = rng.choice(len(prior), count, p=prior / prior.sum())
        chunks = []
        for chosen in np.array_split(labels, max(1, count // 65536)):
            with torch.no_grad():
                raw = _forward(net, torch.from_numpy(chosen), len(prior), latent)
                chunks.append(encoded.decode(encoded.harden(raw, latent), chosen, rng))
        return np.concatenate(chunks)


def restore(net: Mlp, tensors: Arrays) -> None:
    """Load a generator's weights from a model's tensors."""
    with torch.no_grad():
        for k, p in enumerate(net.parameters()):
            p.copy_(torch.from_numpy(tensors[f"generator.{k}"]))


def _network(rows: EncodedRows, stream: torch.Generator) -> Mlp:
    return Mlp([LATENT + rows.condition.classes, WIDTH, WIDTH, rows.encode.width], "leaky_relu", stream)


def _forward(net: Mlp, labels: Tensor, classes: int, stream: torch.Generator) -> Tensor:
    latent = torch.randn(len(labels), LATENT, generator=stream, device=labels.device)
    hot = torch.nn.functional.one_hot(labels, classes).to(latent)
    result: Tensor = net(torch.cat([latent, hot], 1))
    return result
