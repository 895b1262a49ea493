"""Ranks, folds and resamples: AuROC and its bootstrap intervals for many scores at once."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import norm
from sklearn.metrics import roc_curve
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.utils import check_random_state

from ...arrays import Floats, Mask, Whole
from ...rng import Stream
from .verdict import Estimate

Patients = Whole  # The number of each row's patient, (rows,).
DRAWS = 500  # Number of resamples.
BLOCK = 2_000_000  # Weights in memory at once.
LEVEL = 0.95
CLEAR = 3.0  # Standard errors by which relations of real rows must exceed chance.
EXACT_ROWS = 5_000  # Up to this number of rows, each resample's AuROC is exact.
# A Poisson number of mean 1 for each of 2^16 equally likely values. Looking it up is much faster than drawing it.
POISSON = np.searchsorted(
    np.cumsum([math.exp(-1) / math.factorial(k) for k in range(9)]), (np.arange(1 << 16) + 0.5) / (1 << 16)
).astype(np.float64)


def resamples(rows: int, rng: Stream, patients: Patients | None = None) -> Iterator[Floats]:
    """Yield weights of DRAWS bootstrap resamples in blocks (draws, rows).

    A row's weight is Poisson with mean 1. This bootstrap equals the usual one except that the size varies, and it sorts
    nothing. With `patients`, (rows,), whole patients are drawn: their rows are not independent observations.
    """
    place = None if patients is None else np.unique(patients, return_inverse=True)[1]
    drawn = rows if place is None else int(place.max()) + 1
    at_once = max(1, BLOCK // rows)
    for start in range(0, DRAWS, at_once):
        weights = POISSON[rng.integers(0, len(POISSON), (min(at_once, DRAWS - start), drawn), np.uint16)]
        yield weights if place is None else weights[:, place]


def folds(truth: NDArray[Any], count: int, patients: Patients | None = None) -> list[tuple[Whole, Whole]]:
    """Return `count` folds as (rows to learn from, rows to predict), with classes as even as possible.

    With `patients`, (rows,), a patient's rows stay together: a model that has seen a patient's other rows makes no real
    prediction, and each patient counts as one of its rarest class. With fewer patients than folds, rows are divided one
    by one.
    """
    enough = np.unique(truth, return_counts=True)[1].min() >= count
    if patients is None or len(np.unique(patients)) < count:
        rows = (StratifiedKFold if enough else KFold)(count, shuffle=True, random_state=0)
        return list(rows.split(truth, truth))
    place = np.unique(patients, return_inverse=True)[1]
    rarest = _rarest(truth, patients)
    enough = np.unique(rarest, return_counts=True)[1].max() >= count
    cut = (StratifiedKFold if enough else KFold)(count, shuffle=True, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn warns of a class with fewer patients than folds.
        split = list(cut.split(rarest, rarest))
    return [(np.flatnonzero(np.isin(place, one)), np.flatnonzero(np.isin(place, other))) for one, other in split]


def _rarest(truth: NDArray[Any], patients: Patients) -> Whole:
    """Return the class of each patient that the fewest rows have, (patients,), as its place among the common ones."""
    classes, codes, counts = np.unique(truth, return_inverse=True, return_counts=True)
    rank = np.argsort(np.argsort(-counts, kind="stable"))
    return pd.Series(rank[codes]).groupby(patients).max().to_numpy()


def out_of_fold(model: Any, x: Floats, y: Mask, cut: list[tuple[Whole, Whole]]) -> Floats:
    """Return for each row the chance of True by `model`, fitted to the rows of the other folds: (rows,).

    Args:
        model: A scikit-learn classifier.
        x: (rows, columns); NaN where a value is missing.
        y: (rows,); which class each row has.
        cut: Folds as (rows to learn from, rows to predict). Rows of one class alone teach 0.5.
    """
    score = np.full(len(y), 0.5)
    for inside, outside in cut:
        if len(np.unique(y[inside])) > 1:
            score[outside] = model.fit(learnable(x[inside]), y[inside]).predict_proba(x[outside])[:, 1]
    return score


def learnable(x: Floats) -> Floats:
    """Return (rows, columns) with zeros in a column without any value: boosted trees find no bins in it."""
    return np.where(np.isnan(x).all(0), 0.0, x)


def importances(
    predicted: Callable[[Floats], Floats], x: Floats, loss: Callable[[Floats], float], repeats: int
) -> Floats:
    """Return the mean rise of the loss of predictions if each column of `x`, (rows, columns), is permuted: (columns,).

    The permutations are those of scikit-learn's `permutation_importance` with seed 0. Only rows whose value changes are
    predicted again, so columns of few values take a small part of its time.
    """
    before, found = predicted(x), np.zeros(x.shape[1])
    order, orders = np.arange(len(x)), list[Whole]()
    draw = check_random_state(check_random_state(0).randint(1 << 31))
    for _ in range(repeats):
        draw.shuffle(order)
        orders.append(order if not orders else orders[-1][order])
        order = order.copy()
    for k, column in enumerate(x.T):
        moved = np.stack([column[order] for order in orders])
        which, rows = np.nonzero((moved != column) & ~(np.isnan(moved) & np.isnan(column)))
        other = x[rows]
        other[:, k] = moved[which, rows]
        after = np.stack([before] * repeats)
        if len(rows):
            after[which, rows] = predicted(other)
        found[k] = np.mean([loss(one) for one in after]) - loss(before)
    return found


def auroc(truth: Mask, score: Floats, weights: Floats | None = None) -> Floats:
    """Return the area under the ROC curve per row of `weights` (draws, rows). Ties count half; NaN for one class.

    >>> auroc(np.array([False, True, True]), np.array([0.1, 0.4, 0.1])).tolist()
    [0.75]
    """
    weights = np.ones((1, len(truth))) if weights is None else weights
    columns = np.ascontiguousarray(weights.T)
    order = np.argsort(score, kind="stable")
    positive, negative = order[truth[order]], order[~truth[order]]
    upto = np.concatenate([np.zeros((1, len(weights))), np.cumsum(columns[negative], axis=0)])
    first, last = (np.searchsorted(score[negative], score[positive], side=side) for side in ("left", "right"))
    below = upto[first]
    below += below if (first == last).all() else upto[last]
    hits = columns[positive]
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.einsum("ij,ij->j", hits, below) / 2 / (hits.sum(0) * upto[-1]))


class Areas:
    """The AuROC of several scores for resamples of the rows; `truth` and `scores` are (k, rows).

    Above `exact_rows` rows a resample's AuROC is a first-order expansion about that of all rows, by placement values
    (DeLong, DeLong, Clarke-Pearson 1988). The error is of the order of one over the number of rows.
    """

    def __init__(self, truth: Mask, scores: Floats, exact_rows: int = EXACT_ROWS) -> None:
        self._truth, self._scores = truth, scores
        self.value = np.array([float(auroc(t, s)[0]) for t, s in zip(truth, scores, strict=True)])
        self._exact = truth.shape[1] <= exact_rows
        if not self._exact:
            placed = np.stack([_placements(t, s) for t, s in zip(truth, scores, strict=True)], 1)
            self._terms = np.concatenate([truth.T, truth.T * placed, ~truth.T * placed], 1)  # (rows, 3 k)

    def __call__(self, weights: Floats) -> Floats:
        """Return the AuROC for weights (draws, rows): (draws, k). NaN if a resample has one class only."""
        if self._exact:
            weights = np.asfortranarray(weights)  # `auroc` reads one row of the table after another.
            return np.stack([auroc(t, s, weights) for t, s in zip(self._truth, self._scores, strict=True)], 1)
        hits, above, below = np.split(weights @ self._terms, 3, axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(above / hits + below / (weights.sum(1, keepdims=True) - hits) - self.value)


def _placements(truth: Mask, score: Floats) -> Floats:
    """Return the share of negative rows below each positive row, and of positive rows above each negative row."""
    _, tie, counts = np.unique(score, return_inverse=True, return_counts=True)
    positive = np.bincount(tie, weights=truth, minlength=len(counts))
    negative = counts - positive
    below = (np.cumsum(negative) - negative / 2) / max(negative.sum(), 1)
    above = (positive.sum() - np.cumsum(positive) + positive / 2) / max(positive.sum(), 1)
    return np.asarray(np.where(truth, below[tie], above[tie]))


def interval(value: float, draws: Floats) -> Estimate:
    """Return `value` with the central 95 % of its resampled values."""
    known = draws[np.isfinite(draws)]
    if len(known) < len(draws) / 2:
        return Estimate(value=value)
    low, high = np.quantile(known, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(value=value, low=low, high=high)


def compared(value: Floats, draws: Floats, before: str = "") -> dict[str, Estimate]:
    """Return the estimates `real`, `synthetic` and `loss`, their paired difference: value (2,), draws (draws, 2).

    `before`: prefix of each name.
    """
    return {
        f"{before}real": interval(value[0], draws[:, 0]),
        f"{before}synthetic": interval(value[1], draws[:, 1]),
        f"{before}loss": interval(value[0] - value[1], draws[:, 0] - draws[:, 1]),
    }


def simultaneous(value: Floats, draws: Floats, looks: int = 1) -> list[Estimate]:
    """Return estimates (k,) whose intervals are valid together 95 % of the time, from common `draws` (draws, k).

    looks: how many such families a reader sees at once; then the intervals of all of them are valid together 95 % of
    the time (Bonferroni).

    Each interval reaches as many standard errors to either side as 95 % of the largest studentised deviations. So the
    interval remains valid for an estimate that is chosen because it is the largest (Romano and Wolf 2005).
    """
    spread = draws.std(0)
    with np.errstate(invalid="ignore", divide="ignore"):
        largest = np.nanmax(np.where(spread > 0, np.abs(draws - value) / spread, 0.0), axis=1)
    reach = float(np.quantile(largest, 1 - (1 - LEVEL) / looks)) * spread
    return [Estimate(value=v, low=v - r, high=v + r) for v, r in zip(value, reach, strict=True)]


def largest(value: Floats, draws: Floats) -> Estimate:
    """Return the largest absolute value of several differences (k,), from common `draws` (draws, k), with an interval.

    The ends are those of the interval that reaches highest and of the one that starts highest, of `simultaneous` ones.
    The value is None without a difference.
    """
    if not len(value):
        return Estimate(value=None)
    ends = [(one.low, one.high) for one in simultaneous(value, draws) if one.low is not None and one.high is not None]
    return Estimate(
        value=float(np.abs(value).max()),
        low=max(max(low, -high, 0.0) for low, high in ends),
        high=max(max(-low, high) for low, high in ends),
    )


def worst(figures: Sequence[Estimate]) -> Estimate:
    """Return the largest of figures whose intervals are valid together, with an interval of the largest."""
    return Estimate(
        value=max((one.value for one in figures if one.value is not None), default=None),
        low=max((one.low for one in figures if one.low is not None), default=None),
        high=max((one.high for one in figures if one.high is not None), default=None),
    )


def cramers_v(counts: Floats) -> Floats:
    """Return Cramer's V of tables (..., rows, columns), (...,), corrected for the bias of small samples (Bergsma 2013).

    It is 0 if a column does not vary.

    >>> cramers_v(np.array([[50.0, 0.0], [0.0, 50.0]])).round(3).tolist()
    1.0
    """
    n = counts.sum((-2, -1))
    one, other = counts.sum(-1), counts.sum(-2)
    expected = one[..., :, None] * other[..., None, :] / np.maximum(n, 1)[..., None, None]
    r = (one > 0).sum(-1)
    c = (other > 0).sum(-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        chi = np.where(expected > 0, (counts - expected) ** 2 / expected, 0.0).sum((-2, -1)) / n
        phi = np.maximum(0.0, chi - (r - 1) * (c - 1) / (n - 1))
        smaller = np.minimum(r - (r - 1) ** 2 / (n - 1), c - (c - 1) ** 2 / (n - 1)) - 1
        found = np.where((n > 1) & (smaller > 0), np.sqrt(phi / smaller), 0.0)
    return np.asarray(np.minimum(np.nan_to_num(found), 1.0))


def mean(values: Sequence[float | None]) -> float | None:
    """Return the mean of the known values, or None if no value is known."""
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def overlap(one: Estimate, other: Estimate) -> float | None:
    """Return the mean share of each interval that the other covers (Karr et al. 2006); negative if they do not meet."""
    if one.low is None or one.high is None or other.low is None or other.high is None:
        return None
    common = min(one.high, other.high) - max(one.low, other.low)
    widths = one.high - one.low, other.high - other.low
    if min(widths) <= 0:
        return None
    return max(-1.0, (common / widths[0] + common / widths[1]) / 2)


def halves(rows: int, rng: Stream, patients: Patients | None = None) -> tuple[Whole, Whole]:
    """Return the rows of two random halves; with `patients`, (rows,), of two halves of the patients.

    The rows of a single patient are divided one by one, so that both halves have some.
    """
    if patients is None or len(np.unique(patients)) < 2:
        order = rng.permutation(rows)
        return order[::2], order[1::2]
    place = np.unique(patients, return_inverse=True)[1]
    first = rng.permutation(int(place.max()) + 1)[place] % 2 == 0
    return np.flatnonzero(first), np.flatnonzero(~first)


def resampled(rows: int, rng: Stream, measure: Callable[[Floats], Floats], patients: Patients | None = None) -> Floats:
    """Return `measure` of every resample: from weights (draws, rows) to (draws, ...)."""
    return np.concatenate([measure(weights) for weights in resamples(rows, rng, patients)])


def variance_of_mean(values: Floats, patients: Patients | None) -> float:
    """Return the variance of the mean of `values`, (rows,), from independent rows, or from independent patients."""
    if not len(values):
        return 0.0
    apart = values - values.mean()
    if patients is not None:
        apart = np.bincount(np.unique(patients, return_inverse=True)[1], weights=apart)
    return float(np.square(apart).sum() / len(values) ** 2)


class MeanSimilarity(NamedTuple):
    """Mean similarity of two tables over columns of cells, and its derivative by each row's weight, (rows,)."""

    value: float
    one: Floats
    other: Floats


def mean_similarity(
    columns: Iterable[tuple[Whole, Whole, int]], weights: Iterable[float] = itertools.repeat(1.0)
) -> MeanSimilarity:
    """Return the mean over columns of 1 minus total variation, times a weight; 0 if a table has no rows.

    columns: the cell of each row of both tables, (rows,), and the number of cells.
    """
    found = list[float]()
    pulls = [np.zeros(1), np.zeros(1)]
    for (one, other, cells), weight in zip(columns, weights, strict=False):
        sides = one, other
        if not len(one) or not len(other):
            return MeanSimilarity(0.0, np.zeros(len(one)), np.zeros(len(other)))
        shares = [np.bincount(side, minlength=cells) / len(side) for side in sides]
        apart = shares[0] - shares[1]
        found.append(weight * (1 - np.abs(apart).sum() / 2))
        more = weight * np.sign(apart) / 2
        pulls = [pulls[0] - more[one], pulls[1] + more[other]]
    return MeanSimilarity(float(np.mean(found)), pulls[0] / len(found), pulls[1] / len(found))


def similarity_gap(made: MeanSimilarity, twin: MeanSimilarity, patients: Sequence[Patients | None]) -> Estimate:
    """Return how far the similarity of `made` to real rows is below that of a second real sample, `twin`.

    patients: of the rows of the real, synthetic and second real table. The standard error comes from the derivatives
    (delta method). A bootstrap would not do: resampled tables differ from each other more than the tables do.
    """
    value = twin.value - made.value
    pulls = (twin.one - made.one, -made.other, twin.other)
    error = float(np.sqrt(sum(variance_of_mean(p, own) for p, own in zip(pulls, patients, strict=True))))
    reach = float(norm.isf((1 - LEVEL) / 2)) * error
    return Estimate(value=value, low=value - reach, high=value + reach)


def lost_relations(samples: Sequence[Whole], cells: Sequence[int], patients: Sequence[Patients | None]) -> Estimate:
    """Return the part of the relations between columns of real rows that synthetic rows lose.

    A relation is the table of two columns less the product of its margins. The part that is kept is its product with
    the synthetic one, divided by its product with that of a second real sample, both summed over all pairs of columns.
    The result is 0 if all are kept, and 1 if none. Products of independent samples have no bias by chance. The
    value is left out if the second product is not clearly positive.

    samples: cells of the real, the synthetic and the second real rows, (rows, columns). cells: their number, by column.
    patients: of the rows of each. The standard error comes from the derivatives (delta method).
    """
    if len(cells) < 2 or not all(map(len, samples)):
        return Estimate(value=None)
    products = np.zeros(2)  # with the synthetic and with the second real sample
    pulls = [np.zeros((2, len(rows))) for rows in samples]  # their derivatives by the weight of each row
    for i, j in itertools.combinations(range(len(cells)), 2):
        pairs = [rows[:, i] * cells[j] + rows[:, j] for rows in samples]
        counted = (np.bincount(pair, minlength=cells[i] * cells[j]) / len(pair) for pair in pairs)
        tables = [table.reshape(cells[i], cells[j]) for table in counted]
        apart = [table - np.outer(table.sum(1), table.sum(0)) for table in tables]
        for k, other in enumerate((1, 2)):
            products[k] += (apart[0] * apart[other]).sum()
            for one, against in ((0, apart[other]), (other, apart[0])):
                table = tables[one]
                pull = against - (against @ table.sum(0))[:, None] - table.sum(1) @ against
                pulls[one][k] += pull.ravel()[pairs[one]]
    made, twin = products
    spread = [variance_of_mean(own[1], who) for own, who in zip(pulls, patients, strict=True)]
    if twin <= CLEAR * np.sqrt(sum(spread)):
        return Estimate(value=None)
    slopes = [(made / twin * own[1] - own[0]) / twin for own in pulls]
    error = float(np.sqrt(sum(variance_of_mean(p, who) for p, who in zip(slopes, patients, strict=True))))
    reach = float(norm.isf((1 - LEVEL) / 2)) * error
    value = float(1 - made / twin)
    return Estimate(value=value, low=value - reach, high=value + reach)


def excess(right: Sequence[Floats], patients: Sequence[Patients | None], rng: Stream) -> dict[str, Any]:
    """Return the means `members` and `controls` of two groups' figures, (rows,) each, and their difference `excess`.
    Its interval resamples both groups, by `patients` if rows have some.
    """
    one, other = (float(group.mean()) for group in right)
    pairs = zip(right, patients, strict=True)
    draws = [resampled(len(group), rng, partial(weighted_means, group), own) for group, own in pairs]
    return {"members": one, "controls": other, "excess": interval(one - other, draws[0] - draws[1])}


def weighted_means(figures: Floats, weights: Floats) -> Floats:
    """Return the means of the known `figures`, (rows, ...), for weights (draws, rows): (draws, ...)."""
    known = np.isfinite(figures)
    return np.asarray(weights @ np.where(known, figures, 0.0) / np.maximum(weights @ known, 1))


def roc_points(truth: Mask, score: Floats, points: int = 60) -> list[tuple[float, float]]:
    """Return (false-positive rate, true-positive rate) along the ROC curve, reduced to about `points`."""
    x, y, _ = roc_curve(truth, score, drop_intermediate=False)
    keep = np.unique(np.searchsorted(x + y, np.linspace(0, 2, points)).clip(0, len(x) - 1))
    return [(round(float(x[k]), 4), round(float(y[k]), 4)) for k in np.union1d(keep, [0, len(x) - 1])]
