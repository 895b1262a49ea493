"""Factors of two columns' table, by a column that a rule computes from both: a small weight beside a small height.

Given a class and a latent point columns are independent. Two that a rule computes a third from are not: the chance of
their two values is multiplied by a factor of the third's bin, and by factors of either's own bin. So the chance of two
bins is multiplied by a `table`, and values inside them are drawn until one is kept.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...privacy.queries.rows import Codes
from ...rng import Stream
from ...schema import Schema
from ...schema.columns.grid import Grid
from ...schema.rules import Definition
from ..protocol import Arrays
from .decoder import whole_numbers, whole_tensor

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]


@dataclass(frozen=True, eq=False, kw_only=True)
class PairFactor:
    """Of the inputs `one` and `other` of the column `computed`.

    `table`: (classes, bins of the one, of the other), a mean over where values inside the bins fall. `factors`:
    (classes, bins of the computed column), `largest`: the largest in each cell of the table. `bins`: the codes at which
    the computed column's bins start, missing values in bins of their own.
    """

    one: str
    other: str
    computed: str
    table: Floats
    factors: Floats
    largest: Floats
    bins: Grid

    def tensors(self) -> Arrays:
        """What `of` needs."""
        name = self.computed
        kept = {f"factor.{name}": self.table, f"computed.{name}": self.factors, f"largest.{name}": self.largest}
        found = {key: tensor.astype(np.float32) for key, tensor in kept.items()}
        return found | {f"starts.{name}": whole_tensor(self.bins.edges)}

    @classmethod
    def of(cls, tensors: Arrays, schema: Schema) -> list[PairFactor]:
        """Those that a model's tensors hold, of the columns that a core `schema` computes."""
        found = []
        for name, definition in schema.definitions.items():
            if f"factor.{name}" in tensors:
                one, other = definition.inputs
                some = [tensors[f"{kind}.{name}"].astype(np.float64) for kind in ("factor", "computed", "largest")]
                bins = Grid(whole_numbers(tensors[f"starts.{name}"]), definition.column.gaps)
                found.append(cls(one=one, other=other, computed=name, table=some[0], factors=some[1],
                                 largest=some[2], bins=bins))  # fmt: skip
        return found

    def refused(
        self, definition: Definition, codes: Codes, labels: Whole, cells: tuple[Whole, Whole], rng: Stream
    ) -> NDArray[np.bool_]:
        """Rows whose two values are drawn again inside their bins, (rows,): by the factor beside the cell's largest.

        `codes`: (rows, 2) of the inputs in order; `cells`: the bins of either, (rows,); `labels`: classes, (rows,).
        """
        own = self.factors[labels, self.bins.cell_of(definition.codes(codes))]
        return np.asarray(rng.random(len(codes)) * self.largest[labels, *cells] > own)
