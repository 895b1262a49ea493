"""Table 1 as medical papers print it: every column's summary in real and synthetic rows, and their differences.

The choice between mean and median depends on no real row: the schema's scale and the synthetic rows decide. Differences
are standardised (Austin 2009, Statistics in Medicine 28): of means or shares, in standard deviations of both tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
from scipy.stats import skew

from ...arrays import Floats, Mask
from ..data.columns import Limits, by_order, levels_in_order, limits_of, words
from ..data.context import Context
from ..data.verdict import Record
from .registry import Section

Summary = Literal["mean (SD)", "median [quartiles]", "n (%)"]
SKEWED = 1.0  # Skewness of the synthetic rows. Above it, a median describes a column better than a mean.
MOST_LEVELS = 10  # Levels of a column; the others share a line.
MOST_CLASSES = 4  # Classes of the target that have columns of their own.
NONE_DECLARED: Mapping[str, Any] = {}
OTHERS, MISSING, EVERYBODY = "(other levels)", "missing", "all rows"


class Figures(Record):
    """What one cell of the table shows: mean and SD; median and quartiles; or a count and its share.

    Values are None if a group has no value.
    """

    value: float | None
    low: float | None
    high: float | None = None


class Line(Record):
    """One line: a number column, its missing cells, or a level. The lists have a cell per group.

    `difference`: synthetic less real, standardised, of all rows. None if neither table varies, or has no value.
    """

    column: str
    level: str | None
    summary: Summary
    real: list[Figures] | None
    synthetic: list[Figures]
    difference: float | None


class TableOne(Record):
    """The lines, the columns that differ most first. `groups`: all rows, and the classes of a target with few.

    `left_out`: date columns, which have no mean that a reader could use. `labels`: of columns, and `value_labels` of
    their levels, by column; those that the schema declares.
    """

    target: str | None
    groups: list[str]
    rows_real: list[int] | None
    rows_synthetic: list[int]
    lines: list[Line]
    left_out: list[str]
    labels: dict[str, str] = {}
    value_labels: dict[str, dict[str, str]] = {}


def table_one(
    synthetic: pd.DataFrame, real: pd.DataFrame | None, numbers: frozenset[str], target: str | None = None,
    *, skewed: frozenset[str] = frozenset(), dates: frozenset[str] = frozenset(),
    limits: Mapping[str, Limits] = NONE_DECLARED, in_order: Mapping[str, Sequence[str]] = NONE_DECLARED,
) -> TableOne:  # fmt: skip
    """Return the table of compared values; without `real` that of synthetic rows.

    `skewed`: columns that the schema declares with a log scale. `limits` of assays, texts by their numbers, by column.
    `in_order`: the levels of ordinal columns.
    """
    sides = [table for table in (real, synthetic) if table is not None]
    classes = (
        [] if target is None or target in numbers else sorted(set().union(*(words(t[target]).dropna() for t in sides)))
    )
    classes = classes if 1 < len(classes) <= MOST_CLASSES else []
    names = [name for name in map(str, synthetic) if name not in dates and (name != target or not classes)]
    groups = [[np.ones(len(t), np.bool_), *((words(t[target]) == c).to_numpy() for c in classes)] for t in sides]
    columns = [
        _number([t[name] for t in sides], groups, name, limits.get(name, {}), skewed=name in skewed)
        if name in numbers
        else _levels([words(t[name]) for t in sides], groups, name, in_order.get(name, ()))
        for name in names
    ]
    columns.sort(key=lambda lines: -max((abs(line.difference or 0.0) for line in lines), default=0.0))
    sizes = [[int(group.sum()) for group in side] for side in groups]
    return TableOne(
        target=target if classes else None,
        groups=[EVERYBODY, *(f"{target} = {level}" for level in classes)],
        rows_real=sizes[0] if real is not None else None,
        rows_synthetic=sizes[-1],
        lines=[line for lines in columns for line in lines],
        left_out=sorted(dates & {*map(str, synthetic)}),
    )


def _number(sides: list[pd.Series], groups: list[list[Mask]], name: str, limits: Limits, *, skewed: bool) -> list[Line]:
    """Return the line of a number column, and those of its limits and its missing cells. Limits make it a median."""
    values = [side.to_numpy(np.float64) for side in sides]
    known = [side[np.isfinite(side)] for side in values]
    skewed = skewed or bool(limits)
    median = skewed or (len(known[-1]) > 2 and known[-1].std() > 0 and abs(float(skew(known[-1]))) > SKEWED)
    cells = [[_spread(side[group], median=median) for group in own] for side, own in zip(values, groups, strict=True)]
    difference = None
    if len(sides) == 2 and all(len(side) for side in known):
        scale = float(np.sqrt((known[0].var() + known[1].var()) / 2))
        difference = float(known[1].mean() - known[0].mean()) / scale if scale > 0 else None
    line = _line(name, None, "median [quartiles]" if median else "mean (SD)", cells, difference)
    gone = [np.isnan(side) for side in values]
    lines = [line, *(_share(name, word, [side == limit for side in values], groups) for limit, word in limits.items())]
    return [*lines, _share(name, MISSING, gone, groups)] if any(side.any() for side in gone) else lines


def _spread(values: Floats, *, median: bool) -> Figures:
    known = values[np.isfinite(values)]
    if not len(known):
        return Figures(value=None, low=None)
    if median:
        low, middle, high = np.quantile(known, [0.25, 0.5, 0.75])
        return Figures(value=float(middle), low=float(low), high=float(high))
    return Figures(value=float(known.mean()), low=float(known.std(ddof=1)) if len(known) > 1 else None)


def _levels(sides: list[pd.Series], groups: list[list[Mask]], name: str, in_order: Sequence[str]) -> list[Line]:
    """Return a line for each level, or for the rarer of two, then for all other levels and for missing cells."""
    counts = pd.concat([side.value_counts(normalize=True) for side in sides], axis=1).fillna(0.0).sum(axis=1)
    order = list(counts.sort_values(ascending=False, kind="stable").index)
    # The commoner of two levels mirrors the other.
    shown = by_order(order[1:] if len(order) == 2 else order[:MOST_LEVELS], in_order)
    others = order[MOST_LEVELS:]
    lines = [_share(name, str(level), [(side == level).to_numpy() for side in sides], groups) for level in shown]
    if others:
        lines.append(_share(name, OTHERS, [side.isin(others).to_numpy() for side in sides], groups))
    gone = [side.isna().to_numpy() for side in sides]
    return [*lines, _share(name, MISSING, gone, groups)] if any(side.any() for side in gone) else lines


def _share(name: str, level: str, hits: list[Mask], groups: list[list[Mask]]) -> Line:
    """Return the line of a level: counts and shares of the rows in which `hits`, (rows,), is true."""
    cells = [
        [Figures(value=float(hit[group].sum()), low=float(hit[group].mean()) if group.any() else None) for group in own]
        for hit, own in zip(hits, groups, strict=True)
    ]
    difference = None
    if len(hits) == 2:
        p, q = (float(hit.mean()) for hit in hits)
        scale = float(np.sqrt((p * (1 - p) + q * (1 - q)) / 2))
        difference = (q - p) / scale if scale > 0 else None
    return _line(name, level, "n (%)", cells, difference)


def _line(name: str, level: str | None, summary: Summary, cells: list[list[Figures]], difference: float | None) -> Line:
    real = cells[0] if len(cells) == 2 else None
    return Line(column=name, level=level, summary=summary, real=real, synthetic=cells[-1], difference=difference)


def _table_one(context: Context) -> TableOne:
    declared = context.schema.columns if context.schema else {}
    skewed = frozenset(n for n, c in declared.items() if getattr(c, "scale", None) == "log")
    dates = frozenset(n for n, c in declared.items() if c.dated)
    labels = {
        "labels": {name: column.title for name, column in declared.items() if column.title},
        "value_labels": {name: column.value_labels for name, column in declared.items() if column.value_labels},
    }
    real = context.tables.real if context.tables else None
    made, numbers = context.synthetic_values
    target = context.target if context.target in made else None
    limits = limits_of(context.schema)
    in_order = levels_in_order(context.schema)
    found = table_one(made, real, numbers, target, skewed=skewed, dates=dates, limits=limits, in_order=in_order)
    return found.model_copy(update=labels)


TABLE_ONE = Section("table_one", "Table 1", _table_one, TableOne)
