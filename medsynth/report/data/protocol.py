"""Train on synthetic rows, test on real rows: the one protocol behind all figures of utility.

Four classifiers score macro one-vs-rest AuROC from class probabilities on real held-out rows. The thyroid study's own
figure is micro AuROC of binarised hard predictions. A class that the training table lacks scores 0.5. `TaskPredictions`
has the predictions for the held-out rows, which several sections share.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
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

from ...arrays import Floats
from ...rng import Stream, numpy_stream
from .statistics import Areas, Patients, compared, folds, resampled
from .tables import Tables
from .verdict import Estimate

FOLDS = 5
MOST_LEARNED = 25_000  # Rows that classifiers learn from.
CROSS_VALIDATED = f"the same rows, by {FOLDS}-fold cross-validation, since no training table was given"
TRAINING_TABLE = "the real rows of the training table"
# Rows that each tree of a forest draws. On 12,716 rows of OMOP, AuROC was 0.629 with 5,000 and 0.620 with all of them.
FOREST_ROWS = 5_000
# On 50,000 rows of diabetes130 a network scored 0.645 after 100 steps and 0.643 after 300, on the clinic 0.995.
MANY_ROWS = 10_000
LABELS = {"lr": "linear model", "mlp": "neural network", "rf": "random forest", "hgb": "boosted trees"}


Models = Callable[[NDArray[Any]], dict[str, Any]]  # New models by name, for training rows with these labels.


def classifiers(labels: NDArray[Any]) -> dict[str, Any]:
    """Return new classifiers by name for training rows with `labels` (rows,).

    Boosted trees hold rows out to stop early if they have more than MANY_ROWS. They cannot if a class has a single row.
    """
    stop = "auto" if np.unique(labels, return_counts=True)[1].min() > 1 else False
    drawn = FOREST_ROWS if len(labels) > FOREST_ROWS else None
    steps = 300 if len(labels) <= MANY_ROWS else 100
    network = MLPClassifier(hidden_layer_sizes=(16,), solver="lbfgs", alpha=1e-4, max_iter=steps, random_state=0)
    return {
        "lr": make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000)),
        "mlp": make_pipeline(StandardScaler(), network),
        "rf": RandomForestClassifier(300, random_state=0, n_jobs=-1, max_samples=drawn),
        "hgb": HistGradientBoostingClassifier(random_state=0, early_stopping=stop),
    }


def regressors(labels: NDArray[Any]) -> dict[str, Any]:
    """Return new regressors by name, of the families of `classifiers`; `labels` are not used."""
    network = MLPRegressor(hidden_layer_sizes=(16,), solver="lbfgs", alpha=1e-4, max_iter=300, random_state=0)
    return {
        "lr": make_pipeline(StandardScaler(), Ridge()),
        "mlp": make_pipeline(StandardScaler(), network),
        "rf": RandomForestRegressor(100, random_state=0, n_jobs=-1, min_samples_leaf=3),
        "hgb": HistGradientBoostingRegressor(random_state=0),
    }


def features(train: pd.DataFrame, test: pd.DataFrame, target: str) -> tuple[Floats, Floats]:
    """Return both tables as numbers without the target: words one-hot encoded, missing numbers as medians."""
    both = pd.concat([train, test], keys=["a", "b"]).drop(columns=target)
    words = [c for c in both if not pd.api.types.is_numeric_dtype(both[c])]
    hot = pd.get_dummies(both, columns=words, dtype=float).astype(float)
    hot = hot.fillna(hot.median(numeric_only=True)).fillna(0.0)
    hot = hot if hot.shape[1] else hot.assign(nothing=0.0)  # no column has a value to learn from
    return hot.loc["a"].to_numpy(), hot.loc["b"].to_numpy()


@dataclass(frozen=True)
class Predictions:
    """One classifier's predictions for the test rows.

    `probabilities` is (rows, classes), 0.5 for a class that the training table lacks. `labels` is (rows,), the
    predicted class.
    """

    probabilities: Floats
    labels: NDArray[Any]


def predict(
    train: pd.DataFrame, test: pd.DataFrame, target: str, names: Collection[str] = tuple(LABELS),
    models: Models = classifiers,
) -> dict[str, Predictions]:  # fmt: skip
    """Fit the classifiers `names` to `train` and return their predictions for `test`. Classes are those of `test`."""
    classes = np.unique(test[target].astype(str))
    x, x_test = features(train, test, target)
    y = train[target].astype(str).to_numpy()
    found: dict[str, Predictions] = {}
    for name, model in models(y).items():
        if name not in names:
            continue
        if len(np.unique(y)) < 2:
            half = np.full((len(test), len(classes)), 0.5)
            found[name] = Predictions(half, np.full(len(test), y[0]))
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(x, y)
            chances = model.predict_proba(x_test)
        probability = dict(zip(model.classes_, chances.T, strict=True))
        labels = model.classes_[chances.argmax(1)]  # The labels of `predict`, without a second pass.
        columns = [probability.get(c, np.full(len(test), 0.5)) for c in classes]
        found[name] = Predictions(np.stack(columns, 1), labels)
    return found


def aurocs(
    truth: NDArray[Any],
    classes: Mapping[int, Any],
    sides: Sequence[Mapping[str, Predictions]],
    rng: Stream,
    patients: Patients | None,
) -> tuple[Floats, Floats]:
    """Return the AuROC of each class against the rest, (sides, classifiers, classes), and its resamples, (draws, ...).

    truth: (rows,), the class of each row. classes: by the column of their probabilities. sides: predictions of the same
    classifiers after training on real and on synthetic rows.
    """
    scores = [made.probabilities[:, k] for side in sides for made in side.values() for k in classes]
    shape = (len(sides), len(sides[0]), len(classes))
    hits = [truth == c for c in classes.values()] * (shape[0] * shape[1])
    areas = Areas(np.stack(hits), np.stack(scores))
    return areas.value.reshape(shape), resampled(len(truth), rng, areas, patients).reshape(-1, *shape)


def mean_aurocs(
    truth: NDArray[Any], classes: Mapping[int, Any], sides: Sequence[Mapping[str, Predictions]], rng: Stream,
    patients: Patients | None,
) -> dict[str, Estimate]:  # fmt: skip
    """Return the means of `aurocs` over classifiers and classes that a resample has, by side, and the loss."""
    value, draws = aurocs(truth, classes, sides, rng, patients)
    every = np.concatenate([value[None], draws])
    known = np.ma.masked_invalid(every.reshape(*every.shape[:2], -1)).mean(2).filled(np.nan)
    return compared(known[0], known[1:])


def micro_hard(truth: NDArray[Any], hard: NDArray[Any], classes: NDArray[Any]) -> float:
    """Return the micro AuROC of predicted labels, both (rows,): every pair of row and class counts once."""
    hot = (truth[:, None] == classes).ravel()
    if hot.all():
        return float("nan")
    return float(roc_auc_score(hot, (hard[:, None] == classes).ravel().astype(float)))


def majority_floor(test: pd.DataFrame, target: str) -> float:
    """Return the `micro_hard` of always predicting the most frequent class."""
    truth = test[target].astype(str).to_numpy()
    classes, counts = np.unique(truth, return_counts=True)
    return micro_hard(truth, np.full_like(truth, classes[counts.argmax()]), classes)


@dataclass(frozen=True)
class TaskPredictions:
    """Every classifier's predictions for the real held-out rows of `tables`, computed when first needed."""

    tables: Tables
    models: Models = classifiers

    @property
    def train_rows(self) -> str:
        """Return which real rows the classifiers were trained on."""
        return CROSS_VALIDATED if self.tables.train is None else TRAINING_TABLE

    @cached_property
    def synthetic(self) -> dict[str, Predictions]:
        """Return the predictions after training on synthetic rows."""
        return self._predict(some(self.tables.synthetic, numpy_stream(0, "report/learned")), self.tables.real)

    @cached_property
    def real(self) -> dict[str, Predictions]:
        """Return the predictions after training on the training table, else on other folds of the held-out rows."""
        real, train = self.tables.baseline
        if train is None:
            return self._cross_validated(real)
        return self._predict(some(train, numpy_stream(0, "report/learned")), real)

    def _predict(self, train: pd.DataFrame, test: pd.DataFrame) -> dict[str, Predictions]:
        return predict(train, test, self.tables.predicted, models=self.models)

    def _cross_validated(self, real: pd.DataFrame) -> dict[str, Predictions]:
        """Predict each fold of `real` with classifiers trained on the other folds."""
        truth = real[self.tables.predicted].astype(str).to_numpy()
        classes = np.unique(truth)
        probabilities = {name: np.full((len(real), len(classes)), 0.5) for name in LABELS}
        labels = {name: truth.copy() for name in LABELS}
        for inside, outside in folds(truth, FOLDS, self.tables.patients.get("real")):
            fold = real.iloc[outside].reset_index(drop=True)
            places = np.searchsorted(classes, np.unique(truth[outside]))
            for name, made in self._predict(real.iloc[inside].reset_index(drop=True), fold).items():
                probabilities[name][np.ix_(outside, places)] = made.probabilities
                labels[name][outside] = made.labels
        return {name: Predictions(probabilities[name], labels[name]) for name in LABELS}


def some(train: pd.DataFrame, rng: Stream) -> pd.DataFrame:
    """Return at most MOST_LEARNED rows, drawn uniformly: classifiers gain next to nothing from more."""
    if len(train) <= MOST_LEARNED:
        return train
    return train.iloc[np.sort(rng.choice(len(train), MOST_LEARNED, replace=False))].reset_index(drop=True)
