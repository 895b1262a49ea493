"""Utility for a numeric target: R2 and mean absolute error of regressors trained on real and on synthetic rows."""

from __future__ import annotations

import warnings
from typing import Literal

import numpy as np
import pandas as pd

from ...rng import Stream
from ..data.predictions import FOLDS, TaskPredictions
from ..data.protocol import LABELS, Floats, features, regressors
from ..data.records import Estimate, Record
from ..data.statistics import compared, folds, resampled
from ..data.tables import Tables


class Regressor(Record):
    """One regressor: R2 and mean absolute error on real rows, `loss` in R2 resampled in pairs."""

    name: str
    label: str
    real: Estimate
    synthetic: Estimate
    loss: Estimate
    mae_real: float
    mae_synthetic: float


class NumericUtility(Record):
    """The section of utility for a numeric target."""

    kind: Literal["number"] = "number"
    target: str
    train_rows: str
    mean_real: Estimate
    mean_synthetic: Estimate
    mean_loss: Estimate
    best_loss: Estimate
    regressors: list[Regressor]


def numeric_utility(predictions: TaskPredictions, rng: Stream) -> NumericUtility:
    """Every figure of the section."""
    tables = predictions.tables
    truth = tables.real[tables.target].to_numpy(np.float64)
    sides = (_after_real(tables), _predict(tables.synthetic, tables.real, tables.target))
    errors = np.array([[truth - side[name] for name in LABELS] for side in sides])

    def r2(weights: Floats) -> Floats:
        """(draws, 2, regressors)."""
        total = weights.sum(1)
        centre = weights @ truth / total
        spread = weights @ truth**2 / total - centre**2
        squares = np.einsum("dn,skn->dsk", weights, errors**2) / total[:, None, None]
        return np.asarray(1 - squares / spread[:, None, None])

    value, draws = r2(np.ones((1, len(truth))))[0], resampled(len(truth), rng, r2, tables.patients.get("real"))
    best = value.argmax(1)
    absolute = np.abs(errors).mean(2)
    mean = compared(value.mean(1), draws.mean(2))
    return NumericUtility(
        target=tables.target,
        train_rows=predictions.train_rows,
        mean_real=mean["real"],
        mean_synthetic=mean["synthetic"],
        mean_loss=mean["loss"],
        best_loss=compared(value[np.arange(2), best], draws[:, np.arange(2), best])["loss"],
        regressors=[
            Regressor(
                name=name,
                label=LABELS[name],
                **compared(value[:, k], draws[:, :, k]),
                mae_real=absolute[0, k],
                mae_synthetic=absolute[1, k],
            )
            for k, name in enumerate(LABELS)
        ],
    )


def _after_real(tables: Tables) -> dict[str, Floats]:
    """Predictions after training on the training table, else on the other folds of the held-out rows."""
    real, train = tables.baseline
    if train is not None:
        return _predict(train, real, tables.target)
    found = {name: np.zeros(len(real)) for name in LABELS}
    for inside, outside in folds(np.zeros(len(real)), FOLDS, tables.patients.get("real")):
        fold = _predict(real.iloc[inside], real.iloc[outside], tables.target)
        for name, predicted in fold.items():
            found[name][outside] = predicted
    return found


def _predict(train: pd.DataFrame, test: pd.DataFrame, target: str) -> dict[str, Floats]:
    x, x_test = features(train, test, target)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        y = train[target].to_numpy(np.float64)
        return {name: model.fit(x, y).predict(x_test) for name, model in regressors().items()}
