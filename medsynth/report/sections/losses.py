"""What the synthetic rows have lost, for page one: columns, levels, and the shares of the target's classes.

All rows that were given are counted, as they are in their files. Real figures are on internal pages only.
"""

from __future__ import annotations

import pandas as pd

from ...io.table import MISSING_TOKENS
from ...schema.columns.column import level_text
from ..data.columns import known_cells
from ..data.context import Context
from ..data.proposal import Lost, listed
from ..data.verdict import Record
from .plausibility import IMPOSSIBLE, Plausibility
from .registry import Section
from .relations import Relations

MOST_DIFFERENT = 200  # Levels of an undeclared column of words. One with more has texts and not levels.
MOST_SHOWN = 3  # Classes of the target, those whose share changes most; columns and levels in a line.


class LostLevels(Record):
    """Levels of a column that no synthetic row has, and the share of real rows that have one of them."""

    column: str
    levels: list[str]
    share: float | None


class ClassShare(Record):
    """Shares of a class of the target among the rows with a target. Without a class, the means of a number."""

    level: str | None
    real: float | None
    synthetic: float


class Losses(Record):
    """Losses by what is lost. `rows_real` counts held-out and fitted rows; None in a shareable report.

    `columns`: without a value of their own in the synthetic rows, or not in them at all. Without real rows, `levels`
    are those that the schema declares.
    """

    rows_real: int | None
    rows_synthetic: int
    columns: list[str]
    levels: list[LostLevels]
    target: str | None
    shares: list[ClassShare]


def losses(context: Context) -> Losses:
    """Compare the texts of all rows, without those that mean a missing value."""
    given = [table for table in (context.real, context.train) if table is not None]
    real = _texts(pd.concat(given, ignore_index=True), context) if given else None
    made = _texts(context.synthetic, context)
    numbers = context.synthetic_values[1]
    columns = list[str]()
    if real is not None:
        columns += context.tables.lost_columns if context.tables else []
        columns += [n for n in map(str, real) if n not in made or (made[n].nunique() < 2 <= real[n].nunique())]
    levels = [
        _levels(name, real, made, context) for name in map(str, made) if name not in numbers and name not in columns
    ]
    target = context.target if context.target in made else None
    return Losses(
        rows_real=None if real is None else len(real),
        rows_synthetic=len(made),
        columns=list(dict.fromkeys(columns)),
        levels=sorted((one for one in levels if one.levels), key=lambda one: -(one.share or 0.0)),
        target=target,
        shares=[] if target is None else _mean(target, context) if target in numbers else _shares(target, real, made),
    )


def _texts(cells: pd.DataFrame, context: Context) -> pd.DataFrame:
    """Return the texts of all columns that are modelled or undeclared, missing values as None."""
    declared = context.schema.columns if context.schema else {}
    rest = cells[[name for name in cells.columns if name not in declared]]
    rest = rest.mask(rest.isin(list(MISSING_TOKENS)), None)
    return rest if context.schema is None else pd.concat([known_cells(cells, context.schema), rest], axis=1)


def _levels(name: str, real: pd.DataFrame | None, made: pd.DataFrame, context: Context) -> LostLevels:
    there = set(made[name].dropna())
    if real is None:
        column = context.schema.columns.get(name) if context.schema else None
        declared = map(level_text, column.levels) if column is not None and column.categorical else ()
        return LostLevels(column=name, levels=[level for level in declared if level not in there], share=None)
    counts = real[name].value_counts() if name in real else pd.Series(dtype=int)
    if len(counts) > MOST_DIFFERENT and name not in (context.schema.columns if context.schema else ()):
        return LostLevels(column=name, levels=[], share=None)
    lost = counts[~counts.index.isin(there)]
    return LostLevels(column=name, levels=[str(level) for level in lost.index], share=float(lost.sum() / len(real)))


def _shares(target: str, real: pd.DataFrame | None, made: pd.DataFrame) -> list[ClassShare]:
    """Return the classes whose shares change most; of two classes, the rarer one."""
    sides = [None if table is None else table[target].value_counts(normalize=True) for table in (real, made)]
    known = pd.concat([side for side in sides if side is not None], axis=1).fillna(0.0)
    found = [
        ClassShare(level=str(level), real=None if real is None else float(row.iloc[0]), synthetic=float(row.iloc[-1]))
        for level, row in known.iterrows()
    ]
    if len(found) == 2:
        return [min(found, key=lambda one: one.synthetic if one.real is None else one.real)]
    if real is None:
        return sorted(found, key=lambda one: one.synthetic)[:MOST_SHOWN]
    found = [one for one in found if one.real]  # others are only rare here
    pairs = [(one.real or 0.0, one.synthetic) for one in found]
    kept = [min(pair) / max(*pair, 1e-12) for pair in pairs]  # the less of the larger share, the more it changed
    return [found[k] for k in sorted(range(len(found)), key=kept.__getitem__)[:MOST_SHOWN]]


def _mean(target: str, context: Context) -> list[ClassShare]:
    """Return the means of a target that is a number. A date has none."""
    tables = context.tables
    declared = context.schema.columns.get(target) if context.schema else None
    if declared is not None and declared.dated:
        return []
    given = [] if tables is None else [table[target] for table in (tables.real, tables.train) if table is not None]
    made = float(context.synthetic_values[0][target].mean())
    return [ClassShare(level=None, real=float(pd.concat(given).mean()) if given else None, synthetic=made)]


def lost(context: Context) -> Lost:
    """Return what is lost in a line, the first of each kind; the class of the target whose share changes most; and the
    share of impossible rows beyond the limit.
    """
    found, strong, possible = context.record(Losses), context.record(Relations), context.record(Plausibility)
    if found is None:
        return Lost(False, [])
    columns = sorted(found.columns, key=lambda name: name != context.target)
    parts = [f"the column{'s' * (len(columns) > 1)} {listed(_first(columns))}"] if columns else []
    for one in found.levels[:MOST_SHOWN]:
        share = "" if one.share is None else f" ({_percent(one.share)} of the real rows)"
        parts.append(f"{one.column} = {listed(_first(one.levels))}{share}")
    parts += [f"levels of {len(found.levels) - MOST_SHOWN} more columns"] * (len(found.levels) > MOST_SHOWN)
    gone = [one for one in strong.listed if one.kept == "lost"] if strong else []
    parts += [f"the relation {one.name}{' (too few patients to keep it)' if one.few else ''}" for one in gone[:1]]
    parts += [f"{len(gone) - 1} more strong relation{'s' * (len(gone) > 2)}"] * (len(gone) > 1)
    said = list[str]()
    for own in [own for own in found.shares if own.synthetic or not own.level][:1]:  # others are lost levels
        shown, rows = (_percent, " of the {} rows") if own.level else ("{:.3g}".format, " in {} rows")
        sides = [(own.real, "real"), (own.synthetic, "synthetic")]
        figures = ", ".join(shown(share) + rows.format(side) for share, side in sides if share is not None)
        if own.level and own.synthetic < (own.real or 0.0) / 2:
            parts.append(f"most of the target {found.target} = {own.level}: {figures}")
        else:
            said = [f"Target: {found.target}{f' = {own.level}' if own.level else ' on average'}, {figures}."]
    limit, broken = IMPOSSIBLE.threshold(context.thresholds).limit, possible.impossible if possible else None
    said += [f"Impossible: {_percent(broken)} of the synthetic rows."] if broken and broken > limit else []
    nothing = "nothing that was checked" if found.rows_real else "nothing that can be checked without real rows"
    return Lost(bool(parts), [f"Lost: {'; '.join(parts) or nothing}.", *said])


def _first(words: list[str]) -> list[str]:
    return [*words[:MOST_SHOWN], *[f"{len(words) - MOST_SHOWN} more"] * (len(words) > MOST_SHOWN)]


def _percent(share: float) -> str:
    return f"{f'{100 * share:.1f}' if share >= 0.001 or not share else 'below 0.1'}\N{NO-BREAK SPACE}%"


LOSSES = Section("losses", "What is lost", losses, Losses)
