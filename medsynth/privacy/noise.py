"""The only place that adds privacy noise: whole numbers to whole numbers, on a public grid, by an exact law."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from ..errors import BudgetError
from ..rng import Entropy, NoNoise
from .exact.normal import rounded_normal

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
GRID_BITS = 16  # releases are whole multiples of 2^-16 of the noise's own scale, or finer
FINEST_BITS = 20  # but of no less than 2^-20: so many bits are left to whole numbers below 2^42
MEAN_SIZE = math.sqrt(2 / math.pi)  # of a normal variable, in standard deviations


def noise_grid(std: float) -> tuple[int, int]:
    """The grid of releases with noise of `std`: steps in one, a power of two, and standard deviation in steps.

    The latter is rounded up, past the last bits of `std`: the noise is never less than what is charged.
    """
    bits = min(max(GRID_BITS - math.frexp(std)[1] + 1, 0), FINEST_BITS)
    return 1 << bits, math.floor(math.ldexp(std, bits) * (1 + 2.0**-40)) + 1


def rarely_exceeded(std: float, chance: float) -> float:
    """A number that noise of `std`, as it is rounded and drawn, exceeds with at most this `chance`."""
    steps, scale = noise_grid(std)
    return (-float(ndtri(chance)) * scale + 1) / steps


def noised(values: Integers, std: float, entropy: Entropy) -> Floats:
    """Whole numbers with normal noise of `std`, both as whole multiples of a public step that divides one.

    The noise is a normal variable rounded to that grid, and `values` lie on it: the release is what rounding makes of
    a Gaussian measurement, so post-processing. Which numbers can come out does not depend on the rows (Mironov 2012).
    Under `NoNoise` `values` come back as they are, and the ledger makes no claim. Raises BudgetError for values that
    are not stored as integers.
    """
    if values.dtype != np.int64:
        raise BudgetError("Noise is added to whole numbers alone.")
    if isinstance(entropy, NoNoise):
        return values.astype(np.float64)
    steps, scale = noise_grid(std)
    noise = rounded_normal(values.size, scale, entropy).reshape(values.shape)
    return (values * steps + noise) / steps


def noise_share(values: Integers, std: float, honest: int, entropy: Entropy) -> Integers:
    """Whole numbers with a share of noise of `std`, in steps of a public grid: what several vaults' answers add up of.

    Each share is a normal variable rounded to the grid, of variance 1/honest of that asked for, or a little more. Any
    `honest` of them add up to nearly the law of a rounded normal variable of all of it: `shares_distance` says how
    nearly. Under `NoNoise` nothing is added.
    """
    steps, scale = noise_grid(std / math.sqrt(honest))
    share = 0 if isinstance(entropy, NoNoise) else rounded_normal(values.size, scale, entropy).reshape(values.shape)
    return values * steps + share


def shares_distance(scale: float, shares: int) -> float:
    """A bound on the total variation between so many rounded normal variables' sum and a normal one rounded once.

    `scale`: the standard deviation of each, in steps, at least 1,024. The other normal variable has at least the
    variance of all together before they were rounded (docs/proofs/secure-sums.md).
    """
    return (shares - 1) * 1.5e-3 / (shares * scale**2) ** 2 + 1e-32
