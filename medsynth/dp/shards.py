"""Rows and critics of many parties behind noise: whoever reads this file has read every way in which they can speak.

GS-WGAN (Chen, Orekondy, Fritz 2020): critics train freely on their own shard's rows, and are as private as these. What
leaves is one tensor: the clipped, noised gradient of one critic, picked afresh and in secret, at generated rows.

Why the pick amplifies: fix which row is in which shard and the critics' private seeds, neither of which depends on what
the rows hold. Then at every step a critic is a function of its own rows and of what was released before, since all
critics train at every step and none hears of a pick. One unit's rows are in one shard: neighbouring tables are K
such records of which one differs, and one of K is drawn at each step. A critic that trained only when picked would
carry the history of picks into its answers, and the bound would fail (tests/dp/test_picks.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NoReturn

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..errors import BudgetError
from ..rng import Entropy, torch_secret
from .critics import Critics, Shape
from .event import Event
from .noise import Floats, noised

Answer = list[Floats]
Ask = Callable[[str, float, Callable[[Event], Answer]], Answer]  # charge, recall or draw, keep: Vault's own
SCALE = 1 << 20  # weights of classes become whole numbers: their sums are exact, whatever other shards hold


class Shards:
    """Encoded rows, (rows, width), in `count` shards with a critic each.

    place: (rows,) shard of each row. weights: (classes,) public; how often a critic looks at a row of each class. The
    last `classes` columns of a row say its class; what stands before them is what a generator sets.
    """

    __slots__ = ("__ask", "__critics", "__entropy", "__held", "__mass", "__rows", "__starts", "__stream", "_count")

    def __init__(
        self, rows: Tensor, place: NDArray[np.int64], count: int, weights: Tensor, shape: Shape, ask: Ask,
        entropy: Entropy,
    ) -> None:  # fmt: skip
        device, classes = rows.device, len(weights)
        self._count, self.__ask, self.__entropy = count, ask, entropy
        self.__stream = torch_secret(entropy, str(device))
        self.__critics = Critics(count, rows.shape[1], rows.shape[1] - classes, shape, self.__stream)
        order = torch.from_numpy(np.argsort(place, kind="stable")).to(device)
        sizes = torch.from_numpy(np.bincount(place, minlength=count)).to(device)
        stops = sizes.cumsum(0)
        # A row of zeros at the end is what empty shards look at, with weight zero.
        self.__rows = torch.cat([rows[order], rows.new_zeros(1, rows.shape[1])])
        shares = (weights / weights.max() * SCALE).long().clamp(min=1).to(device)
        mass = (self.__rows[:-1, -classes:].long() * shares).sum(1)
        self.__mass = torch.cat([mass.new_zeros(1), mass.cumsum(0)])
        self.__starts = torch.stack([stops - sizes, stops])
        self.__held = torch.zeros(count, classes, device=device)
        self.__held.index_add_(0, torch.from_numpy(np.sort(place)).to(device), self.__rows[:-1, -classes:])

    def train(self, fakes: Tensor) -> None:
        """One step of every critic on its own rows, against generated rows of the same classes.

        fakes: (classes, rows, width), public; the same for all critics. Says nothing.
        """
        critics, rows = self.__critics, self.__critics.shape.batch
        chance = torch.rand(2, self._count, rows, generator=self.__stream, device=fakes.device, dtype=torch.float64)
        low, high = self.__mass[self.__starts][..., None]
        at = low + (chance[0] * (high - low)).long()  # a row in proportion to its class's weight, by whole numbers
        index = torch.searchsorted(self.__mass, at, right=True) - 1
        filled = (high > low).expand(-1, rows)
        real = self.__rows[torch.where(filled, index, len(self.__rows) - 1)]
        classes = real[..., -len(fakes) :].argmax(-1)
        chosen = fakes[classes, (chance[1] * fakes.shape[1]).long()]
        critics.step(real, chosen, filled.to(real) / rows)

    def upstream(self, label: str, fakes: Tensor, bound: float, *, joint: bool = False) -> Tensor:
        """The noised gradient of one critic, picked in secret, at generated rows: what goes back to the generator.

        fakes: (rows, width), public. Returns (rows, width - classes), the gradient of minus the critic's answers. Each
        row of it is clipped to `bound`, or all together with `joint`; where the picked shard holds no row of
        a generated row's class it is zero before the noise. Any two parties' answers differ by at most the
        sensitivity, 2 bound sqrt(rows), or 2 bound with `joint`, whatever their rows.
        Raises BudgetError if the plan does not hold the answer, or for a bound that is not positive.
        """
        if not bound > 0:
            raise BudgetError("The clipping norm must be positive.")
        sensitivity = 2 * bound * (1.0 if joint else math.sqrt(len(fakes)))

        def draw(event: Event) -> Answer:
            answer = clipped(self.__asked(self.__pick(), fakes), bound, joint)
            return [noised(answer.double().cpu().numpy(), event.multiplier * sensitivity, self.__entropy)]

        return torch.from_numpy(self.__ask(label, sensitivity, draw)[0]).to(fakes)

    def __pick(self) -> int:
        """Fresh and even but for 2^-128, from the system's entropy: never seeded, never written down."""
        return int.from_bytes(self.__entropy.bytes(16)) % self._count

    def __asked(self, picked: int, fakes: Tensor) -> Tensor:
        """The picked critic's gradients at rows of classes that its shard holds."""
        classes = self.__held.shape[1]
        known = (fakes[:, -classes:] @ self.__held[picked]) > 0
        return torch.where(known[:, None], self.__critics.slope(picked, fakes), 0.0)

    def __repr__(self) -> str:
        return "Shards(private rows and critics)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("Shards cannot be pickled or copied.")


def clipped(rows: Tensor, bound: float, joint: bool) -> Tensor:
    """`rows` with each row's norm, or with `joint` that of all together, cut to `bound`, and a hair below."""
    norms = torch.linalg.vector_norm(rows, dim=None if joint else 1, keepdim=True)
    factors: Tensor = (bound * (1 - 1e-6) / norms.clamp(min=1e-30)).clamp(max=1.0)
    return rows * factors
