"""Random Fourier features of encoded rows: what the critic of DP-CGAN reads (Rahimi, Recht 2007)."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from ...privacy.vault import Codes
from .encoded_rows import EncodedRows

TURN = 1 << 16  # cosines and sines of real rows come from a table of so many parts of a turn
ROW_BITS, FREQUENCY_BITS = 12, 20  # grids of a real row's numbers and of frequencies, on which their products are exact


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
        stream: torch.Generator,
        device: str,
    ) -> None:
        half = count // 2
        self._rows, self._clip, self._device = rows, clip, device
        self._shares = rows.shares().to(device)
        numbers = sum(span.kind == "number" for span in rows.layout.spans)
        variance = numbers + float((self._shares * (1 - self._shares)).sum())
        scale = phase / math.sqrt(2 * max(variance, 0.1))
        widths = ((torch.rand(half, generator=stream) * 2 - 1) * spread).exp()
        frequencies = torch.randn(rows.layout.width, half, generator=stream) * scale * widths
        turns = (frequencies.double() * (2.0**FREQUENCY_BITS / math.tau)).round()
        self._turns = turns.to(device)
        self._frequencies = (turns * (math.tau * 2.0**-FREQUENCY_BITS)).float().to(device)
        self._centre = (rows.shares().double() @ (turns * (TURN * 2.0**-FREQUENCY_BITS))).round().long().to(device)
        circle = torch.arange(TURN, dtype=torch.float64) * (math.tau / TURN)
        self._circle = (torch.stack([circle.cos(), circle.sin()]) / math.sqrt(half)).float().to(device)
        self._classes = rows.condition.classes
        self.width = 2 * half

    def features(self, x: Tensor) -> Tensor:
        """Encoded rows (rows, columns' width) to features (rows, width)."""
        angles = (x - self._shares) @ self._frequencies
        return torch.cat([torch.cos(angles), torch.sin(angles)], 1) / math.sqrt(self.width / 2)

    def _of_real(self, x: Tensor) -> Tensor:
        """The same, nearly, of encoded real rows: no row's features depend on the rows beside it.

        Products of whole numbers, exact while a row's numbers, 3 at most, and frequencies stay below 2^53 in all.
        """
        whole = (x.double() * 2.0**ROW_BITS).round() @ self._turns
        place = (whole * (TURN * 2.0 ** -(ROW_BITS + FREQUENCY_BITS))).round().long() - self._centre
        return torch.cat(list(self._circle[:, place & (TURN - 1)]), 1)

    def clipped(self, x: Tensor) -> Tensor:
        """Features of generated rows, each cut to the clipping norm apart from the real ones, as those are."""
        features = self.features(x)
        factors: Tensor = (self._clip / features.norm(dim=1, keepdim=True)).clamp(max=1.0)
        return features * factors

    def by_class(self, codes: Codes) -> Tensor:
        """Real rows for the critic: the features in the place of the row's own class, zero elsewhere."""
        condition = self._rows.condition
        column = codes[:, condition.index] if condition.index is not None else codes[:, 0]
        labels = torch.from_numpy(np.asarray(condition.cell_of(column), dtype=np.int64)).to(self._device)
        features = self._of_real(self._rows.encode(codes).to(self._device))
        hot = torch.nn.functional.one_hot(labels, self._classes).to(features)
        return (hot[:, :, None] * features[:, None, :]).reshape(len(codes), self._classes * self.width)
