"""Private rows behind noise: whoever reads this file has read every way in which a coded row can speak.

Each answer is charged, then drawn, in the same function. There is no getter, no length, no iteration, no pickle.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..errors import BudgetError
from ..rng import Entropy, coins
from .accounting.events import Event, SubsampledGaussian
from .accounting.ledger import Ledger
from .checkpoint import Checkpoint
from .clipping import Loss, clipped_gradient_sum
from .contribution import Units
from .networks import Mlp
from .noise import noised
from .pair_clipping import Groups, PairLoss, clipped_pair_sum, halves_below
from .shard_critics import Shape
from .shards import Answer, Shards

Codes = NDArray[np.int32]


class CellMap(Protocol):
    """A public map from a column's codes to cells."""

    @property
    def cells(self) -> int:
        """How many cells there are."""

    def cell_of(self, codes: Codes) -> NDArray[np.integer]:
        """The cell of each code."""


PART = 8192  # rows whose gradients are summed at once
Axes = Sequence[tuple[str, CellMap]]  # the axes of a contingency table: column and map each; "" is any column


class Vault:
    """Coded rows, (rows, columns), and the ledger that every answer is written to first.

    `names` are the columns' names; nothing else is known of the rows outside. With `units` the patient is the unit of
    privacy: what one row can change, a patient's rows can change so many times over, and patients join lots whole. A
    `journal` keeps every answer before it is used, and gives back those of a fit that was killed.
    """

    __slots__ = ("__codes", "__entropy", "__units", "_journal", "_ledger", "_most", "_names")

    def __init__(
        self,
        codes: Codes,
        names: tuple[str, ...],
        ledger: Ledger,
        entropy: Entropy,
        units: Units | None = None,
        journal: Checkpoint | None = None,
    ) -> None:
        if (units.most if units else None) != ledger.most or (units and np.bincount(units.of).max() > units.most):
            raise BudgetError("The rows of patients differ from what the ledger says of them.")
        self.__units = units
        self._journal = journal
        self._most = units.most if units else 1
        self.__codes = codes
        self.__entropy = entropy
        self._names = names
        self._ledger = ledger

    def measure_histograms(self, label: str, maps: Mapping[str, CellMap]) -> dict[str, NDArray[np.float64]]:
        """Noisy counts over the cells of each named column: tables of one axis. A map named "" counts rows."""
        return self.measure_marginals(label, {name: [(name, cells)] for name, cells in maps.items()})

    def measure_marginals(self, label: str, asked: Mapping[str, Axes]) -> dict[str, NDArray[np.float64]]:
        """Noisy contingency tables, all in one answer: one axis a named column, of its map's cells.

        A row adds one to one cell of each of the k tables: L2 sensitivity sqrt(k), times the most rows of a patient.
        Raises BudgetError if the plan does not hold the answer.
        """
        sensitivity = self._most * math.sqrt(len(asked))

        def draw(event: Event) -> Answer:
            std = event.multiplier * sensitivity
            return [noised(self.__counts(axes), std, self.__entropy) for axes in asked.values()]

        return dict(zip(asked, self._answer(label, sensitivity, draw), strict=True))

    def measure_distances(
        self, label: str, asked: Mapping[str, Axes], guesses: Mapping[str, NDArray[np.float64]]
    ) -> dict[str, float]:
        """Noisy L1 distances between the tables asked for and public guesses of them, all in one answer.

        A row changes one cell of each of the k tables by one, so each distance by at most one: L2 sensitivity sqrt(k),
        times the most rows of a patient.
        Raises BudgetError if the plan does not hold the answer.
        """
        sensitivity = self._most * math.sqrt(len(asked))

        def draw(event: Event) -> Answer:
            exact = np.array([np.abs(self.__counts(axes) - guesses[key]).sum() for key, axes in asked.items()])
            return [noised(exact, event.multiplier * sensitivity, self.__entropy)]

        return dict(zip(asked, self._answer(label, sensitivity, draw)[0].tolist(), strict=True))

    def measure_gradient_sum(
        self,
        label: str,
        critic: Mlp,
        loss: Loss,
        features: Callable[[Codes], Tensor],
        bound: float,
        microbatches: int | None = None,
    ) -> tuple[Tensor, ...]:
        """The noised sum of the critic's clipped gradients over a fresh Poisson lot, one tensor a parameter.

        `features` is a public, row-by-row map from codes to the critic's input. With `microbatches`, each row
        joins one of as many groups by a draw of its own and group means are clipped. An empty lot is noised and
        charged like any other; the caller divides by the expected lot. Sensitivity: `bound`, or twice that with
        microbatches, times the most rows of a patient. Raises BudgetError if the plan does not hold another step.
        """

        def draw(event: Event) -> Answer:
            lot = self.__lot(event)
            if microbatches is not None:
                groups = self.__groups(len(lot), microbatches)
                sums = [clipped_gradient_sum(critic, loss, features(lot), bound, groups, microbatches)]
            else:  # a sum over rows, so over parts of the lot: what is in memory at once is bounded
                parts = [lot[k : k + PART] for k in range(0, max(len(lot), 1), PART)]
                sums = [clipped_gradient_sum(critic, loss, features(part), bound) for part in parts]
            std = event.multiplier * self._most * sums[0].l2
            total = [torch.stack(tensors).sum(0) for tensors in zip(*(s.tensors for s in sums), strict=True)]
            return [noised(t.double().cpu().numpy(), std, self.__entropy) for t in total]

        found = self._answer(label, self._most * (bound if microbatches is None else 2 * bound), draw)
        return tuple(torch.from_numpy(a).to(p) for a, p in zip(found, critic.parameters(), strict=True))

    def measure_pair_gradient_sum(
        self,
        label: str,
        critic: Mlp,
        loss: PairLoss,
        features: Callable[[Codes], Tensor],
        pool: Tensor,
        groups: Groups,
    ) -> tuple[Tensor, ...]:
        """The noised sum of the critic's clipped gradients of pairs over a fresh Poisson lot, one tensor a parameter.

        Each row of the lot meets a row of the public `pool`, (pool, features), and a coefficient in [0, 1), both drawn
        here in secret: nothing outside advances by the size of a lot. Sensitivity, with each group of parameters
        divided by its bound: sqrt(groups), times the most rows of a patient. The noise is added once, to the sum.
        Raises BudgetError if the plan does not hold another step.
        """
        sensitivity = self._most * groups.sensitivity

        def draw(event: Event) -> Answer:
            pairs = self.__pairs(event, features, pool)
            total = clipped_pair_sum(critic, loss, *pairs, groups).double().cpu().numpy()
            of = groups.of.cpu().numpy()
            for j, bound in enumerate(groups.bounds):
                std = event.multiplier * sensitivity * bound
                total[of == j] = noised(total[of == j], std, self.__entropy)
            return [total]

        (found,) = self._answer(label, sensitivity, draw)
        parts = np.split(found, np.cumsum([p.numel() for p in critic.parameters()])[:-1])
        return tuple(
            torch.from_numpy(part).reshape(p.shape).to(p) for part, p in zip(parts, critic.parameters(), strict=True)
        )

    def measure_norms_below(
        self,
        label: str,
        critic: Mlp,
        loss: PairLoss,
        features: Callable[[Codes], Tensor],
        pool: Tensor,
        groups: Groups,
    ) -> NDArray[np.float64]:
        """For each group, noised: half the pairs of a fresh Poisson lot whose norm keeps its bound, less half the rest.

        Over the expected lot it is, beside a half, the share of rows that clipping leaves whole. Sensitivity of the k
        numbers together: sqrt(k) / 2, times the most rows of a patient. Raises BudgetError if the plan lacks it.
        """
        sensitivity = self._most * groups.sensitivity / 2

        def draw(event: Event) -> Answer:
            exact = halves_below(critic, loss, *self.__pairs(event, features, pool), groups)
            return [noised(exact.double().cpu().numpy(), event.multiplier * sensitivity, self.__entropy)]

        return self._answer(label, sensitivity, draw)[0]

    def measure_rows_per_patient(self, label: str) -> NDArray[np.float64]:
        """Noisy counts of patients with one, two, ... rows, (most,). A patient adds one to one cell: sensitivity 1.

        Raises BudgetError where the row is the unit, or if the plan does not hold the answer.
        """
        if self.__units is None:
            raise BudgetError("The row is the unit of privacy: there are no patients to count.")
        counts = np.bincount(np.bincount(self.__units.of), minlength=self._most + 1)[1:].astype(np.float64)
        return self._answer(label, 1.0, lambda event: [noised(counts, event.multiplier, self.__entropy)])[0]

    def split_into_shards(self, count: int, features: Callable[[Codes], Tensor], classes: int, shape: Shape) -> Shards:
        """The rows in `count` shards, each with a critic, behind a door of their own.

        Rows, or patients with all of their rows, join shards by independent draws. `features` is a public, row-by-row
        map from codes to indicators, those of `classes` classes last; see `Shards`. Nothing is asked yet: each answer
        of the shards is charged to this vault's ledger.
        """
        units = self.__units
        draws = np.frombuffer(self.__entropy.bytes(8 * (units.count if units else len(self.__codes))), dtype=np.uint64)
        place = (draws % np.uint64(count)).astype(np.int64)  # which shard decides nothing: the draws need not be even
        place = place[units.of] if units else place
        return Shards(features(self.__codes), place, count, classes, shape, self._answer, self.__entropy)

    def _answer(self, label: str, sensitivity: float, draw: Callable[[Event], Answer]) -> Answer:
        """Charge, then recall what a killed fit has on file, or else draw, and keep it before it is used."""
        if label not in self._ledger.allowance:
            raise BudgetError(f"The plan holds no answer called {label!r}.")
        event = self._ledger.allowance[label][0]
        self._ledger.charge(label, event, sensitivity)
        kept = self._journal.recall(label) if self._journal else None
        if kept is not None:
            return kept[0]
        answer = draw(event)
        if self._journal:
            self._journal.keep(label, answer)
        return answer

    def __lot(self, event: Event) -> Codes:
        """A fresh Poisson lot at the event's rate; patients join it whole."""
        rate = event.rate if isinstance(event, SubsampledGaussian) else 1.0
        tossed = coins(self.__entropy, self.__units.count if self.__units else len(self.__codes), rate)
        return self.__codes[tossed[self.__units.of] if self.__units else tossed]

    def __pairs(self, event: Event, features: Callable[[Codes], Tensor], pool: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """A fresh lot's rows, a row of the pool for each, and coefficients, all by each row's own secret draws."""
        lot = self.__lot(event)
        draws = np.frombuffer(self.__entropy.bytes(16 * len(lot)), dtype=np.uint64).reshape(-1, 2)
        chosen = torch.from_numpy((draws[:, 0] % np.uint64(len(pool))).astype(np.int64)).to(pool.device)
        mix = torch.from_numpy((draws[:, 1] >> np.uint64(11)).astype(np.float64) * 2.0**-53).to(pool)
        return features(lot).to(pool), pool[chosen], mix

    def __column(self, name: str) -> Codes:
        return self.__codes[:, self._names.index(name) if name else 0]

    def __counts(self, axes: Axes) -> NDArray[np.float64]:
        """The exact contingency table of some columns: (cells of the first, cells of the second, ...)."""
        shape = tuple(cells.cells for _, cells in axes)
        places = [cells.cell_of(self.__column(name)) for name, cells in axes]
        flat = np.ravel_multi_index(places, shape)
        return np.bincount(flat, minlength=math.prod(shape)).reshape(shape).astype(np.float64)

    def __groups(self, rows: int, count: int) -> Tensor:
        """A uniform group for each row by its own draw: 64 bits modulo `count` are off by less than count/2^64."""
        draws = np.frombuffer(self.__entropy.bytes(8 * rows), dtype=np.uint64)
        return torch.from_numpy((draws % np.uint64(count)).astype(np.int64))

    def __repr__(self) -> str:
        return "Vault(private rows)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("A vault cannot be pickled or copied.")
