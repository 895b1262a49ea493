"""The claim, as the artifact's ledger makes it: epsilon, the attacker's trade-off curve, plain odds, every event."""

from __future__ import annotations

import math

import numpy as np

from ...artifact import Model, claim
from ...privacy.accounting import accountant
from ...privacy.accounting.events import first_order_loss
from ..data.records import Part

POINTS = 41  # of the trade-off curve


class Event(Part):
    """One line of the ledger. `share`: of the sum of count (rate / multiplier)^2; epsilon itself is not additive."""

    label: str
    mechanism: str
    count: int
    multiplier: float
    rate: float
    sensitivity: float
    share: float


class Claim(Part):
    """Sections 1 and 6. `guess_right`: the best chance to guess whether one row was in the table, from even odds.

    `curve` bounds any attacker's true-positive rate (second) at each false-positive rate (first).
    """

    sentence: str
    epsilon: float
    delta: float
    delta_times_rows: float
    rows: int
    rows_declared: bool
    relation: str
    accountant: str
    random_source: str
    method: str
    preset: str | None
    guess_right: float
    generic_guess_right: float
    curve: list[tuple[float, float]]
    events: list[Event]
    protects: str
    notes: list[str]
    by_rdp: float
    by_pld: float | None
    versions: dict[str, str]


def privacy(model: Model) -> Claim | None:
    """The claim of `model`, or None where it makes none."""
    if model.epsilon is None or not model.claims:
        return None
    ledger = model.ledger
    events, delta = ledger.composition(), ledger.delta
    pairs = _pairs(model)
    curve = [(float(x), _power(float(x), pairs)) for x in np.linspace(0, 1, POINTS)]
    parts = [e.count * first_order_loss(e.event) for e in ledger.entries]
    try:
        pld = accountant.cross_check(events, delta)
    except ImportError:
        pld = None
    # The generic bound holds for whatever is (epsilon, delta)-private; the ledger's own curve is much tighter.
    generic = (math.exp(model.epsilon) + delta) / (1 + math.exp(model.epsilon))
    return Claim(
        sentence=claim(model),
        epsilon=model.epsilon,
        delta=delta,
        delta_times_rows=delta * model.rows,
        rows=model.rows,
        rows_declared=model.rows_declared,
        relation=ledger.relation,
        protects=ledger.protects,
        accountant=ledger.accountant,
        random_source=ledger.random_source,
        method=model.method,
        preset=model.preset,
        guess_right=min(generic, max((1 - x + y) / 2 for x, y in _fine(pairs))),
        generic_guess_right=generic,
        curve=[(round(x, 4), round(y, 4)) for x, y in curve],
        events=[
            Event(
                label=e.label,
                mechanism=type(e.event).__name__,
                count=e.count,
                multiplier=e.event.multiplier,
                rate=getattr(e.event, "rate", 1.0),
                sensitivity=e.sensitivity,
                share=part / sum(parts),
            )
            for e, part in zip(ledger.entries, parts, strict=True)
        ],
        notes=list(ledger.notes),
        by_rdp=accountant.epsilon(events, delta, "rdp"),
        by_pld=pld,
        versions=model.versions,
    )


def _pairs(model: Model) -> list[tuple[float, float]]:
    """(epsilon, delta) pairs that all hold at once, the claimed one among them."""
    delta = model.ledger.delta
    deltas = [*np.geomspace(delta, 0.05, 10), *np.linspace(0.08, 0.92, 15)]
    found = accountant.profile(model.ledger.composition(), [float(d) for d in deltas], model.ledger.accountant)
    return [(model.epsilon or math.inf, delta), *found]


def _power(false: float, pairs: list[tuple[float, float]]) -> float:
    """The largest true-positive rate at a false-positive rate that no pair rules out, in either direction."""
    bounds = [min(d + math.exp(e) * false, 1 - math.exp(-e) * (1 - d - false)) for e, d in pairs]
    return max(false, min(1.0, *bounds))


def _fine(pairs: list[tuple[float, float]]) -> list[tuple[float, float]]:
    return [(float(x), _power(float(x), pairs)) for x in np.linspace(0, 1, 2001)]
