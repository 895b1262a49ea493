"""AuROC against scikit-learn, and bootstrap intervals against a truth that is known."""

import itertools
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, norm
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.inspection import permutation_importance
from sklearn.metrics import auc, roc_auc_score

from medsynth.report.data import statistics as stats
from medsynth.report.data.statistics import auroc, compared, interval, resampled, roc_points
from medsynth.report.sections import attacks


@pytest.mark.parametrize("ties", [1, 3, 10_000])
def test_auroc_is_scikit_learns(rng: np.random.Generator, ties: int) -> None:
    truth, score = rng.random(500) < 0.2, np.floor(rng.random(500) * ties)
    weights = rng.integers(0, 4, (7, 500)).astype(float)
    assert auroc(truth, score)[0] == pytest.approx(roc_auc_score(truth, score))
    for value, w in zip(auroc(truth, score, weights), weights, strict=True):
        assert value == pytest.approx(roc_auc_score(truth, score, sample_weight=w))


def test_one_class_has_no_auroc() -> None:
    assert np.isnan(auroc(np.ones(5, bool), np.arange(5.0))[0])
    assert interval(float("nan"), np.full(10, np.nan)).value is None


def test_roc_points_hold_the_area(rng: np.random.Generator) -> None:
    truth = rng.random(2000) < 0.3
    score = truth + rng.normal(0, 1, 2000)
    x, y = zip(*roc_points(truth, score), strict=True)
    assert (x[0], y[0], x[-1], y[-1]) == (0, 0, 1, 1)
    assert auc(x, y) == pytest.approx(roc_auc_score(truth, score), abs=0.01)


@pytest.mark.statistical
def test_intervals_cover_the_true_loss() -> None:
    """Two scores of known AuROC, correlated as scores of the same patients are: 95 % intervals of the loss.

    200 tables; fewer than 179 covered would have a chance of 1e-4 if coverage were 0.95, and the Poisson bootstrap of
    80 positives may fall a little short of that: 0.93 is granted. The seed is fixed: it cannot fail by chance.
    """
    draw, covered, tables = np.random.default_rng(3), 0, 200
    true_loss = norm.cdf(1.5 / 2**0.5) - norm.cdf(1.0 / 2**0.5)
    for _ in range(tables):
        truth = np.arange(400) < 80
        shared, own = draw.normal(0, 0.8, 400), draw.normal(0, 0.6, (2, 400))
        scores = [shared + own[0] + 1.5 * truth, shared + own[1] + 1.0 * truth]

        def measure(w: Any, truth: Any = truth, scores: Any = scores) -> Any:
            return np.stack([auroc(truth, s, w) for s in scores], 1)

        loss = compared(measure(np.ones((1, 400)))[0], resampled(400, draw, measure))["loss"]
        assert loss.low is not None and loss.high is not None
        covered += loss.low <= true_loss <= loss.high
    assert covered >= binom.ppf(1e-4, tables, 0.93)
    assert covered < tables  # intervals that are infinitely wide would cover always


@pytest.mark.parametrize("positive", [0.5, 0.01])
def test_a_first_order_resample_is_the_counted_one(positive: float) -> None:
    """To a twentieth of the interval's width, also where scores are tied and a class is rare."""
    rng = np.random.default_rng(3)
    truth = rng.random((2, 4000)) < positive
    scores = np.stack([rng.normal(truth[0]), np.round(rng.normal(2.0 * truth[1]), 1)])
    weights = rng.poisson(1.0, (60, 4000)).astype(np.float64)
    counted = stats.Areas(truth, scores)(weights)
    quick = stats.Areas(truth, scores, exact_rows=0)
    assert quick.value == pytest.approx([stats.auroc(t, s)[0] for t, s in zip(truth, scores, strict=True)])
    assert np.abs(quick(weights) - counted).max() < 0.05 * 4 * counted.std(0).min()


def test_importances_are_those_of_scikit_learn(rng: np.random.Generator) -> None:
    """Columns with few values, without a value that varies and with missing cells among them."""
    x = np.stack([rng.normal(size=300), rng.integers(0, 2, 300), np.ones(300), rng.integers(0, 5, 300)], 1).astype(
        float
    )
    x[rng.random(300) < 0.2, 3] = np.nan
    truth = x[:, 0] + x[:, 1] > 0.5
    model = HistGradientBoostingClassifier(max_iter=5, random_state=0).fit(x, truth)
    asked = list[int]()

    def predicted(rows: np.ndarray) -> np.ndarray:
        asked.append(len(rows))
        return np.asarray(model.decision_function(rows))

    found = stats.importances(predicted, x, lambda score: -float(stats.auroc(truth, score)[0]), 3)
    usual = permutation_importance(model, x, truth, scoring="roc_auc", n_repeats=3, random_state=0)
    assert found == pytest.approx(usual.importances_mean, abs=1e-12)
    assert found[0] > 0.1
    assert sum(asked) < 300 * (1 + 3 * 4) * 0.7  # rows whose value stays are not predicted again


def test_the_members_found_at_few_false_alarms_are_those_of_the_whole_ranking(rng: np.random.Generator) -> None:
    """Against all rows, also with equal scores, few controls and resamples without any."""
    for levels, false in itertools.product((3, 40, 10_000), (0.001, 0.01, 0.3)):
        score = rng.integers(0, levels, 900) / levels
        member = rng.random(900) < 0.4 + 0.3 * score
        order = np.argsort(-score, kind="stable")
        weights = rng.poisson(1.0, (900, 20)).astype(float)
        weights[~member, 0] = 0
        whole = []
        for own in weights.T:
            hits = alarms = 0.0
            for value in np.unique(score)[::-1]:
                here = own * (score == value)
                more, left = here[~member].sum(), false * own[~member].sum() - alarms
                share = min(max(left / more, 0.0), 1.0) if more else float(left >= 0)
                hits, alarms = hits + share * here[member].sum(), alarms + more
            whole.append(hits / max(own[member].sum(), 1))
        assert attacks._found(weights, order, member, score, false) == pytest.approx(whole, abs=1e-12)
