"""The query of a vector sum: each row adds a public vector of its own, clipped to norm one.

The vectors of all rows are whole numbers, so their sum is exact in any order. The statement and its proof:
docs/proofs/vector-sums.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from ...arrays import Codes, Floats, Whole
from ...cores import in_order
from ...errors import BudgetError
from ..exact_sums import LongSum, factors, norms, on_grid
from ..release import on_host
from .content import MOST_WIDTH, check_size
from .query import NoiseScale, RowQuery
from .rows import CodedRows, Features

GRID_BITS, LARGEST = 18, 128  # Grid and largest size of a vector's numbers before it is clipped.
FACTOR_BITS = 25  # Bits of the factor that clips.
UNIT = 2.0 ** -(GRID_BITS + FACTOR_BITS)  # Unit of a clipped vector.
SUM_BITS = 33  # Bits of one in the released sum.
CHUNK_NUMBERS = 1 << 19  # Numbers of vectors in memory at once: a row adds at most 2^43 units, so sums fit in 64 bits.
CHUNKS_AT_ONCE = 8  # Processed on as many cores. Each chunk needs memory.


@dataclass(frozen=True, eq=False)
class VectorSum(RowQuery[Floats]):
    """The sum over rows of x, (width,), clipped to norm one.

    `vectors` is a public, row-by-row map from codes to x, (rows, width). The L2 sensitivity is one, times a patient's
    rows. Raises QueryError for a width outside 1 to 2^20.
    """

    vectors: Features
    width: int

    def __post_init__(self) -> None:
        check_size(self.width, MOST_WIDTH, what="The numbers of a vector")

    def sensitivity(self, max_rows: int | None) -> float:
        """Return a patient's maximum number of rows."""
        return float(max_rows or 1)

    def exact(self, rows: CodedRows) -> list[Whole]:
        """Return the two words of the sum, (width,) each."""
        total = LongSum()
        size = max(1, CHUNK_NUMBERS // self.width)
        chunks = [rows.codes[k : k + size] for k in range(0, max(len(rows.codes), 1), size)]
        for part in in_order((partial(self._sum, some) for some in chunks), min(len(chunks), CHUNKS_AT_ONCE)):
            total.add(part)
        return on_host(total.words)

    def _sum(self, codes: Codes) -> Tensor:
        vectors = self.vectors(codes)
        if vectors.shape != (len(codes), self.width):
            raise BudgetError(f"Expected vectors of width {self.width}.")
        return clipped_vectors(vectors).sum(0)

    def finished(self, total: list[Whole]) -> list[Whole]:
        """Return the sum in the units of a release, rounded down."""
        return [LongSum(*map(torch.from_numpy, total)).divided(GRID_BITS + FACTOR_BITS - SUM_BITS).numpy()]

    def scales(self, std: float) -> list[NoiseScale]:
        """Return the scale of the only array."""
        return [NoiseScale(std, 2.0**-SUM_BITS)]


def clipped_vectors(vectors: Tensor) -> Tensor:
    """Return vectors, (rows, width), clipped to norm one, in whole multiples of `UNIT`.

    The factor is rounded down, so that rounding never lengthens a vector. One that is not finite becomes zero.
    """
    x = vectors.double()
    x = torch.where(torch.isfinite(x).all(1, keepdim=True), x, 0.0)
    whole = on_grid(x, GRID_BITS, LARGEST << GRID_BITS)
    factor = (factors(norms(whole) * 2.0**-GRID_BITS, 1.0) * 2.0**FACTOR_BITS).floor()
    return (whole * factor[:, None]).long()
