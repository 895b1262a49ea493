"""The record of the section on patients over time. What a shareable report leaves out is None."""

from __future__ import annotations

from ...data.records import Record
from .next_row import NextRow
from .slopes import Slopes

Band = tuple[float, float, float]  # lower quartile, median, upper quartile


class Change(Record):
    """One column in successive rows of patients. `*_second`: a second real sample.

    `similarity`: of the tables of the last row's value by this row's, with its `ceiling`. `transitions`: total
    variation of the next level given this one (levels). `unchanged`: share of rows with the value of the row before.
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
    """Shares of the next level (column) given this one (row); None for a row of too few patients or of none."""

    name: str
    levels: list[str]
    real: list[list[float] | None] | None
    synthetic: list[list[float] | None]


class Bars(Record):
    """Shares of patients, or of gaps, in named bars: the first and the last bar of gaps are open at one end.

    `distance`: total variation of synthetic from real patients, and of a second real sample from them. A real bar of
    too few patients is None.
    """

    labels: list[str]
    real: list[float | None] | None
    synthetic: list[float]
    distance: float | None
    distance_second: float | None


class Waiting(Record):
    """Share of rows that no other row of the patient follows within each of `times`; None for too few."""

    times: list[float]
    real: list[float | None] | None
    synthetic: list[float]


class Trajectory(Record):
    """Quartiles of a number column by the number of the row; None where too few real patients have it."""

    name: str
    logarithm: bool
    real: list[Band | None] | None
    synthetic: list[Band | None]


class OverTime(Record):
    """Patients in the order of the column `order`, whose differences are in `unit`; None for keys without differences.

    `patients`: how many of each table are compared. `fewest`: real patients behind every cell that is shown.
    `lagged`: similarity of a column with itself in the row before, mean of columns; `across`: with another column.
    """

    order: str
    unit: str | None
    most_rows: int
    fewest: int
    patients: int
    lagged: float | None
    lagged_ceiling: float | None
    across: float | None
    across_ceiling: float | None
    columns: list[Change]
    rows: Bars
    gaps: Bars | None
    waiting: Waiting | None
    transitions: list[Transitions]
    trajectories: list[Trajectory]
    next_row: NextRow | None
    slopes: Slopes | None
