"""How well a classifier separates synthetic from real rows, and which columns it relies on.

The classifier two-sample test (C2ST; Lopez-Paz and Oquab 2017): its AuROC is 0.5 where the two cannot be separated.
"""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ....rng import Stream
from ...data.cells import matrices
from ...data.protocol import features
from ...data.records import Estimate
from ...data.statistics import Areas, Patients, folds, interval, learnable, out_of_fold, resampled
from ...data.tables import Tables

ROWS = 10_000  # of each table
FEWEST = 20  # rows of each table, for any statement
REPEATS = 3  # permutations of each column
MOST_COLUMNS = 8


def propensity_auroc(
    real: pd.DataFrame, other: pd.DataFrame, tables: Tables, rng: Stream,
    patients: tuple[Patients | None, Patients | None] = (None, None),
) -> tuple[Estimate, list[tuple[str, float]]]:  # fmt: skip
    """AuROC of boosted trees that separate two tables, out of fold, and the AuROC lost as a column is permuted.

    `patients`: of each table's rows, where patients are the unit: the rows of one stay in one fold.
    """
    size = min(len(real), len(other), ROWS)
    if size < FEWEST:
        return Estimate(value=None), []
    drawn = [rng.choice(len(frame), size, replace=False) for frame in (real, other)]
    sample = [frame.iloc[rows] for frame, rows in zip((real, other), drawn, strict=True)]
    known = [numbers[rows] for numbers, rows in zip(patients, drawn, strict=True) if numbers is not None]
    own = np.concatenate(known) if len(known) == 2 else None
    x = np.concatenate(matrices(tables.names, tables.numbers, sample))
    y = np.repeat([False, True], size)
    cut = folds(y, 3, own)
    model = HistGradientBoostingClassifier(random_state=0)
    areas = Areas(y[None], out_of_fold(model, x, y, cut)[None])
    value = interval(areas.value[0], resampled(2 * size, rng, areas, own)[:, 0])
    inside, outside = cut[0]
    if len(np.unique(y[inside])) < 2 or len(np.unique(y[outside])) < 2:  # few patients: a fold has rows of one table
        return value, []
    model.fit(learnable(x[inside]), y[inside])
    found = permutation_importance(model, x[outside], y[outside], scoring="roc_auc", n_repeats=REPEATS, random_state=0)
    lost = [(name, round(float(v), 4)) for name, v in zip(tables.names, found.importances_mean, strict=True)]
    return value, sorted(lost, key=lambda item: -item[1])[:MOST_COLUMNS]


def pmse_ratio(real: pd.DataFrame, other: pd.DataFrame) -> float | None:
    """Propensity mean squared error of a main-effects logistic model over its expectation under no difference.

    Snoke, Raab, Nowok, Dibben, Slavkovic 2018, equation 2 and section 3. 1 is what equal distributions give.
    """
    marked = pd.concat([real.assign(__other=0), other.assign(__other=1)], ignore_index=True)
    x, _ = features(marked, marked.iloc[:1], "__other")
    x = x[:, x.std(0) > 0]
    y = marked["__other"].to_numpy()
    if not x.shape[1]:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = make_pipeline(StandardScaler(), LogisticRegression(C=1e4, max_iter=500))
        score = model.fit(x, y).predict_proba(x)[:, 1]
    share, n = y.mean(), len(y)
    expected = np.linalg.matrix_rank(x) * (1 - share) ** 2 * share / n
    return float(np.square(score - share).mean() / expected) if expected else None
