"""Measure which codes go together in a patient, over all tables, and fit `Together` to it.

The rows are patients: one yes or no for each code, and the columns that the first table's method learns. Two sums of
vectors are measured. The first counts the patients of each code. A patient has at most one code per kept row, so the
vector is divided by the root of that number. The second is a matrix of second moments of the most frequent codes, less
their shares, and of scores of the patient's columns. A vector depends on one patient's rows alone and has norm one at
most (docs/proofs/marginals.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import torch
from scipy.special import ndtri
from torch import Tensor

from ..arrays import Codes, Floats, Whole
from ..methods.bins import Bins, fine_grid
from ..mixture.matrix import Scores, normal_scores, ordered_bins
from ..privacy.accounting.calibration import Plan
from ..privacy.queries.cells import ALL_CODES, EveryCode
from ..privacy.queries.content import STEPS
from ..privacy.queries.measurements import Measurements
from ..privacy.queries.rows import CellMap
from ..privacy.queries.vectors import VectorSum
from ..schema import Schema
from ..schema.linked import LinkedTables, count_column
from .codes import SMALLEST, Together, most_codes, names_of_codes, score_columns
from .plan import CODE_PAIRS, CODES
from .tables import shrunk

MOST_MODELLED = 64  # codes; the noise of each pair grows with their number
PAIR_NOISE = 0.03  # largest noise of the correlation of two codes, roughly; it decides how many are modelled
CLEAR = 3.0  # standard deviations of noise that a code's count must exceed
SCORE_BINS, SCORE_WEIGHT = 12, 0.5  # of a patient's column; its weight next to codes
ROOM = 1.0  # squared norm at which a patient's vector is clipped, relative to its expectation
MOST_EXPLAINED = 0.9  # of a code's normal variable, by scores
RIDGE = 0.05
EVERYBODY = ("", ALL_CODES)
LATENT = np.linspace(-0.95, 0.95, 77)  # correlations that are tried


@dataclass(frozen=True, eq=False)
class AsTensor:
    """Scores as a tensor: (rows, columns)."""

    scores: Scores

    def __call__(self, codes: Codes) -> Tensor:
        """Return the scores of each row."""
        return torch.from_numpy(self.scores(codes))


def train_together(vault: Measurements, plan: Plan, tables: LinkedTables, schema: Schema, simulated: Codes) -> Together:
    """Measure the codes of patients, and return their model.

    `vault`: rows with the columns of `schema.core`, the joint one, and then `names_of_codes`. `simulated`: patients of
    the model, (patients, columns of the schema).
    """
    names = names_of_codes(tables)
    order = (*schema.core.names, *names)
    every = dict.fromkeys(names, EveryCode(2))

    def tables_of(levels: Mapping[str, Floats]) -> dict[str, Floats]:
        # Rounded, because last bits of logarithms differ by machine, and a query must not.
        return {name: np.round(np.atleast_2d(own) * STEPS) / STEPS for name, own in levels.items()}

    one = math.sqrt(most_codes(tables))
    vectors = Scores(every, order, EVERYBODY, tables_of({name: np.array([0.0, 1 / one]) for name in names}))
    counts = vault.measure(CODES, VectorSum(AsTensor(vectors), len(names))) * one
    chosen = chosen_codes(counts, plan.noise(CODES) * one, plan.rows, plan.noise(CODE_PAIRS))
    which = np.array([*names.values()])[chosen]
    share = np.clip(counts[chosen] / plan.rows, SMALLEST, 1 - SMALLEST)

    bins = dict[str, CellMap]()
    of_bins = dict[str, Floats]()
    scores = dict[str, Floats]()  # the same by fine cell
    numbers = {count_column(name) for name in tables.others}
    for name in (*tables.view(tables.first).core.names, *sorted(numbers)):
        column = schema.columns[name]
        fine = fine_grid(column)
        cells = fine.cell_of(np.minimum(simulated[:, schema.names.index(name)], column.size + column.gaps - 1))
        mass = np.bincount(cells, minlength=fine.cells) / len(cells)
        own = Bins.of(column, None if column.categorical else mass, None, SCORE_BINS)
        shares = np.bincount(own.place, mass + 1e-6, own.cells).astype(np.float64)
        if ordered_bins(own) > 1:
            bins[name] = own.plain()
            of_bins[name] = normal_scores(shares[None], ordered_bins(own))[0]
            scores[name] = of_bins[name][own.place]
    seen = score_columns(scores, simulated, schema)
    codes = [[*names][k] for k in chosen]
    norm = math.sqrt(ROOM * float((share * (1 - share)).sum() + SCORE_WEIGHT**2 * np.square(seen).mean(0).sum()))
    levels = {name: np.array([-p, 1 - p]) / norm for name, p in zip(codes, share, strict=True)}
    levels |= {name: SCORE_WEIGHT * own / norm for name, own in of_bins.items()}
    maps = {name: every[name] for name in codes} | bins
    found = vault.measure_second_moments(
        CODE_PAIRS, Scores(maps, order, EVERYBODY, tables_of(levels)), EVERYBODY, len(levels)
    )[0]
    whole = np.array([norm] * len(codes) + [norm / SCORE_WEIGHT] * len(bins))
    expected = np.append(share * (1 - share), np.square(seen).mean(0))
    # Patients with many codes were clipped: the diagonal shows by how much.
    clipped = max(1.0, float(expected @ whole**-2) * plan.rows / max(float(np.trace(found)), 1.0))
    moments = np.outer(whole, whole) * found * clipped / plan.rows
    noise = plan.noise(CODE_PAIRS) / math.sqrt(2) * np.outer(whole, whole) * clipped / plan.rows
    present = np.stack([simulated[:, schema.names.index(count_column(name))] > 0 for name in tables.others])
    return of_moments(which, share, scores, seen, present.astype(np.float64), moments, noise)


def chosen_codes(counts: Floats, std: float, patients: int, multiplier: float) -> Whole:
    """Return the codes that are modelled, those of the highest noisy counts, but at least two."""
    most = int(np.clip(PAIR_NOISE * math.sqrt(2) * patients / max(multiplier, 1e-9), 2, MOST_MODELLED))
    best = np.argsort(-counts, kind="stable")[:most]
    clear = int((counts[best] > CLEAR * std).sum())
    return np.sort(best[: max(clear, 2)])


def of_moments(
    which: Whole, share: Floats, scores: Mapping[str, Floats], seen: Floats, present: Floats, moments: Floats,
    noise: Floats,
) -> Together:  # fmt: skip
    """Return the model of codes with these noisy `moments`, (codes + scores,) squared, with the deviations `noise`.

    `share`: (codes,) of all patients. `seen`, `present`: of simulated patients, their scores, (patients, scores), and
    whether they have rows, (tables, patients).
    """
    count = len(share)
    table = which[:, 0]
    both = (present @ present.T / present.shape[1])[np.ix_(table, table)].clip(SMALLEST)
    own = np.clip(share / np.diagonal(both), SMALLEST, 1 - SMALLEST)  # of the patients with rows in the table
    # What is expected if codes are independent, given who has rows; the rest is shrunk as far as it may be noise.
    apart = moments[:count, :count] - (both * np.outer(own, own) - np.outer(share, share))
    upper = np.triu_indices(count, 1)
    pairs = np.zeros((count, count))
    pairs[upper] = _shrunk(apart[upper], noise[0, 1]) / both[upper]
    related = latent_correlations(pairs, own)

    slopes = np.zeros((count, seen.shape[1]))
    among = [(present[t], present[t].sum() + 1e-9) for t in range(len(present))]
    mean = np.stack([(seen * there[:, None]).sum(0) / total for there, total in among])
    beyond = moments[:count, count:] - share[:, None] * (mean[table] - seen.mean(0))
    if seen.shape[1]:
        beyond = _shrunk(beyond.ravel(), noise[0, -1]).reshape(beyond.shape)
    density = np.exp(-np.square(ndtri(own)) / 2) / math.sqrt(2 * math.pi)
    spread = np.zeros((len(present), len(present), *([seen.shape[1]] * 2)))
    for t, (there, _) in enumerate(among):
        for u, (other, _) in enumerate(among):
            common = there * other
            spread[t, u] = ((seen - mean[t]) * common[:, None]).T @ (seen - mean[u]) / max(common.sum(), 1.0)
    for k in range(count):
        inside = spread[table[k], table[k]] + RIDGE * np.eye(seen.shape[1])
        slopes[k] = np.linalg.solve(inside, beyond[k] / np.diagonal(both)[k] / density[k])
    explained = np.array([slopes[k] @ spread[table[k], table[k]] @ slopes[k] for k in range(count)])
    slopes *= np.minimum(1.0, np.sqrt(MOST_EXPLAINED / np.maximum(explained, 1e-9)))[:, None]
    explained = np.minimum(explained, MOST_EXPLAINED)
    by_scores = np.einsum("ka,klab,lb->kl", slopes, spread[np.ix_(table, table)], slopes)
    root = _root(related - by_scores, np.sqrt(1 - explained))
    return Together(which, own, slopes, root, scores)


def _shrunk(deviations: Floats, std: float) -> Floats:
    return shrunk(deviations, std) if std > 0 and len(deviations) else deviations


def latent_correlations(covariances: Floats, shares: Floats) -> Floats:
    """Return the correlations of normal variables that are above thresholds with these covariances and shares.

    The covariance grows with the correlation by the density of both at their thresholds (Plackett 1954).
    """
    cut = -ndtri(shares)
    found = np.eye(len(shares))
    ones, others = np.nonzero(np.triu(covariances, 1))
    if not len(ones):
        return found
    a, b = cut[ones][:, None], cut[others][:, None]
    rest = 1 - LATENT**2
    density = np.exp(-(a * a - 2 * LATENT * a * b + b * b) / (2 * rest)) / (2 * math.pi * np.sqrt(rest))
    step = LATENT[1] - LATENT[0]
    grown = np.array([[*accumulate(row, initial=0.0)] for row in (density[:, 1:] + density[:, :-1]) / 2 * step])
    grown -= grown[:, [len(LATENT) // 2]]
    known = [np.interp(c, row, LATENT) for c, row in zip(covariances[ones, others], grown, strict=True)]
    found[ones, others] = found[others, ones] = known
    return found


def _root(covariance: Floats, deviations: Floats) -> Floats:
    """Return a matrix whose product with its transpose is the covariance, made possible, with these deviations."""
    np.fill_diagonal(covariance, np.square(deviations))
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(values.clip(min=1e-6))
    return np.asarray(root * (deviations / np.sqrt(np.square(root).sum(1)))[:, None])
