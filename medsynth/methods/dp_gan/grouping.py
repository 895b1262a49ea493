"""Which of a critic's parameters are clipped together, and to which norms.

Groups after Zhang, Ji, Wang 2018, section 4: weights apart from biases, or parameters of like gradients together.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

from ...privacy.networks import Mlp

Grouping = Literal["global", "weight-bias", "clustered"]
BoundRule = Literal["fixed", "quantile"]
GROUP_COUNTS: dict[str, int] = {"global": 1, "weight-bias": 2, "clustered": 3}
LLOYD_ROUNDS = 20
TARGET_QUANTILE, QUANTILE_STEP = 0.5, 0.3  # the share of rows below a clipping norm, and the step towards it


def groups_of(kind: Grouping, critic: Mlp, gradients: Tensor) -> Tensor:
    """The group of each parameter, (parameters,).

    `gradients`, (rows, parameters), are of public or generated rows: they decide which parameters are alike.
    """
    if kind == "clustered":
        return _clusters(gradients.square().mean(0).sqrt().clamp(min=1e-12).log(), GROUP_COUNTS[kind])
    parts = [torch.full((p.numel(),), int(kind == "weight-bias" and p.dim() == 1)) for p in critic.parameters()]
    return torch.cat(parts).to(gradients.device)


def _clusters(values: Tensor, count: int) -> Tensor:
    """Lloyd's algorithm on a line, from evenly spaced quantiles: the cluster of each of `values`."""
    centres = values.quantile((torch.arange(count).to(values) + 0.5) / count)
    for _ in range(LLOYD_ROUNDS):
        own = (values[:, None] - centres).abs().argmin(1)
        for j in range(count):
            if (own == j).any():
                centres[j] = values[own == j].mean()
    return (values[:, None] - centres).abs().argmin(1)


def next_bounds(bounds: tuple[float, ...], below: list[float]) -> tuple[float, ...]:
    """The clipping norms after a measured quantile, by a geometric step (Andrew et al. 2021, algorithm 1).

    `below`: the noised share of rows whose norm is below each bound.
    """
    return tuple(
        bound * math.exp(-QUANTILE_STEP * (min(1.0, max(0.0, share)) - TARGET_QUANTILE))
        for bound, share in zip(bounds, below, strict=True)
    )
