"""Adam for losses without sampling."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

# Nothing is sampled, and gradients shrink by orders of magnitude: squares are forgotten as fast as means.
DECAY, SQUARED_DECAY, SMALL = 0.95, 0.95, 1e-8


class Adam:
    """Adam (Kingma and Ba 2015, algorithm 1). Merely making PyTorch's own imports its compiler, for seconds."""

    def __init__(self, parameters: Sequence[Tensor]) -> None:
        self._parameters, self._steps = list(parameters), 0
        self._moments = [(torch.zeros_like(p), torch.zeros_like(p)) for p in self._parameters]

    def step(self, loss: Tensor, rate: float, precision: float = 0.0) -> None:
        """Move the parameters down the gradient of `loss` and of `precision` / 2 times their sum of squares."""
        gradients = torch.autograd.grad(loss, self._parameters)
        self._steps += 1
        rate *= math.sqrt(1 - SQUARED_DECAY**self._steps) / (1 - DECAY**self._steps)
        with torch.no_grad():
            for parameter, gradient, (mean, square) in zip(self._parameters, gradients, self._moments, strict=True):
                gradient = gradient.add(parameter, alpha=precision)
                mean.lerp_(gradient, 1 - DECAY)
                square.mul_(SQUARED_DECAY).addcmul_(gradient, gradient, value=1 - SQUARED_DECAY)
                parameter.addcdiv_(mean, square.sqrt().add_(SMALL), value=-rate)
