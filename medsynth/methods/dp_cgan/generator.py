"""A conditional generator of encoded rows, its training against a critic that is linear in features, and its rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...privacy.accounting.calibration import Plan
from ...privacy.networks import Mlp
from ...privacy.queries.measurements import Measurements
from ...privacy.queries.rows import Codes
from ...rng import numpy_stream, torch_stream
from ...row_count import COUNTED_ROWS, NoisyTotal, likely_rows
from ...schema import Schema
from ..protocol import Arrays, Progress
from ..shared.adversarial.networks import AveragedWeights
from ..shared.labels import CLASSES, ONE_WAY
from ..shared.marginals import cleaned, without_spurious_missing
from .encoded_rows import EncodedRows, histogram_maps
from .linear_critic import LinearCritic

LATENT, WIDTH = 16, 128  # numbers that a row is made of, beside its class; the network's hidden layers
BATCH = 512  # generated rows a step
LEARNING_RATE = 2e-3  # of Adam
AVERAGING_DECAY = 0.99


def measured_histograms(schema: Schema, vault: Measurements, plan: Plan) -> tuple[dict[str, NDArray[np.float64]], Plan]:
    """One noisy histogram a column, and the plan on so many rows as these and the declared number make likely."""
    counts = vault.measure_histograms(ONE_WAY, histogram_maps(schema))
    std = plan.noise(ONE_WAY) * math.sqrt(len(counts))
    totals = [NoisyTotal.of(found, std) for found in counts.values()]
    return counts, plan.used_on(round(likely_rows(plan.rows, totals, plan.rows_std)))


def class_shares(schema: Schema, rows: EncodedRows, vault: Measurements, plan: Plan) -> NDArray[np.float64]:
    """Noisy shares of the classes, (classes,)."""
    target = schema.target or ""
    (counts,) = vault.measure_histograms(CLASSES, {target: rows.condition}).values()
    return cleaned(without_spurious_missing(counts, schema.columns.get(target), plan.noise(CLASSES)), plan.rows)


def train_generator(
    rows: EncodedRows,
    critic: LinearCritic,
    seed: int | None,
    steps: int,
    fall: int,
    critic_step: Callable[[int], None],
    progress: Progress,
) -> list[Tensor]:
    """The averaged weights of a generator after so many steps of Adam, at a rate that falls over the last `fall`.

    `critic_step` is called before each step. Everything that is read is public or was measured.
    """
    device, classes = str(critic.expected.device), rows.condition.classes
    net = _network(rows, torch_stream(seed, "init")).to(device)
    list(net.parameters())[-1].data.copy_(rows.start_bias())
    averaged = AveragedWeights(net, AVERAGING_DECAY)
    adam = torch.optim.Adam(net.parameters(), LEARNING_RATE, betas=(0.5, 0.9))
    latent = torch_stream(seed, "latent", device)
    for step in range(steps):
        critic_step(step)
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


def generate(tensors: Arrays, config: Any, schema: Schema, rows: int, count: int, seed: int | None) -> Codes:
    """`count` synthetic rows as codes, (count, columns): classes by their noisy shares, then the generator."""
    counts = {name: tensors[f"histogram.{name}"].astype(np.float64) for name in schema.names}
    encoded = EncodedRows.of(schema, counts, float(tensors.get(COUNTED_ROWS, [rows])[0]))
    net = _network(encoded, torch_stream(0, "init"))
    with torch.no_grad():
        for k, p in enumerate(net.parameters()):
            p.copy_(torch.from_numpy(tensors[f"generator.{k}"]))
    rng, latent = numpy_stream(seed, "sample"), torch_stream(seed, "sample")
    prior = tensors["prior"].astype(np.float64)
    labels = rng.choice(len(prior), count, p=prior / prior.sum())
    chunks = []
    for chosen in np.array_split(labels, max(1, count // 65536)):
        with torch.no_grad():
            raw = _forward(net, torch.from_numpy(chosen), len(prior), latent)
            chunks.append(encoded.decode(encoded.harden(raw, latent), chosen, rng))
    return np.concatenate(chunks)


def _network(rows: EncodedRows, stream: torch.Generator) -> Mlp:
    return Mlp([LATENT + rows.condition.classes, WIDTH, WIDTH, rows.layout.width], "leaky_relu", stream)


def _forward(net: Mlp, labels: Tensor, classes: int, stream: torch.Generator) -> Tensor:
    latent = torch.randn(len(labels), LATENT, generator=stream, device=labels.device)
    hot = torch.nn.functional.one_hot(labels, classes).to(latent)
    result: Tensor = net(torch.cat([latent, hot], 1))
    return result
