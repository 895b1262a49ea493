"""A baseline: several regressions given the whole budget, and nothing else released.

Neighbouring tables differ in one row that counts for nothing in one of them (zero-out); how many rows there are is
public. Every release is a sum over rows of a vector of bounded norm with Gaussian noise; together they are one Gaussian
measurement of sensitivity over noise mu, the largest that the budget allows (Balle and Wang 2018; squares of mu add up).

Scale       A tenth of mu^2: each number's histogram of 32 bins between its public bounds, each binary column's sum.
            Halves of the distances between the 16 % and 84 % points, and their middles, standardise the columns.
Linear      All linear regressions share the products of their terms (sufficient statistics perturbation; as AdaSSP,
            Wang 2018, arXiv:1803.02596, without its ridge). A row's products are clipped at the norm that 1 % of rows of
            independent columns with the released means pass.
Logistic    Each has three noisy Newton steps from the released share of events: score and Hessian, with rows of large
            predictors weighted down (Mallows weights; Avella-Medina, Bradshaw and Loh 2023, arXiv:2103.11003); three fifths
            of its part of mu^2 are the last step's.
Intervals   Normal, by the delta method: the variance of sampling that the model states plus that of the noise.

Every regression has an equal part of the nine tenths. With `standardise=False`, columns are scaled by their public
bounds alone, nothing is spent on scale, and nothing is clipped, since a row's products are bounded by the bounds.
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

Array = NDArray[np.float64]
Bounds = dict[str, tuple[float, float]]
SCALE, BINS, STEPS, CLIPPED = 0.1, 32, (0.2, 0.2, 0.6), 0.01


def bounds_of(schema: Any) -> Bounds:
    """Public bounds of the columns as study_data.numbers has them: logarithms, and indicators of 0 and 1."""
    found = {}
    for name, column in schema.columns.items():
        if column.ordered:
            low, high = map(float, column.bounds)
            found[name] = (math.log(low), math.log(high)) if column.scale == "log" else (low, high)
        else:
            found[name] = (0.0, 1.0)
    return found


class Release:
    """Sums with noise: `mu` is what all of them together have."""

    def __init__(self, epsilon: float, delta: float, rng: np.random.Generator) -> None:
        self.mu = brentq(lambda mu: gaussian_delta(mu, epsilon) - delta, 1e-3, 50.0, xtol=1e-10)
        self.rng, self.left = rng, 1.0

    def sum(self, rows: Array, norm: float, share: float) -> tuple[Array, float]:
        """The sum of `rows` (rows, values), each of norm at most `norm`, for `share` of mu^2; and its noise."""
        self.left -= share
        assert self.left > -1e-9 and np.linalg.norm(rows, axis=1).max() <= norm * (1 + 1e-9)
        noise = norm / (self.mu * math.sqrt(share))
        return rows.sum(axis=0) + noise * self.rng.standard_normal(rows.shape[1]), noise


class Scales:
    """Centre and unit of every column; of a binary one its released mean, else None."""

    def __init__(self, values: pd.DataFrame, bounds: Bounds, release: Release | None) -> None:
        self.centre = {name: sum(bounds[name]) / 2 for name in values}
        self.unit = {name: (bounds[name][1] - bounds[name][0]) / 2 for name in values}
        self.mean = dict.fromkeys(values, 0.5)
        self.binary = [name for name in values if bounds[name] == (0.0, 1.0)]
        if release is None:
            return
        numbers = [name for name in values if name not in self.binary]
        cells = [self.binned(values[name], bounds[name]) for name in numbers]
        rows = np.hstack([values[self.binary].to_numpy(), *cells])
        noisy, _ = release.sum(rows, math.sqrt(values.shape[1]), SCALE)
        for name, total in zip(self.binary, noisy, strict=False):
            share = float(np.clip(total / len(values), 0.02, 0.98))
            self.mean[name], self.centre[name], self.unit[name] = share, share, math.sqrt(share * (1 - share))
        for k, name in enumerate(numbers):
            counts = np.maximum(noisy[len(self.binary) + k * BINS :][:BINS], 0)
            edges = np.linspace(*bounds[name], BINS + 1)
            low, high = np.interp([0.16, 0.84], np.concatenate([[0], counts.cumsum() / counts.sum()]), edges)
            self.centre[name] = (low + high) / 2
            self.unit[name] = max((high - low) / 2, (edges[1] - edges[0]) / 2)

    @staticmethod
    def binned(column: pd.Series[float], bounds: tuple[float, float]) -> Array:
        """One-hot cells of a column, (rows, BINS)."""
        at = ((column - bounds[0]) / (bounds[1] - bounds[0]) * BINS).to_numpy()
        return np.eye(BINS)[np.clip(at.astype(int), 0, BINS - 1)]

    def scaled(self, values: pd.DataFrame) -> pd.DataFrame:
        """Columns on the scale of the releases."""
        return pd.DataFrame({name: (values[name] - self.centre[name]) / self.unit[name] for name in values})

    def likely(self, rng: np.random.Generator) -> pd.DataFrame:
        """Rows of independent columns with the released means, scaled: what norms are chosen by."""
        drawn = {name: rng.standard_normal(20_000) for name in self.centre}
        for name in self.binary:
            drawn[name] = ((rng.random(20_000) < self.mean[name]) - self.centre[name]) / self.unit[name]
        return pd.DataFrame(drawn)

    def back(self, terms: list[str]) -> Array:
        """A: terms of the original columns, the constant first, are A times terms of the scaled ones."""
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
    """(rows, 1 + terms): a constant and the terms, of which a:b is a product."""
    columns = [scaled[term.split(":")].prod(axis=1).to_numpy() for term in terms]
    return np.column_stack([np.ones(len(scaled)), *columns])


def fit(
    values: pd.DataFrame, formulas: tuple[str, ...], bounds: Bounds, epsilon: float, delta: float,
    rng: np.random.Generator, standardise: bool = True,
) -> pd.DataFrame:  # fmt: skip
    """Estimate and standard error of each term, as study_data.coefficients: outcomes of 0 and 1 by logistic regression.

    An interaction a:b stands beside a and b in its formula.
    """
    parts = [(text.split(" ~ ")[0], text.split(" ~ ")[1].split(" + ")) for text in formulas]
    names = list(dict.fromkeys(name for outcome, terms in parts for t in [outcome, *terms] for name in t.split(":")))
    values, release = values[names], Release(epsilon, delta, rng)
    scales = Scales(values, bounds, release if standardise else None)
    share = release.left / len(parts)
    straight = [part for part in parts if part[0] not in scales.binary]
    found: dict[str, tuple[float, float]] = {}
    solved = linear(values, straight, scales, release, share * len(straight), standardise)
    for outcome, terms in parts:
        if outcome in scales.binary:
            estimates, variance = logistic(values, outcome, terms, scales, release, share, standardise)
        else:
            estimates, variance = solved[outcome, tuple(terms)]
        inverse = np.linalg.inv(scales.back(terms)).T
        estimates, variance = inverse @ estimates, inverse @ variance @ inverse.T
        for k, term in enumerate(terms, 1):
            found[f"{outcome} ~ {term}"] = (estimates[k], math.sqrt(variance[k, k]))
    return pd.DataFrame.from_dict(found, orient="index", columns=["estimate", "std_error"])


def linear(
    values: pd.DataFrame, parts: list[tuple[str, list[str]]], scales: Scales, release: Release, share: float,
    standardise: bool,
) -> dict[tuple[str, tuple[str, ...]], tuple[Array, Array]]:  # fmt: skip
    """Coefficients of the scaled terms, in the outcome's unit, and their covariance; from products of all terms."""
    every = list(dict.fromkeys(term for outcome, terms in parts for term in (*terms, outcome)))
    at = {term: k for k, term in enumerate(every, 1)}
    blocks = [[0, *(at[term] for term in terms), at[outcome]] for outcome, terms in parts]
    pairs = sorted({(min(p), max(p)) for block in blocks for p in itertools.product(block, block)} - {(0, 0)})
    left, right = np.array(pairs).T

    def products(table: pd.DataFrame) -> Array:
        x = design(table, every)
        return x[:, left] * x[:, right]

    rows, norm = products(scales.scaled(values)), math.sqrt(len(pairs))
    if standardise:
        norm = float(np.quantile(np.linalg.norm(products(scales.likely(release.rng)), axis=1), 1 - CLIPPED))
        rows = rows * np.minimum(1, norm / np.linalg.norm(rows, axis=1))[:, None]
    sums, noise = release.sum(rows, norm, share)
    moments = np.zeros((len(every) + 1, len(every) + 1))
    moments[left, right] = moments[right, left] = sums
    moments[0, 0] = len(values)
    found = {}
    for (outcome, terms), block in zip(parts, blocks, strict=True):
        own = moments[np.ix_(block, block)]
        gram, cross, square = own[:-1, :-1], own[:-1, -1], own[-1, -1]
        beta = np.linalg.solve(gram, cross)
        residual = max(square - 2 * beta @ cross + beta @ gram @ beta, 0) / (len(values) - len(beta))
        # Noise of cross - gram beta: entries i, j and j, i of gram are one release, and entry 0, 0 is public.
        spread = np.outer(beta, beta)
        spread[np.diag_indices_from(spread)] = 1 + beta @ beta
        spread[0, 0] -= beta[0] ** 2
        inverse = np.linalg.inv(gram)
        variance = residual * inverse + noise**2 * inverse @ spread @ inverse
        unit = scales.unit[outcome]
        found[outcome, tuple(terms)] = (unit * beta, unit**2 * variance)
    return found


def logistic(
    values: pd.DataFrame, outcome: str, terms: list[str], scales: Scales, release: Release, share: float,
    standardise: bool,
) -> tuple[Array, Array]:  # fmt: skip
    """Coefficients of the scaled terms and their covariance, by noisy Newton steps."""
    x, y = design(scales.scaled(values), terms), values[outcome].to_numpy()
    norm = math.sqrt(x.shape[1])
    if standardise:
        norm = float(np.quantile(np.linalg.norm(design(scales.likely(release.rng), terms), axis=1), 1 - CLIPPED))
    weights = np.minimum(1, norm / np.linalg.norm(x, axis=1)) ** 2
    left, right = np.triu_indices(x.shape[1])
    # |y - p| <= max(p, 1 - p) and the Hessian's entries are at most p (1 - p) norm^2, at the same p.
    p = np.linspace(0.5, 1, 10_001)
    largest = float(np.sqrt(p**2 * norm**2 + (p * (1 - p)) ** 2 * norm**4).max()) * (1 + 1e-6)
    beta = np.zeros(x.shape[1])
    beta[0] = logit(scales.mean[outcome])
    for part in STEPS:
        chance = expit(x @ beta)
        rows = weights[:, None] * np.hstack(
            [(y - chance)[:, None] * x, (chance * (1 - chance))[:, None] * x[:, left] * x[:, right]]
        )
        sums, noise = release.sum(rows, largest, share * part)
        hessian = np.zeros((x.shape[1], x.shape[1]))
        hessian[left, right] = hessian[right, left] = sums[x.shape[1] :]
        beta = beta + np.linalg.solve(hessian, sums[: x.shape[1]])
    inverse = np.linalg.inv(hessian)
    return beta, inverse + noise**2 * inverse @ inverse
