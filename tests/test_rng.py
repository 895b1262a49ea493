"""Random streams: public ones repeat with their seed and name, secret ones never do, coins have their probability."""

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from scipy.stats import binom, chisquare

from medsynth import rng


def test_public_streams_repeat_by_seed_and_name() -> None:
    one, same, other = (rng.numpy_stream(seed, name).random(4) for seed, name in ((1, "a"), (1, "a"), (1, "b")))
    assert (one == same).all() and (one != other).all()
    assert (rng.numpy_stream(2, "a").random(4) != one).all()
    draws = [torch.rand(3, generator=rng.torch_stream(5, "x")) for _ in range(2)]
    assert (draws[0] == draws[1]).all()


def test_without_a_seed_nothing_repeats() -> None:
    """Equal seeds of 63 bits have a chance of 1e-19."""
    assert rng.stream_seed(None, "a") != rng.stream_seed(None, "a")
    secret = [torch.rand(3, generator=rng.torch_secret(rng.system_entropy())) for _ in range(2)]
    assert (secret[0] != secret[1]).any()


@pytest.mark.parametrize("count", [16, 17, 31, 4096, 5003])
def test_first_normals_are_those_of_torch(count: int) -> None:
    """Models of a seed stay the same. The last bits of logarithms and cosines differ by library."""
    for seed in (1, 2**62 + 5):
        expected = torch.randn(count, generator=torch.Generator().manual_seed(seed)).numpy()
        assert np.allclose(rng.first_normals(seed, count), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("probability", [0.0, 0.01, 0.25, 0.5])
def test_coins_have_their_probability(probability: float) -> None:
    """False-alarm rate 1e-6 a side."""
    heads = int(rng.coins(rng.SystemEntropy(), 100_000, probability).sum())
    assert binom.ppf(1e-6, 100_000, probability) <= heads <= binom.isf(1e-6, 100_000, probability)


def test_a_sure_coin_draws_no_entropy() -> None:
    class Nothing(rng.SystemEntropy):
        def bytes(self, count: int) -> bytes:
            raise AssertionError("drawn")

    assert rng.coins(Nothing(), 3, 1.0).all()


def test_the_thresholds_of_coins_are_exact() -> None:
    """A draw below p x 2^32 is heads, one equal to it is not."""

    class Given(rng.SystemEntropy):
        def bytes(self, count: int) -> bytes:
            return np.array([2**30 - 1, 2**30, 0, 2**32 - 1], dtype=np.uint32).tobytes()

    assert rng.coins(Given(), 4, 0.25).tolist() == [True, False, True, False]


def test_only_the_system_makes_a_claim_possible() -> None:
    assert rng.system_entropy().source == rng.SystemEntropy.source == "operating system"
    assert "no privacy" in rng.SeededEntropy(1).source and "NOT" in rng.NoNoise().source
    assert rng.SeededEntropy(1).bytes(8) == rng.SeededEntropy(1).bytes(8) != rng.SeededEntropy(2).bytes(8)


SIZES = [0, 1, 13, rng.EXPANDED_BYTES - 1, rng.EXPANDED_BYTES, rng.EXPANDED_BYTES + 1, 1_000_003]


@pytest.mark.parametrize("size", SIZES)
def test_secret_bytes_have_the_size_of_the_request(size: int) -> None:
    found = rng.SystemEntropy().bytes(size)
    assert type(found) is bytes and len(found) == size


def test_no_two_requests_share_a_block() -> None:
    """Small and large requests, in threads too. Two of 12,000 blocks of 16 bytes are equal with a chance of 1e-31."""
    sizes = [16, rng.EXPANDED_BYTES - 16, rng.EXPANDED_BYTES, 2 * rng.EXPANDED_BYTES] * 8
    with ThreadPoolExecutor(4) as pool:
        requests = list(pool.map(rng.SystemEntropy().bytes, sizes))
    blocks = [request[k : k + 16] for request in requests for k in range(0, len(request), 16)]
    assert len(set(blocks)) == len(blocks) > 8000


def test_a_large_request_uses_its_own_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each large request takes one key of 32 bytes from the operating system, and equal keys give equal streams."""
    keys = list[bytes]()

    def urandom(count: int) -> bytes:
        keys.append(bytes([len(keys) // 2]) * count)
        return keys[-1]

    monkeypatch.setattr(os, "urandom", urandom)
    one, same, other = (rng.SystemEntropy().bytes(rng.EXPANDED_BYTES) for _ in range(3))
    assert one == same != other and [len(key) for key in keys] == [32] * 3


@pytest.mark.statistical
def test_expanded_bytes_are_even() -> None:
    """Chi-square of a million bytes, at a false-alarm rate of 1e-6."""
    counts = np.bincount(np.frombuffer(rng.SystemEntropy().bytes(1_000_000), np.uint8), minlength=256)
    assert chisquare(counts).pvalue > 1e-6
