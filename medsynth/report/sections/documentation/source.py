"""The source table: name, period, declared rows, privacy unit. Exact counts are in the internal variant alone."""

from __future__ import annotations

import hashlib
import hmac
import os

import pandas as pd

from ...data.context import Context
from ...data.records import Record
from ..registry import Section

DIGEST_KEY = "MEDSYNTH_DIGEST_KEY"  # environment: a secret of the house, so that a digest is no membership oracle


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


def _compute(context: Context) -> Source:
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


SECTION = Section(id="source", title="Source table", compute=_compute, record=Source)
