"""Predictions for the held-out rows after training on real and on synthetic rows; several sections share them."""

from __future__ import annotations

from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pandas as pd

from ...rng import numpy_stream
from . import protocol
from .protocol import LABELS, Predictions
from .statistics import Patients, folds
from .tables import Tables

FOLDS = 5
MOST_LEARNED = 25_000  # rows that classifiers learn from
CROSS_VALIDATED = f"the same rows, by {FOLDS}-fold cross-validation, since no training table was given"
TRAINING_TABLE = "the real rows of the training table"


@dataclass(frozen=True)
class TaskPredictions:
    """Every classifier's predictions for the real held-out rows of `tables`, computed when first needed.

    With `begin` both sides are computed in the background, side by side, while other sections are.
    """

    tables: Tables
    begun: dict[str, Future[dict[str, Predictions]]] = field(default_factory=dict)

    def begin(self, pool: Executor) -> None:
        """Start computing both sides."""
        self.begun["synthetic"] = pool.submit(self._after_synthetic)
        self.begun["real"] = pool.submit(self._after_real)

    @property
    def train_rows(self) -> str:
        """Which real rows the classifiers were trained on."""
        return CROSS_VALIDATED if self.tables.train is None else TRAINING_TABLE

    @cached_property
    def synthetic(self) -> dict[str, Predictions]:
        """After training on synthetic rows."""
        return self.begun["synthetic"].result() if self.begun else self._after_synthetic()

    @cached_property
    def real(self) -> dict[str, Predictions]:
        """After training on real rows: the training table's, else the other folds of the held-out rows."""
        return self.begun["real"].result() if self.begun else self._after_real()

    def _after_synthetic(self) -> dict[str, Predictions]:
        return protocol.predict(_some(self.tables.synthetic), self.tables.real, self.tables.target)

    def _after_real(self) -> dict[str, Predictions]:
        real, train = self.tables.baseline
        if train is None:
            return _cross_validated(real, self.tables.target, self.tables.patients.get("real"))
        return protocol.predict(_some(train), real, self.tables.target)


def _some(train: pd.DataFrame) -> pd.DataFrame:
    """At most MOST_LEARNED rows of a training table, drawn uniformly: classifiers gain next to nothing from more."""
    if len(train) <= MOST_LEARNED:
        return train
    rows = np.sort(numpy_stream(0, "report/learned").choice(len(train), MOST_LEARNED, replace=False))
    return train.iloc[rows].reset_index(drop=True)


def _cross_validated(real: pd.DataFrame, target: str, patients: Patients | None) -> dict[str, Predictions]:
    """Predictions for each fold of `real` by classifiers trained on the other folds."""
    truth = real[target].astype(str).to_numpy()
    classes = np.unique(truth)
    probabilities = {name: np.full((len(real), len(classes)), 0.5) for name in LABELS}
    labels = {name: truth.copy() for name in LABELS}
    known = dict.fromkeys(LABELS, frozenset[str]())
    for inside, outside in folds(truth, FOLDS, patients):
        fold = real.iloc[outside].reset_index(drop=True)
        places = np.searchsorted(classes, np.unique(truth[outside]))
        for name, made in protocol.predict(real.iloc[inside].reset_index(drop=True), fold, target).items():
            probabilities[name][np.ix_(outside, places)] = made.probabilities
            labels[name][outside] = made.labels
            known[name] |= made.known
    return {name: Predictions(probabilities[name], labels[name], known[name]) for name in LABELS}
