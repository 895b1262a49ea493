"""Compare the table with real patients: distributions, associations, propensity, scores by sdmetrics.

The classifier two-sample test is that of Lopez-Paz and Oquab 2017 (C2ST). Its AuROC is 0.5 if the tables cannot be
separated. No other file uses sdmetrics.
"""

from __future__ import annotations

import itertools
import math
import sys
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier

from ...arrays import Floats, Whole
from ...io.cell_text import LARGEST_WHOLE
from ...rng import Stream
from ...schema import Schema
from ...schema.columns.date import Date
from ...schema.columns.number import Quantity
from ...similarity import similarity
from ..data import statistics as stats
from ..data.columns import (
    NO_LIMITS,
    Limits,
    by_order,
    codes_of,
    dates_of,
    levels_in_order,
    limits_of,
    values_alone,
    words,
)
from ..data.question import QUESTIONS
from ..data.statistics import MeanSimilarity, Patients
from ..data.tables import Cells, Tables, matrices
from ..data.verdict import Estimate, Record, Thresholds, Verdict, of_both
from .registry import Section

Bars = tuple[list[str], list[Floats]]
WIDTH = 24  # Bars of a number column.
PATTERNS = 8  # Patterns of missing values that are shown.
ROWS = 10_000  # Rows of each table for the propensity.
FEWEST = 20  # Rows of each table that any statement needs.
REPEATS = 3  # Permutations of each column.
MOST_COLUMNS = 8  # Columns named as giving synthetic rows away.
SCORED = 5_000  # Rows of each table that sdmetrics scores. More rows hardly change these averages.
MOST_SCORED = 30  # Columns that sdmetrics scores, drawn uniformly. It took 90 s for the pairs of 200 columns.


class ColumnFidelity(Record):
    """One column: similarity of its distribution, 1 minus total variation, and shares for the drawing.

    `kind`: number, levels, or lost, if the model has no value for its cells. `labels` name the bars; `real` and
    `synthetic` are their shares of rows. `missing_*` are shares of missing cells.
    """

    name: str
    kind: str
    similarity: float
    ceiling: float
    missing_real: float
    missing_synthetic: float
    labels: list[str]
    real: list[float]
    synthetic: list[float]


class MissingPattern(Record):
    """A set of columns that are missing in the same row, and the share of such rows in each table."""

    columns: list[str]
    real: float
    synthetic: float


class Fidelity(Record):
    """Similarity of synthetic to real rows. A `ceiling` is the score of a second real sample.

    `rows_compared`: of each table, for everything but single columns and missing cells. `lost`: columns whose
    similarity counts as 0. `two_way_gap`: the ceiling less `two_way`, with an interval for the chance of all tables.
    `propensity_columns`: loss of AuROC if a column is permuted. Associations are Cramer's V of cells, (columns,
    columns).
    """

    rows_real: int
    rows_synthetic: int
    rows_compared: int
    lost: list[str]
    one_way: float
    one_way_ceiling: float
    two_way: float
    two_way_ceiling: float
    two_way_gap: Estimate
    propensity_auroc: Estimate
    propensity_ceiling: Estimate
    propensity_columns: list[tuple[str, float]]
    columns: list[ColumnFidelity]
    names: list[str]
    association_real: list[list[float]]
    association_synthetic: list[list[float]]
    association_gap: float
    missing_pairs: float | None
    missing_patterns: list[MissingPattern]


def fidelity(tables: Tables, rng: Stream) -> Fidelity:
    """Return every figure of the section.

    The training rows, if given, are the second real sample; otherwise the held-out rows are halved. The synthetic rows
    are cut to the size of the second sample, since small samples differ more by chance. Cells that the model has lost
    count as different.
    """
    names, tables = tables.names, tables.kept
    lost = [name for name in names if name not in tables.names]
    left = [1 - tables.lost.get(name, 0.0) for name in tables.names]
    cells = Cells.of(tables.real, [tables.synthetic, tables.train], tables.numbers)
    first, second = two_real_samples(tables, rng)
    size = min(len(second), len(tables.synthetic))
    other = tables.synthetic.iloc[np.sort(rng.choice(len(tables.synthetic), size, replace=False))]
    second = second.iloc[np.sort(rng.choice(len(second), size, replace=False))]
    real, twin, made = (cells.table(frame) for frame in (first, second, other))
    counts = [cells.count(name) for name in tables.names]
    columns = [_column(tables, name, k, (real, twin, made), counts[k], left[k]) for k, name in enumerate(tables.names)]
    gone = [
        ColumnFidelity(name=name, kind="lost", similarity=0.0, ceiling=1.0, missing_real=0.0, missing_synthetic=0.0,
                       labels=[], real=[], synthetic=[])
        for name in lost
    ]  # fmt: skip
    associations = [association(x, counts) for x in (real, made)]
    patients = tables.patients_of(first, "real"), tables.patients_of(other, "synthetic")
    separated, relied_on = propensity_auroc(first, other, tables, rng, patients)
    pairs_apart, patterns = missing_together(tables.real, tables.synthetic)
    twins = patients[0], tables.patients_of(second, "real" if tables.train is None else "train")
    pairs = two_way(real, made, counts, left, len(lost)), two_way(real, twin, counts)
    return Fidelity(
        rows_real=len(tables.real),
        rows_synthetic=len(tables.synthetic),
        rows_compared=size,
        lost=lost,
        one_way=float(np.mean([c.similarity for c in columns + gone])),
        one_way_ceiling=float(np.mean([c.ceiling for c in columns])),
        two_way=pairs[0].value,
        two_way_ceiling=pairs[1].value,
        two_way_gap=stats.similarity_gap(pairs[0], pairs[1], (*patients, twins[1])),
        propensity_auroc=separated,
        propensity_ceiling=propensity_auroc(first, second, tables, rng, twins, relied_on=False)[0],
        propensity_columns=relied_on,
        columns=columns + gone,
        names=tables.names,
        **of_both("association", [np.round(matrix, 3).tolist() for matrix in associations]),
        association_gap=float(np.abs(associations[0] - associations[1])[np.triu_indices(len(counts), 1)].mean()),
        missing_pairs=pairs_apart,
        missing_patterns=patterns,
    )


def two_real_samples(tables: Tables, rng: Stream) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return held-out and training rows, or two halves of the held-out rows without a training table."""
    if tables.train is not None:
        return tables.real, tables.train
    first, second = stats.halves(len(tables.real), rng, tables.patients.get("real"))
    return tables.real.iloc[first], tables.real.iloc[second]


def _column(
    tables: Tables, name: str, k: int, coded: tuple[Whole, Whole, Whole], cells: int, left: float
) -> ColumnFidelity:
    """Return a column's figures. `left`: the share of real cells that the model has a value for."""
    real, twin, made = (x[:, k] for x in coded)
    frames = tables.real[name], tables.synthetic[name]
    labels, shares = column_bars(*frames, name, tables.numbers, tables.limits, tables.dates, tables.in_order)
    return ColumnFidelity(
        name=name,
        kind="number" if name in tables.numbers else "levels",
        similarity=left * similarity(real, made, cells),
        ceiling=similarity(real, twin, cells),
        **of_both("missing", [float(frame.isna().mean()) for frame in frames]),
        labels=labels,
        real=np.round(shares[0], 5).tolist(),
        synthetic=np.round(shares[1], 5).tolist(),
    )


def column_bars(
    real: pd.Series, made: pd.Series, name: str, numbers: frozenset[str], limits: Mapping[str, Limits],
    dates: Mapping[str, Date], in_order: Mapping[str, Sequence[str]],
) -> Bars:  # fmt: skip
    """Return the bars of a column of numbers or of levels. The last arguments are as in `Tables`."""
    if name in numbers:
        return number_bars(real, made, limits.get(name, {}), dates.get(name))
    return level_bars(real, made, in_order.get(name, ()))


def number_bars(real: pd.Series, made: pd.Series, limits: Limits = NO_LIMITS, date: Date | None = None) -> Bars:
    """Return shares in equal bars between the 0.5 % and 99.5 % quantiles of the real rows, on a log scale if skewed.

    `limits` of an assay, texts by their numbers, have bars of their own. `date`: the column, if these are dates.
    """
    if limits:
        plain = [side.mask(side.isin([*limits])) for side in (real, made)]
        labels, inner = number_bars(plain[0], plain[1])
        middle = float(plain[0].min()) if plain[0].notna().any() else max(limits)
        below = [value for value in limits if value < middle]
        above = [value for value in limits if value >= middle]
        shares = list[Floats]()
        for side, bars in zip((real.dropna(), made.dropna()), inner, strict=True):
            own = {value: float((side == value).mean()) for value in limits}
            ends = [[own[value] for value in some] for some in (below, above)]
            shares.append(np.concatenate([ends[0], bars * (1 - sum(own.values())), ends[1]]))
        return [*(limits[value] for value in below), *labels, *(limits[value] for value in above)], shares
    known = real.dropna().to_numpy(np.float64)
    if not len(known):
        return [], [np.zeros(0), np.zeros(0)]
    low, high = np.quantile(known, [0.005, 0.995])
    positive = known[known > 0]
    skewed = known.min() >= 0 and len(positive) > 10 and high > 15 * np.median(positive)
    whole = False
    if skewed:
        low = max(low, float(np.quantile(positive, 0.01)))
        edges = np.geomspace(low, max(high, low * 1.01), WIDTH + 1)
    else:
        whole = bool((known == np.round(known)).all()) and high - low < WIDTH  # Each number has its own bar.
        low, high = (np.floor(low), np.ceil(high)) if whole else (low, high)
        whole = whole and max(abs(low), abs(high)) < LARGEST_WHOLE  # Larger floats have no halves.
        edges = np.arange(low - 0.5, high + 1) if whole else np.linspace(low, high + 1e-9 * (1 + abs(high)), WIDTH + 1)
    sides = (np.clip(values, edges[0], edges[-1]) for values in (known, made.dropna().to_numpy(np.float64)))
    shares = [np.histogram(values, edges)[0] / max(len(values), 1) for values in sides]
    if whole:
        return [f"{a + 0.5:g}" for a in edges[:-1]], shares
    texts = [f"{edge:.4g}" if date is None else date.shown(edge) for edge in edges]
    return [f"{a} to {b}" for a, b in itertools.pairwise(texts)], shares


def level_bars(real: pd.Series, made: pd.Series, in_order: Sequence[str] = ()) -> Bars:
    """Return shares of the most frequent levels of the real rows, and of up to four levels that only `made` has.

    `in_order`: the levels of an ordinal column.
    """
    counts = [words(column).value_counts(normalize=True) for column in (real, made)]
    if not len(counts[0]):  # No value, as in a number column: no share can be computed.
        return [], [np.zeros(0), np.zeros(0)]
    shown = list(counts[0].index[:WIDTH]) + [x for x in counts[1].index if x not in counts[0].index][:4]
    shown = by_order(sorted(shown) if len(shown) <= 8 else shown, in_order)
    return [str(x) for x in shown], [np.asarray(c.reindex(shown).fillna(0), np.float64) for c in counts]


def two_way(
    one: Whole, other: Whole, cells: list[int], left: Sequence[float] | None = None, lost: int = 0
) -> MeanSimilarity:
    """Return the similarity of two tables of cells, (rows, columns), over all pairs of columns.

    `left`: the share of each column's real cells that the model has a value for. `lost`: further columns without any.
    """
    left = left or [1.0] * len(cells)
    pairs = list(itertools.combinations(range(len(cells)), 2))
    found = stats.mean_similarity(
        ((one[:, i] * cells[j] + one[:, j], other[:, i] * cells[j] + other[:, j], cells[i] * cells[j])
         for i, j in pairs), [min(left[i], left[j]) for i, j in pairs],
    )  # fmt: skip
    part = len(pairs) / max(math.comb(len(cells) + lost, 2), 1)
    return MeanSimilarity(found.value * part, found.one * part, found.other * part)


def association(coded: Whole, cells: list[int]) -> Floats:
    """Return Cramer's V of every pair of columns."""
    found = np.eye(len(cells))
    for i, j in itertools.combinations(range(len(cells)), 2):
        counts = np.bincount(coded[:, i] * cells[j] + coded[:, j], minlength=cells[i] * cells[j])
        found[i, j] = found[j, i] = stats.cramers_v(counts.reshape(cells[i], cells[j]).astype(np.float64))
    return found


def missing_together(real: pd.DataFrame, other: pd.DataFrame) -> tuple[float | None, list[MissingPattern]]:
    """Return how far two tables differ in the columns that are missing in the same row.

    The first value is the mean absolute difference of the shares of rows in which two columns are both missing; None if
    no value is missing. The second lists the most frequent sets of missing columns; empty if only one column is ever
    missing.
    """
    gone = [frame.isna() for frame in (real, other)]
    names = [name for name in real.columns if gone[0][name].any() or gone[1][name].any()]
    if not names:
        return None, []
    gone = [g[names] for g in gone]
    joint = [g.to_numpy(np.float64).T @ g.to_numpy(np.float64) / len(g) for g in gone]
    apart = float(np.abs(joint[0] - joint[1])[np.triu_indices(len(names))].mean())
    if len(names) < 2:
        return apart, []
    counts = [g.value_counts(normalize=True) for g in gone]
    both = counts[0].add(counts[1], fill_value=0.0).sort_values(ascending=False, kind="stable").index[:PATTERNS]
    shares = [counted.reindex(both).fillna(0.0).tolist() for counted in counts]
    return apart, [
        MissingPattern(columns=[n for n, missing in zip(names, key, strict=True) if missing], real=a, synthetic=b)
        for key, a, b in zip(both, *shares, strict=True)
    ]


def propensity_auroc(
    real: pd.DataFrame, other: pd.DataFrame, tables: Tables, rng: Stream,
    patients: tuple[Patients | None, Patients | None] = (None, None), *, relied_on: bool = True,
) -> tuple[Estimate, list[tuple[str, float]]]:  # fmt: skip
    """Return the AuROC of boosted trees that separate two tables, out of fold, and the loss if a column is permuted.

    `patients`: of each table's rows, if patients are the unit. A patient's rows stay in one fold. `relied_on`: whether
    to permute columns.
    """
    size = min(len(real), len(other), ROWS)
    if size < FEWEST:
        return Estimate(value=None), []
    drawn = [rng.choice(len(frame), size, replace=False) for frame in (real, other)]
    sample = [frame.iloc[rows] for frame, rows in zip((real, other), drawn, strict=True)]
    known = [numbers[rows] for numbers, rows in zip(patients, drawn, strict=True) if numbers is not None]
    own = np.concatenate(known) if len(known) == 2 else None
    x = np.concatenate(matrices(tables.names, tables.numbers, sample))
    y = np.repeat([False, True], size)
    cut = stats.folds(y, 3, own)
    model = HistGradientBoostingClassifier(random_state=0)
    areas = stats.Areas(y[None], stats.out_of_fold(model, x, y, cut)[None])
    value = stats.interval(areas.value[0], stats.resampled(2 * size, rng, areas, own)[:, 0])
    inside, outside = cut[-1]  # the fold that `model` is still fitted to
    # With few patients a fold may have rows of one table only.
    if not relied_on or len(np.unique(y[inside])) < 2 or len(np.unique(y[outside])) < 2:
        return value, []
    found = stats.importances(
        model.decision_function, x[outside], lambda score: -float(stats.auroc(y[outside], score)[0]), REPEATS
    )
    lost = [(name, round(float(v), 4)) for name, v in zip(tables.names, found, strict=True)]
    return value, sorted(lost, key=lambda item: -item[1])[:MOST_COLUMNS]


PAIRS = QUESTIONS["two_way_gap"]
WHOLE_ROWS = QUESTIONS["propensity_auroc"]


def _verdicts(found: Fidelity, thresholds: Thresholds) -> Sequence[Verdict]:
    scores = f"Synthetic rows score {found.two_way:.3f}, a second real sample {found.two_way_ceiling:.3f}."
    of_real = f"Two real samples score {found.propensity_ceiling}."
    return [
        PAIRS.judge(found.two_way_gap, thresholds, scores),
        WHOLE_ROWS.judge(found.propensity_auroc, thresholds, of_real),
    ]


class ColumnGroups(Record):
    """One column's groups and their shares of each table's rows that have a value.

    `real`: of the held-out rows. `train`: of the rows that the model was fitted to. None if these were not read.
    """

    name: str
    unit: str | None
    groups: list[str]
    synthetic: list[float]
    real: list[float] | None
    train: list[float] | None


class CutPoints(Record):
    """Every column of the synthetic table with cut points in the schema."""

    columns: list[ColumnGroups]


def cut_points(
    schema: Schema, synthetic: pd.DataFrame, real: pd.DataFrame | None = None, train: pd.DataFrame | None = None
) -> CutPoints | None:
    """Return the shares in tables of text cells; None if no column has cut points."""
    tables = {"synthetic": synthetic, "real": real, "train": train}
    given = {where: table for where, table in tables.items() if table is not None}
    found = []
    for name, column in schema.columns.items():
        present = all({name, *column.depends_on} <= set(table.columns) for table in given.values())
        if not isinstance(column, Quantity) or not column.cut_points or not present:
            continue
        shares: dict[str, Any] = dict.fromkeys(tables)
        shares |= {where: _group_shares(table, schema, name, column) for where, table in given.items()}
        unit = getattr(column, "unit", None)
        found.append(ColumnGroups(name=name, unit=unit, groups=list(column.cut_groups), **shares))
    return CutPoints(columns=found) if found else None


def _group_shares(cells: pd.DataFrame, schema: Schema, name: str, column: Quantity) -> list[float]:
    codes = codes_of(cells, schema.columns, name).codes
    group = np.searchsorted(column.cut_codes, codes[codes < column.size], side="right")
    shares = np.bincount(group, minlength=len(column.cut_codes) + 1) / max(len(group), 1)
    return [round(float(share), 5) for share in shares]


class Quality(Record):
    """Overall scores by sdmetrics, from 0 to 1, of `columns` columns. None if sdmetrics gave no score."""

    columns: int
    quality_shapes: float | None
    quality_pairs: float | None
    diagnostic_validity: float | None
    diagnostic_structure: float | None
    version: str


def quality(tables: Tables, rng: Stream) -> Quality:
    """Return the scores of the synthetic against the real held-out rows, averaged over columns but not over scores."""
    drawn = np.sort(rng.permutation(len(tables.names))[:MOST_SCORED])
    names = [tables.names[k] for k in drawn]
    kinds = {name: "numerical" if name in tables.numbers else "categorical" for name in names}
    metadata = {"columns": {name: {"sdtype": kind} for name, kind in kinds.items()}}
    real = tables.real[names].head(SCORED)
    made = tables.synthetic[names].head(SCORED)
    texts = {name: str for name, kind in kinds.items() if kind == "categorical"}
    found: dict[str, float | None] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Without PyTorch, which sdmetrics would load for scores that no report uses: 2 s and 140 MiB.
        hidden = sys.modules.setdefault("torch", None) is None  # type: ignore[arg-type]
        try:
            import sdmetrics
            from sdmetrics.reports.single_table import DiagnosticReport, QualityReport
        finally:
            if hidden:
                del sys.modules["torch"]

        for report in (QualityReport(), DiagnosticReport()):
            try:
                report.generate(real.astype(texts), made.astype(texts), metadata, verbose=False)
                rows = report.get_properties().set_index("Property")["Score"].to_dict()
            except Exception:  # Its own checks fail on degenerate tables, which then have no score.
                rows = {}
            found |= {str(key): float(value) if value == value else None for key, value in rows.items()}
    return Quality(
        columns=len(names),
        quality_shapes=found.get("Column Shapes"),
        quality_pairs=found.get("Column Pair Trends"),
        diagnostic_validity=found.get("Data Validity"),
        diagnostic_structure=found.get("Data Structure"),
        version=sdmetrics.__version__,
    )


class Summary(Record):
    """One synthetic column: labels and shares of its bars, and the share of missing cells."""

    name: str
    kind: str
    labels: list[str]
    shares: list[float]
    missing: float


class SyntheticColumns(Record):
    """Every column of the synthetic table except identifiers."""

    columns: list[Summary]


def column_summaries(cells: pd.DataFrame, schema: Schema | None) -> SyntheticColumns:
    """Summarise each column of a table of text cells."""
    made, numbers = values_alone(cells, schema)
    facts = numbers, limits_of(schema), dates_of(schema), levels_in_order(schema)
    found = []
    for name, values in made.items():
        labels, shares = column_bars(values, values, str(name), *facts)
        found.append(
            Summary(
                name=str(name),
                kind="number" if name in numbers else "levels",
                labels=labels,
                shares=np.round(shares[0], 5).tolist(),
                missing=float(values.isna().mean()),
            )
        )
    return SyntheticColumns(columns=found)


FIDELITY = Section(
    "fidelity", "Fidelity", lambda c: fidelity(c.compared, c.rng), Fidelity, needs=("real rows",),
    questions=(PAIRS, WHOLE_ROWS), verdicts=_verdicts,
)  # fmt: skip
CUT_POINTS = Section(
    "cut_points", "Appendix: shares between cut points", lambda c: cut_points(c.declared, c.synthetic, c.real, c.train),
    CutPoints, needs=("schema",),
)  # fmt: skip
SYNTHETIC = Section(
    "synthetic", "The synthetic columns", lambda c: column_summaries(c.synthetic, c.schema), SyntheticColumns,
    variant="shareable",
)  # fmt: skip
QUALITY = Section(
    "quality", "Appendix: sdmetrics scores", lambda c: quality(c.compared, c.rng), Quality, needs=("real rows",)
)
