"""ChaCha20's keystream (RFC 8439) on any device: secret random bits without a transfer from the host.

Each block of 64 bytes is a function of the key, a counter and a nonce. Without the key, blocks are indistinguishable
from random bits, as those of the operating system's generator are, which supplies the key. All blocks are computed at
once: each operation is one of whole tensors of 32-bit numbers, whose sums and products wrap around modulo 2^32.
"""

from __future__ import annotations

import struct

import torch
from torch import Tensor

from ..errors import BudgetError

KEY_BYTES, NONCE_BYTES = 32, 12
BLOCK_WORDS = 16  # Words of 32 bits in a block.
DOUBLE_ROUNDS = 10
ROTATIONS = (16, 12, 8, 7)  # Bits, in the order of a quarter round.
CONSTANTS = b"expand 32-byte k"
MOST_BLOCKS = 1 << 32  # The counter has 32 bits. Beyond them, blocks would repeat.


def keystream(
    key: bytes, blocks: int, device: torch.device, nonce: bytes = bytes(NONCE_BYTES), counter: int = 0
) -> Tensor:
    """Return `blocks` blocks of the keystream from number `counter` on: (16 * blocks,) words as int32, in order.

    Raises BudgetError if the counter does not reach that far, because a block would be used twice.
    """
    if counter + blocks > MOST_BLOCKS:
        raise BudgetError("The random bits of this key are used up.")
    begin = torch.empty(BLOCK_WORDS, blocks, dtype=torch.int32, device=device)
    known = struct.unpack("<16i", CONSTANTS + key + counter.to_bytes(4, "little") + nonce)
    for row, word in zip(begin, known, strict=True):
        row.fill_(word)  # A copy of the key from the host would wait for the device.
    begin[12] += torch.arange(blocks, device=device).int()
    a, b, c, d = torch.split(begin.clone(), 4)
    for _ in range(DOUBLE_ROUNDS):
        b, d = _quarter_rounds(a, b, c, d)
        # The diagonals of the four rows become columns, and afterwards columns again diagonals.
        b = b.roll(-1, 0)
        c = c.roll(-2, 0)
        d = d.roll(-3, 0)
        b, d = _quarter_rounds(a, b, c, d)
        b = b.roll(1, 0)
        c = c.roll(2, 0)
        d = d.roll(3, 0)
    return (torch.cat([a, b, c, d]) + begin).T.flatten()


def _quarter_rounds(a: Tensor, b: Tensor, c: Tensor, d: Tensor) -> tuple[Tensor, Tensor]:
    """Apply the quarter round to each column of four rows, (4, blocks). Change `a` and `c`, and return `b` and `d`."""
    for k in (0, 2):
        a += b
        d = _rotated(d ^ a, ROTATIONS[k])
        c += d
        b = _rotated(b ^ c, ROTATIONS[k + 1])
    return b, d


def _rotated(x: Tensor, bits: int) -> Tensor:
    """Return words rotated to the left. A shift to the right repeats the sign, so its upper bits are cleared."""
    return ((x >> (32 - bits)) & ((1 << bits) - 1)).add_(x, alpha=1 << bits)
