"""Is the table any good for the task? Train on synthetic, test on real, beside train on real, test on real."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score

from ...rng import Stream
from ..data import protocol
from ..data.context import Context
from ..data.predictions import TaskPredictions
from ..data.protocol import LABELS, Floats, Predictions
from ..data.records import Estimate, Record
from ..data.review import Thresholds
from ..data.statistics import auroc, compared, resampled, roc_points
from ..data.verdict import Verdict, decide
from .numeric_utility import NumericUtility, numeric_utility
from .registry import Section

BINS, THIN = 10, 8  # of predicted probabilities, for calibration; rows that a bin needs to be drawn


class ClassUtility(Record):
    """One class against the rest: AuROC of classifiers trained on real and on synthetic rows."""

    level: str
    count: int
    real: Estimate
    synthetic: Estimate
    loss: Estimate


class Classifier(Record):
    """One classifier. `loss` is real less synthetic, resampled in pairs; AUPRC and AuROC are macro averages."""

    name: str
    label: str
    real: Estimate
    synthetic: Estimate
    loss: Estimate
    classes: list[ClassUtility]
    auprc_real: float | None
    auprc_synthetic: float | None
    brier_real: float | None
    brier_synthetic: float | None
    micro_real: float | None
    micro_synthetic: float | None


class Curve(Record):
    """A curve of one class for the classifier shown: (x, y) points by real and by synthetic training rows."""

    level: str
    real: list[tuple[float, float]]
    synthetic: list[tuple[float, float]]


class Utility(Record):
    """The section for a target of classes. `train_rows`: which real rows the classifiers were trained on."""

    kind: Literal["classes"] = "classes"
    target: str
    train_rows: str
    mean_real: Estimate
    mean_synthetic: Estimate
    mean_loss: Estimate
    best_real: float | None
    best_synthetic: float | None
    best_loss: Estimate
    majority_floor: float | None
    missing_classes: list[str]
    classifiers: list[Classifier]
    shown: str
    roc: list[Curve]
    calibration: list[Curve]


def utility(predictions: TaskPredictions, rng: Stream) -> Utility:
    """Every figure of the section."""
    tables, sides = predictions.tables, (predictions.real, predictions.synthetic)
    truth, classes = tables.real[tables.target].astype(str).to_numpy(), tables.classes()
    value, draws = _aurocs(truth, classes, sides, rng)
    names = list(LABELS)
    best = value.mean(2).argmax(1)
    mean = compared(value.mean((1, 2)), draws.mean((2, 3)))
    best_value = value.mean(2).max(1)
    shown = names[int(best[0])]
    curves = [tuple(side[shown].probabilities[:, k] for side in sides) for k in range(len(classes))]
    return Utility(
        target=tables.target,
        train_rows=predictions.train_rows,
        mean_real=mean["real"],
        mean_synthetic=mean["synthetic"],
        mean_loss=mean["loss"],
        best_real=_known(best_value[0]),
        best_synthetic=_known(best_value[1]),
        best_loss=compared(best_value, draws.mean(3)[:, np.arange(2), best])["loss"],
        majority_floor=_known(protocol.majority_floor(tables.real, tables.target)),
        missing_classes=sorted(set(classes) - set(tables.synthetic[tables.target].astype(str))),
        classifiers=[
            _classifier(name, value[:, k], draws[:, :, k], truth, classes, sides[0][name], sides[1][name])
            for k, name in enumerate(names)
        ],
        shown=LABELS[shown],
        roc=[
            Curve(level=str(c), real=roc_points(truth == c, real), synthetic=roc_points(truth == c, made))
            for c, (real, made) in zip(classes, curves, strict=True)
            if 0 < (truth == c).sum() < len(truth)
        ],
        calibration=[
            Curve(level=str(c), real=_calibration(truth == c, real), synthetic=_calibration(truth == c, made))
            for c, (real, made) in zip(classes, curves, strict=True)
        ],
    )


def _aurocs(
    truth: NDArray[Any], classes: NDArray[Any], sides: Sequence[dict[str, Predictions]], rng: Stream
) -> tuple[Floats, Floats]:
    """AuROC (2, classifiers, classes) of every class against the rest, and its resampled values (draws, ...)."""
    scores = np.stack([[s[n].probabilities[:, k] for n in LABELS for k in range(len(classes))] for s in sides])
    hits = np.stack([truth == c for _ in LABELS for c in classes])

    def measure(weights: Floats) -> Floats:
        each = [[auroc(hit, s, weights) for hit, s in zip(hits, side, strict=True)] for side in scores]
        return np.moveaxis(np.array(each), 2, 0).reshape(len(weights), 2, len(LABELS), len(classes))

    return measure(np.ones((1, len(truth))))[0], resampled(len(truth), rng, measure)


def _classifier(
    name: str, value: Floats, draws: Floats, truth: NDArray[Any], classes: NDArray[Any], real: Predictions,
    made: Predictions,
) -> Classifier:  # fmt: skip
    """`value` (2, classes) and `draws` (draws, 2, classes): AuROC by real and synthetic training rows."""
    hot = truth[:, None] == classes

    def precision(side: Predictions) -> float | None:
        each = [average_precision_score(h, p) for h, p in zip(hot.T, side.probabilities.T, strict=True) if h.any()]
        return _known(np.mean(each))

    def brier(side: Predictions) -> float | None:
        return _known(np.square(side.probabilities - hot).sum(1).mean())

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
        micro_real=_known(protocol.micro_hard(truth, real.labels, classes)),
        micro_synthetic=_known(protocol.micro_hard(truth, made.labels, classes)),
    )


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _calibration(hit: NDArray[np.bool_], probability: Floats) -> list[tuple[float, float]]:
    """(mean predicted probability, observed share) of rows in equally wide bins, thin bins left out."""
    place = np.minimum((probability * BINS).astype(np.int64), BINS - 1)
    bins = [place == k for k in range(BINS) if (place == k).sum() >= THIN]
    return [(round(float(probability[b].mean()), 4), round(float(hit[b].mean()), 4)) for b in bins]


def _verdicts(found: Utility | NumericUtility | None, thresholds: Thresholds) -> Sequence[Verdict]:
    question = "Do models learn the task?"
    if found is None:
        return []
    if isinstance(found, NumericUtility):
        measure, limit = "loss of R2, mean of four regressors", thresholds.mean_r2_loss
        return [decide(question, measure, found.mean_loss, limit, f"Best regressor: {found.best_loss} lost.")]
    detail = f"Best classifier: {found.best_loss} lost."
    if found.missing_classes:
        detail += f" No synthetic row has the class {', '.join(found.missing_classes)}."
    measure = "loss of AuROC, mean of four classifiers"
    return [decide(question, measure, found.mean_loss, thresholds.mean_auroc_loss, detail)]


def _compute(context: Context) -> Utility | NumericUtility | None:
    if context.predictions is None:
        return None
    if context.predictions.tables.numeric_target:
        return numeric_utility(context.predictions, context.rng)
    return utility(context.predictions, context.rng)


SECTION = Section(
    id="utility",
    title="Utility: the task",
    compute=_compute,
    record=Utility | NumericUtility,
    needs=("real rows",),
    verdicts=_verdicts,
)
