"""Is the table good enough for the task, and for every group? Models learn from real and from synthetic rows.

All models are tested on the same real rows: four classifiers for a target of classes, four regressors for a numeric
target. A second section shows AuROC and prevalence by group.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score

from ...arrays import Floats, Mask
from ...errors import SchemaError
from ...rng import Stream
from ...schema import Column
from ...schema.columns.date import Date
from ...schema.columns.number import Quantity
from ..data import protocol
from ..data.columns import words
from ..data.context import Context
from ..data.protocol import LABELS, Predictions, TaskPredictions
from ..data.question import QUESTIONS
from ..data.statistics import compared, folds, resampled, roc_points
from ..data.tables import Tables
from ..data.verdict import Estimate, Record, Thresholds, Verdict, impossible_gain, of_both
from .registry import Section

BINS, THIN = 10, 8  # Bins of predicted probabilities for calibration, and rows that a bin needs to be drawn.
FEWEST = 30  # Rows that the AuROC of a group needs.
BANDS = 4  # Groups of a number column without cut points, by quartiles.
MISSING = "missing"
WRONG_BASELINE = (
    "Look for what is wrong with the real baseline: too few real rows, a misread column, or test rows that the model "
    "was fitted to."
)
NONE_DECLARED: Mapping[str, Column] = MappingProxyType({})
Bands = tuple[Floats, list[str]]  # Edges between groups, and the groups in words.


class ClassUtility(Record):
    """One class against the rest: AuROC of classifiers trained on real and on synthetic rows."""

    level: str
    count: int
    real: Estimate
    synthetic: Estimate
    loss: Estimate


class Classifier(Record):
    """One classifier. `loss` is real minus synthetic, resampled in pairs; AUPRC and AuROC are macro averages."""

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
    """The section for a target of classes. `train_rows`: the real rows that the classifiers were trained on.

    With two classes only the rarer one is shown, since the figures of the other mirror it.
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
    """Return every figure of the section."""
    tables, sides = predictions.tables, (predictions.real, predictions.synthetic)
    truth = tables.real[tables.predicted].astype(str).to_numpy()
    classes = tables.classes()
    once = _once(truth, classes)
    value, draws = protocol.aurocs(truth, dict(enumerate(classes)), sides, rng, tables.patients.get("real"))
    names = list(LABELS)
    best = value.mean(2).argmax(1)
    best_value = value.mean(2).max(1)
    shown = names[int(best[0])]
    curves = [(str(classes[k]), truth == classes[k], *(s[shown].probabilities[:, k] for s in sides)) for k in once]
    return Utility(
        target=tables.predicted,
        train_rows=predictions.train_rows,
        **compared(value.mean((1, 2)), draws.mean((2, 3)), "mean_"),
        **of_both("best", [_known(best) for best in best_value]),
        best_loss=compared(best_value, draws.mean(3)[:, np.arange(2), best])["loss"],
        majority_floor=_known(protocol.majority_floor(tables.real, tables.predicted)),
        missing_classes=sorted(set(classes) - set(tables.synthetic[tables.predicted].astype(str))),
        classifiers=[
            _classifier(name, value[:, k], draws[:, :, k], truth, classes, once, [side[name] for side in sides])
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
    """Return the positions of the classes that are shown: of two, only the rarer, since the other mirrors it."""
    counts = [int((truth == c).sum()) for c in classes]
    return [int(np.argmin(counts))] if len(classes) == 2 else list(range(len(classes)))


def _classifier(
    name: str, value: Floats, draws: Floats, truth: NDArray[Any], classes: NDArray[Any], once: list[int],
    sides: Sequence[Predictions],
) -> Classifier:  # fmt: skip
    """Return the figures of a classifier from `value` (2, classes) and `draws` (draws, 2, classes), as `sides`.

    `once`: the positions of the classes that are shown one by one.
    """
    hot = truth[:, None] == classes

    def precision(side: Predictions) -> float:
        each = [average_precision_score(h, p) for h, p in zip(hot.T, side.probabilities.T, strict=True) if h.any()]
        return float(np.mean(each))

    squares = [np.square(side.probabilities - hot).sum(1).mean() for side in sides]
    return Classifier(
        name=name,
        label=LABELS[name],
        **compared(value.mean(1), draws.mean(2)),
        classes=[
            ClassUtility(level=str(classes[k]), count=int(hot[:, k].sum()), **compared(value[:, k], draws[:, :, k]))
            for k in once
        ],
        **of_both("auprc", [_known(precision(side)) for side in sides]),
        **of_both("brier", [_known(square) for square in squares]),
        **of_both("micro", [_known(protocol.micro_hard(truth, side.labels, classes)) for side in sides]),
    )


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _calibration(hit: Mask, probability: Floats) -> list[tuple[float, float]]:
    """Return (mean predicted probability, observed share) of rows in bins of equal width, without thin bins."""
    place = np.minimum((probability * BINS).astype(np.int64), BINS - 1)
    bins = [place == k for k in range(BINS) if (place == k).sum() >= THIN]
    return [(round(float(probability[b].mean()), 4), round(float(hit[b].mean()), 4)) for b in bins]


class Regressor(Record):
    """One regressor: R2 and mean absolute error on real rows. `loss` in R2 is resampled in pairs."""

    name: str
    label: str
    real: Estimate
    synthetic: Estimate
    loss: Estimate
    mae_real: float
    mae_synthetic: float


class NumericUtility(Record):
    """The utility section for a numeric target."""

    kind: Literal["number"] = "number"
    target: str
    train_rows: str
    mean_real: Estimate
    mean_synthetic: Estimate
    mean_loss: Estimate
    best_loss: Estimate
    regressors: list[Regressor]


def numeric_utility(predictions: TaskPredictions, rng: Stream) -> NumericUtility:
    """Return every figure of the section."""
    tables = predictions.tables
    truth = tables.real[tables.predicted].to_numpy(np.float64)
    sides = (_after_real(tables), _predict(tables.synthetic, tables.real, tables.predicted, protocol.regressors))
    errors = np.array([[truth - side[name] for name in LABELS] for side in sides])

    def r2(weights: Floats) -> Floats:
        """Return R2 for weights (draws, rows): (draws, 2, regressors)."""
        total = weights.sum(1)
        centre = weights @ truth / total
        spread = weights @ truth**2 / total - centre**2
        squares = np.einsum("dn,skn->dsk", weights, errors**2) / total[:, None, None]
        return np.asarray(1 - squares / spread[:, None, None])

    value = r2(np.ones((1, len(truth))))[0]
    draws = resampled(len(truth), rng, r2, tables.patients.get("real"))
    best = value.argmax(1)
    absolute = np.abs(errors).mean(2)
    return NumericUtility(
        target=tables.predicted,
        train_rows=predictions.train_rows,
        **compared(value.mean(1), draws.mean(2), "mean_"),
        best_loss=compared(value[np.arange(2), best], draws[:, np.arange(2), best])["loss"],
        regressors=[
            Regressor(
                name=name, label=LABELS[name], **compared(value[:, k], draws[:, :, k]), **of_both("mae", absolute[:, k])
            )
            for k, name in enumerate(LABELS)
        ],
    )


def _after_real(tables: Tables, models: protocol.Models = protocol.regressors) -> dict[str, Floats]:
    """Predict after training on the training table, or on the other folds of the held-out rows without one."""
    real, train = tables.baseline
    if train is not None:
        return _predict(train, real, tables.predicted, models)
    found = {name: np.zeros(len(real)) for name in LABELS}
    for inside, outside in folds(np.zeros(len(real)), protocol.FOLDS, tables.patients.get("real")):
        fold = _predict(real.iloc[inside], real.iloc[outside], tables.predicted, models)
        for name, predicted in fold.items():
            found[name][outside] = predicted
    return found


def _predict(train: pd.DataFrame, test: pd.DataFrame, target: str, models: protocol.Models) -> dict[str, Floats]:
    x, x_test = protocol.features(train, test, target)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        y = train[target].to_numpy(np.float64)
        return {name: model.fit(x, y).predict(x_test) for name, model in models(y).items()}


AUROC_LOSS = QUESTIONS["mean_auroc_loss"]
R2_LOSS = QUESTIONS["mean_r2_loss"]


def _verdicts(found: Utility | NumericUtility, thresholds: Thresholds) -> Sequence[Verdict]:
    numeric = isinstance(found, NumericUtility)
    question = R2_LOSS if numeric else AUROC_LOSS
    detail = f"Best {'regressor' if numeric else 'classifier'}: {_lost(found.best_loss)}."
    if isinstance(found, Utility) and found.missing_classes:
        detail += f" No synthetic row has the class {', '.join(found.missing_classes)}."
    outcome = impossible_gain(found.mean_loss, question.threshold(thresholds))
    if outcome:
        detail += " Not judged: synthetic rows seem to teach more than real ones, which is impossible."
    question = replace(question, words=question.words.replace("the target", found.target))
    advice = WRONG_BASELINE if outcome else None
    return [question.judge(found.mean_loss, thresholds, detail, instead=outcome, advice=advice)]


def _lost(loss: Estimate) -> str:
    if loss.value is None:
        return "not known"
    if abs(loss.value) < 0.0005:
        return "nothing lost"
    return f"{loss.value:.3f} lost" if loss.value > 0 else f"{-loss.value:.3f} better after training on synthetic rows"


class Group(Record):
    """One group of real held-out rows: figures in it of classifiers trained on real and on synthetic rows.

    `prevalence_*`: share of the group's rows in each table outside the most frequent class.
    """

    column: str
    group: str
    rows: int
    share_real: float
    share_synthetic: float
    prevalence_real: float | None
    prevalence_synthetic: float | None
    auroc_real: float | None
    auroc_synthetic: float | None
    loss: Estimate


class Subgroups(Record):
    """The groups of each column. Levels that no synthetic row has are structural differences."""

    groups: list[Group]


def choose(tables: Tables, wanted: Sequence[str]) -> list[str]:
    """Return the columns to group by: `wanted`, or those with sex, gender or age in their names. Raises SchemaError."""
    if unknown := [name for name in wanted if name not in tables.names]:
        raise SchemaError(f"`groups` names columns that the tables do not have: {', '.join(unknown)}.")
    if wanted:
        return list(wanted)
    parts = {name: set(name.lower().replace("-", "_").split("_")) for name in tables.features}
    return [name for name, p in parts.items() if p & {"sex", "gender", "age"}][:3]


def subgroups(
    tables: Tables, columns: list[str], predictions: TaskPredictions | None, rng: Stream,
    declared: Mapping[str, Column] = NONE_DECLARED,
) -> Subgroups:  # fmt: skip
    """Return every group of every column in `columns`. Without `predictions` (a numeric target) it has shares only.

    A number column is grouped by its `declared` cut points, or else by its quartiles.
    """
    groups = []
    for name in columns:
        labels, sides = _grouped(tables, name, declared.get(name))
        for label in labels:
            groups.append(_group(tables, name, label, [side == label for side in sides], predictions, rng))
    return Subgroups(groups=groups)


def _grouped(tables: Tables, name: str, column: Column | None) -> tuple[list[str], list[NDArray[Any]]]:
    """Return the groups of the real rows, in order, and the group of each real and of each synthetic row."""
    frames = tables.real[name], tables.synthetic[name]
    if name not in tables.numbers:
        sides = [words(f).fillna(MISSING).to_numpy(object) for f in frames]
        return sorted(set(sides[0])), sides
    known = frames[0].dropna().to_numpy(np.float64)
    edges, labels = _cut_bands(column) or _quartile_bands(known, tables.dates.get(name))
    named = np.array([*labels, MISSING], dtype=object)
    values = (f.to_numpy(np.float64, na_value=np.nan) for f in frames)
    sides = [named[np.where(np.isnan(v), len(labels), np.searchsorted(edges, v, side="left"))] for v in values]
    return [label for label in named if label in set(sides[0])], sides


def _cut_bands(column: Column | None) -> Bands | None:
    """Return the groups between cut points; None without any. Dates are compared as years, not in their own units."""
    if not isinstance(column, Quantity) or column.dated or not column.cut_points:
        return None
    below = np.array(column.cut_codes) - 0.5  # Between the last value of a group and the first of the next.
    return (below + column.units[0]) / 10.0**column.places, list(column.cut_groups)


def _quartile_bands(known: Floats, date: Date | None) -> Bands:
    """Return the groups between the quartiles of the real rows' values (rows,)."""
    quartiles = np.quantile(known, np.linspace(0, 1, BANDS + 1)) if len(known) else known
    edges = np.unique(np.round(quartiles, 3))[1:-1]
    if not len(edges):
        return edges, ["all"]
    ends = [f"{edge:g}" if date is None else date.shown(edge) for edge in edges]
    return edges, [f"up to {ends[0]}", *(f"{low} to {high}" for low, high in pairwise(ends)), f"above {ends[-1]}"]


def _group(
    tables: Tables, name: str, label: str, inside: list[NDArray[Any]], predictions: TaskPredictions | None, rng: Stream
) -> Group:
    """Return the figures of one group; `inside` marks its real and its synthetic rows."""
    prevalence: list[float | None] = [None, None]
    if tables.target is not None and not tables.numeric_target:
        targets = [frame[tables.predicted].astype(str).to_numpy() for frame in (tables.real, tables.synthetic)]
        common = tables.real[tables.predicted].astype(str).mode()[0]
        prevalence = [float((t[i] != common).mean()) if i.any() else None for t, i in zip(targets, inside, strict=True)]
    found = {} if predictions is None else _aurocs(predictions, inside[0], rng)
    nothing = Estimate(value=None)
    return Group(
        column=name,
        group=label,
        rows=int(inside[0].sum()),
        **of_both("share", [float(marks.mean()) for marks in inside]),
        **of_both("prevalence", prevalence),
        **of_both("auroc", [found.get(side, nothing).value for side in ("real", "synthetic")]),
        loss=found.get("loss", nothing),
    )


def _aurocs(predictions: TaskPredictions, inside: Mask, rng: Stream) -> dict[str, Estimate]:
    """Return the AuROC in the group, mean over classifiers and the classes that occur; {} if the group is too small."""
    tables = predictions.tables
    truth = tables.real[tables.predicted].astype(str).to_numpy()[inside]
    classes = {k: level for k, level in enumerate(tables.classes()) if 0 < (truth == level).sum() < len(truth)}
    if len(truth) < FEWEST or not classes:
        return {}
    sides = [
        {name: Predictions(made.probabilities[inside], made.labels[inside]) for name, made in side.items()}
        for side in (predictions.real, predictions.synthetic)
    ]
    own = patients[inside] if (patients := tables.patients.get("real")) is not None else None
    return protocol.mean_aurocs(truth, classes, sides, rng, own)


def _utility(context: Context) -> Utility | NumericUtility | None:
    if context.predictions is None:
        return None
    measure = numeric_utility if context.compared.numeric_target else utility
    return measure(context.predictions, context.rng)


def _subgroups(context: Context) -> Subgroups:
    tables = context.compared
    predictions = None if tables.numeric_target else context.predictions
    declared = context.schema.columns if context.schema else NONE_DECLARED
    return subgroups(tables, choose(tables, context.groups), predictions, context.rng, declared)


UTILITY = Section(
    "utility", "Utility: the task", _utility, Utility | NumericUtility, needs=("real rows",),
    questions=(AUROC_LOSS, R2_LOSS), verdicts=_verdicts,
)  # fmt: skip
SUBGROUPS = Section("subgroups", "Subgroups", _subgroups, Subgroups, needs=("real rows",))
