"""A baseline that spends the whole budget on several regressions and releases nothing else.

Neighbouring tables differ in one row, which is empty in one of them (zero-out). The number of rows is public. Every
release is a sum over rows of vectors of bounded norm, with Gaussian noise. All releases together are one Gaussian
measurement with the largest mu, sensitivity over noise, that the budget allows (Balle and Wang 2018; squares of mu add
up).

Scale       A tenth of mu^2: a histogram of 32 bins between the public bounds of each number, and the sum of each binary
            column. The 16 % and 84 % points standardise the columns.
Linear      All regressions share the products of their terms. The share of the budget is one equal part per linear
            regression (sufficient statistics perturbation; AdaSSP, Wang 2018, arXiv:1803.02596, without its ridge). A
            row's products are clipped at a norm that 1 % of rows of independent columns exceed.
Logistic    Each gets one part for three noisy Newton steps from the released share of events (Avella-Medina, Bradshaw
            and Loh 2023, arXiv:2103.11003). Rows are clipped as above; the last step gets three fifths of the part.
            The Hessian is that of independent columns, corrected by the ratio of the shared products to theirs.
Intervals   Normal, by the delta method: the model's sampling variance plus the variance of the noise.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit, logit

from medsynth.privacy.accounting.accountant import gaussian_delta

Array = NDArray[Any]
Bounds = dict[str, tuple[float, float]]
SCALE, BINS, STEPS, CLIPPED, CONSTANT = 0.1, 32, (0.2, 0.2, 0.6), 0.01, "1"


class Release:
    """Sums with noise; all of them together have `mu`."""

    def __init__(self, epsilon: float, delta: float, rng: np.random.Generator) -> None:
        self.mu = brentq(lambda mu: gaussian_delta(mu, epsilon) - delta, 1e-3, 50.0, xtol=1e-10)
        self.rng, self.left = rng, 1.0

    def sum(self, rows: Array, norm: float, share: float) -> tuple[Array, float]:
        """Return the noisy sum of `rows` (rows, values), of norm at most `norm`, for `share` of mu^2; and its noise."""
        self.left -= share
        assert self.left > -1e-9 and np.linalg.norm(rows, axis=1).max() <= norm * (1 + 1e-9)
        noise = norm / (self.mu * math.sqrt(share))
        return rows.sum(axis=0) + noise * self.rng.standard_normal(rows.shape[1]), noise


class Scales:
    """Centre and unit of every column; for a binary one, its released mean and the implied standard deviation."""

    def __init__(self, values: pd.DataFrame, bounds: Bounds, release: Release) -> None:
        self.centre, self.unit = dict[str, float](), dict[str, float]()
        self.binary = [name for name in map(str, values) if bounds[name] == (0.0, 1.0)]
        numbers = [name for name in map(str, values) if name not in self.binary]
        cells = [self.binned(values[name], bounds[name]) for name in numbers]
        rows = np.hstack([values[self.binary].to_numpy(), *cells])
        noisy, _ = release.sum(rows, math.sqrt(values.shape[1]), SCALE)
        for name, total in zip(self.binary, noisy, strict=False):
            share = float(np.clip(total / len(values), 0.02, 0.98))
            self.centre[name], self.unit[name] = share, math.sqrt(share * (1 - share))
        for k, name in enumerate(numbers):
            counts = np.maximum(noisy[len(self.binary) + k * BINS :][:BINS], 0)
            edges = np.linspace(*bounds[name], BINS + 1)
            low, high = np.interp([0.16, 0.84], np.concatenate([[0], counts.cumsum() / counts.sum()]), edges)
            self.centre[name] = (low + high) / 2
            self.unit[name] = max((high - low) / 2, (edges[1] - edges[0]) / 2)

    @staticmethod
    def binned(column: pd.Series[float], bounds: tuple[float, float]) -> Array:
        """Return one-hot cells of a column, (rows, BINS)."""
        at = ((column - bounds[0]) / (bounds[1] - bounds[0]) * BINS).to_numpy()
        cells: Array = np.eye(BINS)[np.clip(at.astype(int), 0, BINS - 1)]
        return cells

    def scaled(self, values: pd.DataFrame) -> pd.DataFrame:
        """Return columns on the scale of the releases."""
        return pd.DataFrame({name: (values[name] - self.centre[name]) / unit for name, unit in self.unit.items()})

    def likely(self, rng: np.random.Generator) -> pd.DataFrame:
        """Draw scaled rows of independent columns with the released means, by which norms are chosen."""
        drawn: dict[str, Array] = {name: rng.standard_normal(20_000) for name in self.centre}
        for name in self.binary:
            drawn[name] = ((rng.random(20_000) < self.centre[name]) - self.centre[name]) / self.unit[name]
        return pd.DataFrame(drawn)

    def back(self, terms: list[str]) -> Array:
        """Return A: the original terms, with the constant first, are A times the scaled terms."""
        matrix = np.zeros((len(terms) + 1, len(terms) + 1))
        matrix[0, 0] = 1
        for k, term in enumerate(terms, 1):
            names = term.split(":")
            for chosen in itertools.product((0, 1), repeat=len(names)):
                factors = [self.unit[n] if c else self.centre[n] for n, c in zip(names, chosen, strict=True)]
                kept = ":".join(n for n, c in zip(names, chosen, strict=True) if c)
                matrix[k, terms.index(kept) + 1 if kept else 0] += math.prod(factors)
        return matrix


def design(scaled: pd.DataFrame, terms: list[str]) -> Array:
    """Return (rows, 1 + terms): a constant and the terms, of which a:b is a product."""
    columns = [scaled[term.split(":")].prod(axis=1).to_numpy() for term in terms]
    return np.column_stack([np.ones(len(scaled)), *columns])


def fit(
    values: pd.DataFrame, formulas: tuple[str, ...], bounds: Bounds, epsilon: float, delta: float,
    rng: np.random.Generator,
) -> pd.DataFrame:  # fmt: skip
    """Return estimate and standard error of each term; outcomes of 0 and 1 get a logistic regression.

    A formula with an interaction a:b also contains a and b.
    """
    parts = [(text.split(" ~ ")[0], text.split(" ~ ")[1].split(" + ")) for text in formulas]
    names = list(dict.fromkeys(name for outcome, terms in parts for t in [outcome, *terms] for name in t.split(":")))
    values, release = values[names], Release(epsilon, delta, rng)
    scales = Scales(values, bounds, release)
    curved = sum(outcome in scales.binary for outcome, _ in parts)
    straight = max(len(parts) - curved, 1)
    share = release.left / (straight + curved)
    blocks = [[CONSTANT, *terms, *([] if outcome in scales.binary else [outcome])] for outcome, terms in parts]
    moments, noise = products(values, blocks, scales, release, share * straight)
    found: dict[str, tuple[float, float]] = {}
    for (outcome, terms), block in zip(parts, blocks, strict=True):
        own = moments.loc[block, block].to_numpy()
        if outcome in scales.binary:
            estimates, variance = logistic(values, outcome, terms, own, scales, release, share)
        else:
            estimates, variance = linear(own, noise, len(values), scales.unit[outcome])
        inverse = np.linalg.inv(scales.back(terms)).T
        estimates, variance = inverse @ estimates, inverse @ variance @ inverse.T
        for k, term in enumerate(terms, 1):
            found[f"{outcome} ~ {term}"] = (estimates[k], math.sqrt(variance[k, k]))
    return pd.DataFrame.from_dict(found, orient="index", columns=["estimate", "std_error"])


def clipped(rows: Array, likely: Array) -> tuple[Array, float]:
    """Return rows clipped at the norm that a share CLIPPED of `likely` rows exceed; and that norm."""
    norm = float(np.quantile(np.linalg.norm(likely, axis=1), 1 - CLIPPED))
    return rows * np.minimum(1, norm / np.linalg.norm(rows, axis=1))[:, None], norm


def products(
    values: pd.DataFrame, blocks: list[list[str]], scales: Scales, release: Release, share: float
) -> tuple[pd.DataFrame, float]:
    """Return released sums of products of scaled terms, for pairs within one block; and their noise."""
    every = list(dict.fromkeys(term for block in blocks for term in block))
    at = [[every.index(term) for term in block] for block in blocks]
    pairs = sorted({(min(p), max(p)) for block in at for p in itertools.product(block, block)} - {(0, 0)})
    left, right = np.array(pairs).T
    x = design(scales.scaled(values), every[1:])
    likely = design(scales.likely(release.rng), every[1:])
    rows, norm = clipped(x[:, left] * x[:, right], likely[:, left] * likely[:, right])
    sums, noise = release.sum(rows, norm, share)
    moments = np.zeros((len(every), len(every)))
    moments[left, right] = moments[right, left] = sums
    moments[0, 0] = len(values)
    return pd.DataFrame(moments, every, every), noise


def linear(moments: Array, noise: float, rows: int, unit: float) -> tuple[Array, Array]:
    """Return coefficients of the scaled terms and their covariance; the last of the moments is the outcome."""
    gram, cross, square = moments[:-1, :-1], moments[:-1, -1], moments[-1, -1]
    beta = np.linalg.solve(gram, cross)
    residual = max(square - 2 * beta @ cross + beta @ gram @ beta, 0) / (rows - len(beta))
    # Noise of cross - gram beta: entries i, j and j, i of gram are one release; entry 0, 0 is public.
    spread = np.outer(beta, beta)
    spread[np.diag_indices_from(spread)] = 1 + beta @ beta
    spread[0, 0] -= beta[0] ** 2
    inverse = np.linalg.inv(gram)
    return unit * beta, unit**2 * (residual * inverse + noise**2 * inverse @ spread @ inverse)


def logistic(
    values: pd.DataFrame, outcome: str, terms: list[str], gram: Array, scales: Scales, release: Release, share: float,
) -> tuple[Array, Array]:  # fmt: skip
    """Return coefficients of the scaled terms and their covariance, by noisy Newton steps."""
    likely = design(scales.likely(release.rng), terms)
    x = design(scales.scaled(values), terms)
    weighted, norm = clipped(x, likely)
    beta = np.zeros(x.shape[1])
    beta[0] = logit(scales.centre[outcome])
    for part in STEPS:
        chance = expit(likely @ beta)
        ratio = np.linalg.solve(likely.T @ likely, likely.T @ (likely * (chance * (1 - chance))[:, None]))
        inverse = np.linalg.inv((gram @ ratio + ratio.T @ gram) / 2)
        scores = (values[outcome].to_numpy() - expit(x @ beta))[:, None] * weighted
        score, noise = release.sum(scores, norm, share * part)
        beta = beta + inverse @ score
    return beta, inverse + noise**2 * inverse @ inverse
