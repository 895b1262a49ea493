"""Noise on a device is that of `noise.py`: draw by draw for the same bits, by its law, and finished by the CPU.

Seeds are fixed: no statistical test can fail by chance. `tests/test_cuda.py` compares a GPU with the CPU.
"""

from typing import Any

import numpy as np
import pytest
import torch
from chosen_bits import Words
from rounded_normal_law import chance_of
from scipy import stats

from medsynth.errors import BudgetError
from medsynth.privacy import device_noise, noise
from medsynth.privacy.chacha import keystream
from medsynth.privacy.device_noise import noised_tensors, rounded_normal_on
from medsynth.rng import NoNoise, SeededEntropy, SystemEntropy

CPU, DRAWS = torch.device("cpu"), 200_000
REJECTED = (1, 2**32 - 1, 2**64 - 1)  # A try that is surely not kept: its sign and whole part, level and fraction.


class Same:
    """The same further digits for each that asks, in whichever order."""

    def bytes(self, count: int) -> bytes:
        return b"\x5a" * count


def draws(tries: int, scale: int, entropy: Any) -> Any:
    return device_noise._drawn(tries, scale, entropy, CPU).numpy()


@pytest.mark.parametrize("scale", [1, 3, 65_537, 2**31 + 12345, 2**32 - 1, 2**40 + 7, 2**56 - 12345, 2**56])
def test_equals_the_draws_of_the_cpu_for_the_same_bits(scale: int) -> None:
    """Also with scales of two limbs. Near 2^56 one rounding in 270 is open, and both ask for the same digits."""
    tries = 64 * 100
    key = SeededEntropy(scale).bytes(32)
    bits = keystream(key, 13 * 100, CPU).numpy().tobytes()
    own, other = Words(key), Words(bits[:tries], bits[tries : 5 * tries], bits[5 * tries :])
    own.rest = other.rest = Same()  # type: ignore[assignment]
    found = draws(tries, scale, own)
    assert np.array_equal(found, noise._drawn(tries, scale, other))
    assert own.calls[1:] == other.calls[3:] and (len(own.calls) > 1 or scale != 2**56 - 12345)
    assert (found < 0).any() and (found > 0).any()


def test_a_wider_margin_changes_no_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    """The CPU finishes about a hundred tries that floating-point numbers decide otherwise, and decides them alike.

    It asks for no digits, but for bits of the whole part after seven that are zero.
    """
    found = draws(64 * 50, 2**34 + 5, Words(bytes(range(32))))
    monkeypatch.setattr(noise, "CLEAR", 2.0**-6)
    own = Words(bytes(range(32)))
    assert np.array_equal(found, draws(64 * 50, 2**34 + 5, own)) and {*own.calls[1:]} <= {1}


@pytest.mark.parametrize("apart, kept", [(-10, 64), (10, 0)])
def test_near_tries_are_never_decided_by_rounding(apart: int, kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Levels ten units of 2^-32 from the chance are in the margin of 64. Numbers of 32 bits are 256 units apart."""
    word = np.frombuffer(SeededEntropy(8).bytes(8 * 64), "<u8")
    level = np.floor(13 / 16 * np.exp(-((word * 2.0**-64) ** 2) / 2) * 2**32) + apart
    bits = np.ones(64, np.uint8).tobytes() + level.astype("<u4").tobytes() + word.tobytes()
    stream = torch.from_numpy(np.frombuffer(bits, np.int32).copy())
    monkeypatch.setattr(device_noise, "keystream", lambda key, blocks, device: stream)
    entropy = Words(bytes(32))
    assert len(draws(64, 1000, entropy)) == kept and entropy.calls == [32]


def of_chosen(monkeypatch: pytest.MonkeyPatch, place: int, coin: int, level: int, word: int, *more: bytes) -> Any:
    """The draws of 64 tries, all surely rejected but one; and the entropy that they have used."""
    tries = [(coin, level, word) if k == place else REJECTED for k in range(64)]
    layout = (("u1", 0), ("<u4", 1), ("<u8", 2))
    bits = b"".join(np.array([one[k] for one in tries], kind).tobytes() for kind, k in layout)
    stream = torch.from_numpy(np.frombuffer(bits, np.int32).copy())
    monkeypatch.setattr(device_noise, "keystream", lambda key, blocks, device: stream)
    entropy = Words(bytes(32), *more)
    return draws(64, 1000 if word >> 63 else 3, entropy).tolist(), entropy.calls


@pytest.mark.parametrize("place", [0, 40, 63])
def test_a_tie_is_settled_by_further_digits(monkeypatch: pytest.MonkeyPatch, place: int) -> None:
    """At k = 0 and x = 0.5 the chance is 13/16 exp(-1/8), which begins with these 32 bits."""
    level, x = int(13 / 16 * np.exp(-1 / 8) * 2**32), bytes(8)
    for further, kept in ((bytes(8), [500]), (b"\xff" * 8, [])):
        found, calls = of_chosen(monkeypatch, place, 1, level, 1 << 63, x, further)
        assert found == kept and calls == [32, 8, 8]
    assert of_chosen(monkeypatch, place, 129, level - 10**6, 1 << 63) == ([-500], [32])


def test_the_rounding_of_a_fraction_is_settled_by_further_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    word = (1 << 64) // 6  # 3 x + 1/2 straddles one, by the digits that are still to come.
    for further, size in ((bytes(8), 0), (b"\xff" * 8, 1)):
        assert of_chosen(monkeypatch, 7, 1, 0, word, further) == ([size], [32, 8])


def test_whole_parts_beyond_a_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seven zero bits: the CPU draws further ones, and then whether the try is kept, and with its sign."""
    word = (1 << 63) + (1 << 62)
    assert of_chosen(monkeypatch, 9, 0, 0, word, b"\x01", *[bytes(8)] * 2)[0] == [7750]
    assert of_chosen(monkeypatch, 9, 128, 0, word, b"\x00", b"\x02", *[bytes(8)] * 8)[0] == [-16750]
    assert of_chosen(monkeypatch, 9, 0, 1 << 20, word)[0] == []


@pytest.mark.statistical
@pytest.mark.parametrize("scale", [1, 5, 40])
def test_every_whole_number_has_its_probability(scale: int) -> None:
    """Chi-square against the exact table; the seed is fixed."""
    found = rounded_normal_on(CPU, DRAWS, scale, SeededEntropy(scale)).numpy()
    assert chance_of(found, scale) > 1e-4


@pytest.mark.statistical
@pytest.mark.parametrize("scale", [2**34 + 5, 2**56])
def test_large_scales_are_normal(scale: int) -> None:
    """The seed is fixed."""
    found = rounded_normal_on(CPU, DRAWS, scale, SeededEntropy(3)).numpy() / scale
    assert stats.kstest(found, "norm").pvalue > 1e-4
    assert stats.pearsonr(np.abs(found[1:]), np.abs(found[:-1])).pvalue > 1e-4
    low, high = (stats.chi2.ppf(share, DRAWS) for share in (5e-5, 1 - 5e-5))
    assert low < (found**2).sum() < high


def test_every_batch_of_tries_has_a_key_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """So no block is used twice, in whichever number of batches the draws come."""
    monkeypatch.setattr(device_noise, "MOST_TRIES", 640)
    blocks: list[Any] = []

    def watched(key: bytes, count: int, device: Any) -> Any:
        blocks.append(keystream(key, count, device).reshape(-1, 16))
        return blocks[-1].flatten()

    monkeypatch.setattr(device_noise, "keystream", watched)
    entropy = Words()
    assert len(rounded_normal_on(CPU, 2000, 99, entropy)) == 2000
    assert entropy.calls == [32] * len(blocks) and len(blocks) > 5
    used = torch.cat(blocks)
    assert len({*map(tuple, used.tolist())}) == len(used)


def test_one_batch_is_nearly_always_enough() -> None:
    """Fewer than `count` tries are kept with a chance below 1e-20: a try is kept with 13/32 sqrt(pi/2)."""
    for count in (1, 10, 1000, 10**6):
        tries = device_noise._tries_for(count)
        assert tries % 64 == 0 and stats.binom.cdf(count - 1, tries, 13 / 32 * np.sqrt(np.pi / 2)) < 1e-20


def test_seeded_draws_repeat_and_others_never_do() -> None:
    """Sixteen draws of 40 bits are equal with a chance below 1e-100."""
    one, two = (rounded_normal_on(CPU, 16, 2**40, SeededEntropy(5)) for _ in range(2))
    assert torch.equal(one, two)
    one, two = (rounded_normal_on(CPU, 16, 2**40, SystemEntropy()) for _ in range(2))
    assert not torch.equal(one, two)


@pytest.mark.parametrize("std", [1e-3, 0.7, 3.0, 1e7])
def test_releases_are_on_the_public_grid(std: float) -> None:
    """Neighbouring values with the same noise differ by exactly one, and all values are whole steps."""
    steps, _ = noise.noise_grid(std)
    one, two = (noised_tensors([torch.full((50, 4), v), torch.full((3,), v)], std, SeededEntropy(4)) for v in (41, 42))
    assert [part.shape for part in one] == [(50, 4), (3,)] and one[0].dtype == torch.float64
    for a, b in zip(one, two, strict=True):
        assert (b - a == 1).all() and torch.equal(a * steps, (a * steps).round())
    assert not torch.equal(one[0].flatten()[:3], one[1])  # Each number has a draw of its own.


@pytest.mark.statistical
def test_noise_has_the_deviation_that_is_charged() -> None:
    """From both sides; the seed is fixed."""
    (found,) = noised_tensors([torch.full((DRAWS,), 7)], 2.0, SeededEntropy(2))
    low, high = (stats.chi2.ppf(share, DRAWS) for share in (5e-5, 1 - 5e-5))
    assert low < float((found - 7).square().sum()) / 4 < high
    assert abs(float(found.mean()) - 7.0) < 4 * 2.0 / np.sqrt(DRAWS)


def test_refusals() -> None:
    with pytest.raises(BudgetError, match="whole"):
        noised_tensors([torch.zeros(3)], 1.0, SystemEntropy())
    for scale in (0, 2**57):
        with pytest.raises(BudgetError, match="grid"):
            rounded_normal_on(CPU, 1, scale, SystemEntropy())
    (plain,) = noised_tensors([torch.arange(3)], 1.0, NoNoise())
    assert plain.tolist() == [0.0, 1.0, 2.0] and plain.dtype == torch.float64
    assert rounded_normal_on(CPU, 0, 9, SystemEntropy()).shape == (0,)
