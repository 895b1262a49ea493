"""Coded rows behind noise: the one door through which a coded row influences an output.

What may be asked is in `queries/`: each query states its sensitivity, its exact answer over some rows as whole numbers
that add up, and how noise is scaled onto these. Here lots are drawn, exact answers of the parts are added up, and the
sum is noised once. Each measurement is charged, drawn and put on file by `Releases.release`. A vault has no getter, no
length, no iteration and no pickle.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from ..errors import BudgetError
from ..rng import coins
from .accounting.events import Event, Gaussian, SubsampledGaussian
from .clipping import MOST_PAIRS
from .contribution import PrivacyUnits, check_units
from .queries.measurements import QUERIES, ShardedMeasurements
from .queries.noising import NOISINGS, Noising, WholeNoise
from .queries.parts import Part, RowsInMemory, answers
from .queries.query import RowQuery, added
from .queries.rows import Codes, Features, Floats, Lot, Sealed
from .release import Release, Releases
from .shards import CriticConfig, Shards

Result = TypeVar("Result")


class Vault(Sealed, ShardedMeasurements):
    """Coded rows, (rows, columns), of columns called `names`, or parts that hold them; nothing else is known outside.

    Every measurement is a release of `releases`. With `units`, the patient of each row of all parts in order, the
    patient is the unit of privacy: sensitivities are those of all of a patient's rows, and patients join lots whole, in
    whichever parts their rows lie. Over parts every release is that over the same rows in one part, number by number.
    Where the answers of several vaults are added up, `noising` says what leaves this one; else noised answers do.
    Raises BudgetError for units that are not those of the rows or of the ledger, and for more than 2^29 rows.
    """

    __slots__ = ("__noising", "__of", "__parts", "__releases", "__split", "__units", "_max_rows")

    def __init__(
        self,
        rows: Codes | Sequence[Part],
        names: tuple[str, ...],
        releases: Releases,
        units: PrivacyUnits | None = None,
        noising: Noising | None = None,
    ) -> None:
        self.__noising = noising or WholeNoise()
        if type(self.__noising) not in NOISINGS:
            raise BudgetError("A vault takes its own kinds of noising alone.")
        parts: Sequence[Part] = [RowsInMemory(rows, names)] if isinstance(rows, np.ndarray) else rows
        check_units(units, rows_in_all := sum(part.count for part in parts), releases.max_rows)
        if rows_in_all > MOST_PAIRS:
            raise BudgetError(f"A vault holds {MOST_PAIRS:,} rows at most, whose exact sums fit in 64 bits.")
        self.__parts, self.__units, self.__releases = tuple(parts), units, releases
        self._max_rows = units.max_rows if units else None
        self.__of = sha256("\x1f".join(names).encode()).hexdigest()[:16]  # of these columns, in this order
        self.__split = False

    @property
    def max_rows(self) -> int | None:
        """The most rows of a patient, where the patient is the unit of privacy. It is public."""
        return self._max_rows

    def measure(self, label: str, query: RowQuery[Result]) -> Result:
        """The noised answer to a query over a fresh Poisson lot at the planned rate, which may be of all rows.

        Raises BudgetError, before anything is charged, where the plan does not hold the measurement or plans it as
        another mechanism than a Gaussian one of a Poisson lot, and for a query of an unknown class.
        """
        if type(self.__noising) is not WholeNoise:
            raise BudgetError("This vault's answers are parts of a sum over several: no answer is one by itself.")
        return query.result(self.release(label, query).arrays)

    def release(self, label: str, query: RowQuery[Any]) -> Release:
        """What leaves this vault of such a measurement: of all of the noise the noised arrays, else a part of a sum.

        Raises BudgetError as `measure` does, and for a query that has no such part.
        """
        if type(query) not in QUERIES:
            raise BudgetError("A vault answers its own kinds of queries alone.")
        if query.whole_patients and len(self.__parts) > 1:
            raise BudgetError("A patient's rows are averaged where they lie in one part: this vault has several.")
        sensitivity, rate = query.sensitivity(self._max_rows), _rate(self.__releases.event(label), label)

        def draw(event: Event) -> Release:
            exact = added(answers(query, self.__lots(query, rate), self.__parts))
            std, entropy = event.multiplier * sensitivity, self.__releases.entropy
            arrays = self.__noising.released(query, exact, std, entropy)
            return Release(arrays, of=self.__named(len(arrays)))

        found = self.__releases.release(label, sensitivity, draw)
        return replace(found, arrays=[*found.by_name(self.__named(len(found.arrays))).values()])

    def __named(self, count: int) -> tuple[str, ...]:
        """Return the names of an answer's arrays, `count` of them: the vault's columns, and each array's number."""
        return tuple(f"{self.__of} {k}" for k in range(count))

    def split_into_shards(self, count: int, features: Features, classes: int, config: CriticConfig) -> Shards:
        """The rows in `count` shards, each with a critic, behind a boundary of their own.

        Rows, or patients with all of their rows, join shards by independent draws, which are kept in the checkpoint:
        `Shards` says why. `features` is a public, row-by-row map from codes to indicators, those of `classes` classes
        last. Nothing is measured yet; each measurement of the shards is a release of this vault's fit.

        Raises BudgetError for a second split: in a public order a unit is charged for one shard's measurements.
        """
        if self.__split:
            raise BudgetError("The rows of a vault are split into shards once.")
        self.__split = True
        units, entropy = self.__units, self.__releases.entropy
        rows = sum(part.count for part in self.__parts)

        def draw() -> Floats:
            draws = np.frombuffer(entropy.bytes(8 * (units.count if units else rows)), dtype=np.uint64)
            return (draws % np.uint64(count)).astype(np.float64)  # nothing rests on how even the draws are

        place = self.__releases.draw_once("shards", draw).astype(np.int64)
        place = place[units.of_row] if units else place
        encoded = torch.cat([part.encoded(features) for part in self.__parts])
        return Shards(encoded, place, count, classes, config, self.__releases, self.__noising)

    def __lots(self, query: RowQuery[Any], rate: float) -> Iterator[tuple[Part, Lot]]:
        """Each part with its rows of one fresh lot, and these rows' own draws, in the order of the rows.

        Coins of all rows come before draws of any, whatever parts they lie in; without draws a part's coins are tossed
        when its turn comes.
        """
        joined, first = self.__joined(rate), 0
        units = self.__units if query.of_patients else None
        for part, mask in zip(self.__parts, list(joined) if query.draws else joined, strict=True):
            rows = slice(first, first := first + part.count)
            size = part.count if mask is None else int(mask.sum())
            secret = self.__releases.entropy.bytes(8 * query.draws * size) if query.draws else b""
            draws = np.frombuffer(secret, dtype=np.uint64).reshape(size, query.draws)
            yield part, Lot(mask, draws, units and units.of_rows(rows))

    def __joined(self, rate: float) -> Iterator[NDArray[np.bool_] | None]:
        """For each part, which of its rows join a fresh Poisson lot at this rate; patients join it whole."""
        units, entropy, first = self.__units, self.__releases.entropy, 0
        patients = coins(entropy, units.count, rate) if units and rate < 1 else None
        for part in self.__parts:
            rows = slice(first, first := first + part.count)
            if rate == 1:
                yield None
            elif units is None or patients is None:
                yield coins(entropy, part.count, rate)
            else:
                yield patients[units.of_row[rows]]


def _rate(event: Event, label: str) -> float:
    """The rate of a Gaussian measurement of a Poisson lot; one where every row takes part. Else raises BudgetError."""
    if isinstance(event, SubsampledGaussian):
        return event.rate
    if not isinstance(event, Gaussian):
        raise BudgetError(f"{label!r} reads a Poisson lot of the rows: it is not planned as a measurement of a shard.")
    return 1.0
