"""Clipped gradient sums of networks of linear layers, in closed form, with their sensitivity.

The gradient of one row at a linear layer is the outer product of the loss gradient d at its output and its input
a, so its squared norm is |d|^2 (|a|^2 + 1) with the bias, and a weighted sum over rows is one matrix product. No
per-row gradient is ever formed (Goodfellow 2015; Bu et al. 2023). Holds for one use of each layer per row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ..errors import BudgetError
from .networks import Mlp

Loss = Callable[[Tensor], Tensor]  # critic outputs (rows, 1) to losses (rows,), each row's from its own output


@dataclass(frozen=True)
class ClippedSum:
    """A sum over rows, one tensor a parameter, and its L2 sensitivity to one row's presence."""

    tensors: tuple[Tensor, ...]
    l2: float


@dataclass(frozen=True)
class _Recorded:
    """Inputs a and output gradients d of each linear layer, both (rows, features)."""

    inputs: list[Tensor]
    grads: list[Tensor]
    bias: bool

    def weighted(self, weights: Tensor) -> tuple[Tensor, ...]:
        """The sum of per-row gradients, row i times weights[i]; tensors in the order of `critic.parameters()`."""
        parts: list[Tensor] = []
        for a, d in zip(self.inputs, self.grads, strict=True):
            scaled = weights[:, None] * d
            parts.append(scaled.T @ a)
            if self.bias:
                parts.append(scaled.sum(0))
        return tuple(parts)

    def norms(self) -> Tensor:
        """Each row's gradient norm over all parameters, shape (rows,)."""
        squares = [
            d.square().sum(1) * (a.square().sum(1) + float(self.bias))
            for a, d in zip(self.inputs, self.grads, strict=True)
        ]
        return torch.stack(squares).sum(0).sqrt()

    def group_norms(self, groups: Tensor, count: int) -> Tensor:
        """Norm of each group's summed gradient: the sum over its pairs i, j of (d_i.d_j)(a_i.a_j + 1)."""
        gram = torch.stack(
            [(d @ d.T) * (a @ a.T + float(self.bias)) for a, d in zip(self.inputs, self.grads, strict=True)]
        ).sum(0)
        same = groups[:, None] == groups[None, :]
        squares = gram.new_zeros(count).index_add(0, groups, (gram * same).sum(1))
        return squares.clamp(min=0).sqrt()


def _record(critic: Mlp, loss: Loss, rows: Tensor) -> _Recorded:
    """One forward and one backward pass that keep each layer's input and output gradient; bad rows become zero."""
    finite = torch.isfinite(rows).all(1)
    x = torch.where(finite[:, None], rows, 0.0)
    inputs, outputs = [], []
    with torch.enable_grad():
        for k, layer in enumerate(critic.layers):
            x = critic.activate(x) if k else x
            inputs.append(x.detach())
            x = layer(x)
            outputs.append(x)
        grads = torch.autograd.grad(loss(x).sum(), outputs)
    bias = critic.layers[0].bias is not None
    good = finite & torch.stack([torch.isfinite(d).all(1) for d in grads]).all(0)
    return _Recorded(inputs, [torch.where(good[:, None], d, 0.0) for d in grads], bias)


def factors(norms: Tensor, bound: float) -> Tensor:
    """min(1, bound / norm), with a margin so that rounding cannot lift a row over the bound; 0 for an infinite norm."""
    found = (bound * (1 - 1e-6) / norms.clamp(min=1e-30)).clamp(max=1.0)
    return torch.where(torch.isfinite(norms), found, 0.0)


def clipped_gradient_sum(
    critic: Mlp, loss: Loss, rows: Tensor, bound: float, groups: Tensor | None = None, group_count: int = 0
) -> ClippedSum:
    """The sum of per-row gradients of `loss(critic(rows))`, each clipped to `bound`.

    rows: (rows, features). With `groups`, (rows,) numbers below `group_count`, it is the sum over groups of
    the clipped *mean* gradient of the group's rows. Returns one tensor a parameter, in the order of
    `critic.parameters()`. Sensitivity: `bound` per row; twice that per group, since one row more can
    reverse a clipped mean. Raises BudgetError unless `bound` is positive.
    """
    if not bound > 0:
        raise BudgetError("The clipping norm must be positive.")
    recorded = _record(critic, loss, rows)
    if groups is None:
        return ClippedSum(recorded.weighted(factors(recorded.norms(), bound)), bound)
    sizes = torch.bincount(groups, minlength=group_count).clamp(min=1).to(rows.dtype)
    weights = factors(recorded.group_norms(groups, group_count) / sizes, bound) / sizes
    return ClippedSum(recorded.weighted(weights[groups]), 2 * bound)
