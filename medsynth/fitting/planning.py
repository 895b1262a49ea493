"""The plan of a fit, without a measurement."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from ..errors import UsageError
from ..methods import registry
from ..privacy.accounting.calibration import Plan, check_budget, make_plan
from ..schema import Schema
from .options import method_settings
from .private_table import open_table
from .public_facts import public_facts


def plan_fit(
    table: Path | str | int,
    *,
    epsilon: float,
    delta: float = 1e-5,
    schema: Schema | Path | str | None = None,
    target: str | None = None,
    method: str | None = None,
    preset: str | None = None,
    microbatches: int | None = None,
    settings: Mapping[str, object] | None = None,
    rows: int | None = None,
    encoding: str | None = None,
    public: bool = False,
    columns: int = 20,
) -> tuple[Plan, float, list[str]]:
    """The plan that `fit` would follow on `table`, an estimate of its seconds, and notes. No row is measured.

    A number of rows instead of a table plans for one of `columns` columns that has a schema. Raises what `fit` raises
    before its first measurement.
    """
    check_budget(epsilon, delta)
    method = registry.settle(method, preset)
    registry.check_claim(method)
    private = None if isinstance(table, int) else open_table(table, schema, target, lambda text: None, encoding)
    module = registry.module(method, preset)
    config = registry.configured(method, module, method_settings(settings, microbatches, public=public))
    if private is None:
        count, queries = int(table), partial(module.queries, columns=columns, epsilon=epsilon)  # type: ignore[arg-type]
    else:
        columns = private.columns
        count = private.data.public_rows if rows is None else rows
        facts = public_facts(private, count, None, declared_rows=rows is not None)
        queries = partial(private.queries, module, epsilon)
    if count < 2:
        raise UsageError("A plan needs two rows or more.")
    max_rows = private.max_rows if private else None
    plan = make_plan(queries(config, count), epsilon=epsilon, delta=delta, rows=count, max_rows=max_rows)
    notes = [f"Public by declaration: {'; '.join(facts)}."] if private else []
    notes += module.notes(config, plan.equivalent_rows, columns, epsilon)
    return plan, module.seconds(config, count), notes
