"""The networks: plain stacks of linear layers, so that clipped per-row gradients have a closed form. No batch norm."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "leaky_relu": lambda x: nn.functional.leaky_relu(x, 0.2),
    "tanh": torch.tanh,
}


class Mlp(nn.Module):
    """Linear layers of widths `sizes` with a pointwise activation between them and none after the last.

    Weights start uniform in +-1/sqrt(fan_in), drawn from `generator`.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        activation: str = "relu",
        generator: torch.Generator | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.activation = activation
        self.layers = nn.ModuleList(nn.Linear(a, b, bias=bias) for a, b in zip(sizes, sizes[1:], strict=False))
        with torch.no_grad():
            for layer, fan_in in zip(self.layers, sizes, strict=False):
                for parameter in layer.parameters():
                    parameter.uniform_(-(fan_in**-0.5), fan_in**-0.5, generator=generator)

    def activate(self, x: Tensor) -> Tensor:
        """The pointwise activation."""
        return ACTIVATIONS[self.activation](x)

    def forward(self, x: Tensor) -> Tensor:
        """(rows, sizes[0]) to (rows, sizes[-1])."""
        for layer in self.layers[:-1]:
            x = self.activate(layer(x))
        result: Tensor = self.layers[-1](x)
        return result
