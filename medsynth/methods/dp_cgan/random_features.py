"""Random Fourier features of encoded rows: what the critic of DP-CGAN reads (Rahimi, Recht 2007)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from ...privacy.queries.content import LOCAL, MOST_WIDTH, check_numbers, check_size, require
from ...privacy.queries.rows import CellMap, Codes, cells_of
from ...rng import Stream
from .encoded_rows import EncodedRows, Encoding

TURN = 1 << 16  # cosines and sines of real rows come from a table of so many parts of a turn
MOST_TURNS = 2.0**39  # of a frequency's parts of a turn in all: times 3 and 2^12, of a row's numbers, below 2^53
ROW_BITS, FREQUENCY_BITS = 12, 20  # grids of a real row's numbers and of frequencies, on which their products are exact


@dataclass(frozen=True, eq=False)
class FourierFeatures:
    """Real rows' random Fourier features in the place of the row's own class: (rows, classes * 2 * frequencies).

    encoding: of rows; index, classes: the target's column and its classes; turns: (width, frequencies), whole parts of
    a turn; centre: (frequencies,), the phase of the mean row. No row's features depend on the rows beside it: products
    of whole numbers are exact while a row's numbers, 3 at most, and frequencies stay below 2^53 in all. Raises
    QueryError for other frequencies, and for shapes that do not fit one another.
    """

    encoding: Encoding
    index: int
    classes: CellMap
    turns: Tensor
    centre: Tensor
    device: str = field(default="cpu", metadata=LOCAL)

    def __post_init__(self) -> None:
        require(self.index >= 0 and self.turns.dim() == 2, "Random features need a target and a table of frequencies.")
        count = self.turns.shape[1]
        check_size(count * 2 * self.classes.cells, MOST_WIDTH, what="The width of random features")
        check_numbers(self.turns, (self.encoding.width, count), np.float64, MOST_TURNS, what="Frequencies")
        check_numbers(self.centre, (count,), np.int64, MOST_TURNS, what="Phases of the mean row")
        whole = bool((self.turns == self.turns.round()).all())
        require(whole, "Frequencies must be whole parts of a turn.")
        require(bool((self.turns.abs().sum(0) <= MOST_TURNS).all()), "Frequencies are too large for exact products.")

    def __call__(self, codes: Codes) -> Tensor:
        """(rows, classes * 2 * frequencies)."""
        labels = torch.from_numpy(cells_of(self.classes, codes[:, self.index])).to(self.device)
        whole = (self.encoding(codes).to(self.device).double() * 2.0**ROW_BITS).round() @ self.turns
        place = (whole * (TURN * 2.0 ** -(ROW_BITS + FREQUENCY_BITS))).round().long() - self.centre
        features = torch.cat(list(_circle(len(self.centre), self.device)[:, place & (TURN - 1)]), 1)
        hot = torch.nn.functional.one_hot(labels, self.classes.cells).to(features)
        return (hot[:, :, None] * features[:, None, :]).flatten(1)


@lru_cache(maxsize=2)
def _circle(count: int, device: str) -> Tensor:
    """Cosines and sines of all parts of a turn, (2, TURN), such that `count` pairs have norm one."""
    circle = torch.arange(TURN, dtype=torch.float64) * (math.tau / TURN)
    return (torch.stack([circle.cos(), circle.sin()]) / math.sqrt(count)).float().to(device)


class Embedding:
    """The critic's fixed hidden layer: random Fourier features of a centred row, (rows, width), of norm one.

    The norm is exact (each frequency gives a sine and a cosine), so clipping at one changes nothing. Frequencies
    are spread so that the phase between two rows is about `phase` on average, whatever the columns, by
    the noisy marginals' total variance; their log-uniform spread makes small and large differences count.
    """

    def __init__(
        self,
        rows: EncodedRows,
        count: int,
        phase: float,
        spread: float,
        clip: float,
        stream: Stream,
        device: str,
    ) -> None:
        half = count // 2
        self._clip = clip
        shares = rows.shares()  # in double: frequencies are rounded, and the same on every machine
        self._shares = shares.float().to(device)
        numbers = sum(span.kind == "number" for span in rows.layout.spans)
        variance = numbers + float((shares * (1 - shares)).sum())
        scale = phase / math.sqrt(2 * max(variance, 0.1))
        widths = np.exp(stream.uniform(-spread, spread, half))
        frequencies = torch.from_numpy(stream.standard_normal((rows.layout.width, half)) * scale * widths)
        turns = (frequencies * (2.0**FREQUENCY_BITS / math.tau)).round()
        self._frequencies = (turns * (math.tau * 2.0**-FREQUENCY_BITS)).float().to(device)
        centre = (shares @ (turns * (TURN * 2.0**-FREQUENCY_BITS))).round().long()
        self.width = 2 * half
        # Real rows for the critic: the features in the place of the row's own class, zero elsewhere.
        condition = rows.condition
        self.by_class = FourierFeatures(
            rows.encode, condition.index or 0, condition, turns.to(device), centre.to(device), device
        )

    def features(self, x: Tensor) -> Tensor:
        """Encoded rows (rows, columns' width) to features (rows, width)."""
        angles = (x - self._shares) @ self._frequencies
        return torch.cat([torch.cos(angles), torch.sin(angles)], 1) / math.sqrt(self.width / 2)

    def clipped(self, x: Tensor) -> Tensor:
        """Features of generated rows, each cut to the clipping norm apart from the real ones, as those are."""
        features = self.features(x)
        factors: Tensor = (self._clip / features.norm(dim=1, keepdim=True)).clamp(max=1.0)
        return features * factors
