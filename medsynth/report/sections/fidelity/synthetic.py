"""The synthetic columns by themselves: what a shareable report can draw of the table."""

from __future__ import annotations

import numpy as np
import pandas as pd

from ....schema import Schema
from ...data.records import Record
from ..registry import Section
from .bars import level_bars, number_bars


class Summary(Record):
    """One synthetic column: labels and shares of its bars, share missing."""

    name: str
    kind: str
    labels: list[str]
    shares: list[float]
    missing: float


class SyntheticColumns(Record):
    """Every column of the synthetic table."""

    columns: list[Summary]


def column_summaries(frame: pd.DataFrame, schema: Schema | None) -> SyntheticColumns:
    """Each column of `frame` by itself."""
    found = []
    for name in map(str, frame.columns):
        column = schema.columns.get(name) if schema else None
        number = not column.categorical if column else pd.api.types.is_numeric_dtype(frame[name])
        values = pd.to_numeric(frame[name], errors="coerce") if number else frame[name]
        labels, shares = (number_bars if number else level_bars)(values, values)
        found.append(
            Summary(
                name=name,
                kind="number" if number else "levels",
                labels=labels,
                shares=np.round(shares[0], 5).tolist(),
                missing=float(frame[name].isna().mean()),
            )
        )
    return SyntheticColumns(columns=found)


SECTION = Section(
    id="synthetic",
    title="The synthetic columns",
    compute=lambda context: column_summaries(context.synthetic, context.schema),
    record=SyntheticColumns,
    variant="shareable",
)
