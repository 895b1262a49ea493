"""Sources of randomness: named public streams that a seed repeats, and secret entropy that nothing repeats.

Public streams (initial weights, latent draws, sampled rows) may be seeded: the privacy claim does not depend on
them. Secret randomness (noise, lots, microbatches, hold-out coins) comes from the operating system's cryptographic
generator, whose keys AES-256 expands for large requests. It is never recorded: if lots were known, sampling would
amplify nothing.
"""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, Protocol

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from .arrays import Mask

if TYPE_CHECKING:
    import torch


Stream = np.random.Generator  # the type of a public stream
EXPANDED_BYTES = 4096  # From this size on, a request is the stream of a fresh key: up to ten times faster.
KEY_BYTES = 32  # of AES-256


class Entropy(Protocol):
    """A source of secret random bytes."""

    @property
    def source(self) -> str:
        """The name of the source in the ledger."""

    def bytes(self, count: int) -> bytes:
        """Return `count` random bytes."""


class SystemEntropy:
    """The operating system's cryptographic generator, which every real fit uses."""

    source = "operating system"

    def bytes(self, count: int) -> bytes:
        """Return `count` bytes from `os.urandom`, or an AES-256-CTR stream with a key from there for this call alone.

        Nothing is kept between calls, so threads and forked processes never share a stream.
        """
        if count < EXPANDED_BYTES:
            return os.urandom(count)
        key = os.urandom(KEY_BYTES)
        return Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor().update(bytes(count))


class NoNoise(SystemEntropy):
    """The entropy of a fit without privacy (`no_dp`): lots are drawn as usual, but no noise is added."""

    source = "none: NOT DIFFERENTIALLY PRIVATE, no noise was added"


class SeededEntropy:
    """Repeatable bytes, only for tests. A ledger that names this source makes no privacy claim."""

    source = "TEST ONLY: seeded, no privacy"

    def __init__(self, seed: int) -> None:
        self._generator = np.random.Generator(np.random.Philox(seed))

    def bytes(self, count: int) -> bytes:
        """Return `count` bytes that the seed repeats. Pieces of whole words give the same bytes; empty ones count."""
        return self._generator.bytes(count) if count else b""


def system_entropy() -> Entropy:
    """Return the entropy of a fit, if a test does not pass another."""
    return SystemEntropy()


def stream_seed(seed: int | None, name: str) -> int:
    """Return a 63-bit seed for the public stream `name`, from fresh entropy if `seed` is None.

    >>> stream_seed(1, "init") == stream_seed(1, "init") != stream_seed(1, "latent")
    True
    """
    root = os.urandom(16) if seed is None else str(seed).encode()
    return int.from_bytes(hashlib.sha256(root + b"/" + name.encode()).digest()[:8], "big") >> 1


def numpy_stream(seed: int | None, name: str) -> np.random.Generator:
    """Return the public stream `name` as a numpy generator."""
    return np.random.default_rng(stream_seed(seed, name))


def first_normals(seed: int, count: int) -> NDArray[np.float32]:
    """Return normal numbers, (count,), as `torch.randn` draws them: a seed gives the models of earlier versions.

    Source: `normal_fill` of PyTorch, for 16 numbers or more: Box and Muller (1958) in blocks, the last one drawn anew.
    """
    if count < 16:
        return np.random.default_rng(seed).standard_normal(count, np.float32)
    again = 16 if count % 16 else 0
    drawn = np.frombuffer(np.random.RandomState(seed & 0xFFFFFFFF).bytes(4 * (count + again)), np.uint32)
    even = (drawn & 0xFFFFFF) * np.float32(2**-24)
    even = np.concatenate([even[: count - count % 16], even[count:]]).reshape(-1, 2, 8)
    size, angle = np.sqrt(-2 * np.log(1 - even[:, 0])), np.float32(2 * np.pi) * even[:, 1]
    found = np.stack([size * np.cos(angle), size * np.sin(angle)], 1).ravel()
    return np.concatenate([found[: count - again], found[len(found) - again :]])


def torch_stream(seed: int | None, name: str, device: str = "cpu") -> torch.Generator:
    """Return the public stream `name` as a torch generator on `device`."""
    import torch

    return torch.Generator(device=device).manual_seed(stream_seed(seed, name))


def torch_secret(entropy: Entropy, device: str = "cpu") -> torch.Generator:
    """Return a torch generator on `device` with a secret seed, for randomness that stays inside a shard."""
    import torch

    return torch.Generator(device=device).manual_seed(int.from_bytes(entropy.bytes(8)) >> 1)


def coins(entropy: Entropy, count: int, probability: float) -> Mask:
    """Return `count` secret coins, (count,), each true with `probability` rounded down to a multiple of 2^-32.

    Each coin compares 32 random bits with a whole number, so that its probability is exact.
    """
    threshold = int(probability * 2**32)
    if threshold >= 2**32:
        return np.ones(count, dtype=bool)
    draws = np.frombuffer(entropy.bytes(4 * count), dtype=np.uint32)
    return draws < np.uint32(threshold)
