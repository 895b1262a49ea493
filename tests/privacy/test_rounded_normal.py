"""Whole-number noise has exactly the law of a rounded normal variable: against its table, a reference, and hard words.

Seeds are fixed: no statistical test can fail by chance.
"""

from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from chosen_bits import Words, one
from rounded_normal_law import chance_of
from scipy import stats

from medsynth.errors import BudgetError
from medsynth.privacy import noise as normal
from medsynth.privacy.noise import Deviate, accepted, exp_minus, rounded, rounded_normal
from medsynth.rng import SeededEntropy, SystemEntropy

DRAWS = 400_000


@pytest.mark.statistical
@pytest.mark.parametrize("scale", [1, 2, 5, 40])
def test_every_whole_number_has_its_probability(scale: int) -> None:
    """Chi-square against the exact table, at a false-alarm rate of 1e-6."""
    found = rounded_normal(DRAWS, scale, SeededEntropy(scale))
    assert chance_of(found, scale) > 1e-6


@pytest.mark.statistical
@pytest.mark.parametrize("scale", [70_000, 2**31 + 12345, 2**40 + 1, 2**52])
def test_large_scales_are_normal(scale: int) -> None:
    found = rounded_normal(DRAWS, scale, SeededEntropy(3)) / scale
    assert stats.kstest(found, "norm").pvalue > 1e-6
    for power, moment in ((1, 0), (2, 1), (3, 0), (4, 3)):
        spread = np.sqrt(stats.norm.moment(2 * power) - moment**2)
        assert abs((found**power).mean() - moment) < 4.9 * spread / np.sqrt(DRAWS)
    assert stats.binomtest(int((np.abs(found) > 4).sum()), DRAWS, 2 * stats.norm.sf(4)).pvalue > 1e-6
    assert stats.pearsonr(np.abs(found[1:]), np.abs(found[:-1])).pvalue > 1e-6


def exp(t: Fraction, digits: int = 60) -> Decimal:
    """The exponential of `t` to so many digits, correctly rounded."""
    with localcontext(prec=digits):
        return (Decimal(t.numerator) / Decimal(t.denominator)).exp()


def chance(whole: int, x: Fraction) -> Fraction:
    """With which a try is kept, to 60 digits."""
    size: Fraction = (whole + x) * (whole + x)
    found: Fraction = Fraction(13, 16) * 2**whole * Fraction(exp(-size / 2))
    return found


def reference(tries: int, scale: int, words: bytes) -> list[int]:
    """The same algorithm, one try at a time, in rational numbers and with 60 digits of the exponential."""
    coin, level, word = words[:tries], words[tries : 5 * tries], words[5 * tries :]
    found = []
    for k in range(tries):
        low = [coin[k] >> bit & 1 for bit in range(7)]
        whole = low.index(1) if 1 in low else 7
        x = Fraction(int.from_bytes(word[8 * k : 8 * k + 8], "little"), 2**64)
        u = Fraction(int.from_bytes(level[4 * k : 4 * k + 4], "little"), 2**32)
        if u < chance(whole, x):
            size = whole * scale + int(x * scale + Fraction(1, 2))
            found.append(-size if coin[k] >> 7 else size)
    return found


@pytest.mark.parametrize("scale", [3, 65_537, 2**40 + 7])
def test_equals_the_reference_word_by_word(scale: int) -> None:
    words, tries = SeededEntropy(scale).bytes(13 * 3000), 3000
    given = Words(words[:tries], words[tries : 5 * tries], words[5 * tries :])
    assert normal._drawn(tries, scale, given).tolist() == reference(tries, scale, words)


def test_a_tie_is_settled_by_further_digits() -> None:
    """At k = 0 and x = 0.5 the chance is 13/16 exp(-1/8); a level that shares its 32 bits is decided by the next."""
    digits = int(chance(0, Fraction(1, 2)) * 2**96)
    level, rest = digits >> 64, digits & (2**64 - 1)
    x = (0).to_bytes(8)  # so that x stays just above a half
    for further, kept in ((rest - 10, True), (rest + 10, False), (0, True), (2**64 - 1, False)):
        words = one(1, level, 1 << 63, x, further.to_bytes(8))
        assert len(normal._drawn(1, 1000, words)) == kept
        assert words.calls[3:5] == [8, 8]
    clear = one(1, level - 10**6, 1 << 63)
    assert normal._drawn(1, 1000, clear).tolist() == [500] and len(clear.calls) == 3


def test_the_rounding_of_a_fraction_is_settled_by_further_digits() -> None:
    """x = 1/2 - 2^-64 + ... times an odd scale may round down or up: its next digits say which."""
    word = (1 << 63) - 1  # 3 x lies between 1.5 - 3/2^64 and 1.5
    assert normal._drawn(1, 3, one(1, 0, word)).tolist() == [1]
    word = (1 << 64) // 6  # 3 x + 1/2 straddles one, by the digits that are still to come
    for further, size in ((0, 0), (2**64 - 1, 1)):
        words = one(1, 0, word, further.to_bytes(8))
        assert normal._drawn(1, 3, words).tolist() == [size] and words.calls == [1, 4, 8, 8]


def test_whole_parts_beyond_a_byte() -> None:
    """Seven zero bits: the whole part goes on in further bytes; so far out only a level of nearly zero is kept."""
    assert len(normal._drawn(1, 1000, one(0, 1 << 20, 0))) == 0
    words = one(0, 0, 1 << 62, b"\x01", *[bytes(8)] * 2)
    assert normal._drawn(1, 1000, words).tolist() == [7250]
    words = one(128, 0, 1 << 62, b"\x00", b"\x02", *[bytes(8)] * 8)
    assert normal._drawn(1, 1000, words).tolist() == [-16250]


@pytest.mark.parametrize("t", [Fraction(0), Fraction(1, 3), Fraction(49, 2), Fraction(3 * 2**64 + 1, 2**64)])
def test_bounds_of_the_exponential_hold_and_are_near(t: Fraction) -> None:
    (least, most), true = exp_minus(t, 150), Fraction(exp(-t, 80))
    assert least <= true * (1 + Fraction(1, 10**79)) and true * (1 - Fraction(1, 10**79)) <= most
    assert most - least < Fraction(1, 2**149)


def test_deviates_settle_what_their_digits_leave_open() -> None:
    entropy = SystemEntropy()
    assert rounded(Deviate(0, 0, entropy), 1) in (0, 1)  # no digit is known: some are drawn
    kept = [accepted(0, Deviate(0, 0, entropy), Deviate(0, 0, entropy)) for _ in range(200)]
    # 13/16 of the normal integral over [0, 1] is 0.695; 200 coins lie this far off with a chance below 1e-9.
    assert 90 < sum(kept) < 188


def test_the_chance_of_keeping_a_try_is_below_one() -> None:
    y = np.linspace(0, 40, 400_001)
    assert (13 / 16 * 2.0 ** np.floor(y) * np.exp(-(y**2) / 2)).max() < 1


def test_floating_point_numbers_are_far_nearer_than_what_they_settle() -> None:
    """`exp` is trusted to 2^-26; it is right to 2^-50."""
    y = np.linspace(0, 8, 2001)
    true = np.array([float(exp(-(Fraction(v) ** 2) / 2)) for v in y.tolist()])
    assert np.abs(np.exp(y * y * -0.5) - true).max() < 2.0**-50 < normal.CLEAR / 1e6


@pytest.mark.parametrize("scale", [0, 2**57])
def test_scales_out_of_range_are_refused(scale: int) -> None:
    with pytest.raises(BudgetError, match="grid"):
        rounded_normal(1, scale, SystemEntropy())


def test_no_draws_are_no_draws() -> None:
    assert rounded_normal(0, 9, SystemEntropy()).shape == (0,)
