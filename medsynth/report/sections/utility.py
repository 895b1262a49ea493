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
from ..data.statistics import Areas, Patients, compared, resampled, roc_points
from ..data.verdict import Outcome, Verdict, decide
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
    """The section for a target of classes. `train_rows`: which real rows the classifiers were trained on.

    Of a target of two classes the rarer alone is shown by itself: the figures of the other mirror it.
    """

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
    once = _once(truth, classes)
    value, draws = _aurocs(truth, classes, sides, rng, tables.patients.get("real"))
    names = list(LABELS)
    best = value.mean(2).argmax(1)
    mean = compared(value.mean((1, 2)), draws.mean((2, 3)))
    best_value = value.mean(2).max(1)
    shown = names[int(best[0])]
    curves = [(str(classes[k]), truth == classes[k], *(s[shown].probabilities[:, k] for s in sides)) for k in once]
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
            _classifier(name, value[:, k], draws[:, :, k], truth, classes, once, sides[0][name], sides[1][name])
            for k, name in enumerate(names)
        ],
        shown=LABELS[shown],
        roc=[
            Curve(level=c, real=roc_points(hit, real), synthetic=roc_points(hit, made))
            for c, hit, real, made in curves
            if 0 < hit.sum() < len(truth)
        ],
        calibration=[
            Curve(level=c, real=_calibration(hit, real), synthetic=_calibration(hit, made))
            for c, hit, real, made in curves
        ],
    )


def _once(truth: NDArray[Any], classes: NDArray[Any]) -> list[int]:
    """The places of the classes that are shown: of two, the rarer alone, since the other is its mirror image."""
    counts = [int((truth == c).sum()) for c in classes]
    return [int(np.argmin(counts))] if len(classes) == 2 else list(range(len(classes)))


def _aurocs(
    truth: NDArray[Any], classes: NDArray[Any], sides: Sequence[dict[str, Predictions]], rng: Stream,
    patients: Patients | None,
) -> tuple[Floats, Floats]:  # fmt: skip
    """AuROC (2, classifiers, classes) of every class against the rest, and its resampled values (draws, ...)."""
    scores = np.stack([[s[n].probabilities[:, k] for n in LABELS for k in range(len(classes))] for s in sides])
    hits = np.stack([truth == c for _ in LABELS for c in classes])

    areas = Areas(np.concatenate([hits, hits]), np.concatenate(scores))
    shape = (2, len(LABELS), len(classes))
    return areas.value.reshape(shape), resampled(len(truth), rng, areas, patients).reshape(-1, *shape)


def _classifier(
    name: str, value: Floats, draws: Floats, truth: NDArray[Any], classes: NDArray[Any], once: list[int],
    real: Predictions, made: Predictions,
) -> Classifier:  # fmt: skip
    """`value` (2, classes) and `draws` (draws, 2, classes): AuROC by real and synthetic training rows.

    `once`: the places of the classes that are shown one by one.
    """
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
            ClassUtility(level=str(classes[k]), count=int(hot[:, k].sum()), **compared(value[:, k], draws[:, :, k]))
            for k in once
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
        key, measure, limit = "mean_r2_loss", "loss of R2, mean of four regressors", thresholds.mean_r2_loss
        detail = f"Best regressor: {_lost(found.best_loss)}."
    else:
        key, measure, limit = "mean_auroc_loss", "loss of AuROC, mean of four classifiers", thresholds.mean_auroc_loss
        detail = f"Best classifier: {_lost(found.best_loss)}."
        if found.missing_classes:
            detail += f" No synthetic row has the class {', '.join(found.missing_classes)}."
    gained = -(found.mean_loss.value or 0.0)
    if doubtful := gained > limit.limit:
        detail += (
            " Doubtful: synthetic rows seem to teach more than real ones, which no model can bring about. Look for "
            "what is wrong with the real baseline: too few real rows, a column read otherwise than it is meant, or "
            "test rows that the model was fitted to."
        )
    outcome: Outcome | None = "doubtful" if doubtful else None
    return [decide(key, question, measure, found.mean_loss, limit, detail, instead=outcome)]


def _lost(loss: Estimate) -> str:
    """A loss in words, also where it is a gain."""
    if loss.value is None:
        return "not known"
    if abs(loss.value) < 0.0005:
        return "nothing lost"
    return f"{loss.value:.3f} lost" if loss.value > 0 else f"{-loss.value:.3f} better after training on synthetic rows"


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
    waits=True,
)
