"""Privacy noise on the device where a sum is: the tries, the margin and the law of `noise.py`, number by number.

The bits are ChaCha20's, and each batch of tries has a key of its own from the fit's entropy, so that no block is used
twice. Floating-point numbers decide clear cases. The other tries, about one in thirty million, and roundings that 64
digits leave open are finished on the CPU by `noise.py`. Per batch the host waits once, for the number of draws. The
law and the sampler: docs/proofs/noise.md.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from ..errors import BudgetError
from ..rng import Entropy, NoNoise
from . import noise
from .chacha import BLOCK_WORDS, KEY_BYTES, keystream

WORD, MASK = 32, (1 << 32) - 1
MOST_TRIES = 1 << 22  # At once: each needs some 150 bytes of memory for its digits and what is computed from them.
TRY_BYTES = 13  # Bytes of a try: one for sign and whole part, four for the level, eight for the fraction.
STEP = 64  # A batch's tries are a multiple of it, so that their bytes are whole blocks.


def noised_tensors(values: Sequence[Tensor], std: float, entropy: Entropy) -> list[Tensor]:
    """Return tensors of whole numbers with normal noise of `std`, as `noise.noised`, on their device.

    One draw supplies the noise of all tensors. Raises BudgetError for values that are not stored as integers.
    """
    if any(value.dtype != torch.int64 for value in values):
        raise BudgetError("Noise can only be added to whole numbers.")
    if isinstance(entropy, NoNoise):
        return [value.double() for value in values]
    steps, scale = noise.noise_grid(std)
    sizes = [value.numel() for value in values]
    drawn = torch.split(rounded_normal_on(values[0].device, sum(sizes), scale, entropy), sizes)
    return [(v * steps + own.reshape(v.shape)).double() / steps for v, own in zip(values, drawn, strict=True)]


def rounded_normal_on(device: torch.device, count: int, scale: int, entropy: Entropy) -> Tensor:
    """Return `count` independent draws as `noise.rounded_normal`, on a device: (count,).

    Raises BudgetError for a scale below 1 or above 2^56.
    """
    if not 1 <= scale <= noise.LARGEST_SCALE:
        raise BudgetError("The noise is too large for the grid of its values.")
    found = list[Tensor]()
    done = 0
    while done < count:
        found.append(_drawn(_tries_for(count - done), scale, entropy, device)[: count - done])
        done += len(found[-1])
    return torch.cat([torch.empty(0, dtype=torch.int64, device=device), *found])


def _tries_for(count: int) -> int:
    """Return tries of which fewer than `count` are kept with a chance below 1e-20, if one batch can hold them."""
    tries = 2 * count + 16 * math.isqrt(count) + STEP
    return min(MOST_TRIES, tries + -tries % STEP)


@functools.cache
def _tables(device: torch.device) -> Tensor:
    """Return the whole part and the factor of the chance by a try's first byte: (2, 256)."""
    return torch.from_numpy(np.stack([noise.WHOLE, noise.TOP])).to(device)


def _drawn(tries: int, scale: int, entropy: Entropy, device: torch.device) -> Tensor:
    """Return the draws that this number of tries, a multiple of 64, yields in their order, as `noise._drawn`."""
    stream = keystream(entropy.bytes(KEY_BYTES), TRY_BYTES * tries // (4 * BLOCK_WORDS), device)
    first, level, fraction = torch.split(stream, [tries // 4, tries, 2 * tries])
    coin = first.view(torch.uint8)
    low, high = fraction.reshape(tries, 2).long().bitwise_and_(MASK).unbind(1)
    whole, top = _tables(device)[:, coin.long()]
    # Whole numbers times a Python number would be of 32 bits, which is too coarse for the margin.
    y = high.double() * 2.0**-32 + low.double() * 2.0**-64 + whole
    margin = torch.exp(y * y * -0.5) * top - (level.long() & MASK).double() * 2.0**-32
    kept = margin > noise.CLEAR
    size, open_ends = _scaled(high, low, scale)
    size += whole.long() * scale
    size = torch.where(coin > 127, -size, size)
    unsettled = (margin.abs() <= noise.CLEAR) | (kept & open_ends)
    count, several = torch.stack([kept.sum(), unsettled.sum()]).tolist()
    if several:
        _settle(unsettled.nonzero()[:, 0], (coin, level, fraction.reshape(tries, 2)), scale, entropy, kept, size)
        count = int(kept.sum())
    place = torch.where(kept, kept.cumsum(0) - 1, count)  # Tries that are not kept have the last place, which is cut.
    return size.new_empty(count + 1).scatter_(0, place, size)[:count]


def _scaled(high: Tensor, low: Tensor, scale: int) -> tuple[Tensor, Tensor]:
    """Return the fraction with these 64 digits times `scale`, rounded, and whether more digits could change it.

    As `noise._scaled`, in signed numbers: `_upper` reads the upper half of a product that reaches the sign.
    """
    s1, s0 = scale >> WORD, scale & MASK
    crossed, other = high * s0, low * s1
    middle = _upper(low * s0) + (crossed & MASK) + (other & MASK)
    whole = high * s1 + _upper(crossed) + (other >> WORD) + (middle >> WORD)
    part = middle & MASK  # Of the product's fraction, in 2^-32, rounded down.
    up = part >= 1 << 31
    return whole + up, ~up & (part + s1 + 2 >= 1 << 31)


def _upper(product: Tensor) -> Tensor:
    """Return the upper 32 of 64 bits without a sign."""
    return (product >> WORD) & MASK


def _settle(
    which: Tensor, bits: Sequence[Tensor], scale: int, entropy: Entropy, kept: Tensor, size: Tensor
) -> None:  # fmt: skip
    """Finish tries on the CPU. Write into `kept` whether each is kept, and into `size` its draw."""
    of_each = [part[which].cpu().numpy() for part in bits]
    for k, place in enumerate(which.tolist()):
        draws = noise._drawn(1, scale, _Begun([part[k].tobytes() for part in of_each], entropy))
        kept[place] = bool(len(draws))
        size[place] = int(draws.sum())


class _Begun:
    """Entropy that begins with the bits of one try and continues with a fit's."""

    def __init__(self, bits: list[bytes], rest: Entropy) -> None:
        self._bits, self._rest, self.source = bits, rest, rest.source

    def bytes(self, count: int) -> bytes:
        """Return the next of the try's bits, or the fit's random bytes."""
        return self._bits.pop(0) if self._bits else self._rest.bytes(count)
