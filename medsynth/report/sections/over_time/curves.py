"""Tables and curves of patients over time, each real cell of too few patients left out."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from ...data.over_time import successive
from ...data.over_time.sequences import Sequences
from ...data.statistics import Floats, Whole
from .records import Band, Bars, Trajectory, Transitions, Waiting

FEWEST = 20  # real patients behind a cell that is shown
GAP_BINS, TIMES = 8, 30  # bars of gaps; points of the curve of waiting
LAST_TIME = 0.95  # quantile of the gaps at which the curve of waiting ends
MOST_SHOWN = 12  # levels of a column whose transitions are shown


def patients_by(made: Sequences, rows: Whole, groups: Whole, count: int) -> Whole:
    """How many different patients have one of `rows` in each of `groups`, both (rows,): (count,)."""
    pairs = np.unique(np.stack([groups, made.patient[rows]], 1), axis=0) if len(rows) else np.zeros((0, 2), np.int64)
    return np.bincount(pairs[:, 0], minlength=count)


def kept(values: Sequence[float], patients: Whole) -> list[float | None]:
    """Values of cells with at least FEWEST patients, None in place of the others."""
    return [float(v) if n >= FEWEST else None for v, n in zip(values, patients, strict=True)]


def enough(real: Sequences | None) -> bool:
    """Whether FEWEST patients or more have two rows, for any figure of successive rows."""
    return real is not None and int((real.sizes > 1).sum()) >= FEWEST


def rows_a_patient(real: Sequences | None, second: Sequences | None, synthetic: Sequences, most: int) -> Bars:
    """Shares of patients with 1, 2, ... rows."""
    counts = [None if made is None else successive.rows_counts(made, most) for made in (real, second, synthetic)]
    return _bars([str(k + 1) for k in range(most)], counts[0], counts[1], counts[2], counts[0])


def gap_bars(real: Sequences | None, second: Sequences | None, synthetic: Sequences) -> Bars | None:
    """Shares of gaps between rows, in bins that hold as many of the first table's each; None without times.

    The outermost bins are open: the shortest and the longest gap are of one patient each.
    """
    first = synthetic if real is None else real
    found = successive.gaps(first)
    if found is None or not len(found):
        return None
    bins = int(np.clip(len(found) // FEWEST, 1, GAP_BINS))
    inner = np.unique(np.quantile(found, np.linspace(0, 1, bins + 1)[1:-1]))
    edges = np.concatenate([[-np.inf], inner, [np.inf]])
    counts = [None if made is None else successive.gap_counts(made, edges) for made in (real, second, synthetic)]
    labels = [f"{a:.4g} to {b:.4g}" for a, b in itertools.pairwise(inner)]
    labels = [f"below {inner[0]:.4g}", *labels, f"{inner[-1]:.4g} and more"] if len(inner) else ["any"]
    return _bars(labels, counts[0], counts[1], counts[2], _patients_of_gaps(real, edges))


def _patients_of_gaps(real: Sequences | None, edges: Floats) -> Floats | None:
    """How many patients have a gap in each bin."""
    if real is None or real.time is None:
        return None
    gap = real.time[real.now] - real.time[real.last]
    known = np.isfinite(gap)
    inside = np.clip(np.searchsorted(edges, gap[known], side="right") - 1, 0, len(edges) - 2)
    return patients_by(real, real.now[known], inside, len(edges) - 1).astype(np.float64)


def _bars(
    labels: list[str], real: Floats | None, second: Floats | None, made: Floats | None, patients: Floats | None
) -> Bars:
    """Counts as shares; the distances are those of all cells, shown or not."""
    assert made is not None
    shares = None if real is None else real / max(real.sum(), 1)
    return Bars(
        labels=labels,
        real=None if shares is None or patients is None else kept(shares.round(5).tolist(), patients.astype(np.int64)),
        synthetic=(made / max(made.sum(), 1)).round(5).tolist(),
        distance=None if real is None else successive.total_variation(real, made),
        distance_second=None if real is None or second is None else successive.total_variation(real, second),
    )


def waiting(real: Sequences | None, synthetic: Sequences) -> Waiting | None:
    """The share of rows without a next one, by the time that has passed; None without gaps.

    The real curve ends where fewer than FEWEST patients have a longer gap.
    """
    found = successive.gaps(synthetic if real is None else real)
    if found is None or not len(found):
        return None
    times = np.linspace(0, float(np.quantile(found, LAST_TIME)), TIMES)
    curve = None
    if real is not None and real.time is not None:
        gap, patient = real.time[real.now] - real.time[real.last], real.patient[real.now]
        left = np.array([len(np.unique(patient[gap > t])) for t in times])
        curve = kept(successive.waiting(real, times).round(5).tolist(), left)
    made = successive.waiting(synthetic, times)
    return Waiting(times=times.round(3).tolist(), real=curve, synthetic=np.nan_to_num(made, nan=1.0).round(5).tolist())


def transitions(
    name: str,
    levels: list[str],
    real: Sequences | None,
    synthetic: Sequences,
    codes: Sequence[Whole | None],
    cells: int,
) -> Transitions | None:
    """The next level given this one; None for a column of no level or of more than MOST_SHOWN.

    `codes`: of real and synthetic rows. A real row stands for FEWEST patients or more who left from its level.
    """
    if not 0 < len(levels) <= MOST_SHOWN:
        return None
    known = len(levels)  # cells beyond are other levels and missing values
    found: list[list[list[float] | None] | None] = []
    for made, code, least in ((real, codes[0], FEWEST), (synthetic, codes[1], 1)):
        if made is None or code is None:
            found.append(None)
            continue
        counts = successive.transitions(made, code, cells)[:known, :known]
        leaving = made.last[code[made.now] < known]
        patients = patients_by(made, leaving, code[leaving], cells)[:known]
        rows = zip(counts, patients, strict=True)
        found.append([(c / c.sum()).round(5).tolist() if n >= least else None for c, n in rows])
    made_rows = found[1]
    assert made_rows is not None
    return Transitions(name=name, levels=levels, real=found[0], synthetic=made_rows)


def trajectory(name: str, logarithm: bool, real: Sequences | None, synthetic: Sequences, most: int) -> Trajectory:
    """Quartiles by the number of the row, of the column itself and not of its logarithm."""
    bands = None if real is None else _bands(real, name, logarithm, most, FEWEST)
    return Trajectory(name=name, logarithm=logarithm, real=bands, synthetic=_bands(synthetic, name, logarithm, most, 1))


def _bands(made: Sequences, name: str, logarithm: bool, most: int, least: int) -> list[Band | None]:
    """One band a row number; None where fewer than `least` patients have a value there."""
    values = made.rows[name].to_numpy(np.float64)
    values = np.exp(values) if logarithm else values
    found: list[Band | None] = []
    for place in range(most):
        here = values[(made.place == place) & np.isfinite(values)]
        ends = np.quantile(here, [0.25, 0.5, 0.75]).round(6).tolist() if len(here) >= least else None
        found.append((ends[0], ends[1], ends[2]) if ends else None)
    return found
