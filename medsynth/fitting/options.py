"""The options of a fit, checked at birth."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ..errors import UsageError
from ..methods import registry
from ..privacy.accounting.calibration import Plan, check_budget
from ..schema import Schema
from .environment import DEVICES
from .private_table import Notice

NO_DP_BUDGET = 300.0  # sets the schedule of a fit without noise, which makes no claim
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
    settings: Mapping[str, object] | None
    rows: int | None
    encoding: str | None
    public: Path | str | None
    device: str
    seed: int | None
    checkpoint: Path | None
    budget_table: Path | str | None
    model_name: str | None
    resume: bool
    notice: Notice
    progress: Progress

    def __post_init__(self) -> None:
        if self.no_dp == (self.epsilon is not None):
            raise UsageError("Give exactly one of `epsilon` and `no_dp`.")
        check_budget(self.budget, self.delta)
        if self.rows is not None and self.rows < 2:
            raise UsageError("`rows` must be two or more.")
        registry.settle(self.method, self.preset)
        if self.device not in DEVICES:
            raise UsageError("`device` must be auto, cpu or cuda.")

    @property
    def budget(self) -> float:
        """The epsilon that the plan is made for; of a fit without noise it sets the schedule alone."""
        return NO_DP_BUDGET if self.epsilon is None else self.epsilon


def method_settings(
    settings: Mapping[str, object] | None, microbatches: int | None, *, public: bool
) -> dict[str, object]:
    """The settings that a method is configured with. Raises UsageError where they declare public rows themselves."""
    if "public" in (settings or {}):
        raise UsageError("`settings` declare no public rows: give their table as `public`.")
    named = {"microbatches": microbatches, "public": public or None}
    return {**(settings or {}), **{name: value for name, value in named.items() if value is not None}}
