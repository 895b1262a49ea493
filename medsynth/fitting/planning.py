"""The plan of a fit, without a measurement."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pandas as pd

from ..errors import UsageError
from ..methods import registry
from ..privacy.accounting.accountant import rounded_up
from ..privacy.accounting.calibration import Plan, check_budget, make_plan
from ..schema import Schema
from .options import check_kinds, check_rows, check_unit, declared, method_settings, settled_delta
from .private_table import open_table
from .public_facts import check_enough_rows, public_facts


@dataclass(frozen=True, kw_only=True)
class FitPlan:
    """What a fit would measure: its `epsilon` at `delta`, every measurement with its noise, and notes for a person.

    `measurements`: one row each, with the mechanism, how often it runs, its noise multiplier and its share of the
    first-order privacy loss.
    """

    epsilon: float
    delta: float
    rows: int
    measurements: pd.DataFrame
    notes: list[str]

    def __str__(self) -> str:
        head = f"epsilon {rounded_up(self.epsilon)} at delta {self.delta:g}, {self.rows} rows"
        return "\n".join([head, self.measurements.to_string(index=False), *self.notes])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head, *_ = str(self).splitlines()
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in self.notes)
        return f"<p>{head}</p>{self.measurements.to_html(index=False)}{notes}"


def plan(
    table: Path | str | int | pd.DataFrame,
    *,
    epsilon: float,
    delta: float | None = None,
    schema: Schema | Mapping[str, object] | Path | str | None = None,
    target: str | None = None,
    method: str | None = None,
    preset: str | None = None,
    inference: Sequence[str] = (),
    settings: Mapping[str, object] | None = None,
    rows: int | None = None,
    unit: str | None = None,
    max_rows: int | None = None,
) -> FitPlan:
    """What `fit` would measure on a table, or on so many rows of twenty columns. Nothing is measured and nothing spent.

    Raises what `fit` raises before its first measurement.

    >>> found = plan(3772, epsilon=3.7)
    >>> 3.5 < found.epsilon <= 3.7, "one-way marginals" in list(found.measurements["measurement"])
    (True, True)
    """
    made, notes = plan_fit(
        table, epsilon=epsilon, delta=delta, schema=declared(schema), target=target, method=method, preset=preset,
        inference=inference, settings=settings, rows=rows, unit=unit, max_rows=max_rows,
    )  # fmt: skip
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
        epsilon=made.epsilon, delta=made.delta, rows=made.rows, measurements=pd.DataFrame(lines), notes=notes
    )


def plan_fit(
    table: Path | str | int | pd.DataFrame,
    *,
    epsilon: float,
    delta: float | None = None,
    schema: Schema | Path | str | None = None,
    target: str | None = None,
    method: str | None = None,
    preset: str | None = None,
    microbatches: int | None = None,
    inference: Sequence[str] = (),
    settings: Mapping[str, object] | None = None,
    rows: int | None = None,
    encoding: str | None = None,
    public: bool = False,
    unit: str | None = None,
    max_rows: int | None = None,
    columns: int = 20,
) -> tuple[Plan, list[str]]:
    """The plan that `fit` would follow on `table`, and notes. No row is measured.

    A number of rows instead of a table plans for one of `columns` columns that has a schema. Raises what `fit` raises
    before its first measurement.
    """
    check_kinds(epsilon=epsilon, rows=rows)
    delta = settled_delta(delta, table if isinstance(table, int) else rows)
    check_budget(epsilon, delta)
    check_rows(rows)
    check_unit(unit, max_rows)
    if unit is not None and isinstance(table, int):
        raise UsageError("`unit` names a column of a table: give the table, not a number of rows.")
    method = registry.settle(method, preset)
    registry.check_claim(method)
    private = None
    if not isinstance(table, int):
        private = open_table(table, schema, target, lambda text: None, encoding, unit=unit, max_rows=max_rows)
    module = registry.load(method, preset)
    config = registry.configured(
        method, module, method_settings(settings, microbatches, public=public, inference=inference)
    )
    if private is None:
        count, queries = int(table), partial(module.queries, columns=columns, epsilon=epsilon)  # type: ignore[arg-type]
    else:
        columns = private.columns
        count = private.data.public_rows if rows is None else rows
        facts = public_facts(private, count, None, declared_rows=rows is not None)
        queries = partial(private.queries, module, epsilon)
    if count < 2:
        raise UsageError("A plan needs two rows or more.")
    check_rows(count)
    max_rows = private.max_rows if private else None
    plan = make_plan(queries(config, count), epsilon=epsilon, delta=delta, rows=count, max_rows=max_rows)
    notes = [f"Public by declaration: {'; '.join(facts)}."] if private else []
    notes += check_enough_rows(private, plan) if private else []
    notes += module.notes(config, plan.equivalent_rows, columns, epsilon)
    return plan, notes
