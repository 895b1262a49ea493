"""Sections that document the table: purpose and sign-off, source, variables, tuning, limits, how to reproduce it.

What only people know comes from the review file. The page prints a blank line for a field that is None.
"""

from __future__ import annotations

import hashlib
import hmac
import os

import pandas as pd

from ...errors import MedsynthError
from ...privacy.accounting.ledger import Ledger
from ...schema.columns.column import Description
from ..data.columns import number_columns
from ..data.context import Context
from ..data.verdict import Record
from .registry import Section

DIGEST_KEY = "MEDSYNTH_DIGEST_KEY"  # environment: a secret of the house, so that a digest is no membership oracle
NOT_DECLARED = Description(domain="", missing="not declared", precision="")
DECLARED, LEARNED = "declared in the schema", "learned from noisy measurements"


class Purpose(Record):
    """What only people know. A field that is None is printed as a blank line."""

    purpose: str | None
    recipient: str | None
    access: str | None
    licence: str | None
    review_date: str | None
    steward: str | None
    privacy_officer: str | None
    expert: str | None


def _purpose(context: Context) -> Purpose:
    return Purpose(**{name: getattr(context.review, name) for name in Purpose.model_fields})


class Source(Record):
    """Where the table comes from. `privacy_unit` is what the ledger protects; None where there is no model.

    `rows` is the public row count, `rows_declared` whether somebody declared it; else the table's own was taken.

    `real_rows`, `train_rows` and the keyed `digest` of the held-out rows are None in the shareable variant.
    """

    table: str
    period: str | None
    inclusion: str | None
    privacy_unit: str | None
    rows: int | None
    rows_declared: bool
    synthetic_rows: int
    real_rows: int | None
    train_rows: int | None
    digest: str | None


def _source(context: Context) -> Source:
    real, train, model = context.real, context.train, context.model
    return Source(
        table=context.title,
        period=context.review.period,
        inclusion=context.review.inclusion,
        privacy_unit=model.ledger.protects if model else None,
        rows=model.rows if model else None,
        rows_declared=bool(model and model.rows_declared),
        synthetic_rows=len(context.synthetic),
        real_rows=None if real is None else len(real),
        train_rows=None if train is None else len(train),
        digest=_digest(real),
    )


def _digest(real: pd.DataFrame | None) -> str | None:
    key = os.environ.get(DIGEST_KEY)
    if real is None or not key:
        return None
    return hmac.new(key.encode(), real.to_csv(index=False).encode(), hashlib.sha256).hexdigest()


class Variable(Record):
    """One column as the schema has it. `origin`: whether bounds or levels were declared or learned."""

    name: str
    kind: str
    role: str
    domain: str
    origin: str
    missing: str
    precision: str


class Variables(Record):
    """Every column of the synthetic table."""

    columns: list[Variable]


def schema_learned(ledger: Ledger) -> bool:
    """Whether the ledger holds a measurement from which the schema was inferred."""
    from ...privacy.partition_selection import FORMATS, LEVELS, TARGET

    return any(entry.label in (FORMATS, LEVELS, TARGET) for entry in ledger.entries)


def _variables(context: Context) -> Variables:
    roles, names = context.review.roles, [str(name) for name in context.synthetic.columns]
    if unknown := [name for name in roles if name not in names]:
        raise MedsynthError(f"review: roles are given to columns that are not there: {', '.join(unknown)}.")
    origin = LEARNED if context.model and schema_learned(context.model.ledger) else DECLARED
    declared = context.schema.columns if context.schema else {}
    numbers = number_columns(context.synthetic, context.schema)
    found = []
    for name in names:
        role = roles.get(name, "target" if name == context.target else "not stated")
        column = declared.get(name)
        words = column.describe() if column else NOT_DECLARED
        kind = column.kind if column else "number" if name in numbers else "levels"
        known_from = origin if column else "not declared"
        found.append(Variable(name=name, kind=kind, role=role, origin=known_from, **words._asdict()))
    return Variables(columns=found)


class Tuning(Record):
    """Fits from the review file, else those on file; choices from the review file. None is printed as a blank line.

    `counted`: whether the number of fits is that of the budget file beside the table.
    """

    fits_on_this_table: int | None
    counted: bool
    choices_looked_at_real_rows: bool | None


def _tuning(context: Context) -> Tuning:
    review = context.review
    stated = review.fits_on_this_table
    return Tuning(
        fits_on_this_table=context.fits if stated is None else stated,
        counted=stated is None and context.fits is not None,
        choices_looked_at_real_rows=review.choices_looked_at_real_rows,
    )


class Reproduce(Record):
    """Commands as typed; method, preset and versions of the model, where there is one."""

    commands: list[str]
    method: str | None
    preset: str | None
    versions: dict[str, str]


def _reproduce(context: Context) -> Reproduce:
    model = context.model
    return Reproduce(
        commands=list(context.commands),
        method=model.method if model else None,
        preset=model.preset if model else None,
        versions=dict(model.versions) if model else {},
    )


PURPOSE = Section("purpose", "Purpose and recipient", _purpose, Purpose)
SOURCE = Section("source", "Source table", _source, Source)
VARIABLES = Section("variables", "Variables", _variables, Variables)
TUNING = Section("tuning", "Tuning disclosure", _tuning, Tuning)
LIMITS = Section("limits", "Limits and misuse")
REPRODUCE = Section("reproduce", "Reproduce", _reproduce, Reproduce)
