"""Would a paper reach the same conclusion? Important columns, one regression on both tables, declared regressions.

Importance: Breiman 2001, Random forests, section 10, as in scikit-learn's `permutation_importance`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import spearmanr

from ...answers.regression import RegressionFit, fit, on_scale
from ...arrays import Floats
from ...artifact import Model
from ...combining import combine
from ...errors import UsageError
from ...methods.regressions import Regression, parsed
from ...rng import numpy_stream
from ...sampling import sample
from ...sampling.pipeline import REPLICATE
from ...sampling.replicates import why_not
from ...schema import Schema
from ..data.columns import LARGEST, words
from ..data.context import Context
from ..data.protocol import classifiers, regressors, some
from ..data.statistics import cramers_v, importances, learnable, mean, overlap
from ..data.tables import Cells, Tables, matrices
from ..data.verdict import Estimate, Record, ReviewedRegression
from .registry import Section

ROWS = 2_000  # Real rows on which columns are permuted.
REPEATS = 2  # Permutations of each column.
MOST = 12  # Predictors. Regressions with more are not shown.
PARTS = 4  # Cells of a number column whose relation with the outcome is measured.
MOST_LEVELS = 6  # Levels of a word column among the predictors.
REPLICATES = 10  # Replicates drawn for the report.
ENOUGH = 0.8  # Share of combined intervals with the real estimate inside, for a table fit to estimate.
MOST_ROWS = 20_000  # Rows drawn from a replicate.
HOW = (
    "Draw 20 replicates from the model, run the analysis on each, and combine the estimates. In Python, use "
    "medsynth.sample(..., replicates=20) and medsynth.combine. An interval from one synthetic table that treats its "
    "rows as patients is too narrow. Relations that were not declared cannot be estimated."
)


class Importance(Record):
    """Rise of the squared error if a column of real rows is permuted. `agreement`: Spearman's rank correlation."""

    columns: list[tuple[str, float, float]]
    agreement: float | None


def importance(tables: Tables) -> Importance | None:
    """Return importances by boosted trees. None without a target, or a training table: folds would be needed."""
    if tables.train is None or tables.target is None:
        return None
    names = tables.features
    test = tables.real.head(ROWS)
    frames = [some(frame, numpy_stream(0, "report/learned")) for frame in (tables.train, tables.synthetic)]
    *trained, x = matrices(names, tables.numbers, [*frames, test])
    truth = _target(test[tables.predicted], tables)
    found = [
        _importances(rows, _target(frame[tables.predicted], tables), x, truth, tables.numeric_target)
        for rows, frame in zip(trained, frames, strict=True)
    ]
    rank = spearmanr(found[0], found[1]).statistic if all(np.std(side) > 0 for side in found) else float("nan")
    rows = sorted(zip(names, *found, strict=True), key=lambda row: -row[1])
    return Importance(
        columns=[(name, round(float(a), 5), round(float(b), 5)) for name, a, b in rows],
        agreement=float(rank) if np.isfinite(rank) else None,
    )


def _target(values: pd.Series, tables: Tables) -> NDArray[Any]:
    return values.to_numpy(np.float64) if tables.numeric_target else values.astype(str).to_numpy()


def _importances(x: Floats, y: NDArray[Any], test: Floats, truth: NDArray[Any], numeric: bool) -> Floats:
    """Return the mean rise of the squared error on the rows `test` if each column is permuted: (columns,)."""
    if not numeric and len(np.unique(y)) < 2:
        return np.zeros(x.shape[1])
    model = (regressors if numeric else classifiers)(y)["hgb"].fit(learnable(x), y)
    if numeric:
        return importances(model.predict, test, lambda made: float(np.square(made - truth).mean()), REPEATS)
    # If the training rows lack the true class, every probability counts as an error: defined for any tables.
    hot = truth[:, None] == model.classes_
    return importances(model.predict_proba, test, lambda made: float(np.square(made - hot).mean()), REPEATS)


class Coefficient(Record):
    """One predictor: estimate with 95 % Wald interval in each table. `overlap` is of the two intervals, 1 if equal.

    A value of None is not estimable: the column does not vary in the table, other columns determine it, or it separates
    the outcomes so that the likelihood has no maximum.
    """

    predictor: str
    real: Estimate
    synthetic: Estimate
    overlap: float | None


class Inference(Record):
    """The regression on both tables. Numbers are standardised by the real rows; words are indicators of a level."""

    outcome: str
    model: str
    rows: str
    coefficients: list[Coefficient]
    mean_overlap: float | None


def inference(tables: Tables, declared: ReviewedRegression | None, ranked: Sequence[str]) -> Inference | None:
    """Fit the regression that the review declares, else that of the target on the columns that lead `ranked`.

    Classes: logistic, of not being of the most frequent class. A numeric target: least squares. Rows without the
    outcome are left out. A column with fewer than two values, and a declared one that yields no predictor, is named as
    not estimable.

    Args:
        tables: The compared tables.
        declared: The regression of the review, if it has one.
        ranked: Columns by importance, the leading one first; if empty, `leading` ranks them by the synthetic rows.

    Returns:
        The coefficients in both tables; None if there is no column to name, or no outcome.

    Raises:
        UsageError: The declared columns are not in the tables.
    """
    declared = declared or ReviewedRegression()
    outcome = declared.outcome or tables.target
    wanted = declared.predictors
    if outcome is None:
        return None
    if unknown := [n for n in [outcome, *(wanted or [])] if n not in tables.names]:
        raise UsageError(f"review: the regression names columns that the tables do not have: {', '.join(unknown)}.")
    base = tables.real if tables.train is None else pd.concat([tables.train, tables.real], ignore_index=True)
    base, made = (frame[frame[outcome].notna()] for frame in (base, tables.synthetic))
    names = [n for n in (wanted or ranked or leading(tables.synthetic, tables.numbers, outcome)) if n != outcome]
    linear = outcome in tables.numbers and base[outcome].nunique() > 2
    truths = [_outcome(frame, base, outcome, linear) for frame in (made, base)]
    found = coefficients(names, (made, base), tables.numbers, MOST, lambda x, side: fit(x, truths[side], linear))
    absent = [n for n in names if wanted or base[n].nunique() < 2]
    nothing = Estimate(value=None)
    found += [
        Coefficient(predictor=name, real=nothing, synthetic=nothing, overlap=None)
        for name in absent
        if not design(base, base, name, tables.numbers)
    ]
    if not found:
        return None
    common = "" if linear else f" (against its most frequent class, {words(base[outcome]).mode().get(0, '')!r})"
    return Inference(
        outcome=f"{outcome}{common}",
        model="least squares" if linear else "logistic",
        rows="the real rows" if tables.train is None else "training and held-out rows together",
        coefficients=found,
        mean_overlap=mean([one.overlap for one in found]),
    )


def coefficients(
    names: Sequence[str], frames: Sequence[pd.DataFrame], numbers: frozenset[str], most: int,
    fitted: Callable[[Floats, int], RegressionFit],
) -> list[Coefficient]:  # fmt: skip
    """Return the coefficients of the first `most` predictors that the columns `names` yield.

    frames: synthetic rows, and real ones if there are any. The last frame sets the scale of the predictors. `fitted`
    fits the predictors, (rows, predictors), of the frame at a position.
    """
    designs = {name: [design(frame, frames[-1], name, numbers) for frame in frames] for name in names}
    predictors = [(name, label) for name in names for label in designs[name][0]][:most]
    if not predictors:
        return []
    xs = [np.stack([designs[name][side][label] for name, label in predictors], 1) for side in range(len(frames))]
    fits = [fitted(x, side) for side, x in enumerate(xs)]
    found = []
    for k, (_, label) in enumerate(predictors):
        made, *rest = (_estimate(one, k) for one in fits)
        real = rest[0] if rest else Estimate(value=None)
        found.append(Coefficient(predictor=label, real=real, synthetic=made, overlap=overlap(real, made)))
    return found


def _estimate(found: RegressionFit, k: int) -> Estimate:
    """Return the estimate of predictor `k`."""
    return Estimate(value=found.value[k], low=found.low[k], high=found.high[k])


def leading(synthetic: pd.DataFrame, numbers: frozenset[str], outcome: str) -> dict[str, float]:
    """Return the other columns and their Cramer's V with the outcome in the synthetic rows, the strongest first.

    No real row takes part in this choice.
    """
    cells = Cells.of(synthetic, [], numbers, PARTS)
    own = cells.column(synthetic, outcome)
    count = cells.count(outcome)
    found = dict[str, float]()
    for name in (str(n) for n in synthetic if n != outcome):
        pair = np.bincount(own * cells.count(name) + cells.column(synthetic, name), minlength=count * cells.count(name))
        found[name] = float(cramers_v(pair.reshape(count, -1).astype(np.float64)))
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def design(frame: pd.DataFrame, base: pd.DataFrame, name: str, numbers: frozenset[str]) -> dict[str, Floats]:
    """Return the predictors that a column of `frame` yields, (rows,) by label, on the scale of the real rows `base`."""
    if name in numbers:
        known = base[name].dropna().to_numpy(np.float64)
        spread = float(known.std()) if len(known) else 0.0
        if spread == 0:
            return {}
        filled = frame[name].fillna(float(np.median(known))).to_numpy(np.float64)
        return {f"{name} (per standard deviation)": (filled - known.mean()) / spread}
    levels = words(base[name]).value_counts().index
    if len(levels) > MOST_LEVELS:
        return {}
    return {f"{name} = {level}": (words(frame[name]) == level).to_numpy(np.float64) for level in levels[1:]}


def _outcome(frame: pd.DataFrame, base: pd.DataFrame, outcome: str, linear: bool) -> Floats:
    """Return the outcome of each row, (rows,): the number, or whether it is not the real rows' most frequent class."""
    if linear:
        return frame[outcome].to_numpy(np.float64)
    return np.asarray(words(frame[outcome]) != words(base[outcome]).mode().get(0), np.float64)


class Term(Record):
    """One coefficient: from real rows, from the synthetic table as if its rows were real, and from replicates."""

    predictor: str
    real: Estimate | None = None
    naive: Estimate
    combined: Estimate | None = None


class Declared(Record):
    """A regression that was declared for the fit."""

    formula: str
    model: str
    terms: list[Term]


class Estimation(Record):
    """What the rows can be used for, in one line, and the declared regressions."""

    fit_for: Literal["estimation of the declared regressions", "prediction only"]
    reason: str
    advice: str | None
    replicates: int | None
    regressions: list[Declared]


def estimation(model: Model, synthetic: pd.DataFrame, real: pd.DataFrame | None, *, proven: bool) -> Estimation:
    """Return what a model's rows can be used for, from tables of texts; without `real` nothing is refitted.

    `proven`: whether the model is shown to have drawn the synthetic rows. If not, its replicates do not describe them.
    """
    told = parsed(tuple(model.config.get("inference", ())))
    reason = why_not(model)
    if reason is None and not proven:
        reason = "This model is not proven to have drawn these rows."
    if reason is None and not told:
        reason = (
            "No regression was declared when the model was fitted. Relations that were not measured may be too weak, "
            "and no interval shows by how much."
        )
    if reason is not None:
        return Estimation(fit_for="prediction only", reason=reason, advice=None, replicates=None,
                          regressions=[])  # fmt: skip
    if real is None:
        stated = [_stated(one, model.schema, []) for one in told]
        return Estimation(
            fit_for="estimation of the declared regressions", advice=HOW, replicates=None,
            reason="Their moments were measured with known noise.", regressions=stated,
        )  # fmt: skip
    every = sample(model, min(model.rows, MOST_ROWS), 0, replicates=REPLICATES)
    drawn = [own.astype(object).where(own.notna(), "").astype(str) for _, own in every.groupby(REPLICATE)]
    found = [_declared(one, model.schema, real, synthetic, drawn) for one in told]
    held = [_holds(term) for one in found for term in one.terms if term.real and term.combined]
    holding = mean(held)
    enough = holding is not None and holding >= ENOUGH
    return Estimation(
        fit_for="estimation of the declared regressions" if enough else "prediction only",
        reason=f"{sum(held)} of {len(held)} combined intervals include the estimate of the real rows.",
        advice=HOW if enough else None, replicates=REPLICATES, regressions=found,
    )  # fmt: skip


def _declared(
    regression: Regression, schema: Schema, real: pd.DataFrame, synthetic: pd.DataFrame, drawn: Sequence[pd.DataFrame]
) -> Declared:
    linear = schema.columns[regression.outcome].ordered
    sides = [_terms(table, regression, schema) for table in (real, synthetic, *drawn)]
    labels = list(sides[0][0])
    terms = []
    # Without a label every predictor has only one level.
    fits = [fit(np.stack([x[label] for label in labels], 1), y, linear) for x, y in sides] if labels else []
    for k, label in enumerate(labels):
        values = [one.value[k] for one in fits[2:]]
        both = combine(values) if np.isfinite(values).all() else None
        combined = both and Estimate(value=both.estimate, low=both.low, high=both.high)
        terms.append(Term(predictor=label, real=_estimate(fits[0], k), naive=_estimate(fits[1], k), combined=combined))
    return _stated(regression, schema, terms)


def _stated(regression: Regression, schema: Schema, terms: list[Term]) -> Declared:
    kind = "least squares" if schema.columns[regression.outcome].ordered else "logistic"
    return Declared(formula=str(regression), model=kind, terms=terms)


def _terms(table: pd.DataFrame, regression: Regression, schema: Schema) -> tuple[dict[str, Floats], Floats]:
    """Return the predictors by label, interactions last, and the outcome, for rows without a missing value.

    Numbers are on their columns' scales. Each level except the first becomes an indicator. A categorical outcome
    becomes "not the first level".
    """
    columns = dict[str, dict[str, Floats]]()
    known = np.ones(len(table), np.bool_)
    for name in (*regression.predictors, regression.outcome):
        column, cells = schema.columns[name], table[name]
        if column.ordered:
            values = np.asarray(column.cell_values(cells), np.float64)
            values = on_scale(np.where(np.abs(values) <= LARGEST, values, np.nan), column)
            known &= np.isfinite(values)
            columns[name] = {f"{name}, logarithm" if column.scale == "log" else name: values}
        else:
            known &= np.asarray(cells != "", np.bool_)
            first, *others = map(str, column.levels)
            columns[name] = {f"{name} = {level}": np.asarray(cells == level, np.float64) for level in others}
            if name == regression.outcome:
                columns[name] = {name: np.asarray(cells != first, np.float64)}
    (y,) = columns.pop(regression.outcome).values()
    terms = {label: values for own in columns.values() for label, values in own.items()}
    for a, b in regression.interactions:
        pairs = itertools.product(columns[a].items(), columns[b].items())
        terms |= {f"{one} × {other}": x * z for (one, x), (other, z) in pairs}
    return {label: values[known] for label, values in terms.items()}, y[known]


def _holds(term: Term) -> bool:
    real, both = term.real, term.combined
    if real is None or both is None or real.value is None or both.low is None or both.high is None:
        return False
    return both.low <= real.value <= both.high


def _inference(context: Context) -> Inference | None:
    importance = context.record(Importance)
    ranked = [name for name, _, _ in importance.columns] if importance else []
    return inference(context.compared, context.review.regression, ranked)


def _estimation(context: Context) -> Estimation | None:
    if context.model is None:
        return None
    real = context.real
    if real is not None and context.train is not None:
        real = pd.concat([context.train, real], ignore_index=True)
    return estimation(context.model, context.synthetic, real, proven=context.drawn_by_model)


IMPORTANCE = Section(
    "importance", "Utility: important columns", lambda c: importance(c.compared), Importance, needs=("real rows",),
)  # fmt: skip
# It uses the record of importance, so it must come later: the leading columns there are its predictors.
INFERENCE = Section("inference", "Utility: inference", _inference, Inference, needs=("real rows",))
ESTIMATION = Section("estimation", "Fit for what?", _estimation, Estimation)
