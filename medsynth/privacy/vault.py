"""Coded rows behind noise: whoever reads this file has read every way in which a coded row influences the output.

Each measurement is charged, drawn and put on file by `Releases.release`. A vault has no getter, no length, no
iteration and no pickle.
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
from ..rng import coins
from .accounting.events import Event, SubsampledGaussian
from .clipping import PRODUCT_BITS, SUM_BITS, Loss, clipped_gradient_sum, units
from .contribution import PrivacyUnits, check_units
from .exact.second_moments import ROOT_TWO, UNIT, second_moments, symmetric
from .exact.sums import LongSum
from .networks import Mlp
from .noise import noised
from .pair_clipping import Groups, PairLoss, clipped_pair_sum, halves_below
from .release import Release, Releases
from .shard_critics import CriticConfig
from .shards import Shards

Codes = NDArray[np.int32]


class CellMap(Protocol):
    """A public map from codes to cells: of a column, (rows,), or of several, (rows, columns)."""

    @property
    def cells(self) -> int:
        """How many cells there are."""

    def cell_of(self, codes: Codes) -> NDArray[np.integer]:
        """The cell of each row."""


CHUNK_NUMBERS = 1 << 21  # features of rows whose gradients are summed at once: sums of whole numbers know no chunks
DISTANCE_UNIT = 2.0**-20  # guesses of tables are rounded to it, so that distances are whole multiples of it
LARGEST_GUESS = 2.0**40  # of rows in a table
# The axes of a contingency table: a column, or several, and the map from their codes to cells; "" is any column.
Axes = Sequence[tuple[str | tuple[str, ...], CellMap]]


def column_of(codes: Codes, names: tuple[str, ...], name: str | tuple[str, ...]) -> Codes:
    """The codes of one column, (rows,), or of several, (rows, columns), of those called `names`; "" is any column."""
    if isinstance(name, tuple):
        return codes[:, [names.index(one) for one in name]]
    return codes[:, names.index(name) if name else 0]


class Vault:
    """Coded rows, (rows, columns), of columns called `names`; nothing else is known of the rows outside.

    Every measurement is a release of `releases`. With `units` the patient is the unit of privacy: sensitivities are
    those of a row times the rows that a patient may have, and patients join lots whole.
    """

    __slots__ = ("__codes", "__releases", "__units", "_max_rows", "_names")

    def __init__(
        self, codes: Codes, names: tuple[str, ...], releases: Releases, units: PrivacyUnits | None = None
    ) -> None:
        check_units(units, len(codes), releases.max_rows)
        self.__codes, self.__units, self.__releases = codes, units, releases
        self._max_rows = units.max_rows if units else 1
        self._names = names

    def measure_histograms(self, label: str, maps: Mapping[str, CellMap]) -> dict[str, NDArray[np.float64]]:
        """Noisy counts over the cells of each named column: tables of one axis. A map named "" counts rows."""
        return self.measure_marginals(label, {name: [(name, cells)] for name, cells in maps.items()})

    def measure_marginals(
        self, label: str, tables: Mapping[str, Axes], weights: Mapping[str, float] | None = None
    ) -> dict[str, NDArray[np.float64]]:
        """Noisy contingency tables, all in one release: one axis a named column, of its map's cells.

        A row adds one to one cell of each table. Counts are multiplied by the table's weight, one if not given, noised
        and divided by it again: L2 sensitivity the root of the sum of squared weights, times the most rows of a
        patient. Raises BudgetError if the plan does not hold the measurement, ValueError for a weight of zero or less.
        """
        each = weights or dict.fromkeys(tables, 1.0)
        if min(each.values(), default=1.0) <= 0:
            raise ValueError("The weights of tables must be above zero.")
        sensitivity = self._max_rows * math.hypot(*(each[name] for name in tables))

        def draw(event: Event) -> Release:
            std = event.multiplier * sensitivity
            return Release([self.__noised(self.__counts(axes), std / each[name]) for name, axes in tables.items()])

        return dict(zip(tables, self.__releases.release(label, sensitivity, draw).arrays, strict=True))

    def measure_distances(
        self, label: str, tables: Mapping[str, Axes], guesses: Mapping[str, NDArray[np.float64]]
    ) -> dict[str, float]:
        """Noisy L1 distances between contingency tables and public guesses of them, all in one release.

        A row changes one cell of each of the k tables by one, so each distance by at most one: L2 sensitivity sqrt(k),
        times the most rows of a patient. Guesses are rounded to 2^-20. Raises BudgetError if the plan does not hold the
        measurement, or for a guess that is no table of rows.
        """
        sensitivity = self._max_rows * math.sqrt(len(tables))
        if not all(np.abs(guess).sum() < LARGEST_GUESS for guess in guesses.values()):
            raise BudgetError("A guess of a contingency table must hold numbers of rows.")

        def draw(event: Event) -> Release:
            exact = np.array([self.__distance(axes, guesses[key]) for key, axes in tables.items()], np.int64)
            return Release([self.__noised(exact, event.multiplier * sensitivity, DISTANCE_UNIT)])

        return dict(zip(tables, self.__releases.release(label, sensitivity, draw).arrays[0].tolist(), strict=True))

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
        sensitivity = self._max_rows * (bound if microbatches is None else 2 * bound)

        def draw(event: Event) -> Release:
            lot, total = self.__lot(event), list[LongSum]()
            # Microbatches need the lot at once; a sum over rows is one over chunks, so that memory is bounded.
            wide = sum(parameter.shape[-1] for parameter in critic.parameters())
            size = max(1, CHUNK_NUMBERS // wide) if microbatches is None else max(len(lot), 1)
            grouped = () if microbatches is None else (self.__groups(len(lot), microbatches), microbatches)
            for k in range(0, max(len(lot), 1), size):
                found = clipped_gradient_sum(critic, loss, features(lot[k : k + size]), bound, *grouped)
                total = total or [LongSum() for _ in found.whole]
                for part, whole in zip(total, found.whole, strict=True):
                    part.add(whole)
            std, unit = event.multiplier * self._max_rows * found.l2, units(bound)[1]
            rounded = [part.divided(PRODUCT_BITS - SUM_BITS).cpu().numpy() for part in total]
            return Release([self.__noised(whole, std, unit) for whole in rounded])

        arrays = self.__releases.release(label, sensitivity, draw).arrays
        return tuple(torch.from_numpy(a).to(p) for a, p in zip(arrays, critic.parameters(), strict=True))

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

        Each row of the lot is paired with a row of the public `pool`, (pool, features), and a coefficient in [0, 1),
        both drawn here in secret: no public stream advances by the size of a lot. Sensitivity, with each group of
        parameters divided by its bound: sqrt(groups), times the most rows of a patient. The noise is added once, to
        the sum. Raises BudgetError if the plan does not hold another step.
        """
        sensitivity = self._max_rows * groups.sensitivity

        def draw(event: Event) -> Release:
            pairs = self.__pairs(event, features, pool)
            total = clipped_pair_sum(critic, loss, *pairs, groups).cpu().numpy()
            of, noisy = groups.of.cpu().numpy(), np.zeros(total.shape)
            for j, (bound, unit) in enumerate(zip(groups.bounds, groups.units, strict=True)):
                std = event.multiplier * sensitivity * bound
                noisy[of == j] = self.__noised(total[of == j], std, unit)
            return Release([noisy])

        (total,) = self.__releases.release(label, sensitivity, draw).arrays
        parts = np.split(total, np.cumsum([p.numel() for p in critic.parameters()])[:-1])
        return tuple(
            torch.from_numpy(part).reshape(p.shape).to(p) for part, p in zip(parts, critic.parameters(), strict=True)
        )

    def measure_second_moments(
        self, label: str, features: Callable[[Codes], NDArray[np.float64]], given: tuple[str, CellMap], width: int
    ) -> NDArray[np.float64]:
        """Noisy sums of x x^T over the rows of each class, (classes, width, width), x clipped to norm one.

        `features` is a public, row-by-row map from codes to x, (rows, width); `given`: the target and its classes. L2
        sensitivity one (`exact/second_moments.py`), times a patient's rows. Raises BudgetError if the plan lacks it.
        """
        sensitivity, codes = float(self._max_rows), self.__codes

        def draw(event: Event) -> Release:
            labels = given[1].cell_of(column_of(codes, self._names, given[0]))
            exact = second_moments(codes, features, labels, given[1].cells, width)
            std = event.multiplier * sensitivity
            return Release([self.__noised(exact.diagonal, std, UNIT), self.__noised(exact.above, std / ROOT_TWO, UNIT)])

        return symmetric(*self.__releases.release(label, sensitivity, draw).arrays)

    def measure_norms_below(
        self,
        label: str,
        critic: Mlp,
        loss: PairLoss,
        features: Callable[[Codes], Tensor],
        pool: Tensor,
        groups: Groups,
    ) -> NDArray[np.float64]:
        """For each group, noised: half the pairs of a fresh Poisson lot within the group's bound, less half the rest.

        Over the expected lot it is, beside a half, the share of rows that clipping leaves unchanged. Sensitivity of
        the k numbers together: sqrt(k) / 2, times the most rows of a patient. Raises BudgetError if the plan lacks it.
        """
        sensitivity = self._max_rows * groups.sensitivity / 2

        def draw(event: Event) -> Release:
            exact = halves_below(critic, loss, *self.__pairs(event, features, pool), groups)
            return Release([self.__noised(exact.cpu().numpy(), event.multiplier * sensitivity, 0.5)])

        return self.__releases.release(label, sensitivity, draw).arrays[0]

    def measure_rows_per_patient(self, label: str) -> NDArray[np.float64]:
        """Noisy counts of patients with one, two, ... rows, (max_rows,). A patient adds one to one cell: sensitivity 1.

        Raises BudgetError where the row is the unit, or if the plan does not hold the measurement.
        """
        if self.__units is None:
            raise BudgetError("The row is the unit of privacy: there are no patients to count.")
        counts = np.bincount(np.bincount(self.__units.of_row), minlength=self._max_rows + 1)[1:]

        def draw(event: Event) -> Release:
            return Release([self.__noised(counts, event.multiplier)])

        return self.__releases.release(label, 1.0, draw).arrays[0]

    def split_into_shards(
        self, count: int, features: Callable[[Codes], Tensor], classes: int, config: CriticConfig
    ) -> Shards:
        """The rows in `count` shards, each with a critic, behind a boundary of their own.

        Rows, or patients with all of their rows, join shards by independent draws, which are kept in the checkpoint:
        `Shards` says why. `features` is a public, row-by-row map from codes to indicators, those of `classes` classes
        last. Nothing is measured yet; each measurement of the shards is a release of this vault's fit.
        """
        units, entropy = self.__units, self.__releases.entropy

        def draw() -> NDArray[np.float64]:
            draws = np.frombuffer(entropy.bytes(8 * (units.count if units else len(self.__codes))), dtype=np.uint64)
            return (draws % np.uint64(count)).astype(np.float64)  # nothing rests on how even the draws are

        place = self.__releases.draw_once("shards", draw).astype(np.int64)
        place = place[units.of_row] if units else place
        return Shards(features(self.__codes), place, count, classes, config, self.__releases)

    def __noised(self, whole: NDArray[np.int64], std: float, unit: float = 1.0) -> NDArray[np.float64]:
        """Whole multiples of `unit`, a power of two, with noise of standard deviation `std`."""
        return noised(whole, std / unit, self.__releases.entropy) * unit

    def __lot(self, event: Event) -> Codes:
        """A fresh Poisson lot at the event's rate; patients join it whole."""
        rate = event.rate if isinstance(event, SubsampledGaussian) else 1.0
        tossed = coins(self.__releases.entropy, self.__units.count if self.__units else len(self.__codes), rate)
        return self.__codes[tossed[self.__units.of_row] if self.__units else tossed]

    def __pairs(self, event: Event, features: Callable[[Codes], Tensor], pool: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """A fresh lot's rows, a row of the pool for each, and coefficients, all by each row's own secret draws."""
        lot = self.__lot(event)
        draws = np.frombuffer(self.__releases.entropy.bytes(16 * len(lot)), dtype=np.uint64).reshape(-1, 2)
        partner = torch.from_numpy((draws[:, 0] % np.uint64(len(pool))).astype(np.int64)).to(pool.device)
        mix = torch.from_numpy((draws[:, 1] >> np.uint64(11)).astype(np.float64) * 2.0**-53).to(pool)
        return features(lot).to(pool), pool[partner], mix

    def __counts(self, axes: Axes) -> NDArray[np.int64]:
        """The exact contingency table of some columns, (cells of the first, cells of the second, ...)."""
        shape = tuple(cells.cells for _, cells in axes)
        places = [cells.cell_of(column_of(self.__codes, self._names, name)) for name, cells in axes]
        return np.bincount(np.ravel_multi_index(places, shape), minlength=math.prod(shape)).reshape(shape)

    def __distance(self, axes: Axes, guess: NDArray[np.float64]) -> int:
        """The L1 distance of a contingency table to a public guess, in whole multiples of `DISTANCE_UNIT`."""
        one = round(1 / DISTANCE_UNIT)
        return int(np.abs(self.__counts(axes) * one - np.rint(guess * one).astype(np.int64)).sum())

    def __groups(self, rows: int, count: int) -> Tensor:
        """A uniform group for each row by its own draw: 64 bits modulo `count` are off by less than count/2^64."""
        draws = np.frombuffer(self.__releases.entropy.bytes(8 * rows), dtype=np.uint64)
        return torch.from_numpy((draws % np.uint64(count)).astype(np.int64))

    def __repr__(self) -> str:
        return "Vault(private rows)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("A vault cannot be pickled or copied.")
