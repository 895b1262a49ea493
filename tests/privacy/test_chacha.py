"""ChaCha20's keystream: the vectors of RFC 8439, a plain reference block by block, and a counter that never repeats."""

import struct

import pytest
import torch

from medsynth.errors import BudgetError
from medsynth.privacy.chacha import keystream
from medsynth.rng import SeededEntropy

CPU, KEY = torch.device("cpu"), bytes(range(32))
SUNSCREEN = b"".join(
    [
        b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, ",
        b"sunscreen would be it.",
    ]
)


def test_the_block_function_of_the_standard() -> None:
    """RFC 8439, section 2.3.2."""
    nonce = bytes.fromhex("000000090000004a00000000")
    assert keystream(KEY, 1, CPU, nonce, 1).numpy().tobytes() == bytes.fromhex(
        "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e"
        "d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e"
    )


def test_the_encryption_of_the_standard() -> None:
    """RFC 8439, section 2.4.2: a text of two blocks."""
    nonce = bytes.fromhex("000000000000004a00000000")
    stream = keystream(KEY, 2, CPU, nonce, 1).numpy().tobytes()
    assert bytes(a ^ b for a, b in zip(SUNSCREEN, stream, strict=False)) == bytes.fromhex(
        "6e2e359a2568f98041ba0728dd0d6981e97e7aec1d4360c20a27afccfd9fae0bf91b65c5524733ab8f593dabcd62b357"
        "1639d624e65152ab8f530c359f0861d807ca0dbf500d6a6156a38e088a22b65e52bc514d16ccf806818ce91ab7793736"
        "5af90bbf74a35be6b40b8eedf2785e42874d"
    )


def block(key: bytes, nonce: bytes, counter: int) -> bytes:
    """One block, word by word in Python's own numbers."""
    begin = list(struct.unpack("<16I", b"expand 32-byte k" + key + struct.pack("<I", counter) + nonce))
    x = begin.copy()

    def quarter(a: int, b: int, c: int, d: int) -> None:
        for one, other, third, bits in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
            x[one] = (x[one] + x[other]) % 2**32
            mixed = x[third] ^ x[one]
            x[third] = (mixed << bits | mixed >> (32 - bits)) % 2**32

    for _ in range(10):
        for k in range(4):
            quarter(k, 4 + k, 8 + k, 12 + k)
        for k in range(4):
            quarter(k, 4 + (k + 1) % 4, 8 + (k + 2) % 4, 12 + (k + 3) % 4)
    return struct.pack("<16I", *((a + b) % 2**32 for a, b in zip(x, begin, strict=True)))


@pytest.mark.parametrize("counter", [0, 2**31 - 20, 2**32 - 40])
def test_every_block_is_that_of_a_plain_reference(counter: int) -> None:
    """Keys and nonces with all bits, and counters whose words change their sign."""
    secret = SeededEntropy(counter).bytes(44)
    found = keystream(secret[:32], 40, CPU, secret[32:], counter).numpy().tobytes()
    assert found == b"".join(block(secret[:32], secret[32:], counter + k) for k in range(40))


def test_no_block_is_used_twice() -> None:
    blocks = keystream(KEY, 5000, CPU).reshape(5000, 16)
    assert len({*map(tuple, blocks.tolist())}) == 5000
    with pytest.raises(BudgetError, match="used up"):
        keystream(KEY, 41, CPU, counter=2**32 - 40)
