"""The synthetic columns by themselves: what a shareable report can draw of the table."""

from __future__ import annotations

import numpy as np
import pandas as pd

from ....schema import Schema
from ...data.columns import comparable, number_columns
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
    """Every column of the synthetic table but identifiers."""

    columns: list[Summary]


def column_summaries(cells: pd.DataFrame, schema: Schema | None) -> SyntheticColumns:
    """Each column of a table, given as cells of text, by itself."""
    numbers = number_columns(cells, schema)
    found = []
    for name, values in comparable(cells, schema, numbers, "synthetic", []).items():
        number = name in numbers
        labels, shares = (number_bars if number else level_bars)(values, values)
        found.append(
            Summary(
                name=str(name),
                kind="number" if number else "levels",
                labels=labels,
                shares=np.round(shares[0], 5).tolist(),
                missing=float(values.isna().mean()),
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
