"""The approved plan of a fit: the file that a board has signed, and what a fit under it may not exceed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from ..budget import Budget
from ..errors import BudgetError, MedsynthError, SchemaError, UsageError, some
from ..methods import registry
from ..privacy.accounting.accountant import rounded_up
from ..privacy.accounting.calibration import Plan
from .budgets import spent_on
from .private_table import PrivateTable
from .private_tables import PrivateTables
from .settings import FitSettings

SAME = 1 + 1e-9  # Relative tolerance of two budgets.


class PlannedMeasurement(BaseModel):
    """A measurement of an approved plan."""

    model_config = ConfigDict(frozen=True)
    label: str
    times: int
    multiplier: float


class PlannedClaim(BaseModel):
    """What a plan's file states that a fit must keep, and what a report compares. Other entries are for people.

    `schemas`: the schema of a table, or the file of several tables. `fits`: the number of fits that the budget file
    listed at that time. `expected`: what the fit should achieve, if it is known.
    """

    model_config = ConfigDict(frozen=True)
    kind: Literal["medsynth plan"]
    format: Literal[1]
    epsilon: float
    epsilon_asked: float
    delta: float
    rows: int
    protects: str
    method: str
    preset: str | None
    fits: int
    schemas: dict[str, Any]
    measurements: tuple[PlannedMeasurement, ...]
    expected: dict[str, Any] | None


@dataclass(frozen=True, kw_only=True)
class ApprovedPlan:
    """A plan's file. `digest`: its SHA-256, by which a model names the plan that its fit kept to."""

    name: str
    digest: str
    claim: PlannedClaim

    @classmethod
    def load(cls, path: Path | str) -> ApprovedPlan:
        """Read the file of a plan. Raise UsageError for any other."""
        try:
            content = Path(path).read_bytes()
            claim = PlannedClaim.model_validate_json(content)
        except (OSError, ValueError, ValidationError):
            raise UsageError(
                f"{path} is not the plan of a fit. Plan the fit with a `page` for approval, and pass the JSON file "
                "that is written next to it."
            ) from None
        return cls(name=Path(path).name, digest=hashlib.sha256(content).hexdigest(), claim=claim)

    @property
    def sentence(self) -> str:
        """Return the note in the ledger of a fit that keeps to this plan."""
        return (
            f"The fit kept to the plan {self.digest[:16]} (SHA-256), which allows epsilon "
            f"{rounded_up(self.claim.epsilon_asked)} at delta {self.claim.delta:g}."
        )

    def check(self, private: PrivateTable, plan: Plan, settings: FitSettings) -> None:
        """Raise unless a planned fit keeps to what was approved. Nothing was measured yet.

        Raises SchemaError for another schema, BudgetError for a larger budget, UsageError for another method or unit.
        """
        own, name = self.claim, self.name
        if settings.no_dp:
            raise UsageError(f"{name} approves a fit with noise. Leave out `no_dp` or `plan`.")
        if (found := stated(private)) != own.schemas:
            raise SchemaError(
                f"The schema is not the one that {name} approves: {_difference(own.schemas, found)}. Use the approved "
                "schema, or have a new plan approved. Nothing was spent."
            )
        if plan.epsilon > own.epsilon_asked * SAME or plan.delta > own.delta * SAME:
            raise BudgetError(
                f"{name} approves epsilon {own.epsilon_asked:g} at delta {own.delta:g}, and this fit would use up to "
                f"epsilon {plan.epsilon_asked:g} at delta {plan.delta:g}. Set `epsilon` and `delta` as approved, or "
                "have a new plan approved. Nothing was spent."
            )
        method = (registry.settle(settings.method, settings.preset), settings.preset)
        others = set(plan.events) - {one.label for one in own.measurements}
        unit = settings.protects(plan.unit)
        differs = {
            f"the claim is for {own.protects}, not for {unit}": unit != own.protects,
            f"the method is {own.method}": method != (own.method, own.preset),
            f"it does not contain {some(sorted(others))}": bool(others),
        }
        if wrong := [words for words, found in differs.items() if found]:
            raise UsageError(f"This is not the fit that {name} approves: {wrong[0]}. Fit as approved. "
                             "Nothing was spent.")  # fmt: skip

    def check_fits(self, budget: Budget, *, continued: bool) -> None:
        """Raise BudgetError if the table had a fit after the approval: together they cost more than was approved.

        `continued`: whether the fit on file is this one, which was interrupted.
        """
        count = 0
        with suppress(MedsynthError):  # no fit is on file
            count = len(spent_on(budget.path).fits)
        if count - continued > self.claim.fits:
            raise BudgetError(
                f"This table has had {count - continued} fits, and {self.name} was approved when it had "
                f"{self.claim.fits}. Together they cost more than was approved. Have a new plan approved. "
                "Nothing more was spent."
            )


def stated(private: PrivateTable) -> dict[str, Any]:
    """Return what is declared of a table, or of several, as the plain data of a plan's file."""
    own = private.tables if isinstance(private, PrivateTables) else private.declared
    codes = {"na_values": list(private.na_values)} if private.na_values else {}
    found: dict[str, Any] = json.loads(json.dumps(own.to_dict() | codes, default=str))
    return found


def _difference(approved: Mapping[str, Any], found: Mapping[str, Any], where: str = "") -> str:
    """Return the first entry in which two declarations differ: a name that is public, never a value."""
    for name in dict.fromkeys([*approved, *found]):
        place = f"{where}{name}"
        if name not in found:
            return f"{place!r} is missing"
        if name not in approved:
            return f"{place!r} is new"
        first, second = approved[name], found[name]
        if isinstance(first, Mapping) and isinstance(second, Mapping) and first != second:
            return _difference(first, second, f"{place}.")
        if first != second:
            return f"{place!r} differs"
    return "an entry differs"
