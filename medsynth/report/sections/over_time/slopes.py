"""How numbers change with time: a mixed-effects regression on each table, slope by slope (statsmodels)."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np

from ....rng import Stream
from ...data.over_time.sequences import Sequences
from ...data.records import Estimate, Record
from ...data.statistics import Floats, Patients, overlap

MOST_PATIENTS = 300  # of each table; statsmodels takes one to two seconds a column for so many
MOST_COLUMNS = 6
FEWEST_ROWS = 30


class Slope(Record):
    """One column's change in a unit of time. `logarithm`: of the column's logarithm. `overlap`: of the intervals."""

    column: str
    logarithm: bool
    real: Estimate
    synthetic: Estimate
    overlap: float | None


class Slopes(Record):
    """Mixed-effects regressions of numbers on the time since the patient's first row, on both tables.

    `patients`: how many of each table took part, as many of both, of those with two rows or more. `per`: unit of time.
    """

    per: str
    patients: int
    columns: list[Slope]
    mean_overlap: float | None


class Unit(NamedTuple):
    """A unit of time: how many of the order column's own units it has, and its name."""

    size: float
    name: str


def slopes(real: Sequences, synthetic: Sequences, unit: Unit, logarithms: frozenset[str], rng: Stream) -> Slopes | None:
    """Slopes of the first MOST_COLUMNS number columns in both tables; None without times or without such columns."""
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
    known = [each.overlap for each in found if each.overlap is not None]
    return Slopes(
        per=unit.name, patients=patients, columns=found, mean_overlap=float(np.mean(known)) if known else None
    )


def slope(made: Sequences, name: str, unit: float) -> Estimate:
    """The fixed slope of a column on the time since its patient's first row, with a 95 % Wald interval.

    Linear mixed model with a random intercept and a random slope a patient, by restricted maximum likelihood (Laird and
    Ware 1982): without random slopes the intervals of two halves of real patients lie apart. None where fewer than
    FEWEST_ROWS rows have a value and a time, or no time differs, or the likelihood has no maximum.
    """
    if made.time is None:
        return Estimate(value=None)
    first = made.time[np.searchsorted(made.patient, made.patient)]
    values, time = made.rows[name].to_numpy(np.float64), (made.time - first) / unit
    known = np.isfinite(values) & np.isfinite(time)
    values, time, patient = values[known], time[known], made.patient[known]
    if len(values) < FEWEST_ROWS or not time.std() or not values.std():
        return Estimate(value=None)
    return _mixed(values, time, patient)


def _mixed(values: Floats, time: Floats, patient: Patients) -> Estimate:
    """The slope of `values` on `time`, both (rows,), with an intercept and a slope of its own for each patient.

    Where slopes of their own cannot be estimated, as where patients have two rows, with an intercept of its own alone.
    """
    centre, scale, spread = values.mean(), values.std(), time.std()
    design = np.column_stack([np.ones(len(time)), time / spread])
    for random in (design, None):
        found = _wald((values - centre) / scale, design, patient, random)
        if np.isfinite(found).all():
            value, low, high = found * float(scale / spread)
            return Estimate(value=value, low=low, high=high)
    return Estimate(value=None)


def _wald(values: Floats, design: Floats, patient: Patients, random: Floats | None) -> Floats:
    """The second fixed effect with its 95 % interval, (3,); NaN where the likelihood has no maximum."""
    import statsmodels.api as sm

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # statsmodels warns where no variance lies between patients: that is a result
        try:
            model = sm.MixedLM(values, design, groups=patient, exog_re=random)
            result = model.fit(method=["lbfgs"])
            found = np.array([result.fe_params[1], *np.asarray(result.conf_int())[1]], np.float64)
        except (np.linalg.LinAlgError, ValueError):
            return np.full(3, np.nan)
    return found if result.converged else np.full(3, np.nan)
