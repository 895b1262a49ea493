"""Would a paper reach the same conclusion? One regression on real and on synthetic rows, coefficient by coefficient."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...errors import UsageError
from ..data.context import Context
from ..data.records import Estimate, Record
from ..data.review import Regression
from ..data.statistics import overlap
from ..data.tables import Tables, words
from .importance import Importance
from .registry import Section

Floats = NDArray[np.float64]
MOST = 12  # predictors; a table of more is no declared regression
MOST_LEVELS = 6  # of a column of words among the predictors
LARGEST_STD_ERROR = 30.0  # of a log odds ratio per standard deviation: beyond, the rows are separated


class Coefficient(Record):
    """One predictor: estimate with 95 % Wald interval in each table. `overlap`: of the two intervals, 1 when equal.

    A value of None is not estimable: the column does not vary in the table, others determine it, or it separates the
    outcomes so that the likelihood has no maximum.
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


class Fit(NamedTuple):
    """Coefficients (predictors,) without the intercept, and their 95 % intervals; NaN where not estimable."""

    value: Floats
    low: Floats
    high: Floats

    def estimate(self, k: int) -> Estimate:
        """The estimate of predictor `k`."""
        return Estimate(value=self.value[k], low=self.low[k], high=self.high[k])


def inference(tables: Tables, declared: Regression | None, ranked: Sequence[str]) -> Inference | None:
    """Fit the regression that the review declares, else that of the target on the columns that lead `ranked`.

    Classes: logistic, of not being of the most frequent class. A numeric target: least squares. Rows without the
    outcome are left out. A column with fewer than two values, and a declared one that yields no predictor, is named as
    not estimable.

    Args:
        tables: The compared tables.
        declared: The regression of the review, if it has one.
        ranked: Columns by importance, the leading one first; if empty, the table's order is used.

    Returns:
        The coefficients in both tables; None if there is no column to name.

    Raises:
        UsageError: The declared columns are not in the tables.
    """
    declared = declared or Regression()
    outcome, wanted = declared.outcome or tables.target, declared.predictors
    if unknown := [n for n in [outcome, *(wanted or [])] if n not in tables.names]:
        raise UsageError(f"review: the regression names no column: {', '.join(unknown)}.")
    base = tables.real if tables.train is None else pd.concat([tables.train, tables.real], ignore_index=True)
    base, made = (frame[frame[outcome].notna()] for frame in (base, tables.synthetic))
    names = [n for n in (wanted or ranked or tables.names) if n != outcome]
    linear = outcome in tables.numbers and base[outcome].nunique() > 2
    designs = {n: [_design(frame, base, n, tables) for frame in (base, made)] for n in names}
    lacking = [n for n in names if not designs[n][0] and (wanted or base[n].nunique() < 2)]
    predictors = [(n, label) for n in names for label in designs[n][0]][:MOST]
    if not predictors and not lacking:
        return None
    fits = []
    for side, frame in enumerate((base, made)):
        x = [designs[n][side][label] for n, label in predictors]
        fits.append(fit(np.array(x).reshape(len(x), len(frame)).T, _outcome(frame, base, outcome, linear), linear))
    found = [_coefficient(label, *(each.estimate(k) for each in fits)) for k, (_, label) in enumerate(predictors)]
    found += [_coefficient(n, Estimate(value=None), Estimate(value=None)) for n in lacking]
    known = [c.overlap for c in found if c.overlap is not None]
    common = "" if linear else f" (against its most frequent class, {words(base[outcome]).mode().get(0, '')!r})"
    return Inference(
        outcome=f"{outcome}{common}",
        model="least squares" if linear else "logistic",
        rows="the real rows" if tables.train is None else "training and held-out rows together",
        coefficients=found,
        mean_overlap=float(np.mean(known)) if known else None,
    )


def _coefficient(predictor: str, real: Estimate, made: Estimate) -> Coefficient:
    return Coefficient(predictor=predictor, real=real, synthetic=made, overlap=overlap(real, made))


def fit(x: Floats, y: Floats, linear: bool) -> Fit:
    """Least squares or logistic regression of `y` (rows,) on `x` (rows, predictors) and an intercept, by statsmodels.

    A predictor that does not vary, or that earlier ones determine, takes no part and is not estimable; nor is one
    whose log odds run away since it separates the outcomes. Nothing is estimable if the outcome does not vary.
    """
    import statsmodels.api as sm

    found = Fit(*(np.full(x.shape[1], np.nan) for _ in range(3)))
    if not x.size or y.std() < 1e-9:
        return found
    kept = _independent(x)
    design = np.column_stack([np.ones(len(x)), x[:, kept]])
    if len(x) <= design.shape[1]:
        return found
    model = sm.OLS(y, design) if linear else sm.GLM(y, design, family=sm.families.Binomial())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # statsmodels warns of separation; such coefficients are left out below
        result = model.fit()
        ends = np.asarray(result.conf_int())
    known = np.isfinite(result.params) & np.isfinite(ends).all(1) & (linear | (result.bse < LARGEST_STD_ERROR))
    for to, values in zip(found, (result.params, ends[:, 0], ends[:, 1]), strict=True):
        to[kept] = np.where(known, values, np.nan)[1:]
    return found


def _independent(x: Floats) -> list[int]:
    """The columns of `x` that the intercept and earlier columns do not determine."""
    kept: list[int] = []
    design = np.ones((len(x), 1))
    for k in range(x.shape[1]):
        wider = np.column_stack([design, x[:, k]])
        if np.linalg.matrix_rank(wider) == wider.shape[1]:
            design = wider
            kept.append(k)
    return kept


def _design(frame: pd.DataFrame, base: pd.DataFrame, name: str, tables: Tables) -> dict[str, Floats]:
    """Return the predictors that a column of `frame` yields, (rows,) by label, on the scale of the real rows `base`."""
    if name in tables.numbers:
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


def _compute(context: Context) -> Inference | None:
    if context.tables is None:
        return None
    importance = context.record(Importance)
    ranked = [name for name, _, _ in importance.columns] if importance else []
    return inference(context.tables, context.review.regression, ranked)


# It waits, as importance does, which comes before it: the columns that lead there are its predictors.
SECTION = Section(
    id="inference", title="Utility: inference", compute=_compute, record=Inference, needs=("real rows",), waits=True
)
