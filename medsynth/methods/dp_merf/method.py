"""DP-MERF: the mean embedding of rows and classes in random Fourier features, noised once; then free training.

Harder, Adamczewski, Park 2020 ("DP-MERF: Differentially private mean embeddings with random features for practical
privacy-preserving data generation"). A row's embedding is its random features in the place of its class: the product
of the paper's features of the row and of its one-hot class. Its norm is one, so the sum over rows has sensitivity one,
and one Gaussian measurement of it is all that the generator's training, of any length, ever reads.

Differences, with their reasons in docs/methods/dp-merf.md: frequencies are scaled by noisy marginals and not by the
rows' median distance; classes are drawn by noisy shares; each class's distance weighs by its signal over its noise.
"""

from __future__ import annotations

import numpy as np
import torch
from pydantic import Field

from ...privacy.accounting.calibration import Plan, Query
from ...privacy.queries.measurements import Measurements
from ...rng import numpy_stream
from ...row_count import COUNTED_ROWS
from ...schema import Schema
from ..dp_cgan.encoded_rows import EncodedRows
from ..dp_cgan.generator import class_shares, measured_histograms, train_generator
from ..dp_cgan.generator import generate as generate
from ..dp_cgan.linear_critic import LinearCritic
from ..dp_cgan.random_features import Embedding
from ..protocol import Arrays, Progress
from ..settings import Count, MethodConfig, Positive, Share
from ..shared.labels import CLASSES, ONE_WAY

EMBEDDING = "mean embedding"
NORM = 1.0  # of a row's embedding, exactly: clipping at it changes nothing


class Config(MethodConfig):
    """Privacy parameters. Shares are of the privacy loss; the mean embedding takes the rest."""

    features: Count = Field(default=1000, description="random Fourier features, half sines and half cosines")
    phase: Positive = Field(default=2.0, description="radians between two rows, on average")
    spread: Positive = Field(default=0.7, description="range of the frequencies' logarithm, both ways")
    histogram_share: Share = Field(default=0.15, description="share of the one-way marginals")
    class_share: Share = Field(default=0.05, description="share of the class marginal")
    steps: Count = Field(default=1500, description="steps of the generator, which cost time and no privacy")


def queries(config: Config, rows: int, columns: int, epsilon: float) -> list[Query]:
    """One-way marginals, the class marginal, and the mean embedding, once."""
    shares = {ONE_WAY: config.histogram_share, CLASSES: config.class_share}
    shares[EMBEDDING] = 1 - sum(shares.values())
    return [Query(label=label, weight=share**-0.5) for label, share in shares.items()]


def notes(config: Config, rows: int, columns: int, epsilon: float) -> list[str]:
    """Notes on the plan, for a person: none."""
    return []


def train(
    config: Config, schema: Schema, vault: Measurements, plan: Plan, seed: int | None, device: str, progress: Progress
) -> Arrays:
    """Fit the generator. Returns its tensors and the noisy histograms that encode and decode its rows."""
    counts, plan = measured_histograms(schema, vault, plan)
    rows = EncodedRows.of(schema, counts, plan.rows)
    prior = class_shares(schema, rows, vault, plan)
    stream = numpy_stream(seed, "features")
    embed = Embedding(rows, config.features, config.phase, config.spread, NORM, stream, device)
    expected = torch.tensor(prior * plan.rows, dtype=torch.float32, device=device).clamp(min=1e-3)
    mean = LinearCritic(embed, expected, NORM, None, plan.noise(EMBEDDING) * NORM, EMBEDDING)
    mean.measure(vault)  # equation 7: the only look at rows beside the marginals
    net = train_generator(rows, mean, seed, config.steps, config.steps, lambda step: None, progress)
    tensors = {f"generator.{k}": t.cpu().numpy() for k, t in enumerate(net)}
    tensors |= {f"histogram.{name}": count.astype("float32") for name, count in counts.items()}
    return {**tensors, "prior": prior.astype("float32"), COUNTED_ROWS: np.array([plan.rows], np.float32)}
