"""Do synthetic patients change over time as real ones do? Each figure has that of a second real sample to compare with.

No cell with too few real patients is shown. Figures that a shareable report leaves out are None.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from ...arrays import Floats, Whole
from ...rng import Stream
from ...schema import Schema
from ..data import over_time as successive
from ..data.over_time import Sequences
from ..data.question import QUESTIONS
from ..data.statistics import halves, lost_relations
from ..data.survival import Survival
from ..data.tables import Cells
from ..data.verdict import Estimate, Record, Thresholds, Verdict, impossible_gain, of_both
from .over_time_models import NextRow, Slopes, Unit, next_row, slopes
from .registry import Section

DAYS_OF_YEAR = 365.25
MOST_COLUMNS = 40  # Columns that are compared. Every two of them need a table of pairs.
FEWEST = 20  # Real patients that a cell needs to be shown.
GAP_BINS, TIMES = 8, 30  # Bars of gaps, and points of the waiting curve.
LAST_TIME = 0.95  # The quantile of the gaps at which the waiting curve ends.
MOST_SHOWN = 12  # Levels of a column whose transitions are shown.
Band = tuple[float, float, float]  # Lower quartile, median, upper quartile.


class Change(Record):
    """One column in successive rows of patients. `*_second`: of a second real sample.

    `similarity`: of the tables of the previous row's value by this row's, with its `ceiling`. `transitions`: total
    variation of the next level given this one (levels). `unchanged`: share of rows with the value of the previous row.
    """

    name: str
    kind: str
    similarity: float | None
    ceiling: float | None
    autocorrelation_real: float | None
    autocorrelation_second: float | None
    autocorrelation_synthetic: float | None
    transitions: float | None
    transitions_second: float | None
    unchanged_real: float | None
    unchanged_synthetic: float | None


class Transitions(Record):
    """Shares of the next level (column) given this one (row); None for a row with too few patients."""

    name: str
    levels: list[str]
    real: list[list[float] | None] | None
    synthetic: list[list[float] | None]


class Bars(Record):
    """Shares of patients, or of gaps, in named bars. The first and the last bar of gaps are open-ended.

    `distance`: total variation between synthetic and real patients; `distance_second`: between two real samples. A real
    bar with too few patients is None.
    """

    labels: list[str]
    real: list[float | None] | None
    synthetic: list[float]
    distance: float | None
    distance_second: float | None


class Trajectory(Record):
    """Quartiles of a number column by row number; None if too few real patients have a value."""

    name: str
    logarithm: bool
    real: list[Band | None] | None
    synthetic: list[Band | None]


class OverTime(Record):
    """Patients in the order of the column `order`. Its differences are in `unit`; None for keys without differences.

    `patients`: number of patients of each table that are compared. `fewest`: real patients that a cell needs to be
    shown. `lagged`: mean similarity of a column with itself in the previous row; `across`: with another column.
    `lagged_gap`: the ceiling less `lagged`, with an interval for the chance of all three samples of patients.
    `later_lost`: the part of the relations between columns of one later row that is lost.
    """

    order: str
    unit: str | None
    most_rows: int
    fewest: int
    patients: int
    lagged: float | None
    lagged_ceiling: float | None
    lagged_gap: Estimate
    across: float | None
    across_ceiling: float | None
    later_lost: Estimate
    columns: list[Change]
    rows: Bars
    gaps: Bars | None
    waiting: Survival | None
    transitions: list[Transitions]
    trajectories: list[Trajectory]
    next_row: NextRow | None
    slopes: Slopes | None


def patients_by(made: Sequences, rows: Whole, groups: Whole, count: int) -> Whole:
    """Return the number of patients with one of `rows` in each of `groups`, both (rows,): (count,)."""
    pairs = np.unique(np.stack([groups, made.patient[rows]], 1), axis=0) if len(rows) else np.zeros((0, 2), np.int64)
    return np.bincount(pairs[:, 0], minlength=count)


def kept(values: Sequence[float], patients: Whole) -> list[float | None]:
    """Return the values of cells with at least FEWEST patients, and None for the others."""
    return [float(v) if n >= FEWEST else None for v, n in zip(values, patients, strict=True)]


def enough(real: Sequences | None) -> bool:
    """Return whether at least FEWEST patients have two rows, as every figure of successive rows needs."""
    return real is not None and int((real.sizes > 1).sum()) >= FEWEST


def rows_a_patient(real: Sequences | None, second: Sequences | None, synthetic: Sequences, most: int) -> Bars:
    """Return the shares of patients with 1, 2, ... rows."""
    counted = partial(successive.rows_counts, most=most)
    labels = [str(k + 1) for k in range(most)]
    return _bars(labels, counted, lambda made: counted(made).astype(np.int64), real, second, synthetic)


def gap_bars(real: Sequences | None, second: Sequences | None, synthetic: Sequences) -> Bars | None:
    """Return the shares of gaps between rows, in bins with equal counts of the first table; None without times.

    The outer bins are open, since the shortest and the longest gap belong to one patient each.
    """
    found = successive.gaps(real or synthetic)
    if found is None or not len(found):
        return None
    bins = int(np.clip(len(found) // FEWEST, 1, GAP_BINS))
    inner = np.unique(np.quantile(found, np.linspace(0, 1, bins + 1)[1:-1]))
    edges = np.concatenate([[-np.inf], inner, [np.inf]])
    labels = [f"{a:.4g} to {b:.4g}" for a, b in itertools.pairwise(inner)]
    labels = [f"below {inner[0]:.4g}", *labels, f"{inner[-1]:.4g} and more"] if len(inner) else ["any"]

    def patients(made: Sequences) -> Whole:
        gap = made.time_since_last
        known = np.isfinite(gap)
        inside = np.clip(np.searchsorted(edges, gap[known], side="right") - 1, 0, len(edges) - 2)
        return patients_by(made, made.now[known], inside, len(edges) - 1)

    return _bars(labels, partial(successive.gap_counts, edges=edges), patients, real, second, synthetic)


def _bars(
    labels: list[str],
    counted: Callable[[Sequences], Floats],
    patients: Callable[[Sequences], Whole],
    real: Sequences | None,
    second: Sequences | None,
    synthetic: Sequences,
) -> Bars:
    """Return counts as shares, with None for too few `patients`. The distances use all cells, shown or not."""
    made = counted(synthetic)
    shares = (made / max(made.sum(), 1)).round(5).tolist()
    if real is None:
        return Bars(labels=labels, real=None, synthetic=shares, distance=None, distance_second=None)
    own = counted(real)
    return Bars(
        labels=labels,
        real=kept((own / max(own.sum(), 1)).round(5).tolist(), patients(real)),
        synthetic=shares,
        distance=successive.total_variation(own, made),
        distance_second=None if second is None else successive.total_variation(own, counted(second)),
    )


def waiting(real: Sequences | None, synthetic: Sequences) -> Survival | None:
    """Return the share of rows that no other row of the patient follows, by the time since; None without gaps.

    The real curve ends where fewer than FEWEST patients have a longer gap.
    """
    found = successive.gaps(real or synthetic)
    if found is None or not len(found):
        return None
    times = np.linspace(0, float(np.quantile(found, LAST_TIME)), TIMES)
    curve = None
    if real is not None:
        left = np.array([len(np.unique(real.patient[real.now][real.time_since_last > t])) for t in times])
        curve = kept(successive.waiting(real, times).round(5).tolist(), left)
    made = successive.waiting(synthetic, times)
    return Survival(times=times.round(3).tolist(), real=curve, synthetic=np.nan_to_num(made, nan=1.0).round(5).tolist())


def transitions(name: str, cells: Cells, real: Sequences | None, synthetic: Sequences) -> Transitions | None:
    """Return the shares of the next level given this one; None without levels or with more than MOST_SHOWN.

    A real row is shown if at least FEWEST patients left its level.
    """
    levels = cells.levels[name]
    if not 0 < len(levels) <= MOST_SHOWN:
        return None
    rows = None if real is None else _next_levels(name, cells, real, FEWEST)
    return Transitions(name=name, levels=levels, real=rows, synthetic=_next_levels(name, cells, synthetic, 1))


def _next_levels(name: str, cells: Cells, made: Sequences, least: int) -> list[list[float] | None]:
    """Return the shares of the next level for each level; None if fewer than `least` patients left it."""
    known = len(cells.levels[name])  # Higher cells are other levels and missing values.
    code = cells.column(made.rows, name)
    size = cells.count(name)
    counts = successive.transitions(made, code, size)[:known, :known]
    leaving = made.last[code[made.now] < known]
    patients = patients_by(made, leaving, code[leaving], size)[:known]
    rows = zip(counts, patients, strict=True)
    return [(c / c.sum()).round(5).tolist() if n >= least else None for c, n in rows]


def trajectory(name: str, logarithm: bool, real: Sequences | None, synthetic: Sequences, most: int) -> Trajectory:
    """Return quartiles by row number, of the column itself and not of its logarithm."""
    bands = None if real is None else _bands(real, name, logarithm, most, FEWEST)
    return Trajectory(name=name, logarithm=logarithm, real=bands, synthetic=_bands(synthetic, name, logarithm, most, 1))


def _bands(made: Sequences, name: str, logarithm: bool, most: int, least: int) -> list[Band | None]:
    """Return one band per row number; None if fewer than `least` patients have a value there."""
    values = made.rows[name].to_numpy(np.float64)
    values = np.exp(values) if logarithm else values
    found: list[Band | None] = []
    for place in range(most):
        here = values[(made.place == place) & np.isfinite(values)]
        ends = np.quantile(here, [0.25, 0.5, 0.75]).round(6).tolist() if len(here) >= least else None
        found.append((ends[0], ends[1], ends[2]) if ends else None)
    return found


class Compared:
    """The patients that are compared: real, a second real sample (both may be None) and synthetic, with their cells."""

    def __init__(self, found: Mapping[str, Sequences], rng: Stream) -> None:
        self.made = found["synthetic"].capped(rng)
        self.real: Sequences | None = None
        self.second: Sequences | None = None
        if "real" in found:
            self.real, self.second = _two_real_samples(found, rng)
            patients = min(len(self.second.sizes), len(self.made.sizes))
            self.second = self.second.some(patients, rng)
            self.made = self.made.some(patients, rng)
        self.names = list(self.made.changing)[:MOST_COLUMNS]
        frames = [one.rows[self.names] for one in (self.real, self.made, self.second) if one is not None]
        self.cells = Cells.of(frames[0], frames[1:], self.made.numbers)
        self.sizes = [self.cells.count(name) for name in self.names]
        self.coded = [  # The real, the synthetic and the second real patients with their codes; [] if too few are real.
            (one, self.cells.table(one.rows[self.names]))
            for one in (self.real, self.made, self.second)
            if one is not None and enough(self.real)
        ]

    def lagged(self) -> list[tuple[dict[str, float], float | None]]:
        """Return the similarity of successive rows to the real ones, by column and across columns: of the synthetic
        patients, and of the second real ones.
        """
        if not self.coded:
            return [({}, None), ({}, None)]
        (real, codes), *others = self.coded
        found = [successive.lagged(real, one, (codes, own), self.sizes) for one, own in others]
        return [(dict(zip(self.names, own.tolist(), strict=True)), across) for own, across in found]

    def later_lost(self) -> Estimate:
        """Return the part of the relations within later rows that synthetic patients lose, by pairs of columns."""
        if not self.coded:
            return Estimate(value=None)
        rows = [codes[one.now] for one, codes in self.coded]
        return lost_relations(rows, self.sizes, [one.patient[one.now] for one, _ in self.coded])


def _two_real_samples(found: Mapping[str, Sequences], rng: Stream) -> tuple[Sequences, Sequences]:
    """Return the held-out patients and a second sample: the training patients, or half of the held-out ones."""
    real = found["real"].capped(rng)
    if "train" in found:
        return real, found["train"].capped(rng)
    first, _ = halves(len(real.patient), rng, real.patient)
    inside = np.isin(np.arange(len(real.patient)), first)
    return real.of(inside), real.of(~inside)


def over_time(found: Mapping[str, Sequences], schema: Schema, target: str | None, rng: Stream) -> OverTime | None:
    """Return every figure of the section; None without sequences or without a column that changes.

    found: the tables' sequences by name (`data.over_time.sequences`). Without real ones only the synthetic patients are
    described.
    """
    if not found or not found["synthetic"].changing:
        return None
    assert schema.order is not None and schema.max_rows is not None
    samples = Compared(found, rng)
    real, second, made, most = samples.real, samples.second, samples.made, schema.max_rows
    (lagged, across), (ceiling, across_ceiling) = samples.lagged()
    order = schema.columns[schema.order]
    logarithms = frozenset(n for n in samples.names if getattr(schema.columns[n], "scale", None) == "log")
    shown = [transitions(n, samples.cells, real, made) for n in samples.names if n not in made.numbers]
    fitted = found.get("train", found.get("real"))
    unit = Unit(DAYS_OF_YEAR, "year") if order.dated else Unit(1.0, getattr(order, "unit", None) or schema.order)
    return OverTime(
        order=schema.order,
        unit=None if made.time is None else "days" if order.dated else unit.name,
        most_rows=most,
        fewest=FEWEST,
        patients=len(made.sizes),
        lagged=float(np.mean(list(lagged.values()))) if lagged else None,
        lagged_ceiling=float(np.mean(list(ceiling.values()))) if ceiling else None,
        lagged_gap=successive.lagged_gap(samples.coded, samples.sizes) if samples.coded else Estimate(value=None),
        across=across,
        across_ceiling=across_ceiling,
        later_lost=samples.later_lost(),
        columns=[_change(samples, name, lagged.get(name), ceiling.get(name)) for name in samples.names],
        rows=rows_a_patient(real, second, made, most),
        gaps=gap_bars(real, second, made),
        waiting=waiting(real, made),
        transitions=[one for one in shown if one is not None],
        trajectories=[trajectory(n, n in logarithms, real, made, most) for n in samples.names if n in made.numbers],
        next_row=None
        if real is None or second is None or target is None
        else next_row(second, made, real, target, rng),
        slopes=None if fitted is None else slopes(fitted, made, unit, logarithms, rng),
    )


def _change(samples: Compared, name: str, similarity: float | None, ceiling: float | None) -> Change:
    made = samples.made
    cells = samples.cells
    number = name in samples.made.numbers
    real, second = (samples.real, samples.second) if enough(samples.real) else (None, None)
    sides = (real, second, made)
    likeness = [None if one is None or not number else successive.autocorrelation(one, name) for one in sides]
    counts = [
        None if number or one is None else successive.transitions(one, cells.column(one.rows, name), cells.count(name))
        for one in (real, made, second)
    ]
    apart = [
        None if counts[0] is None or other is None else successive.transition_distance(counts[0], other)
        for other in counts[1:]
    ]
    return Change(
        name=name,
        kind="number" if number else "levels",
        similarity=similarity,
        ceiling=ceiling,
        autocorrelation_real=likeness[0],
        autocorrelation_second=likeness[1],
        autocorrelation_synthetic=likeness[2],
        transitions=apart[0],
        transitions_second=apart[1],
        **of_both("unchanged", [None if one is None else successive.unchanged(one, name) for one in (real, made)]),
    )


SUCCESSION = QUESTIONS["lagged_gap"]
WITHIN = QUESTIONS["later_relations_lost"]
NEXT_ROW = QUESTIONS["next_row_auroc_loss"]


def _verdicts(found: OverTime | None, thresholds: Thresholds) -> Sequence[Verdict]:
    if found is None or found.lagged is None or found.lagged_ceiling is None:
        return []
    scores = f"Synthetic patients score {found.lagged:.3f}, a second real sample {found.lagged_ceiling:.3f}."
    lines = [SUCCESSION.judge(found.lagged_gap, thresholds, scores)]
    if found.later_lost.value is not None:
        lines.append(WITHIN.judge(found.later_lost, thresholds, "First rows are not counted here."))
    if (ahead := found.next_row) is not None:
        scores = f"AuROC is {ahead.real} after real patients and {ahead.synthetic} after synthetic ones."
        gain = impossible_gain(ahead.loss, NEXT_ROW.threshold(thresholds))
        lines.append(NEXT_ROW.judge(ahead.loss, thresholds, scores, instead=gain))
    return lines


OVER_TIME = Section(
    "over_time", "Patients over time", lambda c: over_time(c.sequences, c.declared, c.target, c.rng), OverTime,
    needs=("schema",), questions=(SUCCESSION, WITHIN, NEXT_ROW), verdicts=_verdicts,
)  # fmt: skip
