"""The report from its inputs: a loop over the registered sections; page and JSON twin are made from their records."""

from __future__ import annotations

import datetime
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pandas as pd
from threadpoolctl import threadpool_limits

from ..artifact import Model
from ..artifact import claim as sentence
from ..errors import UsageError
from ..io.atomic import atomic_write, refuse_existing
from ..io.table import Table
from ..rng import numpy_stream
from .data import tables as inputs
from .data.columns import cells_of
from .data.context import Context, LinkedFacts
from .data.over_time import sequences
from .data.protocol import TaskPredictions
from .data.verdict import Record, Review, Thresholds
from .document import Report
from .page.render import page
from .sections.documentation import schema_learned
from .sections.registry import SECTIONS, Section

INTERNAL = "Contains exact statistics of real patients. Internal: do not pass on."
SHAREABLE = (
    "Shareable: every number here is differentially private, declared in public, or computed from synthetic rows alone."
)
NOTHING_HELD_OUT = (
    "No row was held out. The model was fitted to the real rows of this page, so the synthetic rows may look better "
    "beside them than beside patients whom no fit has seen. What lies beyond a threshold is shown as such; nothing is "
    "called within one. No attack can be run: that needs rows that were held out. A fit that holds rows out keeps "
    "some for the report."
)
NO_CLAIM = (
    "No claim can be made for this table. Every number here is computed from its rows alone: this page may be shared "
    "where the table itself may, which nothing here shows."
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
    step: Callable[[str], None] = lambda name: None,
) -> Report:
    """The report on `synthetic`. It is shareable if no real row is given: no `real`, no `train`, none in `linked`.

    `drawn_by_model`: whether it was proven, by drawing them again, that `model` draws exactly these synthetic rows
    (`medsynth.sampling.provenance.drawn_by`). Only then is the model's claim shown.

    `disjoint`: whether `real` and `train` are known to hold different rows, as the two parts of a split do; else rows
    of `real` are taken out of `train`. `fitted_rows`: whether the model was fitted to the rows of `real`: the page then
    says so, and no verdict on a comparison with them is within its threshold. `fits`: how many fits on the table are on
    file. `linked`: what is known of several tables, where these are their patients.

    `target` is the model's, else the last column. `step` receives the id of each section before it is computed.
    Raises MedsynthError subclasses where the tables cannot be compared.
    """
    review = review or Review()
    rows = cells_of(synthetic, "synthetic")
    context = Context(
        title=review.table or title,
        target=target or (model.schema.target if model else None) or str(rows.columns[-1]),
        synthetic=rows,
        real=None if real is None else cells_of(real, "real"),
        train=None if train is None else cells_of(train, "train"),
        model=model,
        drawn_by_model=drawn_by_model,
        disjoint=disjoint,
        fitted_rows=fitted_rows and real is not None,
        fits=fits,
        review=review,
        thresholds=thresholds or Thresholds(),
        groups=tuple(groups or ()),
        commands=tuple(commands or ()),
        linked=linked,
    )
    # Waiting threads made a report ten times slower on a busy machine (docs/decisions/research-log.md, 6).
    with threadpool_limits(1):
        return _build(context, list(notes or []), step)


def _build(context: Context, notes: list[str], step: Callable[[str], None]) -> Report:
    """The three phases: the notes on the model, the tables in one form, the sections."""
    notes = _without_claim(context) + [NOTHING_HELD_OUT] * context.fitted_rows + notes
    found = sequences(context.real, context.synthetic, context.train, context.schema)
    context = replace(context, sequences=found)
    if context.real is not None:
        tables = inputs.gather(
            context.real, context.synthetic, context.train, context.target, context.schema,
            numpy_stream(0, "report"), disjoint=context.disjoint,
            learned=context.model is not None and schema_learned(context.model.ledger),
        )  # fmt: skip
        context = replace(context, tables=tables, predictions=TaskPredictions(tables))
        notes += tables.notes
    _compute_all(context, step)
    return Report(
        title=context.title,
        created=datetime.date.today().isoformat(),
        shareable=context.shareable,
        banner=_banner(context),
        fitted_rows=context.fitted_rows,
        notes=notes,
        sections={name: context.records[name] for name in SECTIONS if name in context.records},
    )


def _compute_all(context: Context, step: Callable[[str], None]) -> None:
    """Every section's record. Classifiers are trained meanwhile; the sections that wait for them come late."""
    order = sorted(SECTIONS.values(), key=lambda section: (section.summary, section.waits))
    # Threads that each silence warnings for themselves would undo one another's silence.
    with warnings.catch_warnings(), ThreadPoolExecutor(2) as pool:
        warnings.simplefilter("ignore")
        if context.predictions and context.tables and not context.tables.numeric_target:
            context.predictions.begin(pool)
        beside = {section.id: pool.submit(_record, section, context) for section in order if section.beside}
        for section in order:
            if section.compute is not None:
                if section.applies(context):
                    step(section.id)
                found = beside[section.id].result() if section.beside else _record(section, context)
                context.records[section.id] = found


def _without_claim(context: Context) -> list[str]:
    """What the page notes of a model that makes no privacy claim. Raises UsageError where it was to be shareable."""
    if context.model is None or context.claiming_model:
        return []
    if context.model.claims:
        return ["No claim can be made for this table: the model given is not proven to have drawn its rows."]
    if context.shareable:
        raise UsageError("A shareable report needs a model that makes a privacy claim; this one makes none.")
    return [sentence(context.model)]


def _banner(context: Context) -> str:
    """What may be done with the page: never more than is true of it."""
    if not context.shareable:
        return INTERNAL
    return SHAREABLE if context.claiming_model else NO_CLAIM


def _record(section: Section, context: Context) -> Record | None:
    """The section's record, if it applies. Its random stream is its own: no section changes another's figures."""
    if section.compute is None or not section.applies(context):
        return None
    return section.compute(replace(context, rng=numpy_stream(0, f"report/{section.id}")))


def save(report: Report, path: Path, *, force: bool = False) -> tuple[Path, Path]:
    """Write the page to `path` and its twin beside it, `.json`; both or neither. Raises OutputExists."""
    twin = path.with_suffix(".json")
    for output in (path, twin):
        refuse_existing(output, force=force)
    html, data = page(report).encode(), report.model_dump_json(indent=1).encode()
    private = not report.shareable
    atomic_write(twin, lambda file: file.write(data), force=force, private=private)
    atomic_write(path, lambda file: file.write(html), force=force, private=private)
    return path, twin
