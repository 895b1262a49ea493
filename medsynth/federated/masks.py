"""Mask the answers of a secure sum with pads. Of each two sites, one adds a pad and the other subtracts it, mod 2^64.

The pad of two sites is a ChaCha20 stream (Bonawitz et al. 2017, without recovery of sites that drop out). HKDF derives
its key from their X25519 agreement, the study, the request, and the nonces of all sites in the sum. Public keys are
part of the agreed study, so a server cannot replace them. If two sites get different requests, even if only the named
sites differ, their pads do not cancel. A restarted site draws a new nonce, and answers only requests that contain it.
So it never adds fresh noise to an answer under a used pad.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from ..arrays import Whole
from ..errors import MedsynthError, OutputExists, UsageError
from .study import Study

Words = NDArray[np.uint64]
NONCE_BYTES = 16  # probability that any two starts of sites draw the same: below 2^-80


class SecretKey:
    """A site's secret key. `public` is its public half, in hexadecimal digits."""

    __slots__ = ("__key", "public")

    def __init__(self, content: bytes) -> None:
        key = X25519PrivateKey.from_private_bytes(content)
        self.__key = key
        self.public = key.public_key().public_bytes_raw().hex()

    @classmethod
    def read(cls, path: Path) -> SecretKey:
        """Return the key in a file that `write_key` wrote. Raise UsageError if there is none."""
        try:
            return cls(bytes.fromhex(path.read_text().strip()))
        except (OSError, ValueError):
            raise UsageError(f"{path} does not contain a site's secret key. Name the site's key file.") from None

    def shared(self, public: str) -> bytes:
        """Return the shared secret with the owner of a public key. Raise UsageError for an invalid key."""
        try:
            other = X25519PublicKey.from_public_bytes(bytes.fromhex(public))
            return bytes(self.__key.exchange(other))
        except ValueError:
            raise UsageError("A public key in the study is not valid.") from None

    def __repr__(self) -> str:
        return f"SecretKey(of {self.public})"


def write_key(path: Path) -> SecretKey:
    """Write a new key to a file that only its owner may read. Raise OutputExists: a key is never replaced."""
    content = os.urandom(32)
    key = SecretKey(content)
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(content.hex() + "\n")
    except FileExistsError:
        raise OutputExists(f"{path} exists already, and a key is never replaced. Name another file.") from None
    except OSError as error:
        raise MedsynthError(f"{path} cannot be written ({error.strerror}).") from None
    return key


def new_nonce() -> str:
    """Draw the id of one start of a site: 16 bytes from the operating system, as 32 hexadecimal digits."""
    return os.urandom(NONCE_BYTES).hex()


def masked(
    arrays: list[Whole], key: SecretKey, study: Study, name: str, among: Mapping[str, str], request: str
) -> list[Words]:
    """Add the pads that site `name` shares with each other site of a sum to whole numbers, modulo 2^64.

    Args:
        arrays: the whole numbers, of any shapes.
        key: the site's secret key.
        study: the study, which names the public keys.
        name: the site that answers.
        among: the sites of the sum, `name` included, each with its nonce in hexadecimal digits.
        request: SHA-256 of the request's bytes, in hexadecimal digits.

    Returns: the masked numbers, in the same shapes.
    """
    sizes = [array.size for array in arrays]
    total = np.concatenate([array.reshape(-1) for array in arrays]).view(np.uint64).copy()
    for other in among:
        if other != name:
            pad = _pad(key.shared(study.sites[other]), study.digest, request, among, len(total))
            total = total + pad if name < other else total - pad
    parts = np.split(total, np.cumsum(sizes)[:-1])
    return [part.reshape(array.shape) for part, array in zip(parts, arrays, strict=True)]


def _pad(shared: bytes, study: str, request: str, among: Mapping[str, str], count: int) -> Words:
    """Return `count` numbers of 64 bits for one request between these starts of the sites.

    The request contains the nonces, and each start answers it once, so no stream is used twice.
    """
    starts = json.dumps(among, sort_keys=True).encode()  # one text per set of sites and nonces
    info = b"medsynth secure sum 2 " + bytes.fromhex(request) + starts
    derived = HKDF(SHA256(), 32, salt=bytes.fromhex(study), info=info)
    cipher = Cipher(algorithms.ChaCha20(derived.derive(shared), bytes(16)), mode=None)
    return np.frombuffer(cipher.encryptor().update(bytes(8 * count)), np.dtype("<u8")).astype(np.uint64)
