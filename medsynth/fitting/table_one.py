"""Read a published Table 1: the figures of each column, for all patients or by class of the target.

It becomes rows with the figures of one column each. No row knows two columns, so no relation of columns is learned.
docs/tutorials/public-rows.md documents the form.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from ..arrays import Codes, Floats, Whole
from ..errors import UsageError
from ..io.table import Table, is_number
from ..schema import Schema
from ..schema.columns.categorical import without_levels
from ..schema.columns.column import Column
from ..schema.columns.number import WrittenNumber

FIGURES = ("mean", "sd", "median", "q1", "q3", "percent")
LEAST_EPSILON = 0.5  # below it, too few releases contradict a wrong shape: two-way -.04 at .2
MOST_DIGITS = 3  # papers print no more, and more would identify people
ROWS = 1_000  # into which the figures of a column are turned; more would claim a shape that they do not show
ROUNDED = 2.0  # by how much the percents of a column may miss 100
QUARTILE = float(ndtri(0.75))  # of the normal distribution
SKEWED = 1.5  # standard deviations in a mean, below which a column without negative numbers is log-normal


class Published(NamedTuple):
    """The figures of a column, or of one of its levels. `of`: the class, "" for all patients."""

    where: str
    column: str
    level: str
    of: str
    figures: Mapping[str, float]


def is_table_one(table: Table) -> bool:
    """Return whether a table has the header of a Table 1."""
    header = set(table.header)
    return "column" in header and header <= {"column", "level", "class", *FIGURES} and bool(header & set(FIGURES))


def groups_of(table: Table) -> dict[tuple[str, str], list[Published]]:
    """Return the lines by column and class. Figures by class replace those of all patients.

    Raises UsageError for a figure that is not a number, or has too many digits.
    """
    lines = list[Published]()
    for number, cells in enumerate(table.cells.to_dict("records"), 1):
        where = f"{table.where}, row {number}"
        texts = {name: str(cells.get(name, "")).removesuffix("%").strip() for name in FIGURES}
        for name, text in texts.items():
            digits = re.sub(r"\D", "", text.lower().partition("e")[0]).lstrip("0")
            if (text and not is_number(text)) or len(digits if "." in text else digits.rstrip("0")) > MOST_DIGITS:
                raise UsageError(f"{where}: {name!r} must be a number of at most {MOST_DIGITS} digits. Round it.")
        figures = {name: float(text) for name, text in texts.items() if text}
        column, level, of = (str(cells.get(name, "")) for name in ("column", "level", "class"))
        lines.append(Published(where, column, level, of, figures))
    by_class = {line.column for line in lines if line.of}
    found = dict[tuple[str, str], list[Published]]()
    for line in lines:
        if line.of or line.column not in by_class:
            found.setdefault((line.column, line.of), []).append(line)
    return found


def check_table_one(table: Table, schema: Schema, epsilon: float | None) -> None:
    """Raise UsageError for a Table 1 that a fit of a table with this schema cannot use."""
    if epsilon is not None and epsilon < LEAST_EPSILON:
        raise UsageError(
            f"`public` is a Table 1, which needs an `epsilon` of {LEAST_EPSILON:g} or more. Below it, the noisy "
            "measurements are too few to notice that its patients differ from these. Leave out `public`."
        )
    codes_of(table, schema.core, 0, {*schema.core.open, *without_levels(schema.core.columns)})


def codes_of(table: Table, core: Schema, unknown: int, learned: Collection[str] | None = None) -> Codes:
    """Return codes of rows with the figures of a Table 1, (rows, columns), with `unknown` for all other columns.

    Before a fit, `learned` names the columns that it learns, and figures that another column cannot have raise
    UsageError. After it, figures that a learned column cannot have are left out.
    """
    groups, target = groups_of(table), core.target or ""
    parts = [np.full((1, len(core.names)), unknown, np.int32)]
    sizes = {line.level: line.figures.get("percent", 0.0) / 100 for line in groups.get((target, ""), ())}
    for (name, of), lines in groups.items():
        rows = round(ROWS * sizes.get(of, 0.0)) if of else ROWS
        part = np.full((rows, len(core.names)), unknown, np.int32)
        try:
            if name not in core.columns:
                raise ValueError("the private table has no such column to learn. Remove its lines.")
            if of and sizes.keys() != {other for column, other in groups if column == name}:
                raise ValueError(f"lines by class need all classes, and each class a line of the target, {target!r}.")
            if name not in (learned or ()):
                points = (np.arange(rows) + 0.5) / max(rows, 1)
                part[:, core.names.index(name)] = _codes(core.columns[name], lines, points)
            if of and target not in (learned or ()):
                part[:, core.names.index(target)] = _levels(core.columns[target], [of])
        except ValueError as error:
            if learned is not None:
                raise UsageError(f"{lines[0].where}, column {name!r}: {error}") from None
            continue
        parts.append(part)
    return np.concatenate(parts)


def _codes(column: Column, lines: Sequence[Published], points: Floats) -> Whole:
    """Return the codes of a column at `points` between 0 and 1 of its distribution. Raise ValueError if it has none."""
    if column.categorical:
        codes = _levels(column, [line.level for line in lines])
        share = np.array([line.figures.get("percent", np.nan) for line in lines])
        left = np.setdiff1d(np.arange(column.size), codes)
        if len(left) == 1 and share.sum() < 100:
            codes, share = np.append(codes, left), np.append(share, 100 - share.sum())
        if not (share >= 0).all() or len(set(codes)) < len(codes) or abs(share.sum() - 100) > ROUNDED:
            raise ValueError("state the `percent` of each level once, of all or all but one. They must add up to 100.")
        return np.asarray(codes[np.searchsorted(np.cumsum(share)[:-1] / share.sum(), points)])
    if isinstance(column, WrittenNumber) and len(lines) == 1 and not lines[0].level:
        low, high = (unit / 10.0**column.places for unit in column.number_units)
        values = _values(lines[0].figures, ndtri(points), low)
        return column.coded(np.clip(values, low, high)).codes
    raise ValueError("figures are of numbers, in one line without a level, or of levels.")


def _values(figures: Mapping[str, float], normal: Floats, low: float) -> Floats:
    """Return numbers with these figures at points of the normal distribution. `low`: the column's lower bound."""
    quartiles = np.array([figures.get(name, np.nan) for name in ("q1", "median", "q3")])
    if (np.diff(quartiles) >= 0).all():
        skewed = quartiles[0] > 0 and np.diff(quartiles, 2)[0] > 0
        first, middle, third = np.log(quartiles) if skewed else quartiles
        values = middle + normal / QUARTILE * np.where(normal > 0, third - middle, middle - first)
        return np.asarray(np.exp(values) if skewed else values)
    mean, sd = figures.get("mean", np.nan), figures.get("sd", np.nan)
    if not (sd >= 0 and np.isfinite(mean)):
        raise ValueError("a number needs `mean` and `sd`, or `median`, `q1` and `q3`.")
    if low >= 0 and 0 < mean < SKEWED * sd:
        spread = np.log1p((sd / mean) ** 2)
        return np.asarray(np.exp(np.log(mean) - spread / 2 + np.sqrt(spread) * normal))
    return mean + sd * normal


def _levels(column: Column, levels: Sequence[str]) -> Whole:
    """Return the codes of levels. Raise ValueError for a text that is not one."""
    reading = column.read(np.array(levels, dtype=object))
    if not column.categorical or any(fault.found.any() for fault in reading.faults):
        raise ValueError("a level or a class is not one that the schema declares.")
    return reading.codes
