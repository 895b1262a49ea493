"""Sections that document the table: purpose and sign-off, source, variables, tuning, limits, how to reproduce it.

The review file supplies what only people know. The page prints a blank line for a field that is None.
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
from ..data.verdict import Purpose, Record
from .registry import Section

# Environment variable with a secret key. Without a key a digest would reveal membership.
DIGEST_KEY = "MEDSYNTH_DIGEST_KEY"
NOT_DECLARED = Description(domain="", missing="not declared", precision="")
DECLARED, LEARNED = "declared in the schema", "learned from noisy measurements"


def _purpose(context: Context) -> Purpose:
    return Purpose(**{name: getattr(context.review, name) for name in Purpose.model_fields})


class SourceTable(Record):
    """The origin of the table. `privacy_unit` is what the ledger protects; None without a model.

    `rows` is the public row count. `rows_declared` is false if nobody declared it and it is the table's own.
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


def _source(context: Context) -> SourceTable:
    real, train, model = context.real, context.train, context.model
    return SourceTable(
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


class DescribedColumn(Record):
    """One column as the schema describes it. `origin`: whether bounds or levels were declared or learned."""

    name: str
    label: str
    kind: str
    role: str
    domain: str
    origin: str
    missing: str
    precision: str


class Variables(Record):
    """Every column of the synthetic table."""

    columns: list[DescribedColumn]


def schema_learned(ledger: Ledger) -> bool:
    """Return whether the ledger contains a measurement from which the schema was inferred."""
    from ...privacy.partition_selection import FORMATS, LEVELS, TARGET

    return any(entry.label in (FORMATS, LEVELS, TARGET) for entry in ledger.entries)


def _variables(context: Context) -> Variables:
    roles = context.review.roles
    names = [str(name) for name in context.synthetic.columns]
    if unknown := [name for name in roles if name not in names]:
        raise MedsynthError(
            f"review: `roles` names columns that the synthetic table does not have: {', '.join(unknown)}."
        )
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
        label = column.title if column else ""
        found.append(DescribedColumn(name=name, label=label, kind=kind, role=role, origin=known_from,
                                     **words._asdict()))  # fmt: skip
    return Variables(columns=found)


class Tuning(Record):
    """Numbers of fits and choices. The review file overrides the budget file; the page prints a blank line for None.

    `counted`: whether the number of fits comes from the table's budget file.
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
    """Commands as typed, and the model's method, preset and versions, if there is a model."""

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
SIGN_OFF = Section("signoff", "Sign-off")
SOURCE = Section("source", "Source table", _source, SourceTable)
VARIABLES = Section("variables", "Appendix: variables", _variables, Variables)
TUNING = Section("tuning", "Tuning disclosure", _tuning, Tuning)
LIMITS = Section("limits", "Limits and misuse")
REPRODUCE = Section("reproduce", "Appendix: how to repeat it", _reproduce, Reproduce)
