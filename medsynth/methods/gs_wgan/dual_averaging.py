"""A generator's steps behind loud noise: dual averaging that moves only what stands out of its own noise.

Regularised dual averaging with an l1 term and Adagrad's scale (Xiao 2010; Duchi, Hazan, Singer 2011): a parameter's
place follows from the sum of all its gradients so far. Where these are mostly independent noise their sum is about
normal with the root of the sum of their squares as deviation; so much, times `sure`, is taken off it. What was learned
once is kept, where a plain step would wander off by the noise of every answer.
"""

from __future__ import annotations

import torch
from torch import Tensor


class Quiet:
    """The steps of one parameter, from its `grad`. All of this is public: it reads sanitised gradients alone."""

    def __init__(self, parameter: Tensor, rate: float, sure: float) -> None:
        self._at, self._rate, self._sure = parameter, rate, sure
        self._start = parameter.detach().clone()
        self._sum, self._squares, self._heard = torch.zeros_like(self._start), torch.zeros_like(self._start), 0

    def hear(self) -> None:
        """Take up a gradient, and clear it."""
        if self._at.grad is not None:
            self._sum += self._at.grad
            self._squares += self._at.grad.square()
            self._heard += 1
            self._at.grad = None

    def step(self) -> None:
        """Go where all gradients so far point, less their noise: `rate` times a root of the answers heard at most."""
        if not self._heard:
            return
        noise = self._squares.sqrt()
        sure = (self._sum.abs() - self._sure * noise).clamp(min=0) * self._sum.sign()
        with torch.no_grad():
            self._at.copy_(self._start - self._rate * self._heard**0.5 * sure / noise.clamp(min=1e-12))
