"""Fit one regression by least squares or maximum likelihood, and say which of its coefficients the rows determine."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np

from ..arrays import Floats
from ..schema import Column

LARGEST_STD_ERROR = 30.0  # Standard error of a log odds ratio per standard deviation. Above it, the rows are separated.


class RegressionFit(NamedTuple):
    """Coefficients (predictors,) without the intercept, 95 % intervals and standard errors; NaN if not estimable."""

    value: Floats
    low: Floats
    high: Floats
    std_error: Floats


def on_scale(values: Floats, column: Column) -> Floats:
    """Return numbers on the column's scale. On a log scale, zero becomes half of the smallest positive number."""
    if column.dated or column.scale != "log":
        return values
    return np.asarray(np.log(np.maximum(values, 0.5 * 10.0**-column.places)))


def fit(x: Floats, y: Floats, linear: bool) -> RegressionFit:
    """Fit `y` (rows,) to `x` (rows, predictors) and an intercept by least squares or logistic regression (statsmodels).

    A predictor that does not vary, or that earlier ones determine, is left out and not estimable. Neither is a
    predictor that separates the outcomes, since its log odds diverge. Nothing is estimable if the outcome does not
    vary.
    """
    from statsmodels.genmod import families  # a third of the time of `statsmodels.api`
    from statsmodels.genmod.generalized_linear_model import GLM
    from statsmodels.regression.linear_model import OLS

    found = RegressionFit(*(np.full(x.shape[1], np.nan) for _ in range(4)))
    if not x.size or y.std() < 1e-9:
        return found
    kept = independent(x)
    design = np.column_stack([np.ones(len(x)), x[:, kept]])
    if len(x) <= design.shape[1]:
        return found
    model = OLS(y, design) if linear else GLM(y, design, family=families.Binomial())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # statsmodels warns of separation. Such coefficients are left out below.
        result = model.fit()
        ends = np.asarray(result.conf_int())
    known = np.isfinite(result.params) & np.isfinite(ends).all(1) & (linear | (result.bse < LARGEST_STD_ERROR))
    for to, values in zip(found, (result.params, ends[:, 0], ends[:, 1], result.bse), strict=True):
        to[kept] = np.where(known, values, np.nan)[1:]
    return found


def independent(x: Floats) -> list[int]:
    """Return the columns of `x` that the intercept and earlier columns do not determine."""
    kept: list[int] = []
    design = np.ones((len(x), 1))
    for k in range(x.shape[1]):
        wider = np.column_stack([design, x[:, k]])
        if np.linalg.matrix_rank(wider) == wider.shape[1]:
            design = wider
            kept.append(k)
    return kept
