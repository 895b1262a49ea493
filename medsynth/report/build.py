"""The report from its inputs: every section computed once, as records; page and JSON twin are drawn from them."""

from __future__ import annotations

import datetime
import hashlib
import hmac
import os
from collections.abc import Callable
from pathlib import Path

import pandas as pd
from threadpoolctl import threadpool_limits

from .. import __version__
from ..artifact import Model
from ..artifact import claim as sentence
from ..errors import MedsynthError, UsageError
from ..rng import numpy_stream
from ..schema import Schema
from .data import tables as inputs
from .data.records import Part
from .data.review import Review, Thresholds
from .sections.attacks import Attacks, attacks
from .sections.claim import Claim, privacy
from .sections.fidelity import Fidelity, column_summaries, fidelity
from .sections.importance import Importance, importance
from .sections.inference import Inference, inference
from .sections.numeric_utility import NumericUtility, numeric_utility
from .sections.plausibility import Plausibility, plausibility
from .sections.quality import Quality, quality
from .sections.subgroups import Subgroups, choose, subgroups
from .sections.utility import Utility, chances, utility
from .sections.verdicts import Verdict, glance

INTERNAL = "Contains exact statistics of real patients. Internal: do not pass on."
SHAREABLE = (
    "Shareable: every number here is differentially private, declared in public, or computed from synthetic rows alone."
)
DIGEST_KEY = "MEDSYNTH_DIGEST_KEY"  # environment: a secret of the house, so that a digest is no membership oracle


class Variable(Part):
    """Section 5: one column as the schema has it."""

    name: str
    kind: str
    role: str
    domain: str
    whence: str
    missing: str
    precision: str


class Source(Part):
    """Section 4. Exact counts and the keyed digest stand in the internal variant alone."""

    table: str | None
    rows_declared: int | None
    synthetic_rows: int
    real_rows: int | None
    train_rows: int | None
    digest: str | None


class Summary(Part):
    """A synthetic column by itself: labels and shares of its bars, share missing."""

    name: str
    labels: list[str]
    shares: list[float]
    missing: float


class Report(Part):
    """The JSON twin: every number that the page shows. Sections that a variant must not hold are null."""

    format: int = 1
    medsynth: str = __version__
    title: str
    created: str
    shareable: bool
    banner: str
    commands: list[str]
    notes: list[str]
    source: Source
    claim: Claim | None
    glance: list[Verdict]
    review: Review
    variables: list[Variable]
    utility: Utility | NumericUtility | None
    importance: Importance | None
    inference: Inference | None
    fidelity: Fidelity | None
    quality: Quality | None
    subgroups: Subgroups | None
    attacks: Attacks | None
    plausibility: Plausibility | None
    synthetic: list[Summary]


def build(
    *,
    synthetic: pd.DataFrame,
    real: pd.DataFrame | None,
    train: pd.DataFrame | None = None,
    model: Model | None = None,
    target: str | None = None,
    groups: list[str] | None = None,
    review: Review | None = None,
    thresholds: Thresholds | None = None,
    title: str = "synthetic table",
    commands: list[str] | None = None,
    notes: list[str] | None = None,
    step: Callable[[str], None] = lambda name: None,
) -> Report:
    """The report on `synthetic`. Without `real` it is the shareable variant, which no private row can have entered.

    `target` is the model's, else the last column. `step` is told each section before it is computed. Raises
    MedsynthError subclasses where the tables cannot be compared.
    """
    # On a busy machine, threads that wait for one another made a report ten times slower: see decision 6.
    with threadpool_limits(1):
        return _build(synthetic, real, train, model, target, groups, review, thresholds, title, commands, notes, step)


def _build(
    synthetic: pd.DataFrame, real: pd.DataFrame | None, train: pd.DataFrame | None, model: Model | None,
    target: str | None, groups: list[str] | None, review: Review | None, thresholds: Thresholds | None, title: str,
    commands: list[str] | None, notes: list[str] | None, step: Callable[[str], None],
) -> Report:  # fmt: skip
    review, thresholds, said = review or Review(), thresholds or Thresholds(), list(notes or [])
    schema = model.schema if model else None
    target = target or (schema.target if schema else None) or str(synthetic.columns[-1])
    step("claim")
    claim = privacy(model) if model else None
    if model and not model.claims:
        if real is None:
            raise UsageError("A shareable report needs a model that makes a privacy claim; this one makes none.")
        said.insert(0, sentence(model))
    made: dict[str, Part | None] = dict.fromkeys(
        ("utility", "importance", "inference", "fidelity", "quality", "subgroups", "attacks")
    )
    tables = None
    if real is not None:
        rng = numpy_stream(0, "report")
        tables = inputs.gather(real, synthetic, train, target, schema, rng)
        said += tables.notes
        step("utility")
        answers: tuple[dict, dict] = ({}, {})  # type: ignore[type-arg]
        if tables.numeric_target:
            made["utility"] = numeric_utility(tables, rng)
        else:
            *both, rows = chances(tables)
            answers = (both[0], both[1])
            made["utility"] = utility(tables, answers[0], answers[1], rows, rng)
        step("importance")
        made["importance"] = weights = importance(tables, rng)
        ranked = [name for name, _, _ in weights.columns] if weights else []
        made["inference"] = inference(tables, review.regression.model_dump() if review.regression else None, ranked)
        step("fidelity")
        made["fidelity"] = fidelity(tables, rng)
        step("quality")
        made["quality"] = quality(tables)
        step("subgroups")
        made["subgroups"] = subgroups(tables, choose(tables, groups or []), *answers, rng)
        step("attacks")
        sensitive = [name for name, role in review.roles.items() if role == "sensitive"] or [target]
        made["attacks"] = attacks(tables, [n for n in sensitive if n in tables.names], rng)
    step("plausibility")
    made["plausibility"] = plausibility(schema, real, synthetic) if schema else None
    report = Report(
        title=review.table or title,
        created=datetime.date.today().isoformat(),
        shareable=real is None,
        banner=SHAREABLE if real is None else INTERNAL,
        commands=commands or [],
        notes=said,
        source=Source(
            table=review.table or title,
            rows_declared=model.rows if model else None,
            synthetic_rows=len(synthetic),
            real_rows=None if real is None else len(real),
            train_rows=None if train is None or real is None else len(train),
            digest=_digest(real),
        ),
        claim=claim,
        glance=[],
        review=review,
        variables=_variables(schema, synthetic, review, target, model),
        synthetic=[
            Summary(name=name, labels=labels, shares=shares, missing=missing)
            for name, labels, shares, missing in column_summaries(synthetic, schema)
        ],
        **made,
    )
    return report.model_copy(update={"glance": glance(report, thresholds)})


def _digest(real: pd.DataFrame | None) -> str | None:
    key = os.environ.get(DIGEST_KEY)
    if real is None or not key:
        return None
    return hmac.new(key.encode(), real.to_csv(index=False).encode(), hashlib.sha256).hexdigest()


def _variables(
    schema: Schema | None, synthetic: pd.DataFrame, review: Review, target: str, model: Model | None
) -> list[Variable]:
    found = []
    if unknown := [name for name in review.roles if name not in synthetic.columns]:
        raise MedsynthError(f"review: roles are given to columns that are not there: {', '.join(unknown)}.")
    learned = model is not None and any("learned from noisy answers" in note for note in model.ledger.notes)
    for name in map(str, synthetic.columns):
        role = review.roles.get(name, "target" if name == target else "not stated")
        column = schema.columns.get(name) if schema else None
        if column is None:
            kind = "number" if pd.api.types.is_numeric_dtype(synthetic[name]) else "levels"
            row = ("", "not declared", "not declared", "")
        else:
            kind, told = column.kind, column.describe()
            row = (told.domain, _whence(learned), told.missing, told.precision)
        found.append(
            Variable(name=name, kind=kind, role=role, domain=row[0], whence=row[1], missing=row[2], precision=row[3])
        )
    return found


def _whence(learned: bool) -> str:
    return "learned from noisy answers" if learned else "declared in the schema"


def save(report: Report, path: Path, *, force: bool = False) -> tuple[Path, Path]:
    """Write the page to `path` and its twin beside it, `.json`; both or neither. Raises OutputExists."""
    from ..io.atomic import atomic_write, refuse_existing
    from .page.render import page

    twin = path.with_suffix(".json")
    for output in (path, twin):
        refuse_existing(output, force=force)
    html, data = page(report).encode(), report.model_dump_json(indent=1).encode()
    private = not report.shareable
    atomic_write(twin, lambda file: file.write(data), force=force, private=private)
    atomic_write(path, lambda file: file.write(html), force=force, private=private)
    return path, twin
