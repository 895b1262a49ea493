"""A budget and a method's needs become noise multipliers, before any row is read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import BudgetError, UsageError
from . import accountant
from .event import Event, Gaussian, SubsampledGaussian, Thresholded
from .ledger import Ledger

TOLERANCE = 0.004  # the plan spends at least this close to the budget, relatively
LARGEST = 1e4  # a scale of noise beyond which an answer says nothing
DISCOVERY_DELTA = 0.1  # share of delta that key discovery may use


@dataclass(frozen=True, kw_only=True)
class Need:
    """One kind of answer a method asks for: `weight` is its noise multiplier relative to the other needs'.

    `rate` below 1 makes it a Poisson-sampled step; `discovery` makes it a thresholded one.
    """

    label: str
    weight: float
    rate: float = 1.0
    times: int = 1
    discovery: bool = False

    def event(self, scale: float, delta: float) -> Event:
        """The event at noise `scale`."""
        if self.discovery:
            return Thresholded(multiplier=self.weight * scale, delta=DISCOVERY_DELTA * delta)
        if self.rate < 1:
            return SubsampledGaussian(multiplier=self.weight * scale, rate=self.rate)
        return Gaussian(multiplier=self.weight * scale)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What will be asked, with which noise, and what it costs. Nothing in it depends on a row."""

    epsilon_asked: float
    epsilon: float
    delta: float
    rows: int
    accountant: accountant.Accountant
    events: dict[str, tuple[Event, int]]

    def multiplier(self, label: str) -> float:
        """The noise multiplier of the answer called `label`."""
        return self.events[label][0].multiplier

    def ledger(self, random_source: str) -> Ledger:
        """An empty ledger that admits exactly this plan."""
        return Ledger(
            delta=self.delta,
            accountant=self.accountant,
            random_source=random_source,
            allowance=dict(self.events),
        )

    def shares(self) -> dict[str, float]:
        """Each label's part of the privacy loss, as its share of the sum of rate^2 times / multiplier^2.

        Epsilon is not additive; this is the field's common first-order figure for who spends it.
        """
        parts = {
            label: times * (getattr(event, "rate", 1.0) / event.multiplier) ** 2
            for label, (event, times) in self.events.items()
        }
        return {label: part / sum(parts.values()) for label, part in parts.items()}

    def spent_table(self, label: str, points: int = 8) -> list[tuple[int, float]]:
        """(steps of `label` done, epsilon spent by then, everything else included), for progress to read."""
        event, times = self.events[label]
        others = [pair for name, pair in self.events.items() if name != label]
        steps = sorted({round(times * k / points) for k in range(1, points)})
        table = [(n, accountant.epsilon([*others, (event, n)], self.delta, self.accountant)) for n in steps if n]
        return [*table, (times, self.epsilon)]


def check_budget(epsilon: float, delta: float) -> None:
    """Raises UsageError unless epsilon is positive and finite and delta lies in (0, 1)."""
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise UsageError("epsilon must be a positive, finite number. Zero does not switch privacy off; --no-dp does.")
    if not (math.isfinite(delta) and 0 < delta < 1):
        raise UsageError("delta must lie strictly between 0 and 1; 1e-5 is usual.")


def make_plan(needs: Sequence[Need], *, epsilon: float, delta: float, rows: int) -> Plan:
    """The least noise, in the proportions of `needs`, whose total stays at or below `epsilon`.

    Raises UsageError for a budget out of range and BudgetError where no usable noise meets it.
    """
    check_budget(epsilon, delta)
    chosen: accountant.Accountant = "prv"

    def cost(scale: float) -> float:
        nonlocal chosen
        events = [(need.event(scale, delta), need.times) for need in needs]
        if chosen == "prv":
            try:
                return accountant.epsilon(events, delta, "prv")
            except (BudgetError, ValueError, RuntimeError, FloatingPointError, MemoryError):
                chosen = "rdp"
                raise _Restart from None
        return accountant.epsilon(events, delta, "rdp")

    try:
        scale, spent = _least_noise(cost, needs, delta, epsilon)
    except _Restart:
        scale, spent = _least_noise(cost, needs, delta, epsilon)
    return Plan(
        epsilon_asked=epsilon,
        epsilon=spent,
        delta=delta,
        rows=rows,
        accountant=chosen,
        events={need.label: (need.event(scale, delta), need.times) for need in needs},
    )


class _Restart(Exception):
    """PRV failed: search again by RDP, from the start, so that one accountant made the whole plan."""


def _least_noise(cost, needs, delta, epsilon):  # type: ignore[no-untyped-def]
    """The bracket is found by RDP, which is quick and lies above PRV; then PRV bisects inside it."""

    def quick(scale: float) -> float:
        return accountant.epsilon([(n.event(scale, delta), n.times) for n in needs], delta, "rdp")

    low, high = 1e-2, LARGEST
    if quick(high) > epsilon:
        raise BudgetError(
            f"epsilon {epsilon:g} at delta {delta:g} is too small for this method. Give a larger --epsilon."
        )
    while high / low > 1.02:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if quick(middle) <= epsilon else (middle, high)
    high *= 1.02
    low, spent = high / 1.6, cost(high)
    while spent > epsilon:  # never in practice; the safe side must not rest on it
        low, high = high, high * 1.1
        spent = cost(high)
    while spent < (1 - TOLERANCE) * epsilon and high / low > 1 + 1e-6:
        middle = math.sqrt(low * high)
        value = cost(middle)
        if value <= epsilon:
            high, spent = middle, value
        else:
            low = middle
    return high, spent
