"""Two attacks after the criteria of the Article 29 Working Party (WP216): singling out and linkability.

Both compare people of the training table with held-out people, as all attacks here do: what works for people who were
not in the table is knowledge about the population. The attacks follow Giomi et al., "A unified framework for
quantifying privacy risk in synthetic data" (PoPETs 2023). Inference is among the attacks of `attacks.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from sklearn.neighbors import NearestNeighbors

from ...arrays import Floats, Whole
from ...rng import Stream
from ..data import statistics as stats
from ..data.statistics import Patients
from ..data.tables import Tables, matrices, points
from ..data.verdict import Estimate, Record
from .attacks import FEWEST
from .registry import Section

PEOPLE = 2_000  # Rows of each group.
POOL = 10_000  # Synthetic rows.
GUESSES = 2_000  # Descriptions that the attacker tries.
WIDTHS = (3, 6)  # Columns of a description: few fit common rows, many fit a copy alone.
NEAR = 10  # Nearest synthetic rows of each half.
ALONE = "a description by {} columns of a synthetic row fits exactly one row"
LINKED = "both halves of a row's columns lead to the same synthetic row"


class Criterion(Record):
    """One attack: how often it succeeds on training rows and on held-out rows, and the difference."""

    name: str
    how: str
    members: float
    controls: float
    excess: Estimate


class Criteria(Record):
    """The attacks, and the number of rows in each of the groups that they compare."""

    rows: int
    found: list[Criterion]


def criteria(tables: Tables, rng: Stream) -> Criteria | None:
    """Return all attacks, or None without a training table, or with too few rows or a single column.

    Held-out rows are the controls. Members and controls are as many.
    """
    if tables.train is None or min(len(tables.train), len(tables.real)) < FEWEST or len(tables.names) < 2:
        return None
    size = min(PEOPLE, len(tables.train), len(tables.real))
    groups = [part.iloc[rng.permutation(len(part))[:size]] for part in (tables.train, tables.real)]
    synthetic = tables.synthetic.iloc[rng.permutation(len(tables.synthetic))[:POOL]]
    patients = [tables.patients_of(rows, part) for rows, part in zip(groups, ("train", "real"), strict=True)]
    widths = sorted({min(width, len(tables.names)) for width in WIDTHS})
    found = [singling_out(tables.numbers, groups, synthetic, width, rng) for width in widths]
    return Criteria(
        rows=size,
        found=[
            *(_criterion("singling out", ALONE.format(width), sides, patients, rng)
              for width, sides in zip(widths, found, strict=True)),
            _criterion("linking", LINKED, linked(tables.numbers, groups, synthetic, rng), patients, rng),
        ],
    )  # fmt: skip


def singling_out(
    numbers: frozenset[str], groups: Sequence[pd.DataFrame], synthetic: pd.DataFrame, width: int, rng: Stream
) -> list[Floats]:
    """Return for each row of each of `groups` how many descriptions fit this row alone, as a share of all descriptions
    times the number of rows: (rows,). Its mean is the share of descriptions that fit exactly one row.

    A description names `width` columns of a synthetic row: the level of each, or that a number is at least its own if
    this is above the median, else at most its own.
    """
    names = [str(name) for name in synthetic]
    values = [side.T.copy() for side in matrices(names, numbers, [synthetic, *groups])]
    middle = [np.nanmedian(value) if np.isfinite(value).any() else 0.0 for value in values[0]]
    found = [np.zeros(len(rows)) for rows in groups]
    for row in rng.integers(len(synthetic), size=GUESSES):
        chosen = rng.permutation(len(names))[:width]
        for group, alone in enumerate(found, 1):
            fits = np.ones(len(alone), np.bool_)
            for k in chosen:
                own, others = values[0][k, row], values[group][k]
                if np.isnan(own):
                    fits &= np.isnan(others)
                elif names[k] not in numbers:
                    fits &= others == own
                else:
                    fits &= others >= own if own >= middle[k] else others <= own
            if fits.sum() == 1:
                alone[fits] += len(alone) / GUESSES
    return found


def linked(
    numbers: frozenset[str], groups: Sequence[pd.DataFrame], synthetic: pd.DataFrame, rng: Stream
) -> list[Floats]:
    """Return for each row of each of `groups` whether a synthetic row is among the nearest of both halves: (rows,).

    The halves are of the columns, at random: an attacker knows each, and asks whether they are one person's.
    """
    columns = list(synthetic)
    names = [columns[k] for k in rng.permutation(len(columns))]
    near: list[list[Whole]] = []
    for half in (names[::2], names[1::2]):
        *people, pool = points(numbers, [rows[half] for rows in (*groups, synthetic)])
        index = NearestNeighbors(n_neighbors=min(NEAR, len(pool))).fit(pool)
        near.append([np.asarray(index.kneighbors(rows, return_distance=False)) for rows in people])
    return [(one[:, :, None] == other[:, None]).any((1, 2)) * 1.0 for one, other in zip(*near, strict=True)]


def _criterion(
    name: str, how: str, sides: Sequence[Floats], patients: Sequence[Patients | None], rng: Stream
) -> Criterion:
    return Criterion(name=name, how=how, **stats.excess(sides, patients, rng))


CRITERIA = Section(
    "criteria", "Singling out and linking", lambda context: criteria(context.compared, context.rng), Criteria,
    variant="internal", needs=("real rows",),
)  # fmt: skip
