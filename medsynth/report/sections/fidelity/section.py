"""Does the table look like the patients? Every figure stands beside what a second real sample scores."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from ....rng import Stream
from ...data.cells import Cells
from ...data.context import Context
from ...data.records import Estimate, Record
from ...data.review import Thresholds
from ...data.statistics import halves
from ...data.tables import Tables
from ...data.verdict import Verdict, decide
from ..registry import Section
from .bars import level_bars, number_bars
from .propensity import pmse_ratio, propensity_auroc
from .similarity import Codes, association, missing_pairs, missing_patterns, similarity, two_way


class ColumnFidelity(Record):
    """One column: similarity of its distribution, 1 less total variation, and shares for the overlay.

    `labels` name the bars; `real` and `synthetic` are their shares of rows; `missing_*` shares of missing cells.
    """

    name: str
    kind: str
    similarity: float
    ceiling: float
    missing_real: float
    missing_synthetic: float
    labels: list[str]
    real: list[float]
    synthetic: list[float]


class MissingPattern(Record):
    """A set of columns that are missing in the same row, and the share of rows of each table that have it."""

    columns: list[str]
    real: float
    synthetic: float


class Fidelity(Record):
    """Similarity of synthetic to real rows. A `ceiling` is what a second real sample scores.

    `propensity_columns`: AuROC lost as a column is permuted. Associations are Cramer's V of cells, (columns, columns).
    """

    rows_compared: int
    one_way: float
    one_way_ceiling: float
    two_way: float
    two_way_ceiling: float
    propensity_auroc: Estimate
    propensity_ceiling: Estimate
    propensity_columns: list[tuple[str, float]]
    pmse_ratio: float | None
    columns: list[ColumnFidelity]
    names: list[str]
    association_real: list[list[float]]
    association_synthetic: list[list[float]]
    association_gap: float
    missing_pairs: float | None
    missing_patterns: list[MissingPattern]


def fidelity(tables: Tables, rng: Stream) -> Fidelity:
    """Every figure of the section.

    The training rows, where given, are the second real sample; else the held-out rows are halved. The synthetic rows
    are cut to the second sample's size, since small samples differ from one another by chance alone.
    """
    cells = Cells.of(tables)
    first, second = _two_real_samples(tables, rng)
    size = min(len(second), len(tables.synthetic))
    other = tables.synthetic.iloc[np.sort(rng.choice(len(tables.synthetic), size, replace=False))]
    second = second.iloc[np.sort(rng.choice(len(second), size, replace=False))]
    real, twin, made = (cells.table(frame) for frame in (first, second, other))
    counts = [cells.count(name) for name in tables.names]
    columns = [_column(tables, name, k, (real, twin, made), counts[k]) for k, name in enumerate(tables.names)]
    associations = [association(x, counts) for x in (real, made)]
    patients = tables.patients_of(first, "real"), tables.patients_of(other, "synthetic")
    separated, relied_on = propensity_auroc(first, other, tables, rng, patients)
    twins = patients[0], tables.patients_of(second, "real" if tables.train is None else "train")
    return Fidelity(
        rows_compared=size,
        one_way=float(np.mean([c.similarity for c in columns])),
        one_way_ceiling=float(np.mean([c.ceiling for c in columns])),
        two_way=two_way(real, made, counts),
        two_way_ceiling=two_way(real, twin, counts),
        propensity_auroc=separated,
        propensity_ceiling=propensity_auroc(first, second, tables, rng, twins)[0],
        propensity_columns=relied_on,
        pmse_ratio=pmse_ratio(first, other),
        columns=columns,
        names=tables.names,
        association_real=np.round(associations[0], 3).tolist(),
        association_synthetic=np.round(associations[1], 3).tolist(),
        association_gap=float(np.abs(associations[0] - associations[1])[np.triu_indices(len(counts), 1)].mean()),
        missing_pairs=missing_pairs(first, other),
        missing_patterns=[
            MissingPattern(columns=names, real=real, synthetic=made)
            for names, real, made in missing_patterns(first, other)
        ],
    )


def _two_real_samples(tables: Tables, rng: Stream) -> tuple[pd.DataFrame, pd.DataFrame]:
    if tables.train is not None:
        return tables.real, tables.train
    first, second = halves(len(tables.real), rng, tables.patients.get("real"))
    return tables.real.iloc[first], tables.real.iloc[second]


def _column(tables: Tables, name: str, k: int, coded: tuple[Codes, Codes, Codes], cells: int) -> ColumnFidelity:
    real, twin, made = (x[:, k] for x in coded)
    frames = tables.real[name], tables.synthetic[name]
    labels, shares = (number_bars if name in tables.numbers else level_bars)(*frames)
    return ColumnFidelity(
        name=name,
        kind="number" if name in tables.numbers else "levels",
        similarity=similarity(real, made, cells),
        ceiling=similarity(real, twin, cells),
        missing_real=float(frames[0].isna().mean()),
        missing_synthetic=float(frames[1].isna().mean()),
        labels=labels,
        real=np.round(shares[0], 5).tolist(),
        synthetic=np.round(shares[1], 5).tolist(),
    )


def _verdicts(found: Fidelity | None, thresholds: Thresholds) -> Sequence[Verdict]:
    if found is None:
        return []
    return [
        decide(
            "two_way_gap",
            "Do pairs of columns look real?",
            "two-way similarity below a second real sample's",
            Estimate(value=found.two_way_ceiling - found.two_way),
            thresholds.two_way_gap,
            f"Synthetic rows score {found.two_way:.3f}, a second real sample {found.two_way_ceiling:.3f}.",
        ),
        decide(
            "propensity_auroc",
            "Can a classifier separate synthetic from real rows?",
            "propensity AuROC (0.5 is no better than chance)",
            found.propensity_auroc,
            thresholds.propensity_auroc,
            f"Two real samples score {found.propensity_ceiling}.",
        ),
    ]


def _compute(context: Context) -> Fidelity | None:
    return fidelity(context.tables, context.rng) if context.tables else None


SECTION = Section(
    id="fidelity", title="Fidelity", compute=_compute, record=Fidelity, needs=("real rows",), verdicts=_verdicts
)
