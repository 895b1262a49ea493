"""Masks of a secure sum: pads that each two sites share, one adding what the other takes away, modulo 2^64.

The pad of two sites is the ChaCha20 stream under a key that HKDF makes of their X25519 agreement, of the study and of
the whole request (Bonawitz et al. 2017, without the recovery of sites that drop out). Public keys are part of the study
that the sites agreed to, so no server can put its own in their place; a request that differs between two sites, if
only in which sites it names, gives them pads that do not cancel.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import MedsynthError, OutputExists, UsageError
from .study import Study

Words = NDArray[np.uint64]


class SecretKey:
    """A site's secret key. `public` is its public half, in hexadecimal digits."""

    __slots__ = ("__key", "public")

    def __init__(self, content: bytes) -> None:
        key = _x25519().X25519PrivateKey.from_private_bytes(content)
        self.__key, self.public = key, key.public_key().public_bytes_raw().hex()

    @classmethod
    def read(cls, path: Path) -> SecretKey:
        """The key in a file that `write_key` wrote. Raises UsageError where there is none."""
        try:
            return cls(bytes.fromhex(path.read_text().strip()))
        except (OSError, ValueError):
            raise UsageError(f"{path} holds no secret key of a site.") from None

    def shared(self, public: str) -> bytes:
        """What this site and that of a public key agree on. Raises UsageError for a key that is none."""
        try:
            other = _x25519().X25519PublicKey.from_public_bytes(bytes.fromhex(public))
            return bytes(self.__key.exchange(other))
        except ValueError:
            raise UsageError("A public key of the study is none.") from None

    def __repr__(self) -> str:
        return f"SecretKey(of {self.public})"


def write_key(path: Path) -> SecretKey:
    """A new key in a file that its owner alone may read. Raises OutputExists, for a key is never replaced."""
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


def masked(
    arrays: list[NDArray[np.int64]], key: SecretKey, study: Study, name: str, among: list[str], request: str
) -> list[Words]:
    """Whole numbers plus the pads that site `name` shares with each other site of `among`, modulo 2^64."""
    sizes = [array.size for array in arrays]
    total = np.concatenate([array.reshape(-1) for array in arrays]).view(np.uint64).copy()
    for other in among:
        if other != name:
            pad = _pad(key.shared(study.sites[other]), study.digest, request, len(total))
            total = total + pad if name < other else total - pad
    parts = np.split(total, np.cumsum(sizes)[:-1])
    return [part.reshape(array.shape) for part, array in zip(parts, arrays, strict=True)]


def _pad(shared: bytes, study: str, request: str, count: int) -> Words:
    """`count` numbers of 64 bits for one request. A request is answered once, so no stream is used twice."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    derived = HKDF(SHA256(), 32, salt=bytes.fromhex(study), info=b"medsynth secure sum 1 " + bytes.fromhex(request))
    cipher = Cipher(algorithms.ChaCha20(derived.derive(shared), bytes(16)), mode=None)
    return np.frombuffer(cipher.encryptor().update(bytes(8 * count)), np.dtype("<u8")).astype(np.uint64)


def _x25519() -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric import x25519
    except ImportError:
        raise MedsynthError("A secure sum needs the extra: pip install 'medsynth[federated]'.") from None
    return x25519
