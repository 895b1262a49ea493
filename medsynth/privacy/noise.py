"""The only place that adds privacy noise: whole numbers to whole numbers, on a public grid, by an exact law.

A rounded normal variable is made of random bits only (Karney 2016, ACM TOMS 42). A comparison draws as many digits as
it needs, so that no cut-off decides a tie or a rounding. Floating-point numbers decide clear cases, rational numbers
the rest. The law and the sampler: docs/proofs/noise.md.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from ..arrays import Floats, Mask, Whole
from ..errors import BudgetError
from ..rng import Entropy, NoNoise

GRID_BITS = 16  # Releases are whole multiples of 2^-16 of the noise's own scale, or finer.
FINEST_BITS = 20  # The grid is never finer than 2^-20, which leaves enough bits to whole numbers below 2^42.
LARGEST_SCALE = 1 << 56
HEIGHT = Fraction(13, 16)  # Times the largest 2^k exp(-k^2/2), 2 exp(-1/2), it is below one.
CLEAR = 2.0**-26  # Floating-point numbers decide larger differences of chances: a hundred million times their error.
MOST = 7  # The largest whole part in a byte, which means this number or more.
TRIES, SPARE = 1 << 15, 4  # Largest number of tries at once; tries beyond the expected two per draw.
MEAN_SIZE = math.sqrt(2 / math.pi)  # Mean size of a normal variable, in standard deviations.


def noise_grid(std: float) -> tuple[int, int]:
    """Return the grid of releases with noise of `std`: steps in one, a power of two, and standard deviation in steps.

    The standard deviation is rounded up beyond the last bits of `std`, so the noise is never less than what is charged.
    """
    bits = min(max(GRID_BITS - math.frexp(std)[1] + 1, 0), FINEST_BITS)
    return 1 << bits, math.floor(math.ldexp(std, bits) * (1 + 2.0**-40)) + 1


def rarely_exceeded(std: float, chance: float) -> float:
    """Return a number that noise of `std`, as it is rounded and drawn, exceeds with at most this `chance`."""
    steps, scale = noise_grid(std)
    return (-float(ndtri(chance)) * scale + 1) / steps


def noised(values: Whole, std: float, entropy: Entropy) -> Floats:
    """Return whole numbers with normal noise of `std`, as whole multiples of a public step that divides one.

    The noise is a normal variable rounded to that grid, and `values` are on it. So the release is a rounded Gaussian
    measurement, which is post-processing. The possible outputs do not depend on the rows (Mironov 2012). Under
    `NoNoise` the values do not change, and the ledger makes no claim. Raises BudgetError for values that are not stored
    as integers.
    """
    if values.dtype != np.int64:
        raise BudgetError("Noise can only be added to whole numbers.")
    if isinstance(entropy, NoNoise):
        return values.astype(np.float64)
    steps, scale = noise_grid(std)
    noise = rounded_normal(values.size, scale, entropy).reshape(values.shape)
    return (values * steps + noise) / steps


def noise_share(values: Whole, std: float, honest: int, entropy: Entropy) -> Whole:
    """Return whole numbers with a share of noise of `std`, in steps of a public grid, to be added over several vaults.

    Each share is a normal variable rounded to the grid, with 1/honest of the variance or slightly more. Any `honest` of
    them add up to nearly a rounded normal variable with all of the noise; `shares_distance` bounds the difference.
    Under `NoNoise` nothing is added.
    """
    steps, scale = noise_grid(std / math.sqrt(honest))
    share = 0 if isinstance(entropy, NoNoise) else rounded_normal(values.size, scale, entropy).reshape(values.shape)
    return values * steps + share


def shares_distance(scale: float, shares: int) -> float:
    """Return a bound on the total variation between a sum of rounded normal variables and one rounded once.

    `scale`: the standard deviation of each of the `shares`, in steps, at least 1,024. The other variable has at least
    the variance of their sum before rounding (docs/proofs/secure-sums.md).
    """
    return (shares - 1) * 1.5e-3 / (shares * scale**2) ** 2 + 1e-32


def _zeros(byte: int) -> int:
    return ((byte | 256) & -(byte | 256)).bit_length() - 1


WHOLE = np.array([_zeros(byte | 128) for byte in range(256)], np.float64)  # By a byte whose top bit is the sign.
TOP = float(HEIGHT) * 2.0**WHOLE


class Deviate:
    """A uniform number in [0, 1), of which `count` binary digits are drawn so far."""

    def __init__(self, digits: int, count: int, entropy: Entropy) -> None:
        self._digits, self._count, self._entropy = digits, count, entropy

    @property
    def low(self) -> Fraction:
        """Return the least number with these digits."""
        return Fraction(self._digits, 1 << self._count)

    @property
    def high(self) -> Fraction:
        """Return the upper limit of numbers with these digits."""
        return Fraction(self._digits + 1, 1 << self._count)

    def extend(self) -> None:
        """Draw 64 more digits."""
        self._digits = self._digits << 64 | int.from_bytes(self._entropy.bytes(8))
        self._count += 64


def rounded_normal(count: int, scale: int, entropy: Entropy) -> Whole:
    """Return `count` independent normal variables of mean 0 and standard deviation `scale`, each rounded: (count,).

    The number of random bytes depends only on the draws. Raises BudgetError for a scale below 1 or above 2^56.
    """
    if not 1 <= scale <= LARGEST_SCALE:
        raise BudgetError("The noise is too large for the grid of its values.")
    found = np.empty(count, np.int64)
    done = 0
    while done < count:
        drawn = _drawn(min(TRIES, 2 * (count - done) + SPARE), scale, entropy)[: count - done]
        found[done : done + len(drawn)] = drawn
        done += len(drawn)
    return found


def _drawn(tries: int, scale: int, entropy: Entropy) -> Whole:
    """Return the draws that this number of tries yields, in their order: about half as many.

    A try has a whole part k with chance 2^-(k+1) and a fraction x uniform in [0, 1). It is kept with chance 13/16 2^k
    exp(-(k+x)^2/2).
    """
    coin = np.frombuffer(entropy.bytes(tries), np.uint8)
    level = np.frombuffer(entropy.bytes(4 * tries), np.uint32)
    word = np.frombuffer(entropy.bytes(8 * tries), np.uint64)
    y = word * 2.0**-64
    y += WHOLE[coin]
    y *= y
    y *= -0.5
    margin = np.exp(y, out=y)
    margin *= TOP[coin]
    margin -= level * 2.0**-32
    kept = margin > CLEAR
    unclear: dict[int, tuple[int, Deviate]] = {}
    for k in np.flatnonzero(np.abs(margin) <= CLEAR).tolist():
        whole = _whole(int(coin[k]), entropy)
        x = Deviate(int(word[k]), 64, entropy)
        if accepted(whole, x, Deviate(int(level[k]), 32, entropy)):
            kept[k], unclear[k] = True, (whole, x)
    at = np.flatnonzero(kept)
    size, open_ends = _scaled(word[at], scale)
    size += WHOLE[coin[at]].astype(np.int64) * scale
    for k in {*np.flatnonzero(open_ends).tolist(), *np.searchsorted(at, [*unclear]).tolist()}:
        own = int(at[k])
        whole, x = unclear.get(own) or (int(WHOLE[coin[own]]), Deviate(int(word[own]), 64, entropy))
        size[k] = whole * scale + rounded(x, scale)
    return np.where(coin[at] >> 7, -size, size)


def _whole(byte: int, entropy: Entropy) -> int:
    """Return the whole part, with more bits if the byte's bits are all zero."""
    found = int(WHOLE[byte])
    more = int(found < MOST)
    while not more:
        more = int.from_bytes(entropy.bytes(1))
        found += _zeros(more)
    return found


def _scaled(word: NDArray[np.uint64], scale: int) -> tuple[Whole, Mask]:
    """Return the fraction with these 64 digits times `scale`, rounded, and whether more digits could change it."""
    half, mask = np.uint64(32), np.uint64(2**32 - 1)
    u1 = word >> half
    u0 = word & mask
    s1 = np.uint64(scale >> 32)
    s0 = np.uint64(scale & (2**32 - 1))
    crossed, other = u1 * s0, u0 * s1
    middle = (u0 * s0 >> half) + (crossed & mask) + (other & mask)
    whole = u1 * s1 + (crossed >> half) + (other >> half) + (middle >> half)
    part = (middle & mask).astype(np.int64)  # Of the product's fraction, in 2^-32, rounded down.
    up = part >= 1 << 31
    return whole.astype(np.int64) + up, ~up & (part + (scale >> 32) + 2 >= 1 << 31)


def accepted(whole: int, x: Deviate, level: Deviate) -> bool:
    """Return whether `level` is below 13/16 2^whole exp(-(whole + x)^2/2), with as many digits as needed."""
    while True:
        bits = 64 + x.low.denominator.bit_length()
        least = HEIGHT * 2**whole * exp_minus((whole + x.high) ** 2 / 2, bits)[0]
        most = HEIGHT * 2**whole * exp_minus((whole + x.low) ** 2 / 2, bits)[1]
        if level.high <= least or level.low >= most:
            return bool(level.high <= least)
        x.extend()
        level.extend()


def rounded(x: Deviate, scale: int) -> int:
    """Return the product of x and `scale`, rounded to the nearest whole number, with as many digits as needed."""
    while True:
        least = (x.low * scale + Fraction(1, 2)).__floor__()
        most = (x.high * scale + Fraction(1, 2)).__ceil__() - 1
        if least == most:
            return least
        x.extend()


def exp_minus(t: Fraction, bits: int) -> tuple[Fraction, Fraction]:
    """Return numbers just below and above exp(-t), for t >= 0, nearer than 2^-bits, from the series of exp(t)."""
    unit = 1 << (bits + 64)
    low, high = (_series(int(t * unit) + up, unit, up) for up in (0, 1))
    return Fraction(unit, high), Fraction(unit, low)


def _series(t: int, unit: int, up: int) -> int:
    """Return the series of exp(t) in units: from below by terms rounded down, or from above with `up` 1."""
    total = term = unit
    n = 0
    while n * unit < 2 * t or term > up:
        n += 1
        term = (term * t) // (unit * n) + up
        total += term
    return total + up * term  # Each further term is at most half of the one before.
