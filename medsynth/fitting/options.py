"""The options of a fit, checked at birth, and how it tells a person what it does."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..errors import MedsynthWarning, UsageError
from ..methods import registry
from ..privacy.accounting.calibration import Plan, check_budget, default_delta
from ..schema import Schema
from ..schema.learned import LOST
from ..schema.schema import MAX_ROWS_PER_PATIENT
from .environment import DEVICES
from .private_table import Notice

MOST_ROWS = 10**11  # of a table
NO_DP_BUDGET = 300.0  # sets the schedule of a fit without noise, which makes no claim
URGENT = ("WARNING: ", "FEW ROWS: ", LOST)  # how notices begin that nobody should miss
Phase = Callable[[str], None]  # what a fit is doing, in a word or two
Progress = Callable[[Plan, str, int, int, int], None]  # plan, device, steps done, steps in all, lots measured so far


@dataclass(frozen=True, kw_only=True)
class FitOptions:
    """The arguments of `fit` beside the table; see there. Raises UsageError for a value out of its range."""

    epsilon: float | None
    no_dp: bool
    delta: float
    schema: Schema | Path | str | None
    target: str | None
    method: str | None
    preset: str | None
    microbatches: int | None
    inference: Sequence[str]
    settings: Mapping[str, object] | None
    rows: int | None
    encoding: str | None
    na_values: Sequence[str]
    one_row_a_patient: bool
    unit: str | None
    max_rows: int | None
    public: Path | str | None
    device: str
    seed: int | None
    checkpoint: Path | None
    budget_table: Path | str | None
    model_name: str | None
    split_number: str | None
    resume: bool
    notice: Notice
    progress: Progress
    phase: Phase

    def __post_init__(self) -> None:
        check_kinds(epsilon=self.epsilon, delta=self.delta, rows=self.rows, seed=self.seed)
        check_unit(self.unit, self.max_rows)
        if self.unit is not None and self.one_row_a_patient:
            raise UsageError("Give one of `unit` and `one_row_a_patient`: rows share patients, or none do.")
        if self.no_dp == (self.epsilon is not None):
            raise UsageError("Give exactly one of `epsilon` and `no_dp`.")
        check_budget(self.budget, self.delta)
        check_rows(self.rows)
        if self.target == "":
            raise UsageError("`target` is empty. Name a column, or leave it out.")
        registry.settle(self.method, self.preset)
        if self.device not in DEVICES:
            raise UsageError("`device` must be auto, cpu or cuda.")

    @property
    def folder(self) -> Path | None:
        """Where a large table's codes lie while the fit runs: beside the checkpoint, which is private as they are."""
        return self.checkpoint.absolute().parent if self.checkpoint else None

    @property
    def budget(self) -> float:
        """The epsilon that the plan is made for; of a fit without noise it sets the schedule alone."""
        return NO_DP_BUDGET if self.epsilon is None else self.epsilon


def declared(schema: Schema | Mapping[str, object] | Path | str | None) -> Schema | Path | str | None:
    """The schema given, one declared as plain data made into one. Raises SchemaError where it is none."""
    return Schema.from_dict(schema, "`schema`") if isinstance(schema, Mapping) else schema


def log_notice(text: str) -> None:
    """A message for a person, where nobody takes it: to the logger "medsynth", which shows it at level INFO.

    One of URGENT weight is a MedsynthWarning: that is shown where nobody has configured a logger.
    """
    if text.startswith(URGENT):
        warnings.warn(text, MedsynthWarning, stacklevel=2)
    else:
        logging.getLogger("medsynth").info(text)


@contextmanager
def progress_bar(show: bool) -> Iterator[tuple[Progress, Phase]]:
    """A bar with the phase, then the device, rows a second, epsilon so far and the time left; nothing unless `show`.

    Rows are expected rows: lot sizes as drawn are private. Epsilon is read from the plan's table.
    """
    if not show:
        yield (lambda plan, device, done, total, lots: None), (lambda name: None)
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[detail]}"), TimeElapsedColumn())
    with Bar(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", detail="", total=None)
        table: list[tuple[int, float]] = []

        def advance(plan: Plan, device: str, done: int, total: int, lots: int) -> None:
            event, _ = plan.events[plan.most_frequent]
            if not table:
                table.extend(plan.epsilon_by_release())
            elapsed = bar.tasks[0].elapsed or 0.0
            rows = lots * plan.rows * getattr(event, "rate", 1.0) / elapsed if elapsed else 0
            epsilon = next((epsilon for steps, epsilon in table if lots <= steps), plan.epsilon)
            detail = f"{rows:,.0f} rows/s, epsilon {epsilon:.2f}"
            bar.update(task, description=f"fitting on {device}", completed=done, total=total, detail=detail)

        yield advance, lambda name: bar.update(task, description=name)


def check_kinds(**numbers: object) -> None:
    """Raises UsageError for a parameter that should be a number and is none."""
    for name, value in numbers.items():
        whole = name in ("rows", "seed", "max_rows")
        kinds = int | np.integer if whole else int | float | np.integer | np.floating
        if value is not None and (isinstance(value, bool) or not isinstance(value, kinds)):
            raise UsageError(f"`{name}` must be a {'whole ' if whole else ''}number.")


def settled_delta(delta: float | None, rows: int | None) -> float:
    """The delta given, or that of so many declared rows. Raises UsageError where either is no number."""
    check_kinds(delta=delta, rows=rows)
    return default_delta(rows) if delta is None else delta


def check_rows(rows: int | None) -> None:
    """Raises UsageError for a declared number of rows that no table has."""
    if rows is not None and rows < 2:
        raise UsageError("`rows` must be two or more.")
    if rows is not None and rows > MOST_ROWS:
        raise UsageError(f"`rows` must be at most {MOST_ROWS}.")


def check_unit(unit: str | None, max_rows: int | None) -> None:
    """Raises UsageError for a number of rows a patient without the column of patients, or out of range."""
    check_kinds(max_rows=max_rows)
    if max_rows is not None and unit is None:
        raise UsageError("`max_rows` is the most rows of a patient: name the column of patients as `unit` too.")
    if max_rows is not None and not 1 <= max_rows <= MAX_ROWS_PER_PATIENT:
        raise UsageError(f"`max_rows` must lie between 1 and {MAX_ROWS_PER_PATIENT}.")


def method_settings(
    settings: Mapping[str, object] | None, microbatches: int | None, *, public: bool, inference: Sequence[str] = ()
) -> dict[str, object]:
    """The settings that a method is configured with. Raises UsageError where they declare public rows themselves."""
    if "public" in (settings or {}):
        raise UsageError("`settings` declare no public rows: give their table as `public`.")
    named = {"microbatches": microbatches, "public": public or None, "inference": tuple(inference) or None}
    return {**(settings or {}), **{name: value for name, value in named.items() if value is not None}}
