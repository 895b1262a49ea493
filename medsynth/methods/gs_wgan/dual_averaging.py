"""Dual averaging with a threshold: a parameter moves only as far as its gradients' sum exceeds its own noise.

Regularised dual averaging with an l1 term and Adagrad's scale (Xiao 2010; Duchi, Hazan, Singer 2011): a parameter's
value follows from the sum of all its gradients so far. Where these are mostly independent noise their sum is about
normal with the root of the sum of their squares as deviation; so much, times `threshold`, is taken off it. A plain
gradient step would add the noise of every measurement to the parameter for good.
"""

from __future__ import annotations

import torch
from torch import Tensor


class DualAveraging:
    """The steps of one parameter, from its `grad`. It reads sanitised gradients alone, which are public."""

    def __init__(self, parameter: Tensor, rate: float, threshold: float) -> None:
        self._parameter, self._rate, self._threshold = parameter, rate, threshold
        self._start = parameter.detach().clone()
        self._sum, self._squares, self._count = torch.zeros_like(self._start), torch.zeros_like(self._start), 0

    def add_gradient(self) -> None:
        """Add the parameter's gradient to the sum, and clear it."""
        if self._parameter.grad is not None:
            self._sum += self._parameter.grad
            self._squares += self._parameter.grad.square()
            self._count += 1
            self._parameter.grad = None

    def step(self) -> None:
        """Set the parameter by the sum of all gradients less its noise: at most `rate` times a root of their number."""
        if not self._count:
            return
        noise = self._squares.sqrt()
        signal = (self._sum.abs() - self._threshold * noise).clamp(min=0) * self._sum.sign()
        with torch.no_grad():
            self._parameter.copy_(self._start - self._rate * self._count**0.5 * signal / noise.clamp(min=1e-12))
