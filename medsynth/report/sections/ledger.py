"""The privacy ledger: every measurement of the training table, its noise, and what it took of the budget."""

from __future__ import annotations

from ...privacy.accounting import accountant
from ...privacy.accounting.events import PublicOrderGaussian, ShardSampledGaussian, SubsampledGaussian, first_order_loss
from ...privacy.accounting.ledger import Ledger
from ..data.context import Context
from ..data.records import Record
from .registry import Section

SAMPLING: dict[type, str] = {
    SubsampledGaussian: "Each row joins a batch by an independent secret coin (Poisson sampling).",
    ShardSampledGaussian: (
        "Rows are assigned to shards by independent draws; the shard measured is drawn anew in every step "
        "and kept secret."
    ),
    PublicOrderGaussian: (
        "Rows are assigned to shards by independent draws; shards are measured in a public order, so only the "
        "measurements of one shard count for any row."
    ),
}


class Event(Record):
    """One line of the ledger. `share`: of the sum of count (rate / multiplier)^2; epsilon itself is not additive."""

    label: str
    mechanism: str
    count: int
    multiplier: float
    rate: float
    sensitivity: float
    share: float


class PrivacyLedger(Record):
    """The ledger and its epsilon by three accountants. `sampling`: how rows were chosen for the measurements."""

    events: list[Event]
    sampling: list[str]
    random_source: str
    notes: list[str]
    accountant: str
    epsilon: float
    by_rdp: float
    by_pld: float | None


def privacy_ledger(ledger: Ledger, epsilon: float) -> PrivacyLedger:
    """The lines of `ledger`. `epsilon` is what the artifact states."""
    events, delta = ledger.composition(), ledger.delta
    weights = [entry.count * first_order_loss(entry.event) for entry in ledger.entries]
    used = {type(event) for event, _ in events}
    try:
        by_pld = accountant.cross_check(events, delta)
    except ImportError:
        by_pld = None
    return PrivacyLedger(
        events=[
            Event(
                label=entry.label,
                mechanism=type(entry.event).__name__,
                count=entry.count,
                multiplier=entry.event.multiplier,
                rate=getattr(entry.event, "rate", 1.0),
                sensitivity=entry.sensitivity,
                share=part / sum(weights),
            )
            for entry, part in zip(ledger.entries, weights, strict=True)
        ],
        sampling=[text for kind, text in SAMPLING.items() if kind in used],
        random_source=ledger.random_source,
        notes=list(ledger.notes),
        accountant=ledger.accountant,
        epsilon=epsilon,
        by_rdp=accountant.epsilon(events, delta, "rdp"),
        by_pld=by_pld,
    )


def _compute(context: Context) -> PrivacyLedger | None:
    model = context.claiming_model
    return None if model is None or model.epsilon is None else privacy_ledger(model.ledger, model.epsilon)


SECTION = Section(id="ledger", title="Privacy ledger", compute=_compute, record=PrivacyLedger, needs=("claim",))
