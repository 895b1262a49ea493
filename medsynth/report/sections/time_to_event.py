"""Time to an event: Kaplan-Meier curves and one Cox model on both tables, if the schema names the roles `survival`.

Proportional hazards: Cox 1972, ties by Efron, fitted by `PHReg` of statsmodels.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
import pandas as pd

from ...answers.regression import LARGEST_STD_ERROR, RegressionFit, independent
from ...arrays import Floats
from ...rng import Stream
from ...schema import Schema
from ..data.columns import words
from ..data.context import Context
from ..data.question import QUESTIONS
from ..data.statistics import mean
from ..data.survival import Survival, Times, drawn, largest_gap, surviving
from ..data.verdict import Estimate, Record, Thresholds, Verdict, of_both
from .inference import Coefficient, coefficients, leading
from .over_time import FEWEST
from .registry import Section

MOST_ROWS = 5_000  # Rows of each table. More hardly change a curve, and a Cox model takes long.
MOST = 8  # Predictors of the Cox model.
SAME = 0.9  # Cramer's V. A column above it is the event by another name, such as a cause of death.
EVENTS_EACH = 10  # Events that a Cox model needs for each predictor: Peduzzi et al. 1995.
TOO_FEW = f"At least {FEWEST} real and {FEWEST} synthetic rows with a time and an event column are needed."
NO_COX = f"No Cox model: each table needs {EVENTS_EACH} events for a predictor, and a predictor that varies."


class TimeToEventFigures(Record):
    """Both tables' curves and hazard ratios; real figures are None in a shareable report.

    `median_*`: time by which half of the rows have the event; None if that is never reached. `curve_gap`: largest
    difference of the curves, with an interval for all compared times together. `hazards`: log hazard ratios. `reasons`:
    why figures are lacking.
    """

    time: str
    unit: str
    event: str
    rows_real: int | None
    rows_synthetic: int
    events_real: int | None
    events_synthetic: int
    median_real: float | None
    median_synthetic: float | None
    curve: Survival
    curve_gap: Estimate
    hazards: list[Coefficient]
    mean_overlap: float | None
    reasons: list[str]


def time_to_event(
    schema: Schema, real: pd.DataFrame | None, synthetic: pd.DataFrame, numbers: frozenset[str], rng: Stream
) -> TimeToEventFigures | None:
    """Return every figure from compared values; None without roles, or if a table lacks their columns."""
    roles = schema.survival
    frames = [frame for frame in (synthetic, real) if frame is not None]
    if roles is None or roles.time not in numbers or any({roles.time, roles.event} - {*frame} for frame in frames):
        return None
    frames = [_known(frame, roles.time, roles.event, rng) for frame in frames]
    happened = [(words(frame[roles.event]) == schema.event_level).to_numpy(np.bool_) for frame in frames]
    sides = [Times(frame[roles.time].to_numpy(np.float64), own) for frame, own in zip(frames, happened, strict=True)]
    made = sides[0]
    ours = sides[1] if real is not None else None
    gap = Estimate(value=None) if ours is None else largest_gap(ours, made, FEWEST, rng)
    reasons = [TOO_FEW] if ours is not None and gap.value is None else []
    hazards = _hazards(frames, sides, schema, numbers)
    column = schema.columns[roles.time]
    return TimeToEventFigures(
        time=roles.time,
        unit=getattr(column, "unit", None) or roles.time,
        event=f"{roles.event} = {schema.event_level}",
        **of_both("rows", [None if side is None else len(side.time) for side in (ours, made)]),
        **of_both("events", [None if side is None else int(side.event.sum()) for side in (ours, made)]),
        **of_both("median", [None if side is None else _median(side) for side in (ours, made)]),
        curve=drawn(ours, made, FEWEST),
        curve_gap=gap,
        hazards=hazards,
        mean_overlap=mean([one.overlap for one in hazards]),
        reasons=reasons + ([] if hazards else [NO_COX]),
    )


def _known(frame: pd.DataFrame, time: str, event: str, rng: Stream) -> pd.DataFrame:
    """Return at most MOST_ROWS rows that have a time and an event or none."""
    known = frame[frame[time].notna() & frame[event].notna()]
    if len(known) > MOST_ROWS:
        known = known.iloc[np.sort(rng.choice(len(known), MOST_ROWS, replace=False))]
    return known.reset_index(drop=True)


def _median(found: Times) -> float | None:
    at = np.unique(found.time)
    below = np.flatnonzero(surviving(found, at)[0] <= 0.5) if len(at) else np.zeros(0, np.int64)
    return float(at[below[0]]) if len(below) else None


def _hazards(
    frames: Sequence[pd.DataFrame], sides: Sequence[Times], schema: Schema, numbers: frozenset[str]
) -> list[Coefficient]:
    """Return the log hazard ratios of the columns that lead in the synthetic rows; [] if the events are too few."""
    assert schema.survival is not None
    most = min(MOST, *(int(side.event.sum()) // EVENTS_EACH for side in sides))
    roles = {schema.survival.time, schema.survival.event}
    strength = leading(frames[0], numbers, schema.survival.event)
    names = [name for name in strength if name not in roles and strength[name] < SAME]
    names = [name for name in names if name not in schema.columns or not schema.columns[name].dated]
    return coefficients(names, frames, numbers, most, lambda x, side: cox(x, sides[side]))


def cox(x: Floats, times: Times) -> RegressionFit:
    """Fit a proportional hazards model to `x` (rows, predictors); NaN for a predictor that cannot be estimated."""
    from statsmodels.duration.hazard_regression import PHReg

    found = RegressionFit(*(np.full(x.shape[1], np.nan) for _ in range(4)))
    kept = independent(x)
    if not kept or not times.event.any():
        return found
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Separation: such coefficients are left out below.
        try:
            model = PHReg(times.time, x[:, kept], status=times.event.astype(np.float64), ties="efron")
            result = model.fit(method="bfgs", disp=0)  # Newton's full steps diverged on 121 patients of pbc.
            value, error = np.asarray(result.params), np.asarray(result.bse)
        except (np.linalg.LinAlgError, ValueError, FloatingPointError):
            return found
    known = np.isfinite(value) & np.isfinite(error) & (error < LARGEST_STD_ERROR) & (error > 0)
    for to, values in zip(found, (value, value - 1.959964 * error, value + 1.959964 * error, error), strict=True):
        to[kept] = np.where(known, values, np.nan)
    return found


TIMES = QUESTIONS["time_to_event_gap"]


def _verdicts(found: TimeToEventFigures | None, thresholds: Thresholds) -> Sequence[Verdict]:
    if found is None or found.rows_real is None:
        return []
    detail = f"{found.events_real} of {found.rows_real} real rows and {found.events_synthetic} of "
    detail += f"{found.rows_synthetic} synthetic rows have {found.event}."
    return [TIMES.judge(found.curve_gap, thresholds, detail)]


def _time_to_event(context: Context) -> TimeToEventFigures | None:
    if context.declared.survival is None:
        return None
    real = context.tables.real if context.tables else None
    return time_to_event(context.declared, real, *context.synthetic_values, context.rng)


TIME_TO_EVENT = Section(
    "time_to_event", "Time to the event", _time_to_event, TimeToEventFigures, needs=("schema",), questions=(TIMES,),
    verdicts=_verdicts,
)  # fmt: skip
