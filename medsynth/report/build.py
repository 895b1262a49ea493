"""Build a report: compute every registered section, then make the page and its JSON twin from the records."""

from __future__ import annotations

import datetime
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pandas as pd
from threadpoolctl import threadpool_limits

from ..artifact import Model, leans_on, quality
from ..artifact import claim as sentence
from ..errors import DROPPED_TARGET, UsageError
from ..fitting.approval import ApprovedPlan
from ..fitting.settings import NO_TARGET
from ..io.atomic import write_page
from ..io.table import Table
from ..rng import numpy_stream
from ..schema.columns.parts import apart
from .data import tables as inputs
from .data.columns import cells_of, unmarked
from .data.context import Context, LinkedFacts
from .data.over_time import sequences
from .data.protocol import TaskPredictions
from .data.verdict import Review, Thresholds, check_thresholds
from .document import Report
from .page.render import page
from .sections.documentation import schema_learned
from .sections.registry import SECTIONS, questions

INTERNAL = (
    "This report stays in your house: it contains exact statistics of real patients. Its verdict is about the "
    "synthetic rows."
)
SHAREABLE = (
    "Shareable: every number here is differentially private, declared in public, or computed from synthetic rows alone."
)
NOTHING_HELD_OUT = (
    "No row was held out. This page uses the real rows that the model was fitted to, so the synthetic rows may look "
    "better here than compared with new patients. A figure beyond its threshold is marked as such, but no figure is "
    "called within its threshold. Attacks need held-out rows and were not run."
)
NO_TASK = "No column is the target, so this page compares no predictions."
NO_CLAIM = (
    "No claim can be made for this table. Every number here is computed from its rows alone. You may share this page "
    "if you may share the table; nothing on this page shows that you may."
)


def build(
    *,
    synthetic: pd.DataFrame | Table,
    real: pd.DataFrame | Table | None,
    train: pd.DataFrame | Table | None = None,
    model: Model | None = None,
    drawn_by_model: bool = False,
    disjoint: bool = False,
    fitted_rows: bool = False,
    fits: int | None = None,
    target: str | None = None,
    groups: list[str] | None = None,
    review: Review | None = None,
    thresholds: Thresholds | None = None,
    title: str = "synthetic table",
    commands: list[str] | None = None,
    notes: list[str] | None = None,
    linked: LinkedFacts | None = None,
    plan: ApprovedPlan | None = None,
    looks: int = 1,
    step: Callable[[str], None] = lambda name: None,
) -> Report:
    """Build the report on `synthetic`. It is shareable if no real row is given in `real`, `train` or `linked`.

    `drawn_by_model`: whether `model` is proven to draw exactly these rows (`medsynth.sampling.provenance.drawn_by`).
    The report shows the model's claim only then. `disjoint`: whether `real` and `train` are known to contain different
    rows, as the parts of a split do. If not, rows of `real` are removed from `train`. `fitted_rows`: whether the model
    was fitted to `real`; comparisons with these rows are never within a threshold. `fits`: the number of fits on the
    table in its budget file. `linked`: facts about several tables, if this report is about their patients. `looks`: the
    number of pages read together; verdicts on attacks allow for it. `plan`: the one that a board signed.

    `target` is by default the model's, or the last column without a model; "none" means no target. `step` receives each
    section's id before it is computed. Raises MedsynthError if the tables cannot be compared.
    """
    review = review or Review()
    thresholds = thresholds or review.thresholds or Thresholds()
    check_thresholds(thresholds, questions())
    columns = model.schema.columns if model else {}
    rows = apart(unmarked(cells_of(synthetic, "synthetic"), model.schema if model else None), columns)
    context = Context(
        title=review.table or title,
        target=_target(target, model, rows),
        synthetic=rows,
        real=None if real is None else apart(cells_of(real, "real"), columns),
        train=None if train is None else apart(cells_of(train, "train"), columns),
        model=model,
        drawn_by_model=drawn_by_model,
        disjoint=disjoint,
        fitted_rows=fitted_rows and real is not None,
        fits=fits,
        review=review,
        thresholds=thresholds,
        groups=tuple(groups or ()),
        commands=tuple(commands or ()),
        linked=linked,
        approved=plan,
        looks=looks,
    )
    with threadpool_limits(1):  # waiting threads made a report ten times slower on a busy machine
        return _build(context, list(notes or []), step)


def _target(wanted: str | None, model: Model | None, rows: pd.DataFrame) -> str | None:
    """Return the column to predict, or None: as it is wanted, else as the model's, else the last."""
    if wanted is not None:
        return None if wanted == NO_TARGET and wanted not in rows.columns else wanted
    return model.schema.target if model else str(rows.columns[-1])


def _build(context: Context, notes: list[str], step: Callable[[str], None]) -> Report:
    """Add the notes on the model, bring the tables to one form and compute the sections."""
    known = quality(context.claiming_model) if context.claiming_model else None
    why = context.model.ledger.about(DROPPED_TARGET) if context.model else []
    notes = ([*why, *[NO_TASK] * (not why)] if context.target is None else []) + ([known] if known else []) + notes
    leans = leans_on(context.model) if context.model else ""
    notes = _without_claim(context) + [leans] * bool(leans) + [NOTHING_HELD_OUT] * context.fitted_rows + notes
    found = sequences(context.real, context.synthetic, context.train, context.schema)
    context = replace(context, sequences=found)
    if context.real is not None:
        tables = inputs.gather(
            context.real, context.synthetic, context.train, context.target, context.schema,
            numpy_stream(0, "report"), disjoint=context.disjoint,
            learned=context.model is not None and schema_learned(context.model.ledger),
        )  # fmt: skip
        predictions = None if tables.target is None else TaskPredictions(tables)
        context = replace(context, tables=tables, predictions=predictions)
        notes += tables.notes
    _compute_all(context, step)
    return Report(
        title=context.title,
        created=datetime.date.today().isoformat(),
        shareable=context.shareable,
        banner=INTERNAL if not context.shareable else SHAREABLE if context.claiming_model else NO_CLAIM,
        fitted_rows=context.fitted_rows,
        notes=notes,
        sections={name: context.records[name] for name in SECTIONS if name in context.records},
    )


def _compute_all(context: Context, step: Callable[[str], None]) -> None:
    """Compute every section's record, one by one: in two threads they took longer, since most run in Python."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for section in sorted(SECTIONS.values(), key=lambda section: section.summary):
            if section.compute is None:
                continue
            context.records[section.id] = None
            if section.applies(context):
                step(section.id)
                own = replace(context, rng=numpy_stream(0, f"report/{section.id}"))  # figures stay independent
                context.records[section.id] = section.compute(own)


def _without_claim(context: Context) -> list[str]:
    """Return the notes for a model without a privacy claim. Raises UsageError if the report was to be shareable."""
    if context.model is None or context.claiming_model:
        return []
    if context.model.claims:
        return ["No claim can be made for this table: this model is not proven to have drawn its rows."]
    if context.shareable:
        raise UsageError("A shareable report needs a model with a privacy claim. Fit with a budget.")
    return [sentence(context.model)]


def save(report: Report, path: Path, *, force: bool = False) -> tuple[Path, Path]:
    """Write the page to `path` and its JSON twin next to it: both or neither. Raises OutputExists."""
    data = report.model_dump_json(indent=1)
    private = not report.shareable
    return path, write_page(path, page(report), data, force=force, private=private)
