"""The only place that draws privacy noise: system bytes, Box-Muller in float64, four draws, a public grid."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ..rng import Entropy, NoNoise

Floats = NDArray[np.float64]
GRID_BITS = 16  # releases are whole multiples of 2^-16 of the noise's own scale


def _uniform(count: int, entropy: Entropy) -> Floats:
    """`count` uniforms in (0, 1], with 53 bits each."""
    bits = np.frombuffer(entropy.bytes(8 * count), dtype=np.uint64) >> np.uint64(11)
    return np.asarray((bits.astype(np.float64) + 1) * 2.0**-53)


def gaussian(shape: tuple[int, ...], std: float, entropy: Entropy) -> Floats:
    """Independent normal draws of standard deviation `std`.

    Each is half the sum of four Box-Muller draws, which hides the floating-point gaps of a single one
    (Holohan and Braghin 2021). Costs 32 bytes of entropy a draw.
    """
    count = math.prod(shape)
    radius = np.sqrt(-2 * np.log(_uniform(2 * count, entropy)))
    angle = 2 * np.pi * _uniform(2 * count, entropy)
    draws = np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])
    return np.asarray(draws.reshape(4, count).sum(axis=0).reshape(shape) * (std / 2))


def noised(values: Floats, std: float, entropy: Entropy) -> Floats:
    """`values` with Gaussian noise, rounded to a public grid that depends on `std` alone.

    Rounding after the noise is post-processing; it removes the low-order bits that reveal an unrounded sum
    (Mironov 2012). Under `NoNoise` they come back as they are, and the ledger makes no claim.
    """
    if isinstance(entropy, NoNoise):
        return values
    step = 2.0 ** (math.floor(math.log2(std)) - GRID_BITS)
    return np.asarray(np.round((values + gaussian(values.shape, std, entropy)) / step) * step)
