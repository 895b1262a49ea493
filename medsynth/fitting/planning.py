"""The phases before the first measurement: the method, the plan of all measurements, and notices about both."""

from __future__ import annotations

import html
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from .. import rng
from ..arrays import Whole
from ..errors import NEEDS_SCHEMA, PUBLIC, SPLIT, WARNING, BudgetError, MedsynthError, Message, UsageError, brief
from ..methods import registry
from ..methods.registry import METHODS, Method
from ..mixture.constants import UNCOVERED
from ..privacy.accounting.accountant import rounded_up
from ..privacy.accounting.calibration import Plan, make_plan
from ..privacy.accounting.ledger import Ledger
from ..privacy.contribution import PrivacyUnits
from ..schema import Schema
from .expectation import LIMIT, Expectation
from .forecast import Forecast, tables_alike
from .opening import Fittable, opened
from .private_table import PrivateTable
from .public_rows import PublicRows, public_rows_of, settled_by
from .settings import MUCH_EPSILON, FitOptions, FitSettings, check_rows, keywords_of, method_settings, silent


@dataclass(frozen=True, kw_only=True)
class ChosenMethod:
    """A method, its code and configuration, and the device that it trains on."""

    name: str
    module: Method
    config: Any
    device: str

    @property
    def settings(self) -> dict[str, Any]:
        """The configuration as plain data."""
        found: dict[str, Any] = self.config.model_dump(mode="json")
        return found


@dataclass(frozen=True, kw_only=True)
class PlannedFit:
    """What the phases after planning share: the plan and its ledger, and the rows in use with their patients.

    `stay`: the positions of these rows; None if the row is the unit of privacy, which uses all rows.
    """

    options: FitOptions
    method: ChosenMethod
    plan: Plan
    ledger: Ledger
    entropy: rng.Entropy
    stay: Whole | None = None
    units: PrivacyUnits | None = None


def choose_method(options: FitOptions) -> ChosenMethod:
    """Return the method that the options name, configured, and its device."""
    name = registry.settle(options.method, options.preset)
    if options.method in registry.ALIASES:
        options.notice(f"{options.method} is now called {name}, and has another estimator (docs/methods/mixture.md).")
    module = registry.load(name, options.preset)
    if not options.no_dp:
        registry.check_claim(name)
    config = registry.configured(name, module, method_settings(options, public=options.public is not None))
    device = choose_device(options.device) if module.networks or options.device == "cuda" else "cpu"
    if device == "cuda" and not module.networks:
        options.notice(f"The method {name} trains no networks, so it does not use the GPU.")
        device = "cpu"
    return ChosenMethod(name=name, module=module, config=config, device=device)


def choose_device(device: str) -> str:
    """Return the device to train on, cpu or cuda. Raise MedsynthError if `device` is cuda and there is none."""
    import torch

    if device == "cuda" and not torch.cuda.is_available():
        raise MedsynthError('There is no CUDA device here. Use `device="cpu"`, or install PyTorch\'s CUDA build.')
    return "cuda" if device != "cpu" and torch.cuda.is_available() else "cpu"


def plan_measurements(private: PrivateTable, options: FitOptions, method: ChosenMethod) -> PlannedFit:
    """Bound contributions, and plan every measurement with its noise. Nothing is measured yet.

    Raises BudgetError if the columns are expected to be mostly noise, unless the options say `anyway`.
    """
    check_inference(method.config, private.max_rows)
    entropy = rng.NoNoise() if options.no_dp else rng.system_entropy()
    check_method(private, method.name, method.module)
    stay, units = private.bounded_rows(entropy)
    plan = _planned(private, options, method.module, method.config)
    plan = replace(plan, rows_std=private.rows_std if options.rows is None else None)
    if not options.no_dp:
        for note in notes_on_quality(private, plan, options.patients, stop=not options.anyway):
            options.notice(note)
    ledger = plan.ledger(entropy.source)
    return PlannedFit(options=options, method=method, plan=plan, ledger=ledger, entropy=entropy, stay=stay, units=units)


def _planned(private: PrivateTable, options: FitSettings, module: Method, config: Any) -> Plan:
    """Return the plan of all measurements, for the declared number of rows, else for the table's own."""
    rows = private.rows if options.rows is None else options.rows
    queries = private.queries(module, options.budget, config, rows)
    return make_plan(
        queries, epsilon=options.budget, delta=options.delta_of(rows), rows=rows, max_rows=private.max_rows,
        one_row_a_patient=private.one_row_a_patient,
    )  # fmt: skip


def check_method(private: PrivateTable, method: str, module: Method) -> None:
    """Raise UsageError for a table without a target, if the method needs one; for several tables, if it ignores it.

    Raises SchemaError for a schema that the method cannot fit.
    """
    if private.target is not None and METHODS[method].ignores_target:
        raise UsageError(f"The method {method} fits one table. Fit each table by itself, or choose another `method`.")
    if private.target is None and not METHODS[method].without_target:
        raise UsageError(f"The method {method} needs a target. Set `target` to a column, or choose another `method`.")
    module.check(None if private.open else private.declared.core)


def check_inference(config: Any, max_rows: int | None) -> None:
    """Raise UsageError if regressions are declared that no replicate of this model could estimate."""
    if getattr(config, "inference", ()) and config.public:
        raise UsageError(f"{UNCOVERED} Leave out `public` or `inference`.")
    if getattr(config, "inference", ()) and (max_rows or 1) > 1:
        raise UsageError(
            "`inference` needs one row per patient: several rows of a patient are not independent draws, so no "
            "replicates can be drawn. Make a table with one row per patient, for example of first visits or of changes "
            "between two visits, or set `max_rows` to 1. To fit all rows, leave `inference` out. Nothing was spent."
        )


def notes_on_quality(private: PrivateTable, plan: Plan, patients: int | None, *, stop: bool) -> list[str]:
    """Return what to expect of a fit, and notes about its noise, from public numbers alone.

    `patients`: their declared number, if they have several rows. Raises BudgetError, if this should `stop` the fit, for
    an expectation below the limit, and UsageError for an impossible number of patients.
    """
    found = private.expected(plan)
    notes = private.notes_on_noise(plan)
    notes += Forecast(plan=plan, schema=private.declared, columns=private.columns, patients=patients).notes()
    if found is None:
        return notes
    if not found.stops:
        return [f"{found}.", *notes]
    text = (
        f"{plan.rows} rows are too few for {private.columns} columns at this budget. {found}. Below {LIMIT:.2f} most "
        "of the model is noise, and without `anyway` a fit stops before it spends anything. Use fewer columns, more "
        "rows or a larger `epsilon`."
        f"{' Draft a schema and declare it, which costs nothing.' if found.level is not None else ''}"
        f"{' A smaller `max_rows` has less noise.' if (plan.max_rows or 1) > 1 else ''}"
    )
    if stop:
        cures = [NEEDS_SCHEMA] if found.level is not None else []
        raise BudgetError(f"{text} To fit all the same, set `anyway`.", *cures)
    return [Message(text, None, kind=WARNING), *notes]


def classes_lost_below(private: PrivateTable | int, plan: Plan, patients: int | None) -> float | None:
    """Return the share below which a class of the target may be lost; None if a patient has one row at most.

    `patients`: their declared number, as in `notes_on_quality`.
    """
    if isinstance(private, int):
        return None
    return Forecast(plan=plan, schema=private.declared, columns=private.columns, patients=patients).lost_below


def announce(private: PrivateTable, planned: PlannedFit, public_rows: PublicRows | None) -> None:
    """List the public facts: in notices to the user, and in notes of the ledger."""
    options, plan = planned.options, planned.plan
    facts = private.public_facts(options, plan.rows)
    listed = "\n  - ".join(["Public by declaration, before anything is measured (docs/privacy.md):", *facts])
    short = f"Public: {'; '.join(filter(None, map(brief, facts)))}."
    header = " ".join(options.facts_of_the_file)
    declared = Message(f"Public by declaration: {'; '.join(facts)}.", None, kind=PUBLIC, entry=header)
    remarks = [Message(listed, short, note=declared)]
    if (number := options.split_number) is not None:
        remarks.append(Message(note=Message(f"{number}.", None, kind=SPLIT, entry=number)))
    remarks += private.remarks(options, plan)
    if public_rows is not None:
        remarks.append(public_rows.remark(plan))
    if plan.delta > 1 / (10 * plan.rows):
        large = f"`delta` {plan.delta:g} is large for {plan.rows} rows: use less than {1 / (10 * plan.rows):.1g}"
        remarks.append(Message(f"{large}, or leave `delta` out.", None))
    if (options.epsilon or 0.0) > MUCH_EPSILON:
        weak = f"`epsilon` {options.epsilon:g} is a weak promise. Values up to about 10 are commonly called reasonable."
        remarks.append(Message(weak, None, kind=WARNING))
    of_method = planned.method.module.notes(planned.method.config, private.records(plan), private.columns,
                                            options.budget)  # fmt: skip
    remarks += map(Message.of, of_method)
    if options.no_dp:
        reveals = "`no_dp`: NOT DIFFERENTIALLY PRIVATE. The model and its rows may reveal patients. Share neither."
        remarks.append(Message(reveals, None))
    for remark in remarks:
        for text, tell in ((remark, options.notice), (remark.note, planned.ledger.note)):
            if text:
                tell(text)


@dataclass(frozen=True, kw_only=True)
class FitPlan:
    """What a fit would measure: its `epsilon` at `delta`, every measurement with its noise, and notes for the user.

    `measurements`: one row each, with the mechanism, its number of runs, its noise multiplier and its share of the
    first-order privacy loss. `protects`: the unit that the claim would cover.
    """

    epsilon: float
    delta: float
    rows: int
    measurements: pd.DataFrame
    notes: list[str]
    protects: str

    def __str__(self) -> str:
        head = f"epsilon {rounded_up(self.epsilon)} at delta {self.delta:g} for {self.protects}, {self.rows} rows"
        return "\n".join([head, self.measurements.to_string(index=False), *self.notes])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head, *_ = str(self).splitlines()
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in self.notes)
        return f"<p>{head}</p>{self.measurements.to_html(index=False)}{notes}"


@keywords_of(FitSettings)
def plan(table: Path | str | int | pd.DataFrame, settings: FitSettings) -> FitPlan:
    """Return what `fit` would measure on a table, or on this number of rows of twenty columns. Nothing is spent.

    Raises the errors of `fit` before its first measurement.

    >>> found = plan(3772, epsilon=3.7)
    >>> 3.5 < found.epsilon <= 3.7, "one-way marginals" in list(found.measurements["measurement"])
    (True, True)
    """
    made, notes, _ = plan_fit(table, settings)
    shares = made.shares()
    lines = [
        {
            "measurement": label,
            "mechanism": type(event).__name__,
            "times": times,
            "noise_multiplier": event.multiplier,
            "share": shares[label],
        }
        for label, (event, times) in made.events.items()
    ]
    return FitPlan(
        epsilon=made.epsilon, delta=made.delta, rows=made.rows, measurements=pd.DataFrame(lines), notes=notes,
        protects=settings.protects(made.unit),
    )  # fmt: skip


def plan_fit(
    table: Fittable | PrivateTable | int, settings: FitSettings, *, columns: int = 20
) -> tuple[Plan, list[str], Expectation | None]:
    """Return the plan that `fit` would follow on a table or tables, notes, and what to expect. No row is measured.

    A number of rows in place of a table means a table of `columns` columns with a schema. Raises the errors of `fit`
    before its first measurement.
    """
    if settings.no_dp:
        raise UsageError("A plan needs a budget. Leave out `no_dp`, and give `epsilon`.")
    method = registry.settle(settings.method, settings.preset)
    registry.check_claim(method)
    private = None if isinstance(table, int) else table
    if not (private is None or isinstance(private, PrivateTable)):
        private = opened(private, settings, silent)
    module = registry.load(method, settings.preset)
    config = registry.configured(method, module, method_settings(settings, public=settings.public is not None))
    check_inference(config, None if private is None else private.max_rows)
    core = None if private is None else private.declared.core
    if isinstance(table, int):
        if settings.unit is not None:
            raise UsageError("`unit` names a column of a table. Pass the table in place of a number of rows.")
        if table < 2:
            raise UsageError("A plan needs two rows or more.")
        check_rows(table)
        queries = module.queries(config, table, columns, settings.budget)
        made = make_plan(
            queries, epsilon=settings.budget, delta=settings.delta_of(table), rows=table,
            one_row_a_patient=settings.one_row_a_patient,
        )  # fmt: skip
        notes = [*module.notes(config, made.equivalent_rows, columns, settings.budget), *_power(made, config, core)]
        alike = tables_alike(table, columns, settings.budget) if method == registry.DEFAULT else []
        return made, [*alike, *notes], None
    assert private is not None
    check_method(private, method, module)
    public_rows = public_rows_of(private, settings, {"table": private.place})
    settles = list[str]()
    private = settled_by(private, public_rows, settles.append)
    made = _planned(private, settings, module, config)
    notes = [
        f"Public by declaration: {'; '.join(private.public_facts(settings, made.rows))}.",
        *private.doubts(settings),
        *([] if public_rows is None else [public_rows.remark(made)]),
        *settles,
    ]
    notes += notes_on_quality(private, made, settings.patients, stop=False)
    if method == registry.DEFAULT and private.target is not None and (private.max_rows or 1) == 1:
        notes += tables_alike(made.rows, private.columns, settings.budget)
    notes += module.notes(config, private.records(made), private.columns, settings.budget)
    notes += _power(made, config, core)
    return made, notes, private.expected(made)


def _power(made: Plan, config: Any, core: Schema | None) -> list[str]:
    """Return what declared regressions can find, if there are any."""
    if not getattr(config, "inference", ()):
        return []
    from ..mixture.power import power_note  # imports PyTorch, which other plans do not need

    columns = {} if core is None else {name: core.columns[name] for name in core.columns if name not in core.open}
    return power_note(made, config.regressions, columns, None if core is None else core.target)
