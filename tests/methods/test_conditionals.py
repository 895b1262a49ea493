"""Shares by class from noisy counts: the width of the prior is learned, and its evidence is what integration says."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.special import expit, logit

from medsynth.methods.shared import conditionals
from medsynth.methods.shared.conditionals import LOG_RATIO_STD, WIDTHS

Floats = NDArray[np.float64]
TOTALS = np.array([4000.0, 90.0])


def integrated(row: Floats, std: float, total: float, share: float, width: float) -> float:
    """Logarithm of the density of a binary column's noisy counts, but for a constant: the log odds ratio integrated."""
    scale = np.sqrt(2) * LOG_RATIO_STD * width

    def density(ratio: float) -> float:
        p = float(expit(logit(share) + ratio))
        gap = (row - total * np.array([1 - p, p])) / std
        return float(np.exp(-(gap @ gap) / 2 - ratio**2 / scale**2 / 2) / scale)

    return float(np.log(quad(density, -8 * scale, 8 * scale, points=[0.0], limit=500)[0]))


def chances(evidence: Floats) -> Floats:
    """How likely each width is, were all alike beforehand."""
    found = np.exp(evidence - evidence.max())
    return np.asarray(found / found.sum())


@pytest.mark.parametrize("row", [(83.0, 7.0), (86.0, 3.0), (95.0, -6.0), (70.0, 20.0), (60.0, 28.0), (20.0, 75.0)])
def test_evidence_of_widths_is_the_integral(row: tuple[float, float]) -> None:
    table = np.stack([[3700.0, 300.0], row])
    _, found = conditionals._by_width(table, TOTALS, 5.0, 0, np.array([0.92, 0.08]))
    exact = np.array([integrated(np.array(row), 5.0, 90.0, 0.08, width) for width in WIDTHS])
    assert chances(found[:, 1]) == pytest.approx(chances(exact), abs=0.1)


@pytest.mark.parametrize("width", WIDTHS)
def test_evidence_finds_the_width_that_counts_were_drawn_with(width: float) -> None:
    """Counts drawn from the prior are likelier under its width than under others, on the mean (Gibbs' inequality)."""
    rng = np.random.default_rng(3)
    bins, whole = 8, np.full(8, 1 / 8)
    steps = np.diff(np.eye(bins), 1, axis=0)
    precision = np.eye(bins) / LOG_RATIO_STD**2 + steps.T @ steps / conditionals.NEIGHBOUR_STD**2
    tilts = np.linalg.cholesky(np.linalg.inv(precision / width**2)) @ rng.standard_normal((bins, 60))
    shares = np.exp(tilts) / np.exp(tilts).sum(0)
    tables = 4000 * shares.T + rng.normal(0, 5.0, (60, bins))
    _, found = conditionals._by_width(tables, np.full(60, 4000.0), 5.0, bins, whole)
    assert WIDTHS[int(found.mean(1).argmax())] == width


@pytest.mark.statistical
def test_columns_that_say_nothing_of_the_class_are_told_from_one_that_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """The seed is fixed: it cannot fail by chance."""
    whole = {f"c{k}": np.array([0.9, 0.1]) for k in range(15)} | {"x": np.array([0.5, 0.3, 0.15, 0.05])}
    own = whole | {"x": np.array([0.05, 0.1, 0.25, 0.6])}
    known = {name: (TOTALS[0] * whole[name] + TOTALS[1] * own[name]) / TOTALS.sum() for name in whole}
    std = dict.fromkeys(whole, 8.0)
    ordered = {name: 4 if name == "x" else 0 for name in whole}

    def errors() -> tuple[float, float]:
        rng = np.random.default_rng(5)
        sums = np.zeros(2)
        for _ in range(20):
            noisy = {
                name: TOTALS[:, None] * np.stack([whole[name], own[name]]) + rng.normal(0, 8.0, (2, len(whole[name])))
                for name in whole
            }
            found = conditionals.conditionals(noisy, TOTALS, std, ordered, known)
            far = {name: np.abs(np.exp(found[name][1]) - own[name]).sum() / 2 for name in whole}
            sums += far["x"], np.mean([far[name] for name in whole if name != "x"])
        return float(sums[0]) / 20, float(sums[1]) / 20

    clear, none = errors()
    monkeypatch.setattr(conditionals, "WIDTHS", (1.0,))
    clear_before, none_before = errors()
    assert none < none_before / 2
    assert clear < clear_before + 0.01
