"""The phases of a fit before its first measurement: method, plan, announcements, the way out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .. import rng
from ..io import split_number
from ..longitudinal.successive_rows import changing
from ..methods import registry
from ..methods.protocol import MethodModule
from ..privacy.accounting.calibration import Plan, make_plan
from ..privacy.accounting.events import rows_of
from ..privacy.accounting.ledger import Ledger
from ..privacy.checkpoint import Checkpoint
from ..privacy.contribution import PrivacyUnits
from ..privacy.release import Releases
from .environment import choose_device
from .options import FitOptions, method_settings
from .private_table import PrivateTable, PublicRows
from .public_facts import check_enough_rows, public_facts


@dataclass(frozen=True, kw_only=True)
class ChosenMethod:
    """A method, its code and configuration, and the device that it trains on."""

    name: str
    module: MethodModule
    config: Any
    device: str

    @property
    def settings(self) -> dict[str, Any]:
        """The configuration as plain data."""
        found: dict[str, Any] = self.config.model_dump(mode="json")
        return found


@dataclass(frozen=True, kw_only=True)
class PlannedFit:
    """What all phases after the planning share: the plan and its ledger, and which rows of which patients are used.

    `stay`: their positions; None where the row is the unit of privacy, and all are.
    """

    options: FitOptions
    method: ChosenMethod
    plan: Plan
    ledger: Ledger
    entropy: rng.Entropy
    stay: NDArray[np.int64] | None
    units: PrivacyUnits | None


def choose_method(options: FitOptions) -> ChosenMethod:
    """The method that the options name, configured, and its device."""
    name = registry.settle(options.method, options.preset)
    module = registry.module(name, options.preset)
    if not options.no_dp:
        registry.check_claim(name)
    own = method_settings(options.settings, options.microbatches, public=options.public is not None,
                          inference=options.inference)  # fmt: skip
    config = registry.configured(name, module, own)
    return ChosenMethod(name=name, module=module, config=config, device=choose_device(options.device))


def plan_measurements(private: PrivateTable, options: FitOptions, method: ChosenMethod) -> PlannedFit:
    """Bound contributions, and plan every measurement with its noise. Nothing is measured yet.

    Raises BudgetError where the plan's noise leaves nothing of a table without a schema.
    """
    entropy = rng.NoNoise() if options.no_dp else rng.system_entropy()
    stay, units = private.bounded_rows(entropy)
    rows = private.data.public_rows if options.rows is None else options.rows
    queries = private.queries(method.module, options.budget, method.config, rows)
    plan = make_plan(queries, epsilon=options.budget, delta=options.delta, rows=rows, max_rows=private.max_rows)
    plan = replace(plan, rows_std=private.data.expected_std if options.rows is None else None)
    for note in check_enough_rows(private, plan):
        options.notice(note)
    ledger = plan.ledger(entropy.source)
    return PlannedFit(options=options, method=method, plan=plan, ledger=ledger, entropy=entropy, stay=stay, units=units)


def announce(private: PrivateTable, planned: PlannedFit, public_rows: PublicRows | None) -> None:
    """Say what is taken as public: in notices to the person, and in notes of the ledger."""
    notice, options, plan, note = planned.options.notice, planned.options, planned.plan, planned.ledger.notes.append
    facts = public_facts(
        private,
        plan.rows,
        public_rows,
        declared_rows=options.rows is not None,
        one_row_a_patient=options.one_row_a_patient,
    )
    announce_public(planned, facts)
    if private.declared is None:
        note("Kinds of columns, levels and bounds were learned from noisy counts.")
        notice(
            "No schema: kinds, levels and bounds are learned privately, for part of the budget. A declared schema does "
            "better."
        )
    if private.keys_by_name:
        names = ", ".join(private.keys_by_name)
        notice(f"Keys, by their names: {names}. They are never modelled; sampled rows get fresh ones.")
    if private.shared_keys and not options.one_row_a_patient:
        warning = (
            f"The column {private.shared_keys[0]!r} reads like a person's key. This fit protects one row: a person "
            "with several rows is protected less, by a factor of about their number."
        )
        note(warning)
        notice(
            f"WARNING: {warning} If rows may share a person, stop here and name the column as `unit`, or in a schema; "
            "if no two rows do, say so by `one_row_a_patient`."
        )
    if private.order and private.declared:
        notice(
            f"Rows of a patient follow one another by {private.order!r}; the first {rows_of(plan.max_rows or 1)} stay. "
            f"Taken to change from row to row: {', '.join(changing(private.declared))}."
        )
    if options.unit is not None:
        notice(
            f"{options.unit!r} names the patients: the claim is for one of them, who counts with at most "
            f"{rows_of(plan.max_rows or 1)}, drawn at random. `max_rows` keeps more, for so many times the noise."
        )
    if public_rows is not None:
        note(public_rows.note)
        notice("The rows of `public` are public because you say so. No claim covers them.")
    if options.rows is None:
        note("The row count was not declared: the table's own was taken as public.")
        notice(f"The table's row count, {plan.rows}, is taken as public. `rows` declares another.")
    announce_method(planned, plan.equivalent_rows, private.columns)


def announce_public(planned: PlannedFit, facts: Sequence[str]) -> None:
    """Say what no noise covers, in a notice and in the ledger."""
    planned.options.notice(
        "\n  - ".join(["Public by declaration, before anything is measured (docs/privacy.md):", *facts])
    )
    planned.ledger.notes.append(f"Public by declaration: {'; '.join(facts)}.")
    if planned.options.split_number is not None:
        planned.ledger.notes.append(split_number.note(planned.options.split_number))


def announce_method(planned: PlannedFit, rows: int, columns: int) -> None:
    """Say what the method tells of so many `rows`, or patients, and `columns`, and what is odd about the budget."""
    notice, options, plan = planned.options.notice, planned.options, planned.plan
    if plan.delta > 1 / (10 * plan.rows):
        notice(f"`delta` {plan.delta:g} is large for {plan.rows} rows: below {1 / (10 * plan.rows):.1g} is advised. "
               "Where `rows` are declared, it follows them by itself.")  # fmt: skip
    for text in planned.method.module.notes(planned.method.config, rows, columns, options.budget):
        notice(text)
    if options.no_dp:
        notice("`no_dp`: NOT DIFFERENTIALLY PRIVATE. The model and its rows may give patients away. Share neither.")


@dataclass(frozen=True, kw_only=True)
class WayOut:
    """The one way out of the private side, the seed of public streams, and the fit's number where one is on file.

    `resumed`: whether releases of a fit that was killed are on file: it has measured something already.
    """

    releases: Releases
    seed: int | None
    number: str | None = None
    resumed: bool = False


class Identified(Protocol):
    """What a fit is made on: one table or several."""

    def facts(self) -> dict[str, object]:
        """What identifies it: for the private checkpoint alone."""


def open_releases(private: Identified, planned: PlannedFit, public_rows: PublicRows | None) -> WayOut:
    """The way out, with the checkpoint where one is kept: a resumed fit takes its seed and its number from there."""
    options, seed = planned.options, planned.options.seed
    if options.checkpoint is None:
        return WayOut(releases=Releases(planned.ledger, planned.entropy), seed=seed)
    facts = {
        "method": planned.method.name,
        "preset": options.preset,
        "config": planned.method.settings,
        "seed": seed,
        "rows": planned.plan.rows,
        "delta": planned.plan.delta,
        "noise": planned.entropy.source,
        "plan": planned.plan.to_json(),
        **private.facts(),
        "public": public_rows.digest if public_rows else None,
    }
    checkpoint = Checkpoint(options.checkpoint, facts, resume=options.resume)
    resumed = checkpoint.remaining > 0
    if resumed:
        options.notice(f"Resuming: {checkpoint.remaining} records of the fit that was killed are used again.")
    releases = Releases(planned.ledger, planned.entropy, checkpoint)
    own = checkpoint.seed if seed is None else seed
    return WayOut(releases=releases, seed=own, number=f"{checkpoint.seed:014x}", resumed=resumed)
