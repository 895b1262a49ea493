"""Do models rely on the same columns? Permutation importance after training on real and on synthetic rows.

Source: Breiman 2001, Random forests, section 10, as scikit-learn's `permutation_importance` computes it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import spearmanr
from sklearn.inspection import permutation_importance

from ..data.cells import matrices
from ..data.context import Context
from ..data.protocol import Floats, classifiers, regressors
from ..data.records import Record
from ..data.statistics import learnable
from ..data.tables import Tables
from .registry import Section

ROWS = 2_000  # of the real rows, on which columns are permuted
REPEATS = 2  # permutations of each column


class Importance(Record):
    """Rise of the squared error when a column of real rows is permuted. `agreement`: Spearman's rank correlation."""

    columns: list[tuple[str, float, float]]
    agreement: float | None


def importance(tables: Tables) -> Importance | None:
    """Importances by boosted trees. None without a training table: folds would be needed."""
    if tables.train is None:
        return None
    names, test = tables.features, tables.real.head(ROWS)
    frames = [tables.train, tables.synthetic]
    *trained, x = matrices(names, tables.numbers, [*frames, test])
    truth = _target(test[tables.target], tables)
    found = [
        _importances(rows, _target(frame[tables.target], tables), x, truth, tables.numeric_target)
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
    """Mean rise of the squared error on the rows `test` as each column is permuted: (columns,)."""
    if not numeric and len(np.unique(y)) < 2:
        return np.zeros(x.shape[1])
    model = (regressors() if numeric else classifiers(y))["hgb"].fit(learnable(x), y)
    scoring = "neg_mean_squared_error" if numeric else _negative_brier
    found = permutation_importance(model, test, truth, scoring=scoring, n_repeats=REPEATS, random_state=0)
    return np.asarray(found.importances_mean)


def _negative_brier(model: Any, x: Floats, truth: NDArray[Any]) -> float:
    """Minus the mean squared error of the probabilities of the classes that the training rows have.

    A true class that they lack counts as an error of every probability, so the score is defined for any tables.
    """
    hot = truth[:, None] == model.classes_
    return -float(np.square(model.predict_proba(x) - hot).mean())


def _compute(context: Context) -> Importance | None:
    return importance(context.tables) if context.tables else None


SECTION = Section(
    id="importance", title="Utility: important columns", compute=_compute, record=Importance, needs=("real rows",),
    waits=True, beside=True,
)  # fmt: skip
