"""Coded rows behind noise: the only way in which a coded row influences an output.

`queries/` lists what may be asked. Each query states its sensitivity, its exact answer over some rows as whole numbers
that add up, and the scale of the noise. The vault draws lots, adds up the exact answers of the parts, and noises the
sum once. `Releases.release` charges, draws and stores each measurement. A vault has no getter, no length, no iteration
and no pickle.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ..arrays import Codes, Floats, Mask
from ..errors import BudgetError
from ..rng import coins
from .accounting.events import Event, Gaussian, SubsampledGaussian
from .contribution import MOST_PAIRS, PrivacyUnits, check_units
from .queries.measurements import ShardedMeasurements, may_answer
from .queries.noising import NOISINGS, Noising, WholeNoise
from .queries.parts import Part, RowsInMemory, answers
from .queries.query import RowQuery, added
from .queries.rows import Features, Lot, Sealed
from .release import Release, Releases, on_host

if TYPE_CHECKING:  # A method without networks does not need PyTorch.
    from .shards import CriticConfig, Shards

Result = TypeVar("Result")


class Vault(Sealed, ShardedMeasurements):
    """Coded rows, (rows, columns), of columns called `names`, or parts with such rows. Nothing else is visible outside.

    Every measurement is a release of `releases`. With `units`, the patient of each row of all parts in order, the
    patient is the unit of privacy: sensitivities are those of all of a patient's rows, and all of these join a lot
    together, in whichever parts they are. A release over parts equals that over the same rows in one part, number by
    number. If the answers of several vaults are added up, `noising` determines what leaves this one; otherwise noised
    answers do. Raises BudgetError for units that do not match the rows or the ledger, and for more than 2^29 rows.
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
            raise BudgetError("A vault accepts only its own kinds of noising.")
        parts: Sequence[Part] = [RowsInMemory(rows, names)] if isinstance(rows, np.ndarray) else rows
        check_units(units, rows_in_all := sum(part.count for part in parts), releases.max_rows)
        if rows_in_all > MOST_PAIRS:
            raise BudgetError(f"A vault has at most {MOST_PAIRS:,} rows, so that exact sums fit in 64 bits.")
        self.__parts = tuple(parts)
        self.__units = units
        self.__releases = releases
        self._max_rows = units.max_rows if units else None
        self.__of = sha256("\x1f".join(names).encode()).hexdigest()[:16]  # Names the columns and their order.
        self.__split = False

    @property
    def max_rows(self) -> int | None:
        """Return the public maximum number of rows per patient if the patient is the unit of privacy, else None."""
        return self._max_rows

    def measure(self, label: str, query: RowQuery[Result]) -> Result:
        """Return the noised answer to a query over a new Poisson lot at the planned rate, or over all rows.

        Raises BudgetError, before anything is charged, unless the plan has the measurement as a Gaussian one of a
        Poisson lot or of all rows. Raises it too for a query of an unknown class.
        """
        if type(self.__noising) is not WholeNoise:
            raise BudgetError("This vault's answers are only parts of a sum over several vaults.")
        found = self.release(label, query)
        return query.result(found.arrays)

    def release(self, label: str, query: RowQuery[Any]) -> Release:
        """Return what leaves this vault for such a measurement: arrays with all of the noise, or a part of a sum.

        Raises BudgetError as `measure` does, and for a query that has no such part.
        """
        if not may_answer(query):
            raise BudgetError("A vault answers only its own kinds of queries.")
        if query.whole_patients and len(self.__parts) > 1:
            raise BudgetError("A patient's rows can only be averaged in one part, but this vault has several.")
        sensitivity = query.sensitivity(self._max_rows)
        rate = _rate(self.__releases.event(label), label)

        def draw(event: Event) -> Release:
            exact = added(answers(query, self.__lots(query, rate), self.__parts))
            std, entropy = event.multiplier * sensitivity, self.__releases.entropy
            if type(self.__noising) is not WholeNoise:
                exact = on_host(exact)
            drawn: list[Any] = self.__noising.released(query, exact, std, entropy)
            return Release(drawn, of=self.__named(len(drawn)))

        found = self.__releases.release(label, sensitivity, draw)
        return replace(found, arrays=[*found.by_name(self.__named(len(found.arrays))).values()])

    def __named(self, count: int) -> tuple[str, ...]:
        """Return the names of an answer's arrays, `count` of them: the vault's columns, and each array's number."""
        return tuple(f"{self.__of} {k}" for k in range(count))

    def split_into_shards(self, count: int, features: Features, classes: int, config: CriticConfig) -> Shards:
        """Split the rows into `count` shards, each with a critic, behind their own boundary.

        Rows, or patients with all of their rows, join shards by independent draws, which the checkpoint keeps (see
        `Shards`). `features` is a public, row-by-row map from codes to indicators, with those of `classes` classes
        last. Nothing is measured yet. Each measurement of the shards is a release of this vault's fit.

        Raises BudgetError for a second split: in a public order a unit is charged for one shard's measurements.
        """
        if self.__split:
            raise BudgetError("The rows of a vault can be split into shards only once.")
        self.__split = True
        import torch

        from .shards import Shards

        units, entropy = self.__units, self.__releases.entropy
        rows = sum(part.count for part in self.__parts)

        def draw() -> Floats:
            draws = np.frombuffer(entropy.bytes(8 * (units.count if units else rows)), dtype=np.uint64)
            return (draws % np.uint64(count)).astype(np.float64)  # The draws need not be exactly uniform.

        place = self.__releases.draw_once("shards", draw).astype(np.int64)
        place = place[units.of_row] if units else place
        encoded = torch.cat([part.encoded(features) for part in self.__parts])
        return Shards(encoded, place, count, classes, config, self.__releases, self.__noising)

    def __lots(self, query: RowQuery[Any], rate: float) -> Iterator[tuple[Part, Lot]]:
        """Yield each part with its rows of one new lot and these rows' own draws, in the order of the rows.

        Coins of all rows come before draws of any row, in whichever parts they are. Without draws, a part's coins are
        tossed when its turn comes.
        """
        joined = self.__joined(rate)
        first = 0
        units = self.__units if query.of_patients else None
        for part, mask in zip(self.__parts, list(joined) if query.draws else joined, strict=True):
            rows = slice(first, first := first + part.count)
            size = part.count if mask is None else int(mask.sum())
            secret = self.__releases.entropy.bytes(8 * query.draws * size) if query.draws else b""
            draws = np.frombuffer(secret, dtype=np.uint64).reshape(size, query.draws)
            yield part, Lot(mask, draws, units and units.of_rows(rows))

    def __joined(self, rate: float) -> Iterator[Mask | None]:
        """Yield for each part which of its rows join a new Poisson lot at this rate; a patient's rows join together."""
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
    """Return the rate of a Gaussian measurement of a Poisson lot, or one for all rows. Else raises BudgetError."""
    if isinstance(event, SubsampledGaussian):
        return event.rate
    if not isinstance(event, Gaussian):
        raise BudgetError(f"{label!r} reads a Poisson lot of the rows, so it cannot be planned for a shard.")
    return 1.0
