"""Products and sums of whole numbers that fit in 53 or 64 bits, so that no order of summation changes them.

Floating-point numbers represent whole numbers below 2^53 exactly. Their products and sums are exact too while they stay
below it: on a CPU and a GPU, and in any order of a matrix product. Inputs of such a product are first rounded to a
public grid. All other operations are additions, multiplications, divisions and square roots of single numbers, which
IEEE 754 rounds alike everywhere. So the result for a row depends on that row only, whatever other rows there are.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

INPUT_BITS, INPUT_MOST = 20, 64  # Grid and largest size of numbers that are multiplied by weights.
WEIGHT_BITS = 52 - INPUT_BITS - INPUT_MOST.bit_length()  # Largest number of bits of a sum of weights' sizes.
WEIGHT_MOST = 1024.0  # Largest size of a weight.
WORD = 32  # Bits of the lower word of a long sum.
NORM_BITS = 30  # Bits of the numbers whose squares a norm adds.


def on_grid(x: Tensor, bits: int, most: int) -> Tensor:
    """Return `x` in units of 2^-bits, each rounded to the nearest whole number between -most and most."""
    return (x * 2.0**bits).round_().clamp_(-most, most)


def sums_scale(weights: Tensor) -> Tensor:
    """Return the scale of `weights`, (inputs, outputs), at which products with inputs on the grid stay exact.

    The sizes of the weights are themselves added as whole numbers.
    """
    sizes = (weights.abs() * 2.0**INPUT_BITS).ceil().sum(-2, keepdim=True).amax(-1, keepdim=True).clamp(min=1)
    sizes = sizes * 2.0**-INPUT_BITS
    return (2.0**WEIGHT_BITS - weights.shape[-2]) / sizes


class _Product(torch.autograd.Function):
    """The product of (rows, inputs) and (inputs, outputs), both rounded to grids on which it is exact.

    Its derivatives are such products too, with the unrounded values (straight through the rounding).
    """

    @staticmethod
    def vmap(info: Any, dims: tuple[int | None, int | None], x: Tensor, weights: Tensor) -> tuple[Tensor, int]:
        """Multiply many rows at once: `forward` accepts leading dimensions."""
        own, other = (t if d is None else t.movedim(d, 0) for t, d in zip((x, weights), dims, strict=True))
        return product(own, other), 0

    @staticmethod
    def forward(x: Tensor, weights: Tensor) -> Tensor:
        if x.shape[-1] == 1:
            return x * weights
        scale = sums_scale(weights)
        whole = on_grid(x, INPUT_BITS, INPUT_MOST << INPUT_BITS)
        return whole @ (weights * scale).round() / (scale * 2.0**INPUT_BITS)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        (x, weights), (gradient,) = ctx.saved_tensors, gradients
        return product(gradient, weights.mT), product(x.mT, gradient)


def product(x: Tensor, weights: Tensor) -> Tensor:
    """Return the product of (rows, inputs) and (inputs, outputs) in float64. A row's result depends on that row only.

    `x` is rounded to 2^-20 and cut at 64. `weights` are public, except in the outer product of a single row.
    """
    found: Tensor = _Product.apply(x, weights)  # type: ignore[no-untyped-call]
    return found


def exact_sum(x: Tensor) -> Tensor:
    """Return the sum of `x`, (numbers,) of float64, each rounded to 2^-20 and cut at 64; differentiable."""
    return product(x[None], torch.ones_like(x)[:, None])[0, 0]


def norms(whole: Tensor) -> Tensor:
    """Return the norm of each row of whole numbers: (rows, numbers) in float64 to (rows,); infinite if not finite.

    In units of 1, or of a power of two in which the largest number of a row has 30 bits, sizes are rounded up. Their
    squares are added in two words of 64 bits. So no order of summation changes the result, and it is never too small.
    """
    if whole.is_cpu:  # A device would wait for the answer. These sums of squares are exact without words.
        total = whole.square().sum(1)
        if bool((total < 2.0**52).all()):
            return total.sqrt()
    sizes = whole.abs()
    largest = sizes.amax(1, keepdim=True)
    finite = torch.isfinite(largest)
    shift = (torch.frexp(torch.where(finite, largest, 0.0)).exponent - NORM_BITS).clamp_(min=0)
    squares = torch.where(finite, sizes * power_of_two(-shift), 0.0).ceil().long().square()
    high = (squares >> WORD).sum(1).double()
    low = (squares & ((1 << WORD) - 1)).sum(1).double()
    found = (high * 2.0**WORD + low).sqrt() * power_of_two(shift)[:, 0]
    return torch.where(finite[:, 0], found, math.inf)


def factors(norms: Tensor, bound: float) -> Tensor:
    """Return min(1, bound / norm) with a margin, so that rounding cannot exceed the bound; 0 for an infinite norm."""
    found = (bound * (1 - 1e-6) / norms.clamp(min=1e-30)).clamp(max=1.0)
    return torch.where(torch.isfinite(norms), found, 0.0)


def power_of_two(exponent: Tensor) -> Tensor:
    """Return 2 to whole numbers from -1022 to 1023 as float64, from its bits: a library's power may be rounded."""
    return (exponent.long() + 1023 << 52).view(torch.float64)


class LongSum:
    """A sum of int64 arrays in two words, which never overflows. The words of several sums add up to those of all."""

    def __init__(self, high: Tensor | int = 0, low: Tensor | int = 0) -> None:
        self._high, self._low = high, low

    def add(self, whole: Tensor) -> None:
        """Add an array of int64."""
        self._high = self._high + (whole >> WORD)
        self._low = self._low + (whole & ((1 << WORD) - 1))

    @property
    def words(self) -> tuple[Tensor, Tensor]:
        """Return the upper and the lower word of the sum of at least one array."""
        return torch.as_tensor(self._high), torch.as_tensor(self._low)

    def divided(self, bits: int) -> Tensor:
        """Return the sum divided by 2^bits, at most 2^32, rounded down."""
        return torch.as_tensor((self._high << (WORD - bits)) + (self._low >> bits))
