"""Train on synthetic, test on real: the one protocol in which utility is quoted.

Four classifiers, macro one-vs-rest AuROC from class probabilities on real held-out rows; and the thyroid study's own
figure, micro AuROC of binarised hard predictions. A class that the training table lacks scores 0.5.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import roc_auc_score
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

Floats = NDArray[np.float64]
LABELS = {"lr": "linear model", "mlp": "neural network", "rf": "random forest", "hgb": "boosted trees"}


def classifiers(labels: NDArray[Any]) -> dict[str, Any]:
    """Fresh classifiers, by name, for training rows with `labels` (rows,).

    Boosted trees of more than 10,000 rows hold some out to stop early; they cannot where a class has a single row.
    """
    stop = "auto" if np.unique(labels, return_counts=True)[1].min() > 1 else False
    network = MLPClassifier(hidden_layer_sizes=(16,), solver="lbfgs", alpha=1e-4, max_iter=300, random_state=0)
    return {
        "lr": make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000)),
        "mlp": make_pipeline(StandardScaler(), network),
        "rf": RandomForestClassifier(300, random_state=0, n_jobs=-1),
        "hgb": HistGradientBoostingClassifier(random_state=0, early_stopping=stop),
    }


def regressors() -> dict[str, Any]:
    """The same families for a numeric target."""
    network = MLPRegressor(hidden_layer_sizes=(16,), solver="lbfgs", alpha=1e-4, max_iter=300, random_state=0)
    return {
        "lr": make_pipeline(StandardScaler(), Ridge()),
        "mlp": make_pipeline(StandardScaler(), network),
        "rf": RandomForestRegressor(100, random_state=0, n_jobs=-1, min_samples_leaf=3),
        "hgb": HistGradientBoostingRegressor(random_state=0),
    }


def features(train: pd.DataFrame, test: pd.DataFrame, target: str) -> tuple[Floats, Floats]:
    """Both tables without the target as numbers: words one-hot over either's levels, gaps filled by medians."""
    both = pd.concat([train, test], keys=["a", "b"]).drop(columns=target)
    words = [c for c in both if not pd.api.types.is_numeric_dtype(both[c])]
    hot = pd.get_dummies(both, columns=words, dtype=float).astype(float)
    hot = hot.fillna(hot.median(numeric_only=True)).fillna(0.0)
    hot = hot if hot.shape[1] else hot.assign(nothing=0.0)  # no column has a value to learn from
    return hot.loc["a"].to_numpy(), hot.loc["b"].to_numpy()


@dataclass(frozen=True)
class Predictions:
    """One classifier's predictions for the test rows.

    `probabilities` is (rows, classes), with 0.5 for a class that the training table lacks; `labels` is (rows,), the
    predicted class; `known` are the classes that the training table has.
    """

    probabilities: Floats
    labels: NDArray[Any]
    known: frozenset[str]


def predict(
    train: pd.DataFrame, test: pd.DataFrame, target: str, names: Collection[str] = tuple(LABELS)
) -> dict[str, Predictions]:
    """Predictions for `test` of the classifiers `names` fitted to `train`; classes are those of `test`, as text."""
    classes = np.unique(test[target].astype(str))
    x, x_test = features(train, test, target)
    y = train[target].astype(str).to_numpy()
    found: dict[str, Predictions] = {}
    for name, model in classifiers(y).items():
        if name not in names:
            continue
        if len(np.unique(y)) < 2:
            half = np.full((len(test), len(classes)), 0.5)
            found[name] = Predictions(half, np.full(len(test), y[0]), frozenset())
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(x, y)
            chances = model.predict_proba(x_test)
        probability = dict(zip(model.classes_, chances.T, strict=True))
        labels = model.classes_[chances.argmax(1)]  # what `predict` says, without a second pass
        columns = [probability.get(c, np.full(len(test), 0.5)) for c in classes]
        found[name] = Predictions(np.stack(columns, 1), labels, frozenset(model.classes_))
    return found


def micro_hard(truth: NDArray[Any], hard: NDArray[Any], classes: NDArray[Any]) -> float:
    """Micro AuROC of predicted labels, both (rows,): every (row, class) pair counts once."""
    hot = (truth[:, None] == classes).ravel()
    if hot.all():
        return float("nan")
    return float(roc_auc_score(hot, (hard[:, None] == classes).ravel().astype(float)))


def majority_floor(test: pd.DataFrame, target: str) -> float:
    """What always predicting the most frequent class scores on `micro_hard`."""
    truth = test[target].astype(str).to_numpy()
    classes, counts = np.unique(truth, return_counts=True)
    return micro_hard(truth, np.full_like(truth, classes[counts.argmax()]), classes)


def score(train: pd.DataFrame, test: pd.DataFrame, target: str) -> dict[str, Any]:
    """All figures of classifiers fitted to `train` and tried on `test`: macro, mean, best and micro_hard."""
    truth = test[target].astype(str).to_numpy()
    classes = np.unique(truth)
    macro: dict[str, float] = {}
    hard: dict[str, float] = {}
    for name, made in predict(train, test, target).items():
        each = [
            roc_auc_score(truth == c, made.probabilities[:, k]) if c in made.known else 0.5
            for k, c in enumerate(classes)
        ]
        macro[name], hard[name] = float(np.mean(each)), micro_hard(truth, made.labels, classes)
    values = list(macro.values())
    return {"macro": macro, "micro_hard": hard, "mean": float(np.mean(values)), "best": max(values)}
