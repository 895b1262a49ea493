"""Models of patients over time: classifiers predict the next row, and mixed-effects regressions estimate slopes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ...arrays import Floats, Whole
from ...rng import Stream
from ..data.over_time import Sequences
from ..data.protocol import LABELS, mean_aurocs, predict, some
from ..data.statistics import Patients, mean, overlap
from ..data.verdict import Estimate, Record

CLASSIFIERS = ("lr", "hgb")  # A linear model and boosted trees.
FEWEST = 30  # Rows that a test needs.
AIM = "target of the row"  # The column that is predicted.
MOST_PATIENTS = 300  # Patients of each table. With this number statsmodels needs one to two seconds per column.
MOST_COLUMNS = 6
FEWEST_ROWS = 30


class NextRow(Record):
    """AuROC on real rows of predicting the target of the next row, after training on real and on synthetic rows.

    Figures are means over `classifiers` and over the classes in the tested rows. Whole patients are resampled.
    """

    target: str
    rows: int
    classifiers: list[str]
    real: Estimate
    synthetic: Estimate
    loss: Estimate


def next_row(train: Sequences, synthetic: Sequences, test: Sequences, target: str, rng: Stream) -> NextRow | None:
    """Fit classifiers to `train` and to `synthetic`, and test them on `test`; None if there is too little to test.

    A row is tested if its patient has a next row with a known target.
    """
    if any(target not in made.rows or target in made.numbers for made in (train, synthetic, test)):
        return None
    sides = [examples(made, target, ahead=1) for made in (train, synthetic, test)]
    if min(len(rows) for rows, _ in sides) < FEWEST or sides[2][0][AIM].nunique() < 2:
        return None
    (real, _), (made, _), (tested, patients) = sides
    found = compared_aurocs(some(real, rng), some(made, rng), tested, patients, rng)
    return NextRow(target=target, rows=len(tested), classifiers=[LABELS[name] for name in CLASSIFIERS], **found)


def examples(made: Sequences, target: str, ahead: int) -> tuple[pd.DataFrame, Whole]:
    """Return each row and the previous one as one line, to predict the target of this row (`ahead` 0) or the next (1).

    Returns the lines, with the column AIM, and the patient of each. A line has the changing columns of the previous
    row. Without a previous row, numbers are missing and levels are "none". With `ahead` 0, this row's target is left
    out.
    """
    aim = np.arange(len(made.patient)) + ahead
    lines = np.flatnonzero((aim < len(aim)) & (made.patient[np.minimum(aim, len(aim) - 1)] == made.patient))
    lines = lines[made.rows[target].notna().to_numpy()[lines + ahead]]
    before = np.where(made.place[lines] > 0, lines - 1, -1)
    columns: dict[str, Any] = {"row number": made.place[lines].astype(np.float64)}
    for name, column in made.rows.items():
        number = name in made.numbers
        values = (column if number else column.fillna("missing")).to_numpy()
        if name != target or ahead:
            columns[str(name)] = values[lines]
        if name in made.changing:
            columns[f"{name}, last row"] = np.where(before >= 0, values[before], np.nan if number else "none")
    if made.time is not None:
        columns["time since the last row"] = np.where(before >= 0, made.time[lines] - made.time[before], np.nan)
    columns[AIM] = made.rows[target].to_numpy()[lines + ahead]
    return pd.DataFrame(columns), made.patient[lines]


def compared_aurocs(
    real: pd.DataFrame, synthetic: pd.DataFrame, tested: pd.DataFrame, patients: Whole, rng: Stream
) -> dict[str, Estimate]:
    """Return the AuROC on `tested` after training on `real` and on `synthetic`, and the loss, with intervals."""
    truth = tested[AIM].astype(str).to_numpy()
    sides = [predict(rows, tested, AIM, CLASSIFIERS) for rows in (real, synthetic)]
    return mean_aurocs(truth, dict(enumerate(np.unique(truth))), sides, rng, patients)


class Slope(Record):
    """One column's change per unit of time. `logarithm`: of the column's logarithm. `overlap`: of the intervals."""

    column: str
    logarithm: bool
    real: Estimate
    synthetic: Estimate
    overlap: float | None


class Slopes(Record):
    """Mixed-effects regressions of numbers on the time since the patient's first row, on both tables.

    `patients`: the number used of each table, among those with at least two rows. `per`: unit of time.
    """

    per: str
    patients: int
    columns: list[Slope]
    mean_overlap: float | None


class Unit(NamedTuple):
    """A unit of time: its length in the order column's own unit, and its name."""

    size: float
    name: str


def slopes(real: Sequences, synthetic: Sequences, unit: Unit, logarithms: frozenset[str], rng: Stream) -> Slopes | None:
    """Return the slopes of the first MOST_COLUMNS number columns in both tables; None without times or such columns."""
    names = [name for name in real.changing if name in real.numbers][:MOST_COLUMNS]
    if real.time is None or synthetic.time is None or not names:
        return None
    several = [table.of(np.repeat(table.sizes, table.sizes) > 1) for table in (real, synthetic)]
    patients = min(*(len(table.sizes) for table in several), MOST_PATIENTS)
    sides = [table.some(patients, rng) for table in several]
    found = []
    for name in names:
        one, other = (slope(table, name, unit.size) for table in sides)
        found.append(
            Slope(column=name, logarithm=name in logarithms, real=one, synthetic=other, overlap=overlap(one, other))
        )
    shared = mean([each.overlap for each in found])
    return Slopes(per=unit.name, patients=patients, columns=found, mean_overlap=shared)


def _wald(values: Floats, design: Floats, patient: Patients, random: Floats | None) -> Floats:
    """Return the second fixed effect with its 95 % interval, (3,); NaN if the likelihood has no maximum."""
    import statsmodels.api as sm

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # statsmodels warns if patients do not vary, which is a valid result.
        try:
            model = sm.MixedLM(values, design, groups=patient, exog_re=random)
            result = model.fit(method=["lbfgs"])
            found = np.array([result.fe_params[1], *np.asarray(result.conf_int())[1]], np.float64)
        except (np.linalg.LinAlgError, ValueError):
            return np.full(3, np.nan)
    return found if result.converged else np.full(3, np.nan)


def slope(made: Sequences, name: str, unit: float, fit: Callable[..., Floats] = _wald) -> Estimate:
    """Return the fixed slope of a column on the time since the patient's first row, with a 95 % Wald interval.

    The linear mixed model has a random intercept and slope per patient, fitted by restricted maximum likelihood (Laird
    and Ware 1982). Without random slopes, even the intervals of two halves of real patients do not meet. If they cannot
    be estimated, for example with two rows per patient, only the intercept is random. The result is None if fewer than
    FEWEST_ROWS rows have a value and a time, if nothing varies, or if the likelihood has no maximum.
    """
    if made.time is None:
        return Estimate(value=None)
    first = made.time[np.searchsorted(made.patient, made.patient)]
    values = made.rows[name].to_numpy(np.float64)
    time = (made.time - first) / unit
    known = np.isfinite(values) & np.isfinite(time)
    values, time, patient = values[known], time[known], made.patient[known]
    if len(values) < FEWEST_ROWS or not time.std() or not values.std():
        return Estimate(value=None)
    centre = values.mean()
    scale = values.std()
    spread = time.std()
    design = np.column_stack([np.ones(len(time)), time / spread])
    for random in (design, None):
        found = fit((values - centre) / scale, design, patient, random)
        if np.isfinite(found).all():
            value, low, high = found * float(scale / spread)
            return Estimate(value=value, low=low, high=high)
    return Estimate(value=None)
