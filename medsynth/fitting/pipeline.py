"""Fit: from a private table to an artifact, as a list of phases. This room alone opens private rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from ..artifact import Model
from ..errors import UsageError
from ..schema import Schema
from ..schema.linked.definition import ENDING as TABLES_ENDING
from .options import FitOptions, Phase, Progress, declared, log_notice, progress_bar, settled_delta
from .preparation import announce, choose_method, open_releases, plan_measurements
from .private_table import Notice, open_public, open_table, refuse_private_rows_as_public
from .reservation import budget_of, reserved_budget
from .training import (
    codes_by,
    declared_or_measured_schema,
    encode_into_vault,
    note_counted_rows,
    rows_in_use,
    seal,
    train,
    train_in_order,
    with_hierarchy_levels,
)

if TYPE_CHECKING:
    import pandas as pd

    from ..io.table import LargeTable, Table


def fit(
    table: Path | str | pd.DataFrame | Table | LargeTable, *,
    epsilon: float | None = None, no_dp: bool = False, delta: float | None = None,
    schema: Schema | Mapping[str, object] | Path | str | None = None, target: str | None = None,
    method: str | None = None, preset: str | None = None, microbatches: int | None = None,
    inference: Sequence[str] = (), settings: Mapping[str, object] | None = None,
    rows: int | None = None, encoding: str | None = None,
    na_values: Sequence[str] = (), one_row_a_patient: bool = False, unit: str | None = None,
    max_rows: int | None = None, public: Path | str | None = None,
    device: str = "auto", seed: int | None = None, checkpoint: Path | None = None, resume: bool = False,
    budget_table: Path | str | None = None, model_name: str | None = None, split_number: str | None = None,
    notice: Notice = log_notice, progress: Progress | bool = False, phase: Phase = lambda name: None,
) -> Model:  # fmt: skip
    """Fit a generator to `table` under (epsilon, delta)-differential privacy for one of its rows or patients.

    Exactly one of `epsilon` and `no_dp` is given. The latter adds no noise: an upper bound of what a method can do, a
    model that makes no claim. `delta` is 1e-5 if not given, less where more than 10,000 `rows` are declared.

    `rows` declares the public row count (else the table's own is taken as public and a notice says so). `seed`
    repeats initial weights and latent draws only: noise and lots come from the operating system. Messages for
    a person go to `notice`, else to the logger "medsynth" at INFO: what is taken as public comes first, before
    anything is measured; what nobody should miss is a MedsynthWarning there. `progress=True` shows a bar, in
    notebooks as well.

    `encoding` is that of a text file, UTF-8 if not given; bytes that are no text in it are kept, escaped, in their
    own cells. `settings` change the method's own, by name (docs/methods/). `inference` names regressions that matter,
    such as "y ~ a + b" or "y ~ a * b", as public knowledge: a share of the budget measures their moments
    (docs/inference.md).

    Without a schema the usual codes of missing values are recognised (docs/schema.md); `na_values` adds to them.
    Where rows share patients, `unit` names their column, without a schema too: the claim is then for one patient,
    who counts with at most `max_rows` rows (1 if not given; noise grows with it). Else `one_row_a_patient` declares
    that no two rows share a person, where a column's name reads like a person's key.
    `public` is a table of the same columns whose rows you declare public: no claim covers them. dp-gan begins there.

    A `checkpoint` stores every release before it is used; with `resume` those of a fit that was killed are used again.
    One fit at a time uses it, and other options are refused. It is private: remove it once the model is saved.

    All fits on a table are added up in a file beside it: before anything is measured, the whole plan is put on file.
    `budget_table` names the table whose file it is, where `table` is a frame or a part of another table; `model_name`
    is how the file lists the model. A copy of a checkpoint that is resumed counts as another fit. `split_number`: of
    the split that kept rows out of `table`; the model notes it.

    Raises UsageError, BudgetError, TableError or SchemaError; see medsynth.errors.
    """
    if isinstance(table, Path | str) and str(table).endswith(TABLES_ENDING):
        raise UsageError("This file names several tables: medsynth.fit_tables fits them.")
    with ExitStack() as bar:
        if isinstance(progress, bool):
            progress, phase = bar.enter_context(progress_bar(progress))
        options = FitOptions(
            epsilon=epsilon, no_dp=no_dp, delta=settled_delta(delta, rows), schema=declared(schema), target=target,
            method=method, preset=preset, microbatches=microbatches, inference=inference, settings=settings,
            rows=rows, encoding=encoding,
            na_values=na_values, one_row_a_patient=one_row_a_patient, unit=unit, max_rows=max_rows, public=public,
            device=device, seed=seed, checkpoint=checkpoint, resume=resume, budget_table=budget_table,
            model_name=model_name, split_number=split_number, notice=notice, progress=progress, phase=phase,
        )  # fmt: skip
        return fit_by(options, table)


def fit_by(options: FitOptions, table: Path | str | pd.DataFrame | Table | LargeTable) -> Model:
    """The phases of a fit, one a line."""
    options.phase("reading the table")
    private = open_table(
        table, options.schema, options.target, options.notice, options.encoding, options.na_values, options.unit,
        options.max_rows,
    )  # fmt: skip
    # A cell that the schema does not allow is reported before torch is loaded.
    codes = codes_by(private, private.declared.core, options) if private.declared else None
    options.phase("planning the noise")
    method = choose_method(options)
    public_rows = None
    if options.public is not None:
        if private.order is not None:
            raise UsageError("`public` rows have no patients to follow. Leave `public` or the schema's `order` out.")
        for file in (table, options.budget_table):
            if isinstance(file, Path | str):
                refuse_private_rows_as_public(file, options.public)
        public_rows = open_public(options.public, private.declared, options.encoding)
    planned = plan_measurements(private, options, method)
    announce(private, planned, public_rows)
    budget = budget_of(table, options.budget_table)
    with open_releases(private, planned, public_rows, budget) as out, reserved_budget(planned, budget, out):
        options.phase("measuring")
        rows, sizes = rows_in_use(planned, out.releases)
        schema = declared_or_measured_schema(private, planned, out.releases, rows)
        schema = with_hierarchy_levels(private, planned, out.releases, schema)
        if schema.order is None:
            vault = encode_into_vault(private, planned, out.releases, schema, codes)
            del private, codes  # the memory of the raw table
            tensors = train(planned, rows, vault, schema, out.seed, public_rows)
        else:
            tensors = train_in_order(private, planned, out, schema, codes, rows, sizes)
        note_counted_rows(planned, tensors)
        return seal(planned, rows, schema, {**tensors, **sizes})
