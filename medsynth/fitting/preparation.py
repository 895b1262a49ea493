"""The phases of a fit before its first measurement: method, plan, announcements, the way out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .. import rng
from ..budget import Budget
from ..io import split_number
from ..methods import registry
from ..methods.protocol import MethodModule
from ..patients.successive_rows import changing
from ..privacy.accounting.calibration import Plan, make_plan
from ..privacy.accounting.events import rows_of
from ..privacy.accounting.ledger import Ledger
from ..privacy.checkpoint import Checkpoint, sole_user
from ..privacy.contribution import PrivacyUnits
from ..privacy.release import SECRET, Releases
from .cluster import ClusterTable, check_plan
from .environment import choose_device
from .options import FitOptions, method_settings
from .private_table import PrivateTable, PublicRows
from .public_facts import check_enough_rows, public_facts

# Options on which no record of a checkpoint depends. All others are facts of it, new ones too.
FREE = ("checkpoint", "resume", "model_name", "notice", "progress", "phase")


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
    if options.method in registry.ALIASES:
        options.notice(f"{options.method} is now called {name}, and is another estimator (docs/methods/mixture.md).")
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
    if isinstance(private.data, ClusterTable):
        check_plan(plan)
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
        notice(f"Target: {private.target!r}. `target` names another.")  # before anything is paid for
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
    """The one way out of the private side, the seed of public streams, and the checkpoint where one is kept.

    `resumed`: whether a fit that was killed has left a checkpoint: it may have measured something already.
    `complete`: whether all measurements of the plan are among them, so that nothing more is drawn.
    """

    releases: Releases
    seed: int | None
    checkpoint: Checkpoint | None = None
    resumed: bool = False
    complete: bool = False


class Identified(Protocol):
    """What a fit is made on: one table or several."""

    def facts(self) -> dict[str, object]:
        """What identifies it, by the names of the options it came from: for the private checkpoint alone."""


def facts_of(
    private: Identified, planned: PlannedFit, public_rows: PublicRows | None, budget: Budget | None
) -> dict[str, Any]:
    """Everything on which the records of a fit's checkpoint depend: every option, as what it came to."""
    options = planned.options
    own = {field.name: getattr(options, field.name) for field in fields(options) if field.name not in FREE}
    own = {name: value.item() if isinstance(value, np.generic) else value for name, value in own.items()}
    return {
        **own,
        "method": planned.method.name,
        "settings": planned.method.settings,
        "device": planned.method.device,
        "rows": planned.plan.rows,
        "public": public_rows.digest if public_rows else None,
        "budget_table": budget.path.name if budget else None,
        "noise": planned.entropy.source,
        "plan": planned.plan.to_json(),
        **private.facts(),
    }


@contextmanager
def open_releases(
    private: Identified, planned: PlannedFit, public_rows: PublicRows | None, budget: Budget | None
) -> Iterator[WayOut]:
    """The way out, with the checkpoint where one is kept: no other fit uses it meanwhile, and its seed is repeated.

    Raises UsageError, before anything is written or drawn, where the checkpoint is of a fit with other options.
    """
    options, seed = planned.options, planned.options.seed
    if options.checkpoint is None:
        yield WayOut(releases=Releases(planned.ledger, planned.entropy), seed=seed)
        return
    with sole_user(options.checkpoint):
        facts = facts_of(private, planned, public_rows, budget)
        checkpoint = Checkpoint(options.checkpoint, facts, resume=options.resume)
        labels = checkpoint.labels
        if labels:
            options.notice(f"Resuming: {len(labels)} records of the fit that was killed are used again.")
        measured = sum(not label.startswith(SECRET) for label in labels)
        yield WayOut(
            releases=Releases(planned.ledger, planned.entropy, checkpoint),
            seed=checkpoint.seed if seed is None else seed,
            checkpoint=checkpoint,
            resumed=checkpoint.resumed,
            complete=measured == sum(times for _, times in planned.plan.events.values()),
        )
