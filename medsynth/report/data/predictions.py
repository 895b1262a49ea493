"""Predictions for the held-out rows after training on real and on synthetic rows; several sections share them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from sklearn.model_selection import KFold, StratifiedKFold

from . import protocol
from .protocol import LABELS, Predictions
from .tables import Tables

FOLDS = 5
CROSS_VALIDATED = f"the held-out rows themselves, by {FOLDS}-fold cross-validation, since no training table was given"
TRAINING_TABLE = "the real rows of the training table"


@dataclass(frozen=True)
class TaskPredictions:
    """Every classifier's predictions for the real held-out rows of `tables`, computed when first needed."""

    tables: Tables

    @property
    def train_rows(self) -> str:
        """Which real rows the classifiers were trained on."""
        return CROSS_VALIDATED if self.tables.train is None else TRAINING_TABLE

    @cached_property
    def synthetic(self) -> dict[str, Predictions]:
        """After training on synthetic rows."""
        return protocol.predict(self.tables.synthetic, self.tables.real, self.tables.target)

    @cached_property
    def real(self) -> dict[str, Predictions]:
        """After training on real rows: the training table's, else the other folds of the held-out rows."""
        if self.tables.train is None:
            return _cross_validated(self.tables.real, self.tables.target)
        return protocol.predict(self.tables.train, self.tables.real, self.tables.target)


def _cross_validated(real: pd.DataFrame, target: str) -> dict[str, Predictions]:
    """Predictions for each fold of `real` by classifiers trained on the other folds."""
    truth = real[target].astype(str).to_numpy()
    classes, counts = np.unique(truth, return_counts=True)
    enough = counts.min() >= FOLDS
    folds = (StratifiedKFold if enough else KFold)(FOLDS, shuffle=True, random_state=0)
    probabilities = {name: np.full((len(real), len(classes)), 0.5) for name in LABELS}
    labels = {name: truth.copy() for name in LABELS}
    known = dict.fromkeys(LABELS, frozenset[str]())
    for inside, outside in folds.split(real, truth):
        fold = real.iloc[outside].reset_index(drop=True)
        places = np.searchsorted(classes, np.unique(truth[outside]))
        for name, made in protocol.predict(real.iloc[inside].reset_index(drop=True), fold, target).items():
            probabilities[name][np.ix_(outside, places)] = made.probabilities
            labels[name][outside] = made.labels
            known[name] |= made.known
    return {name: Predictions(probabilities[name], labels[name], known[name]) for name in LABELS}
