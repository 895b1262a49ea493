"""Many small critics in one tensor program, each with its own weights.

Wasserstein critics with gradient penalty (Gulrajani et al. 2017), or classifiers of real against generated rows.
Weights are stacked, (critics, out, in), and every product is batched over the critics, so that none depends on
another's rows, weights, gradients or moments. There is no sum over the stack but that of the losses, whose gradient at
one critic's weights is that critic's own; Adam works entry by entry. No norm layer, no global clip.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional


@dataclass(frozen=True, kw_only=True)
class CriticConfig:
    """Sizes and rates of a critic: they cost time, not privacy, for no critic is ever released."""

    width: int = 32  # of its hidden layer
    batch: int = 4  # real rows a step, and as many generated ones
    rate: float = 2e-3  # learning rate of Adam
    betas: tuple[float, float] = (0.5, 0.9)
    penalty: float = 10.0
    loss: Literal["wasserstein", "cross-entropy"] = "wasserstein"


class Critics:
    """`count` critics over rows of `inputs` numbers, with one hidden layer each.

    Weights start uniform in +-1/sqrt(fan_in), drawn from `stream`, which is private.
    """

    def __init__(self, count: int, inputs: int, config: CriticConfig, stream: torch.Generator) -> None:
        self.config, self._stream = config, stream
        sizes = [(count, config.width, inputs), (count, config.width, 1), (count, 1, config.width)]
        bounds = [inputs**-0.5, inputs**-0.5, config.width**-0.5]
        # The last layer has no bias: it would cancel in every difference and every gradient.
        self.parameters = [
            ((2 * torch.rand(size, generator=stream, device=stream.device) - 1) * bound).requires_grad_()
            for size, bound in zip(sizes, bounds, strict=True)
        ]
        self._adam = torch.optim.Adam(self.parameters, lr=config.rate, betas=config.betas)

    def __call__(self, rows: Tensor) -> Tensor:
        """(critics, rows, inputs) to (critics, rows)."""
        return scores(self.parameters, rows)

    def step(self, real: Tensor, fake: Tensor, weights: Tensor) -> None:
        """One step of every critic on its own rows: real and fake (critics, rows, inputs), weights (critics, rows).

        Row j of a critic's fakes is compared with row j of its real ones, and both are interpolated for the penalty.
        """
        if self.config.loss == "cross-entropy":
            losses = functional.softplus(-self(real)) + functional.softplus(self(fake))
        else:
            losses = self._wasserstein(real, fake, weights)
        self._adam.zero_grad()
        (weights * losses).sum().backward()  # type: ignore[no-untyped-call]
        self._adam.step()

    def _wasserstein(self, real: Tensor, fake: Tensor, weights: Tensor) -> Tensor:
        """Losses of pairs of rows with their own penalties, (critics, rows)."""
        mix = torch.rand(weights.shape, generator=self._stream, device=real.device)[..., None]
        between = (mix * real + (1 - mix) * fake).detach().requires_grad_()
        outputs = self(torch.cat([real, fake, between], 1))
        rows = real.shape[1]
        (slope,) = torch.autograd.grad(outputs[:, 2 * rows :].sum(), between, create_graph=True)
        penalty = (slope.square().sum(-1).clamp(min=1e-12).sqrt() - 1).square()
        return outputs[:, rows : 2 * rows] - outputs[:, :rows] + self.config.penalty * penalty

    def of_each(self, which: Tensor, row: Tensor) -> Tensor:
        """Outputs of the critics `which` at one row, (inputs,): (critics,)."""
        own = [p.detach()[which] for p in self.parameters]
        return scores(own, row.detach().expand(len(which), 1, -1))[:, 0]

    def generator_gradient(self, which: Tensor, rows: Tensor) -> Tensor:
        """The gradient of the generator's loss, minus the output of critic `which`, (rows,), at each of `rows`.

        rows: (rows, inputs), as are the gradients; one that is not finite becomes zero.
        """
        return self._slopes(which, rows[:, None])[:, 0]

    def generator_gradients(self, which: Tensor, rows: Tensor) -> Tensor:
        """The same of each of the critics `which`, (critics,), at all rows, (rows, inputs): (critics, rows, inputs)."""
        return self._slopes(which, rows.expand(len(which), -1, -1))

    def _slopes(self, which: Tensor, rows: Tensor) -> Tensor:
        """Gradients of minus the outputs of the critics `which` at rows of their own, (critics, rows, inputs)."""
        at = rows.detach().requires_grad_()
        own = [p.detach()[which] for p in self.parameters]
        with torch.enable_grad():
            (found,) = torch.autograd.grad(-scores(own, at).sum(), at)
        return torch.where(torch.isfinite(found).all(2, keepdim=True), found, 0.0)


def scores(parameters: list[Tensor], rows: Tensor) -> Tensor:
    """Outputs of stacked critics: (critics, rows, inputs) to (critics, rows)."""
    first, bias, last = parameters
    hidden = functional.leaky_relu(torch.baddbmm(bias.transpose(1, 2), rows, first.transpose(1, 2)), 0.2)
    return torch.bmm(hidden, last.transpose(1, 2))[..., 0]
