"""Utility for a numeric target: R2 and mean absolute error of regressors trained on real and on synthetic rows."""

from __future__ import annotations

import warnings
from typing import Any, Literal

import numpy as np
import pandas as pd
from sklearn.model_selection import KFold

from ..data.protocol import LABELS, Floats, features, regressors
from ..data.records import Figure, Part
from ..data.statistics import compared, resampled
from ..data.tables import Tables
from .utility import FOLDS


class Regressor(Part):
    """One regressor: R2 and mean absolute error on real rows, `loss` in R2 resampled in pairs."""

    name: str
    label: str
    real: Figure
    synthetic: Figure
    loss: Figure
    mae_real: float
    mae_synthetic: float


class NumericUtility(Part):
    """Section 8 for a numeric target."""

    kind: Literal["number"] = "number"
    target: str
    train_rows: str
    mean_real: Figure
    mean_synthetic: Figure
    mean_loss: Figure
    best_loss: Figure
    regressors: list[Regressor]


def numeric_utility(tables: Tables, rng: Any) -> NumericUtility:
    """Every figure of the section."""
    truth = tables.real[tables.target].to_numpy(np.float64)
    if tables.train is not None:
        real, rows = _predict(tables.train, tables.real, tables.target), "the real rows of --train"
    else:
        real = {name: np.zeros(len(truth)) for name in LABELS}
        for inside, outside in KFold(FOLDS, shuffle=True, random_state=0).split(truth):
            part = _predict(tables.real.iloc[inside], tables.real.iloc[outside], tables.target)
            for name, answer in part.items():
                real[name][outside] = answer
        rows = f"the held-out rows themselves, by {FOLDS}-fold cross-validation, since --train was not given"
    synthetic = _predict(tables.synthetic, tables.real, tables.target)
    errors = np.array([[truth - side[name] for name in LABELS] for side in (real, synthetic)])

    def r2(weights: Floats) -> Floats:
        """(draws, 2, regressors)."""
        total = weights.sum(1)
        centre = weights @ truth / total
        spread = weights @ truth**2 / total - centre**2
        squares = np.einsum("dn,skn->dsk", weights, errors**2) / total[:, None, None]
        return np.asarray(1 - squares / spread[:, None, None])

    value, draws = r2(np.ones((1, len(truth))))[0], resampled(len(truth), rng, r2)
    best = value.argmax(1)
    absolute = np.abs(errors).mean(2)

    mean = compared(value.mean(1), draws.mean(2))
    top = compared(value[np.arange(2), best], draws[:, np.arange(2), best])
    made = [
        Regressor(name=n, label=LABELS[n], **compared(value[:, k], draws[:, :, k]), mae_real=absolute[0, k],
                  mae_synthetic=absolute[1, k])
        for k, n in enumerate(LABELS)
    ]  # fmt: skip
    return NumericUtility(
        target=tables.target,
        train_rows=rows,
        mean_real=mean["real"],
        mean_synthetic=mean["synthetic"],
        mean_loss=mean["loss"],
        best_loss=top["loss"],
        regressors=made,
    )


def _predict(train: pd.DataFrame, test: pd.DataFrame, target: str) -> dict[str, Floats]:
    known = train[train[target].notna()]
    x, x_test = features(known, test, target)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        y = known[target].to_numpy(np.float64)
        return {name: model.fit(x, y).predict(x_test) for name, model in regressors().items()}
