"""Networks as plain stacks of linear layers, so that clipped per-row gradients have a closed form. No batch norm."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn


def tanh(x: Tensor) -> Tensor:
    """Return the hyperbolic tangent to 1e-7 by operations that IEEE 754 rounds alike everywhere.

    A vectorised `torch.tanh` may round the last bit by a number's position in the batch. This uses Lambert's fraction
    of x / 16, and then tanh(2 t) = 2 tanh(t) / (1 + tanh(t)^2) four times.
    """
    part = x.clamp(-12, 12) / 16
    square = part * part
    found = part * (945 + square * (105 + square)) / (945 + square * (420 + square * 15))
    for _ in range(4):
        found = 2 * found / (1 + found * found)
    return found


# Each is computed number by number, so a row's batch does not matter.
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "leaky_relu": lambda x: nn.functional.leaky_relu(x, 0.2),
    "tanh": tanh,
}
# The derivative of each, from its value.
SLOPES: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.sign,
    "leaky_relu": lambda y: torch.sign(y).clamp(min=0.2),
    "tanh": lambda y: 1 - y * y,
}


def in_blocks(rows: Tensor, hot: Tensor) -> Tensor:
    """Place each row in the block of its class, (..., width) to (..., classes * width), zero elsewhere.

    hot: indicators of the classes, (..., classes). So a network has separate first weights for each class.
    """
    return (hot[..., None] * rows[..., None, :]).flatten(-2)


class Mlp(nn.Module):
    """Linear layers of widths `sizes`, with a pointwise activation between them and none after the last.

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
        """Apply the pointwise activation."""
        return ACTIVATIONS[self.activation](x)

    def hidden(self, x: Tensor) -> Tensor:
        """Return the input of the last layer: (rows, sizes[0]) to (rows, sizes[-2])."""
        for layer in self.layers[:-1]:
            x = self.activate(layer(x))
        return x

    def of_class(self, number: int, classes: int) -> Mlp:
        """Return the network as rows of one class use it, with the same weights in memory.

        Of the first layer's inputs, such rows have the block of their class (`in_blocks`).
        """
        first, *others = self.layers
        assert isinstance(first, nn.Linear)
        width = first.in_features // classes
        own = nn.Linear(width, first.out_features, device="meta")
        own.weight = nn.Parameter(first.weight.detach()[:, number * width : (number + 1) * width])
        own.register_parameter("bias", first.bias)
        found = Mlp([], self.activation)
        found.layers = nn.ModuleList([own, *others])
        return found

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs: (rows, sizes[0]) to (rows, sizes[-1])."""
        result: Tensor = self.layers[-1](self.hidden(x))
        return result
