"""The shares of rows between a column's cut points: the groups in which its readers read a number."""

from __future__ import annotations

import numpy as np
import pandas as pd

from ....schema import Schema
from ....schema.columns.number import Quantity
from ...data.columns import codes_of
from ...data.context import Context
from ...data.records import Record
from ..registry import Section


class ColumnGroups(Record):
    """One column's groups, in words, and their shares of each table's rows that have a value.

    `real`: of the held-out rows, `train`: of the rows that the model was fitted to; None where these were not read.
    """

    name: str
    unit: str | None
    groups: list[str]
    synthetic: list[float]
    real: list[float] | None
    train: list[float] | None


class CutPoints(Record):
    """Every column of the synthetic table that has cut points in the schema."""

    columns: list[ColumnGroups]


def cut_points(
    schema: Schema, synthetic: pd.DataFrame, real: pd.DataFrame | None = None, train: pd.DataFrame | None = None
) -> CutPoints | None:
    """The shares in tables of text cells; None where no column of theirs has cut points."""
    tables = [table for table in (synthetic, real, train) if table is not None]
    found = []
    for name, column in schema.columns.items():
        present = all({name, *column.depends_on} <= set(table.columns) for table in tables)
        if not isinstance(column, Quantity) or not column.cut_points or not present:
            continue
        shares = [None if table is None else _shares(table, schema, name, column) for table in (synthetic, real, train)]
        found.append(
            ColumnGroups(
                name=name,
                unit=getattr(column, "unit", None),
                groups=list(column.cut_groups),
                synthetic=shares[0] or [],
                real=shares[1],
                train=shares[2],
            )
        )
    return CutPoints(columns=found) if found else None


def _shares(cells: pd.DataFrame, schema: Schema, name: str, column: Quantity) -> list[float]:
    """The share of each group among the rows that have a value."""
    codes = codes_of(cells, schema.columns, name).codes
    group = np.searchsorted(column.cut_codes, codes[codes < column.size], side="right")
    shares = np.bincount(group, minlength=len(column.cut_codes) + 1) / max(len(group), 1)
    return [round(float(share), 5) for share in shares]


def _compute(context: Context) -> CutPoints | None:
    if context.schema is None:
        return None
    return cut_points(context.schema, context.synthetic, context.real, context.train)


SECTION = Section(id="cut_points", title="Shares between cut points", compute=_compute, record=CutPoints)
