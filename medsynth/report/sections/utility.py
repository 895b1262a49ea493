"""Is the table any good for the task? Train on synthetic, test on real, beside train on real, test on real."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score
from sklearn.model_selection import KFold, StratifiedKFold

from ..data import protocol
from ..data.protocol import LABELS, Answers, Floats
from ..data.records import Figure, Part
from ..data.statistics import auroc, compared, interval, resampled, roc_points
from ..data.tables import Tables

FOLDS = 5
BINS, THIN = 10, 8  # of predicted chances, for calibration; rows that a bin needs to be drawn


class ClassUtility(Part):
    """One class against the rest: AuROC of classifiers trained on real and on synthetic rows."""

    level: str
    count: int
    real: Figure
    synthetic: Figure
    loss: Figure


class Classifier(Part):
    """One classifier. `loss` is real less synthetic, resampled in pairs; AUPRC and AuROC are macro averages."""

    name: str
    label: str
    real: Figure
    synthetic: Figure
    loss: Figure
    classes: list[ClassUtility]
    auprc_real: float | None
    auprc_synthetic: float | None
    brier_real: float | None
    brier_synthetic: float | None
    micro_real: float | None
    micro_synthetic: float | None


class Curve(Part):
    """A curve of one class for the classifier shown: (x, y) points by real and by synthetic training rows."""

    level: str
    real: list[tuple[float, float]]
    synthetic: list[tuple[float, float]]


class Utility(Part):
    """Section 8 for a target of classes."""

    kind: Literal["classes"] = "classes"
    target: str
    train_rows: str
    mean_real: Figure
    mean_synthetic: Figure
    mean_loss: Figure
    best_real: float | None
    best_synthetic: float | None
    best_loss: Figure
    majority_floor: float | None
    missing_classes: list[str]
    classifiers: list[Classifier]
    shown: str
    roc: list[Curve]
    calibration: list[Curve]


def chances(tables: Tables) -> tuple[dict[str, Answers], dict[str, Answers], str]:
    """Answers about the real rows after training on real and on synthetic rows, and how the real ones were had."""
    synthetic = protocol.answers(tables.synthetic, tables.real, tables.target)
    if tables.train is not None:
        return protocol.answers(tables.train, tables.real, tables.target), synthetic, "the real rows of --train"
    said = f"the held-out rows themselves, by {FOLDS}-fold cross-validation, since --train was not given"
    return _crossed(tables.real, tables.target), synthetic, said


def _crossed(real: pd.DataFrame, target: str) -> dict[str, Answers]:
    """Out-of-fold answers about `real` of classifiers trained on the other folds."""
    truth = real[target].astype(str).to_numpy()
    classes, counts = np.unique(truth, return_counts=True)
    enough = counts.min() >= FOLDS
    folds = (StratifiedKFold if enough else KFold)(FOLDS, shuffle=True, random_state=0)
    whole = {name: np.full((len(real), len(classes)), 0.5) for name in LABELS}
    hard = {name: truth.copy() for name in LABELS}
    seen = dict.fromkeys(LABELS, frozenset[str]())
    for inside, outside in folds.split(real, truth):
        part = real.iloc[outside].reset_index(drop=True)
        places = np.searchsorted(classes, np.unique(truth[outside]))
        for name, answer in protocol.answers(real.iloc[inside].reset_index(drop=True), part, target).items():
            whole[name][np.ix_(outside, places)] = answer.chances
            hard[name][outside] = answer.hard
            seen[name] |= answer.seen
    return {name: Answers(whole[name], hard[name], seen[name]) for name in LABELS}


def utility(tables: Tables, real: dict[str, Answers], synthetic: dict[str, Answers], rows: str, rng: Any) -> Utility:
    """Every figure of the section. `real` and `synthetic` are the answers of `chances`."""
    truth = tables.real[tables.target].astype(str).to_numpy()
    classes = tables.classes()
    names = list(real)
    scores = np.stack([[a[n].chances[:, k] for n in names for k in range(len(classes))] for a in (real, synthetic)])
    hits = np.stack([truth == c for _ in names for c in classes])

    def macro(weights: Floats) -> Floats:
        """(draws, 2, classifiers, classes)."""
        each = [[auroc(hit, s, weights) for hit, s in zip(hits, side, strict=True)] for side in scores]
        return np.moveaxis(np.array(each), 2, 0).reshape(len(weights), 2, len(names), len(classes))

    value, draws = macro(np.ones((1, len(truth))))[0], resampled(len(truth), rng, macro)
    made = [
        _classifier(name, value[:, k], draws[:, :, k], truth, classes, real[name], synthetic[name])
        for k, name in enumerate(names)
    ]
    mean, mean_draws = value.mean((1, 2)), draws.mean((2, 3))
    best = value.mean(2).argmax(1)
    best_value = value.mean(2).max(1)
    best_draws = draws.mean(3)[:, np.arange(2), best]
    shown = names[int(value[0].mean(1).argmax())]
    return Utility(
        target=tables.target,
        train_rows=rows,
        mean_real=interval(mean[0], mean_draws[:, 0]),
        mean_synthetic=interval(mean[1], mean_draws[:, 1]),
        mean_loss=interval(mean[0] - mean[1], mean_draws[:, 0] - mean_draws[:, 1]),
        best_real=_known(best_value[0]),
        best_synthetic=_known(best_value[1]),
        best_loss=interval(best_value[0] - best_value[1], best_draws[:, 0] - best_draws[:, 1]),
        majority_floor=_known(protocol.majority_floor(tables.real, tables.target)),
        missing_classes=sorted(set(classes) - set(tables.synthetic[tables.target].astype(str))),
        classifiers=made,
        shown=LABELS[shown],
        roc=[
            Curve(level=str(c), **{
                side: roc_points(truth == c, answer[shown].chances[:, k])
                for side, answer in (("real", real), ("synthetic", synthetic))
            })
            for k, c in enumerate(classes)
            if 0 < (truth == c).sum() < len(truth)
        ],
        calibration=[
            Curve(level=str(c), **{
                side: _calibration(truth == c, answer[shown].chances[:, k])
                for side, answer in (("real", real), ("synthetic", synthetic))
            })
            for k, c in enumerate(classes)
        ],
    )  # fmt: skip


def _classifier(
    name: str, value: Floats, draws: Floats, truth: NDArray[Any], classes: NDArray[Any], real: Answers, made: Answers
) -> Classifier:
    """`value` (2, classes) and `draws` (draws, 2, classes): AuROC by real and synthetic training rows."""
    hot = truth[:, None] == classes

    def precision(answer: Answers) -> float | None:
        each = [average_precision_score(h, a) for h, a in zip(hot.T, answer.chances.T, strict=True) if h.any()]
        return _known(np.mean(each))

    def brier(answer: Answers) -> float | None:
        return _known(np.square(answer.chances - hot).sum(1).mean())

    return Classifier(
        name=name,
        label=LABELS[name],
        **compared(value.mean(1), draws.mean(2)),
        classes=[
            ClassUtility(level=str(c), count=int(hot[:, k].sum()), **compared(value[:, k], draws[:, :, k]))
            for k, c in enumerate(classes)
        ],
        auprc_real=precision(real),
        auprc_synthetic=precision(made),
        brier_real=brier(real),
        brier_synthetic=brier(made),
        micro_real=_known(protocol.micro_hard(truth, real.hard, classes)),
        micro_synthetic=_known(protocol.micro_hard(truth, made.hard, classes)),
    )


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _calibration(hit: NDArray[np.bool_], chance: Floats) -> list[tuple[float, float]]:
    """(mean predicted chance, observed share) of rows in equally wide bins of the chance, thin bins left out."""
    place = np.minimum((chance * BINS).astype(np.int64), BINS - 1)
    parts = [place == k for k in range(BINS) if (place == k).sum() >= THIN]
    return [(round(float(chance[p].mean()), 4), round(float(hit[p].mean()), 4)) for p in parts]
