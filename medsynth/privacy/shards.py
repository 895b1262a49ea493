"""Rows and critics of many parties behind noise: whoever reads this file has read every way in which they can speak.

GS-WGAN (Chen, Orekondy, Fritz 2020): critics train freely on their own shard's rows, and are as private as these. What
leaves is one tensor: the clipped, noised gradient of one critic, picked afresh and in secret, at generated rows.

Why the pick amplifies: fix which row is in which shard and the critics' private seeds, neither of which depends on what
the rows hold. Then at every step a critic is a function of its own rows and of what was released before, since all
critics train at every step and none hears of a pick. One unit's rows are in one shard: neighbouring tables are K
such records of which one differs, and one of K is drawn at each step. A critic that trained only when picked would
carry the history of picks into its answers, and the bound would fail (tests/dp/test_wor.py).
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
from .accounting.events import Event, TurnGaussian
from .noise import Floats, noised
from .shard_critics import Critics, Shape

Answer = list[Floats]
Ask = Callable[[str, float, Callable[[Event], Answer]], Answer]  # charge, recall or draw, keep: Vault's own


class Shards:
    """Encoded rows, (rows, width), in `count` shards with a critic each.

    place: (rows,) shard of each row. The last `classes` columns of a row say its class, and what stands before them is
    what a generator sets. A shard's critic is one network a class: shared layers told every class the loudest one's
    direction, and a class's row weighs alike whatever else its shard holds.
    """

    __slots__ = (
        "__ask",
        "__critics",
        "__entropy",
        "__rows",
        "__sizes",
        "__starts",
        "__stream",
        "_answered",
        "_classes",
        "_count",
    )

    def __init__(
        self, rows: Tensor, place: NDArray[np.int64], count: int, classes: int, shape: Shape, ask: Ask, entropy: Entropy
    ) -> None:
        self._count, self._classes, self.__ask, self.__entropy = count, classes, ask, entropy
        self._answered = 0
        self.__stream = torch_secret(entropy, str(rows.device))
        self.__critics = Critics(count * classes, rows.shape[1] - classes, shape, self.__stream)
        group = torch.from_numpy(place).to(rows.device) * classes + rows[:, -classes:].argmax(1)
        self.__sizes = torch.bincount(group, minlength=count * classes)
        self.__starts = self.__sizes.cumsum(0) - self.__sizes
        # Side by side, and not padded: nothing of another shard is ever looked at. Empty groups look at zeros.
        kept = rows[torch.argsort(group, stable=True), :-classes]
        self.__rows = torch.cat([kept, rows.new_zeros(1, kept.shape[1])])

    def train(self, fakes: Tensor) -> None:
        """One step of every critic on its own rows, against generated rows of the same classes.

        fakes: (classes, rows, width), public; the same for all critics. Says nothing.
        """
        rows, groups = self.__critics.shape.batch, len(self.__sizes)
        chance = torch.rand(2, groups, rows, generator=self.__stream, device=fakes.device, dtype=torch.float64)
        index = self.__starts[:, None] + (chance[0] * self.__sizes[:, None]).long()
        filled = (self.__sizes > 0)[:, None].expand(-1, rows)
        real = self.__rows[torch.where(filled, index, len(self.__rows) - 1)]
        own = torch.arange(groups, device=fakes.device)[:, None] % self._classes
        chosen = fakes[own, (chance[1] * fakes.shape[1]).long(), : -self._classes]
        self.__critics.step(real, chosen, filled.to(real) / rows)

    def measure_upstream_gradient(self, label: str, fakes: Tensor, bound: float, *, joint: bool = False) -> Tensor:
        """The noised gradient of one critic, picked in secret, at generated rows: what goes back to the generator.

        Where the plan holds turns, critics answer one after another, in a public order that depends on nothing.

        fakes: (rows, width), public. Returns (rows, width - classes), the gradient of minus the critic's answers. Each
        row of it is clipped to `bound`, or all together with `joint`; where the picked shard holds no row of
        a generated row's class it is zero before the noise. Any two parties' answers differ by at most the
        sensitivity, 2 bound sqrt(rows), or 2 bound with `joint`, whatever their rows.
        Raises BudgetError if the plan does not hold the answer, or for a bound that is not positive.
        """
        if not bound > 0:
            raise BudgetError("The clipping norm must be positive.")
        sensitivity = 2 * bound * (1.0 if joint else math.sqrt(len(fakes)))
        turn, self._answered = self._answered % self._count, self._answered + 1

        def draw(event: Event) -> Answer:
            picked = turn if isinstance(event, TurnGaussian) else self.__pick()
            answer = clipped(self.__asked(picked, fakes), bound, joint)
            return [noised(answer.double().cpu().numpy(), event.multiplier * sensitivity, self.__entropy)]

        return torch.from_numpy(self.__ask(label, sensitivity, draw)[0]).to(fakes)

    def __pick(self) -> int:
        """Fresh and even but for 2^-128, from the system's entropy: never seeded, never written down."""
        return int.from_bytes(self.__entropy.bytes(16)) % self._count

    def __asked(self, picked: int, fakes: Tensor) -> Tensor:
        """The picked critic's gradients at generated rows, where its shard holds rows of their classes."""
        own = picked * self._classes + fakes[:, -self._classes :].argmax(1)
        found = self.__critics.slope(own, fakes[:, : -self._classes])
        return torch.where((self.__sizes[own] > 0)[:, None], found, 0.0)

    def __repr__(self) -> str:
        return "Shards(private rows and critics)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("Shards cannot be pickled or copied.")


def clipped(rows: Tensor, bound: float, joint: bool) -> Tensor:
    """`rows` with each row's norm, or with `joint` that of all together, cut to `bound`, and a hair below."""
    norms = torch.linalg.vector_norm(rows, dim=None if joint else 1, keepdim=True)
    factors: Tensor = (bound * (1 - 1e-6) / norms.clamp(min=1e-30)).clamp(max=1.0)
    return rows * factors
