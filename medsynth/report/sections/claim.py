"""What is guaranteed, and by which measurements: the claim and the ledger."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from ...artifact import Model
from ...artifact import claim as sentence
from ...privacy.accounting import accountant
from ...privacy.accounting.accountant import rounded_up
from ...privacy.accounting.events import Event as Event_
from ...privacy.accounting.events import PublicOrderGaussian, ShardSampledGaussian, SubsampledGaussian, loss_shares
from ...privacy.accounting.ledger import Ledger
from ...sampling.patients import ROWS_PER_PATIENT
from ..data.context import Context
from ..data.question import QUESTIONS
from ..data.reach import Reach, guess, reach
from ..data.verdict import Estimate, Record, Thresholds, Verdict
from .registry import Section

SAMPLING: dict[type, str] = {
    SubsampledGaussian: "Each row joins a batch by an independent secret coin (Poisson sampling).",
    ShardSampledGaussian: (
        "Rows join shards by independent draws. Every step draws a new shard to measure and keeps it secret."
    ),
    PublicOrderGaussian: (
        "Rows join shards by independent draws. Shards are measured in a public order, so only the measurements of "
        "one shard count for any row."
    ),
}


class Claim(Reach):
    """The guarantee and its privacy unit.

    `protects` names the privacy unit, and `unit` is its word: "patient" if it was declared whose rows these are, else
    "row". `per_patient` is true if a column names the patients, who may have several rows. `units` is the number of
    units: the public row count, divided by the measured mean number of rows per patient if a column names them.
    """

    sentence: str
    delta_times_units: float
    units: int
    rows: int
    rows_declared: bool
    relation: str
    protects: str
    unit: str
    per_patient: bool


def privacy(model: Model) -> Claim | None:
    """Return the claim of `model`, or None if it makes none."""
    if model.epsilon is None or not model.claims:
        return None
    ledger = model.ledger
    count = units(model)
    return Claim(
        **reach(ledger.composition(), model.epsilon, ledger.delta, ledger.accountant).model_dump(),
        sentence=sentence(model),
        delta_times_units=ledger.delta * count,
        units=count,
        rows=model.rows,
        rows_declared=model.rows_declared,
        relation=ledger.relation,
        protects=ledger.protects,
        unit=ledger.unit.noun,
        per_patient=ledger.max_rows is not None,
    )


def units(model: Model) -> int:
    """Return the number of privacy units, rows or patients, that the public row count corresponds to."""
    if model.ledger.max_rows is None or ROWS_PER_PATIENT not in model.tensors:
        return model.rows
    shares = model.tensors[ROWS_PER_PATIENT]
    mean = float(np.average(np.arange(1, len(shares) + 1), weights=np.asarray(shares, np.float64)))
    return math.ceil(model.rows / mean)


EPSILON = QUESTIONS["epsilon"]
DELTA = QUESTIONS["delta_times_rows"]
NO_GUARANTEE = "Nothing limits what these rows reveal about a person: no private model is proven to have drawn them."
GET_ONE = "Fit with a privacy budget, and sample with medsynth: it then proves where the rows come from."


def _verdicts(claim: Claim | None, thresholds: Thresholds) -> Sequence[Verdict]:
    if claim is None:
        asked = replace(EPSILON, words="Is there a privacy guarantee?")
        none = Estimate(value=None)
        return [asked.judge(none, thresholds, NO_GUARANTEE, instead="no guarantee", advice=GET_ONE)]
    failing = f"This is the expected number of {claim.unit}s for which the guarantee might fail."
    limit = DELTA.threshold(thresholds).limit
    if claim.delta_times_units > limit:
        failing += f" Fit with a smaller `delta`: at most {limit / claim.units:.1g}."
    shown = Estimate(value=float(rounded_up(claim.epsilon)))  # as the claim is quoted everywhere
    odds = guess(claim.unit, claim.guess_right)
    of_units = replace(DELTA, measure=f"delta times {claim.unit}s")
    return [
        EPSILON.judge(shown, thresholds, odds),
        of_units.judge(Estimate(value=claim.delta_times_units), thresholds, failing),
    ]


class Event(Record):
    """One line of the ledger. `share`: of the sum of count (rate / multiplier)^2, since epsilon does not add up."""

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
    """Return the lines of `ledger`. `epsilon` is the artifact's own."""
    events = ledger.composition()
    delta = ledger.delta
    shares = loss_shares((entry.event, entry.count) for entry in ledger.entries)
    used = {type(event) for event, _ in events}
    return PrivacyLedger(
        events=[
            Event(
                label=entry.label,
                mechanism=type(entry.event).__name__,
                count=entry.count,
                multiplier=entry.event.multiplier,
                rate=getattr(entry.event, "rate", 1.0),
                sensitivity=entry.sensitivity,
                share=share,
            )
            for entry, share in zip(ledger.entries, shares, strict=True)
        ],
        sampling=[text for kind, text in SAMPLING.items() if kind in used],
        random_source=ledger.random_source,
        notes=list(ledger.notes),
        accountant=ledger.accountant,
        epsilon=epsilon,
        by_rdp=accountant.epsilon(events, delta, "rdp"),
        by_pld=_by_pld(tuple(events), delta),
    )


@lru_cache(maxsize=4)
def _by_pld(events: tuple[tuple[Event_, int], ...], delta: float) -> float | None:
    """Return epsilon by the second accountant, once for all pages of several tables; None if it is not installed."""
    try:
        return accountant.cross_check(events, delta)
    except ImportError:
        return None


def _ledger(context: Context) -> PrivacyLedger | None:
    model = context.claiming_model
    return None if model is None or model.epsilon is None else privacy_ledger(model.ledger, model.epsilon)


CLAIM = Section(
    "claim", "The claim", lambda context: privacy(context.claiming_model) if context.claiming_model else None, Claim,
    needs=("claim",), always=True, questions=(EPSILON, DELTA), verdicts=_verdicts, compares=False,
)  # fmt: skip
LEDGER = Section("ledger", "Appendix: privacy ledger", _ledger, PrivacyLedger, needs=("claim",))
