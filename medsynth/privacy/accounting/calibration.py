"""Turn a budget and a method's planned charges into noise multipliers, before any row is read."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ...errors import BudgetError
from ...row_count import PARTS_OF_A_ROW
from . import accountant
from .events import (
    Event,
    Gaussian,
    PublicOrderGaussian,
    ShardSampledGaussian,
    SubsampledGaussian,
    Thresholded,
    loss_shares,
    to_json,
)
from .ledger import Ledger
from .limits import check_budget
from .unit import PrivacyUnit

TOLERANCE = 0.004  # The plan spends at least this close to the budget, relatively.
SMALLEST_SCALE, LARGEST_SCALE = 1e-2, 1e4  # Range of noise scales in which a plan is sought.
PRV_FAILURES = (BudgetError, ValueError, RuntimeError, FloatingPointError, MemoryError)  # Opacus issue 601
PARTITION_SELECTION_DELTA, SELECTIONS_DELTA = 0.1, 0.2  # Shares of delta that a partition selection, and all, may use.


@dataclass(frozen=True, kw_only=True)
class Charge:
    """A planned charge: one kind of measurement of a fit. `weight` is its noise multiplier relative to the others'.

    A `rate` below 1 is that of a Poisson lot. `thresholded` means partition selection. `shards` means one of this
    number of shards, sampled in secret or, with `public_order`, one after another.
    """

    label: str
    weight: float
    rate: float = 1.0
    times: int = 1
    thresholded: bool = False
    shards: int | None = None
    public_order: bool = False

    def event(self, scale: float, delta: float, selections: int = 1) -> Event:
        """Return the event at noise `scale`, in a plan with this number of partition selections."""
        if self.thresholded:
            share = min(PARTITION_SELECTION_DELTA, SELECTIONS_DELTA / selections)
            return Thresholded(multiplier=self.weight * scale, delta=share * delta)
        if self.shards is not None:
            kind = PublicOrderGaussian if self.public_order else ShardSampledGaussian
            return kind(multiplier=self.weight * scale, shards=self.shards)
        if self.rate < 1:
            return SubsampledGaussian(multiplier=self.weight * scale, rate=self.rate)
        return Gaussian(multiplier=self.weight * scale)


def of_table(table: str, label: str) -> str:
    """Return the label of a measurement of one of several tables, by its name; "" for a single table."""
    return f"{table}: {label}" if table else label


Query = Charge  # its name in earlier versions, for methods outside this package


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What will be measured, with which noise, and what it costs. Nothing in it depends on a row."""

    epsilon_asked: float
    epsilon: float
    delta: float
    rows: int
    accountant: accountant.Accountant
    events: dict[str, tuple[Event, int]]
    max_rows: int | None = None  # Per patient, if the patient is the unit of privacy.
    one_row_a_patient: bool = False  # Whether it was declared that no two rows share a patient.
    planned_rows: int | None = None  # The count that the plan was made for, if `rows` was measured later.
    rows_std: float | None = None  # The error of `rows`, if known: from coins, from noise, or zero.
    noises: float = 1.0  # Factor on the planned variance if several vaults each add noise.

    def used_on(self, rows: int, rows_std: float | None = None) -> Plan:
        """Return the plan for a noisy row count: rates, steps and noise stay; weights and divisors use the count."""
        rounded = None if rows_std is None else round(rows_std * PARTS_OF_A_ROW) / PARTS_OF_A_ROW
        found = replace(self, rows_std=rounded)
        return found if rows == self.rows else replace(found, rows=rows, planned_rows=self.planned_rows or self.rows)

    @property
    def unit(self) -> PrivacyUnit:
        """Return the unit of privacy, as it was declared."""
        return PrivacyUnit(self.max_rows, self.one_row_a_patient)

    def noise(self, label: str) -> float:
        """Return the standard deviation of the noise of the measurement `label` over its sensitivity to one row.

        A patient's rows are all in one shard, so the sensitivity of a shard's measurement is that of its whole value.
        """
        event = self.events[label][0]
        of_shard = isinstance(event, ShardSampledGaussian | PublicOrderGaussian)
        return event.multiplier * math.sqrt(self.noises) * (1 if of_shard else self.max_rows or 1)

    @property
    def equivalent_rows(self) -> int:
        """Return the number of rows that would get the same noise with the row as the unit. Budget rules use it."""
        return equivalent_rows(self.planned_rows or self.rows, self.max_rows, self.noises)

    def ledger(self, random_source: str) -> Ledger:
        """Return an empty ledger that admits exactly this plan."""
        return Ledger(
            delta=self.delta,
            accountant=self.accountant,
            random_source=random_source,
            allowance=dict(self.events),
            max_rows=self.max_rows,
            one_row_a_patient=self.one_row_a_patient,
        )

    def to_json(self) -> dict[str, object]:
        """Return plain data that identifies this plan."""
        return {label: [to_json(event), times] for label, (event, times) in self.events.items()}

    def shares(self) -> dict[str, float]:
        """Return each label's share of the sum of rate^2 times / multiplier^2, rounded so that they add up to one."""
        return dict(zip(self.events, loss_shares(self.events.values()), strict=True))

    @property
    def most_frequent(self) -> str:
        """Return the label of the measurement that is made most often."""
        return max(self.events, key=lambda label: self.events[label][1])

    def epsilon_by_release(self, points: int = 8) -> list[tuple[int, float]]:
        """Return (times of the most frequent measurement, epsilon of these and all others), for progress bars."""
        label = self.most_frequent
        event, times = self.events[label]
        others = [pair for name, pair in self.events.items() if name != label]
        steps = sorted({round(times * k / points) for k in range(1, points)})
        table = [
            (n, accountant.epsilon([*others, (event, n)], self.delta, self.accountant)) for n in steps if 0 < n < times
        ]
        return [*table, (times, self.epsilon)]


def equivalent_rows(rows: int, max_rows: int | None, noises: float = 1.0) -> int:
    """Return the number of rows with the same noise in proportion if the row is the unit and noise is added once.

    >>> equivalent_rows(1000, None), equivalent_rows(1000, 2), equivalent_rows(1000, None, 4.0)
    (1000, 500, 500)
    """
    return max(1, math.floor(rows / ((max_rows or 1) * math.sqrt(noises))))


def make_plan(
    queries: Sequence[Charge], *, epsilon: float, delta: float, rows: int, max_rows: int | None = None,
    one_row_a_patient: bool = False,
) -> Plan:  # fmt: skip
    """Return the plan with the least noise, in the proportions of `queries`, whose total is at most `epsilon`.

    `max_rows`: of a patient, if the patient is the unit of privacy. `one_row_a_patient`: whether it was declared that
    no two rows share a patient.

    Raises UsageError for a budget out of range, and BudgetError if no usable noise meets it.
    """
    check_budget(epsilon, delta)
    selections = sum(query.thresholded for query in queries)

    def events(scale: float) -> list[tuple[Event, int]]:
        return [(query.event(scale, delta, selections), query.times) for query in queries]

    @functools.cache
    def cost(scale: float, by: accountant.Accountant) -> float:
        return accountant.epsilon(events(scale), delta, by)

    # RDP is quick and above PRV. The exact curve of PRV, if there is one, is quicker still.
    plain = accountant.is_plain(events(1.0))
    quick: accountant.Accountant = "prv" if plain else "rdp"
    if cost(LARGEST_SCALE, quick) > epsilon:
        raise BudgetError(
            f"epsilon {epsilon:g} at delta {delta:g} is too small for this method. Set a larger `epsilon`."
        )
    # The quick accountant finds a scale that is safe under both. PRV then lowers it.
    chosen = quick
    scale = _least(lambda z: cost(z, quick), SMALLEST_SCALE, LARGEST_SCALE, epsilon)
    with contextlib.suppress(*PRV_FAILURES):
        if not plain and cost(scale, "prv") <= epsilon:
            looseness = 1.6 if all(query.shards is None for query in queries) else 2.2  # Of the Renyi bound.
            scale = _least(lambda z: cost(z, "prv"), scale / looseness, scale, epsilon)
            chosen = "prv"
    return Plan(
        epsilon_asked=epsilon,
        epsilon=cost(scale, chosen),
        delta=delta,
        rows=rows,
        max_rows=max_rows,
        one_row_a_patient=one_row_a_patient,
        accountant=chosen,
        events={query.label: pair for query, pair in zip(queries, events(scale), strict=True)},
    )


def _least(cost: Callable[[float], float], low: float, high: float, epsilon: float) -> float:
    """Return nearly the least scale in [low, high] that costs at most `epsilon`; the scale `high` must cost no more.

    The logarithm of the cost is nearly linear in that of the scale, so secants need few calls of a slow accountant. If
    a secant leaves the bracket, or has been tried three times, the bracket is halved instead.
    """
    goal, slope = (1 - TOLERANCE / 2) * epsilon, -1.0
    at = high
    value = cost(high)
    reached, tries = value, 0
    while reached < (1 - TOLERANCE) * epsilon and high / low > 1 + TOLERANCE / 10:
        tries += 1
        guess = at * math.exp(math.log(goal / value) / slope) if 0 < value < math.inf and tries % 4 else 0.0
        new = guess if low < guess < high else math.sqrt(low * high)
        was = (at, value)
        at = new
        value = cost(new)
        if 0 < value < math.inf and 0 < was[1] < math.inf and value != was[1]:
            slope = min(-0.2, math.log(value / was[1]) / math.log(at / was[0]))
        if value <= epsilon:
            high, reached = at, value
        else:
            low = at
    return high
