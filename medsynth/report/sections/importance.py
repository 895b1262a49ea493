"""Do models lean on the same columns? Permutation importance after training on real and on synthetic rows."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
from scipy.stats import spearmanr

from ...rng import Stream
from ..data.protocol import Floats, classifiers, features, regressors
from ..data.records import Part
from ..data.tables import Tables

ROWS = 3_000  # of the real rows, on which columns are permuted


class Importance(Part):
    """Loss of accuracy when a column of real rows is permuted. `agreement`: Spearman's rank correlation."""

    columns: list[tuple[str, float, float]]
    agreement: float | None


def importance(tables: Tables, rng: Stream) -> Importance | None:
    """Importances by boosted trees, in squared error of the answers. None without --train: folds would be needed."""
    if tables.train is None:
        return None
    judged = tables.real.head(ROWS)
    real, made = (_permuted(frame, judged, tables, rng) for frame in (tables.train, tables.synthetic))
    rank = spearmanr(real, made).statistic if np.std(real) > 0 and np.std(made) > 0 else float("nan")
    rows = sorted(zip(tables.features, real, made, strict=True), key=lambda row: -row[1])
    return Importance(
        columns=[(name, round(float(a), 5), round(float(b), 5)) for name, a, b in rows],
        agreement=float(rank) if np.isfinite(rank) else None,
    )


def _permuted(train: pd.DataFrame, judged: pd.DataFrame, tables: Tables, rng: Stream) -> Floats:
    """Rise of the mean squared error of the answers on `judged` as each column is permuted: (features,)."""
    target, known = tables.target, train[train[tables.target].notna()]
    shuffled = [judged.assign(**{name: rng.permutation(judged[name].to_numpy())}) for name in tables.features]
    stacked = pd.concat([judged, *shuffled], ignore_index=True)
    x, x_test = features(known, stacked, target)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if tables.numeric_target:
            model = regressors()["hgb"].fit(x, known[target].to_numpy(np.float64))
            truth, answer = judged[target].to_numpy(np.float64)[:, None], model.predict(x_test)[:, None]
        else:
            y = known[target].astype(str)
            if y.nunique() < 2:
                return np.zeros(len(tables.features))
            model = classifiers()["hgb"].fit(x, y)
            truth = (judged[target].astype(str).to_numpy()[:, None] == model.classes_).astype(np.float64)
            answer = model.predict_proba(x_test)
    errors = np.square(answer.reshape(len(shuffled) + 1, len(judged), -1) - truth).mean((1, 2))
    return np.asarray(errors[1:] - errors[0])
