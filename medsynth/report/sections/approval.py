"""The plan that a board approved, and what came of it, side by side."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...artifact import Model
from ...fitting.approval import ApprovedPlan
from ...privacy.accounting.accountant import rounded_up
from ..data.context import Context
from ..data.verdict import Record
from .registry import Section


class PlannedFact(Record):
    """One figure or fact: as planned, and as it is in the model. `kept`: None if the plan sets no limit."""

    what: str
    planned: str
    outcome: str
    kept: bool | None


class PlanAndOutcome(Record):
    """An approved plan and the model. `checked`: whether the fit itself kept to this file, by a note in its ledger."""

    digest: str
    checked: bool
    facts: list[PlannedFact]


def _compared(context: Context) -> PlanAndOutcome | None:
    plan, model = context.approved, context.model
    if plan is None or model is None:
        return None
    checked = any(plan.digest[:16] in note for note in model.ledger.notes)
    return PlanAndOutcome(
        digest=plan.digest, checked=checked, facts=[*_facts(plan, model), *_measurements(plan, model)]
    )


def _facts(approved: ApprovedPlan, model: Model) -> Iterator[PlannedFact]:
    """Yield the cost, the unit, the method, the rows and the expected similarity."""
    plan, ledger = approved.claim, model.ledger
    spent = model.epsilon
    yield PlannedFact(
        what="epsilon, at most", planned=rounded_up(plan.epsilon_asked),
        outcome="no noise" if spent is None else rounded_up(spent),
        kept=spent is not None and spent <= plan.epsilon_asked,
    )  # fmt: skip
    yield PlannedFact(what="delta, at most", planned=f"{plan.delta:g}", outcome=f"{ledger.delta:g}",
                      kept=ledger.delta <= plan.delta)  # fmt: skip
    for what, planned, outcome in (("the claim is for", plan.protects, ledger.protects),
                                   ("method", plan.method, model.method)):  # fmt: skip
        yield PlannedFact(what=what, planned=planned, outcome=outcome, kept=planned == outcome)
    yield PlannedFact(what="rows", planned=f"{plan.rows}", outcome=f"{model.rows_read or model.rows}", kept=None)
    if plan.expected and model.quality:
        found = float(np.mean(list(model.quality.values())))
        yield PlannedFact(what="similarity of a column, on average", planned=f"{plan.expected['one_way']:.2f} expected",
                          outcome=f"{found:.2f}, by the noise that was drawn", kept=None)  # fmt: skip


def _measurements(approved: ApprovedPlan, model: Model) -> Iterator[PlannedFact]:
    """Yield each measurement's number of runs and noise multiplier."""
    made = {one.label: f"{one.count} × {one.event.multiplier:.4f}" for one in model.ledger.entries}
    planned = {one.label: f"{one.times} × {one.multiplier:.4f}" for one in approved.claim.measurements}
    for label in dict.fromkeys([*planned, *made]):
        yield PlannedFact(
            what=label, planned=planned.get(label, "not planned"), outcome=made.get(label, "not measured"),
            kept=label in planned,
        )  # fmt: skip


APPROVAL = Section("approval", "Plan and outcome", _compared, PlanAndOutcome)
