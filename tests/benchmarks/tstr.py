"""Train on synthetic, test on real: macro AuROC from class probabilities, and the thyroid study's own figure.

The one protocol that every utility figure of this project is quoted in. For each of four classifiers fitted to a
synthetic table: the mean over classes of the one-vs-rest AuROC on real held-out rows ("macro"); and the micro AuROC
of binarised hard answers ("micro_hard"), which the thyroid study published. A class that the synthetic table lacks
scores 0.5.
"""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler


def classifiers() -> dict:
    """Fresh classifiers, by name."""
    network = MLPClassifier((16,), solver="lbfgs", alpha=1e-4, max_iter=300, random_state=0)
    return {
        "lr": make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000)),
        "mlp": make_pipeline(StandardScaler(), network),
        "rf": RandomForestClassifier(300, random_state=0, n_jobs=-1),
        "hgb": HistGradientBoostingClassifier(random_state=0),
    }


def features(train: pd.DataFrame, test: pd.DataFrame, target: str) -> tuple[np.ndarray, np.ndarray]:
    """Both tables without the target as numbers: words one-hot over either's levels, gaps filled by medians."""
    both = pd.concat([train, test], keys=["train", "test"]).drop(columns=target)
    words = [name for name in both if not pd.api.types.is_numeric_dtype(both[name])]
    both = pd.get_dummies(both, columns=words, dtype=float).astype(float)
    both = both.fillna(both.median(numeric_only=True)).fillna(0.0)
    return both.loc["train"].to_numpy(), both.loc["test"].to_numpy()


def micro_hard(truth: np.ndarray, answers: np.ndarray, classes: np.ndarray) -> float:
    """Micro AuROC of hard answers, both (rows,): every (row, class) pair counts once."""
    return float(
        roc_auc_score((truth[:, None] == classes).ravel(), (answers[:, None] == classes).ravel().astype(float))
    )


def majority_floor(test: pd.DataFrame, target: str) -> float:
    """What always answering the most frequent class scores on `micro_hard`."""
    truth = test[target].astype(str).to_numpy()
    classes, counts = np.unique(truth, return_counts=True)
    return micro_hard(truth, np.full_like(truth, classes[counts.argmax()]), classes)


def score(train: pd.DataFrame, test: pd.DataFrame, target: str) -> dict:
    """All figures of classifiers fitted to `train` and tried on `test`."""
    x, x_test = features(train, test, target)
    y, truth = train[target].astype(str).to_numpy(), test[target].astype(str).to_numpy()
    classes = np.unique(truth)
    macro, hard = {}, {}
    for name, model in classifiers().items():
        if len(np.unique(y)) < 2:
            macro[name], hard[name] = 0.5, micro_hard(truth, np.full_like(truth, y[0]), classes)
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(x, y)
        chances = dict(zip(model.classes_, model.predict_proba(x_test).T, strict=True))
        each = [roc_auc_score(truth == c, chances[c]) if c in chances else 0.5 for c in classes]
        macro[name], hard[name] = float(np.mean(each)), micro_hard(truth, model.predict(x_test), classes)
    means = {"mean": float(np.mean(list(macro.values()))), "best": max(macro.values())}
    return {"macro": macro, "micro_hard": hard, **means}
