"""Which of a critic's parameters are clipped together, and to what: by public rows, released rows or noised answers.

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
COUNTS: dict[str, int] = {"global": 1, "weight-bias": 2, "clustered": 3}
ROUNDS = 20  # of Lloyd's algorithm
GOAL, SPEED = 0.5, 0.3  # the share of rows that a bound should leave whole, and how fast it moves there


def groups_of(kind: Grouping, critic: Mlp, gradients: Tensor) -> Tensor:
    """The group of each parameter, (parameters,).

    `gradients`, (rows, parameters), are of public or released rows: they tell which parameters have like ones.
    """
    if kind == "clustered":
        return _clusters(gradients.square().mean(0).sqrt().clamp(min=1e-12).log(), COUNTS[kind])
    parts = [torch.full((p.numel(),), int(kind == "weight-bias" and p.dim() == 1)) for p in critic.parameters()]
    return torch.cat(parts).to(gradients.device)


def _clusters(values: Tensor, count: int) -> Tensor:
    """Lloyd's algorithm on a line, from evenly spaced quantiles: the cluster of each of `values`."""
    centres = values.quantile((torch.arange(count, device=values.device) + 0.5) / count)
    for _ in range(ROUNDS):
        own = (values[:, None] - centres).abs().argmin(1)
        for j in range(count):
            if (own == j).any():
                centres[j] = values[own == j].mean()
    return (values[:, None] - centres).abs().argmin(1)


def moved(bounds: tuple[float, ...], kept: list[float]) -> tuple[float, ...]:
    """The bounds after a noised answer, by a geometric step (Andrew et al. 2021, algorithm 1).

    `kept`: the noised share of rows that each bound leaves whole.
    """
    return tuple(
        bound * math.exp(-SPEED * (min(1.0, max(0.0, share)) - GOAL)) for bound, share in zip(bounds, kept, strict=True)
    )
