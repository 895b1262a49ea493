"""A fit of several tables: patients with the first of their rows in each, then the rows that follow; one budget."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from .. import rng
from ..artifact import Arrays, Model
from ..budget import Budget
from ..errors import UsageError
from ..fitting.options import FitOptions, log_notice, method_settings, settled_delta
from ..fitting.preparation import (
    ChosenMethod,
    PlannedFit,
    WayOut,
    announce_method,
    announce_public,
    choose_method,
    open_releases,
)
from ..fitting.reservation import reserved_budget
from ..fitting.training import seal, simulated_patients, train_later, trained
from ..methods import registry
from ..methods.registry import Method
from ..patients.plan import plan_of_first_rows
from ..patients.plan import queries as with_later_rows
from ..patients.successive_rows import changing
from ..privacy.accounting.calibration import Plan, Query, make_plan
from ..privacy.accounting.events import rows_of
from ..privacy.contribution import PrivacyUnits
from ..rng import stream_seed
from ..schema.linked.definition import LinkedTables
from ..schema.linked.views import chain_view, count_column, joint, name_in_joint, own
from .private_tables import CodedTables, PrivateTables, coded_tables, open_tables
from .source import Source, find
from .stored import of_table

SIMULATED = 40_000  # patients, on whom the rows that follow are fitted, at most


def fit_tables(
    source: Path | str | Source, *, epsilon: float | None = None, no_dp: bool = False, delta: float | None = None,
    method: str | None = None, preset: str | None = None, settings: Mapping[str, object] | None = None,
    rows: int | None = None, encoding: str | None = None, device: str = "auto", seed: int | None = None,
    checkpoint: Path | None = None, resume: bool = False, model_name: str | None = None,
    split_number: str | None = None, private: PrivateTables | None = None, notice: Callable[[str], None] = log_notice,
    progress: Callable[[Plan, str, int, int, int], None] = lambda *facts: None,
    phase: Callable[[str], None] = lambda name: None,
) -> Model:  # fmt: skip
    """Fit a generator to several tables under (epsilon, delta)-differential privacy for one patient in all of them.

    `source`: a file that names tables, or a folder of them (docs/several-tables.md). `rows` declares the public number
    of patients. `private`: the tables, where they were read before. The other parameters are those of `medsynth.fit`.

    Raises UsageError, BudgetError, TableError or SchemaError.
    """
    source = source if isinstance(source, Source) else find(Path(source), notice)
    options = FitOptions(
        epsilon=epsilon, no_dp=no_dp, delta=settled_delta(delta, rows), schema=None, target=None, method=method,
        preset=preset, microbatches=None, inference=(), settings=settings, rows=rows, encoding=encoding, na_values=(),
        one_row_a_patient=False, unit=None, max_rows=None, public=None, device=device, seed=seed,
        checkpoint=checkpoint, resume=resume, budget_table=None, model_name=model_name, split_number=split_number,
        notice=notice, progress=progress, phase=phase,
    )  # fmt: skip
    phase("reading the tables")
    private = private or open_tables(source, encoding)
    codes = coded_tables(private)
    phase("planning the noise")
    chosen = choose_method(options)
    planned = _planned(private, options, chosen)
    _announce(private, planned)
    budget = Budget.of(source.folder / source.name)
    with open_releases(private, planned, None, budget) as out, reserved_budget(planned, budget, out):
        phase("measuring")
        tensors = _trained(private, codes, planned, out)
        patients = planned.plan.rows
        return seal(planned, patients, codes.schema, tensors, private.tables)


def plan_of(
    source: Path | str, *, epsilon: float, delta: float | None = None, method: str | None = None,
    preset: str | None = None, settings: Mapping[str, object] | None = None, rows: int | None = None,
    encoding: str | None = None,
) -> tuple[Plan, list[str]]:  # fmt: skip
    """What `fit_tables` would measure, and what it takes as public. Nothing is measured and nothing spent.

    Raises what `fit_tables` raises before its first measurement.
    """
    found = find(Path(source))
    name = registry.settle(method, preset)
    registry.check_claim(name)
    module = registry.load(name, preset)
    config = registry.configured(name, module, method_settings(settings, None, public=False))
    patients = open_tables(found, encoding).patients if rows is None else rows
    queries = queries_of(found.tables, module, config, patients, epsilon)
    delta = settled_delta(delta, rows)
    plan = make_plan(queries, epsilon=epsilon, delta=delta, rows=patients, max_rows=found.tables.max_rows)
    return plan, public_facts(found.tables, patients, declared=rows is not None)


def queries_of(tables: LinkedTables, module: Method, config: Any, patients: int, epsilon: float) -> list[Query]:
    """All measurements of a fit of several tables: the method's own of patients, and those of the rows that follow.

    Raises UsageError for fewer than two patients.
    """
    if patients < 2:
        raise UsageError("Several tables need two patients or more.")
    first = module.queries(config, patients, len(joint(tables).core.columns), epsilon)
    return with_later_rows(first, _in_order(tables))


def _in_order(tables: LinkedTables) -> list[str]:
    """The tables of which a patient may have several rows."""
    return [name for name in tables.others if tables.tables[name].order]


def _planned(private: PrivateTables, options: FitOptions, method: ChosenMethod) -> PlannedFit:
    entropy = rng.NoNoise() if options.no_dp else rng.system_entropy()
    patients = private.patients if options.rows is None else options.rows
    tables = private.tables
    queries = queries_of(tables, method.module, method.config, patients, options.budget)
    plan = make_plan(queries, epsilon=options.budget, delta=options.delta, rows=patients, max_rows=tables.max_rows)
    ledger = plan.ledger(entropy.source)
    return PlannedFit(options=options, method=method, plan=plan, ledger=ledger, entropy=entropy, stay=None, units=None)


def public_facts(tables: LinkedTables, patients: int, *, declared: bool) -> list[str]:
    """What no noise covers and neighbouring tables share, one phrase each."""
    first, *others = tables.tables
    return [
        f"the headers of the tables {', '.join(map(repr, tables.tables))} and the form of their files",
        f"the number of patients, {patients}, {'as `rows` declares it' if declared else f'the rows of {first!r}'}",
        f"the columns, rules and orders that {tables.name!r} declares, and that the tables meet them",
        f"that {tables.key!r} names the patient of each row, and that every row of {', '.join(map(repr, others))} is "
        f"of a patient of {first!r}",
        "that a patient counts with at most "
        + ", ".join(f"{rows_of(table.max_rows)} of {name!r}" for name, table in tables.tables.items()),
        f"the target, {joint(tables).target!r}",
        "`epsilon`, `delta`, the method and its settings",
    ]


def _announce(private: PrivateTables, planned: PlannedFit) -> None:
    """Say what is taken as public: in notices to the person, and in notes of the ledger."""
    options, plan, tables = planned.options, planned.plan, private.tables
    facts = public_facts(tables, plan.rows, declared=options.rows is not None)
    announce_public(planned, facts)
    if options.rows is None:
        planned.ledger.notes.append("The number of patients was not declared: the tables' own was taken as public.")
        options.notice(f"The number of patients, {plan.rows}, is taken as public. `rows` declares another.")
    for name in _in_order(tables):
        schema = tables.view(name)
        options.notice(
            f"Rows of {name!r} follow one another by {schema.order!r}. Taken to change from row to row: "
            f"{', '.join(changing(schema))}."
        )
    announce_method(planned, plan.rows, len(joint(tables).core.columns))


def _trained(private: PrivateTables, codes: CodedTables, planned: PlannedFit, out: WayOut) -> Arrays:
    """Train the method's generator on patients, and the models of the rows that follow in each table."""
    from ..privacy.vault import Vault

    method, core, patients = planned.method, codes.schema.core, planned.plan.rows
    units = PrivacyUnits(np.arange(len(codes.patients)), 1)
    vault = Vault(codes.patients, core.names, out.releases, units)
    plan = replace(plan_of_first_rows(planned.plan, patients), planned_rows=None)
    found = trained(planned, plan, vault, core, out.seed, None)
    seed = stream_seed(out.seed, "first rows")
    simulated = method.module.generate(found, method.config, core, patients, SIMULATED, seed)
    for k, name in enumerate(private.tables.others):
        if name not in codes.rows:
            continue
        planned.options.phase(f"later rows of {name}")
        first = _first_rows(simulated, private.tables, name, core.names)
        several = float((first[:, -1] > 0).sum() / len(simulated)) * patients
        enough = simulated_patients(float(first[:, -1].mean()) if len(first) else 0.0)
        chain = train_later(
            planned, out, chain_view(private.tables, name), codes.rows[name], several, first[:enough], name
        )
        found |= of_table(k, chain)
    return found


def _first_rows(patients: np.ndarray[Any, Any], tables: LinkedTables, name: str, names: tuple[str, ...]) -> Any:
    """First rows of simulated patients in a table, (patients, columns of its view and how many rows follow)."""
    some = patients[patients[:, names.index(count_column(name))] > 0]
    schema, mine = chain_view(tables, name), own(tables, name)
    found = []
    for one in schema.core.names:
        code = some[:, names.index(name_in_joint(name, one) if one in mine else one)]
        column = schema.core.columns[one]
        found.append(np.minimum(code, column.size + column.gaps - 1))  # the model may leave such a cell empty
    return np.column_stack([*found, some[:, names.index(count_column(name))] - 1]).astype(np.int32)
