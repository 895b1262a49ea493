"""Fit private tables and return an artifact, in phases. docs/architecture.md lists who else reads private rows."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from functools import partial

from ..artifact import Model
from ..errors import Message
from .approval import ApprovedPlan
from .opening import Fittable, opened
from .planning import announce, choose_method, plan_measurements
from .private_tables import PrivateTables, coded_tables
from .public_rows import note_trust, public_rows_of, settled_by, with_earlier
from .reservation import budget_of, open_releases, reserved_budget
from .settings import FitOptions, in_notebook, keywords_of, log_notice, print_notice, progress_bar
from .training import (
    codes_by,
    encode_into_vault,
    expected_similarity,
    note_counted_rows,
    plan_on,
    rows_in_use,
    seal,
    settle,
    settle_tables,
    train,
    train_in_order,
    train_tables,
)


@keywords_of(FitOptions)
def fit(table: Fittable, options: FitOptions) -> Model:
    """Fit a generator to `table` under (epsilon, delta)-differential privacy for one of its rows or patients.

    `table`: a path, a frame, or a file or folder of several tables that share their patients (docs/several-tables.md).
    The keywords are the fields of `FitSettings` and `FitOptions`. Give exactly one of `epsilon` and `no_dp`. The latter
    adds no noise: it shows how good a method can get, and the model makes no claim. `delta` is 1e-5 if not given, and
    less if more than 10,000 `rows` are declared.

    `rows` declares the public row count, or the number of patients in several tables. Without it the table's own count
    becomes public, and a notice reports that. `seed` repeats initial weights and latent draws only: noise and lots come
    from the operating system. Messages go to `notice`, else to the logger "medsynth" at INFO: first the public facts,
    before anything is measured. Urgent messages become a MedsynthWarning there. `progress=True` shows a bar. A
    notebook shows short messages and a bar by default; `verbose` shows the messages in full.

    `encoding` is that of a text file, UTF-8 if not given. Bytes that it cannot decode are escaped in their own cells.
    `settings` change the method's own, by name (docs/methods/). `inference` names important regressions, such as "y ~ a
    + b" or "y ~ a * b", as public knowledge: a share of the budget measures their moments (docs/inference.md).

    In open columns the usual codes of missing values are recognised (docs/schema.md); `na_values` adds to them. If
    rows share patients, `unit` names their column, without a schema too. The claim is then for one patient, who counts
    with at most `max_rows` rows (1 if not given; more rows need more noise). If a column's name looks like a person's
    key, `one_row_a_patient` declares that no two rows share a person.

    `public` is a table whose rows you declare public, with a `citation`: the claim does not cover them. The default
    method centres its prior there, as far as the noisy measurements agree (docs/methods/mixture.md); dp-gan starts its
    training there. `public_patients` declares whose rows they are: of "other" patients, of "some" of these, or "these".
    For the default method, `public` may also be a published Table 1, or the model file of an earlier fit. Then the
    claim is for both fits together.

    A `checkpoint` stores every release before it is used; `resume` uses those of a fit that was killed. One fit at a
    time uses it, with the same options. It is private: remove it after you have saved the model.

    A file next to the table adds up all fits on it. It contains the whole plan of a fit before anything is measured. If
    `table` is a frame or a part of another table, `budget_table` names the table whose file counts the fit.
    `model_name` is the model's name in that file. A copy of a checkpoint that is resumed counts as another fit.
    `split_number`: the number of the split that kept rows out of `table`, for the model's notes. `plan`: the file of an
    approved plan (docs/how-to/approval.md). The fit raises before it measures if it would exceed the plan.

    Raises UsageError, BudgetError, TableError or SchemaError; see medsynth.errors.
    """
    with ExitStack() as bar:
        notebook = in_notebook()
        if notebook and options.notice is log_notice:
            options = replace(options, notice=partial(print_notice, verbose=options.verbose))
        if options.progress is None or isinstance(options.progress, bool):
            show = notebook if options.progress is None else options.progress
            progress, phase = bar.enter_context(progress_bar(show))
            options = replace(options, progress=progress, phase=phase if show else options.phase)
        return fit_by(options, table)


def fit_by(options: FitOptions, source: Fittable) -> Model:
    """Open the table, plan the noise, reserve the budget, measure, and seal the model."""
    tell = options.notice
    options = replace(options, notice=lambda text: tell(Message.of(text)))
    approved = None if options.plan is None else ApprovedPlan.load(options.plan)
    options.phase("reading the table")
    private = opened(source, options, options.notice)
    if isinstance(private, PrivateTables):
        of_tables = coded_tables(private)
    else:  # a cell that the schema does not allow is reported before torch is loaded
        closed = len(private.open) < len(private.declared.read.columns)
        codes = codes_by(private, private.declared.read, options) if closed else None
    options.phase("planning the noise")
    method = choose_method(options)
    public_rows = public_rows_of(private, options, {"table": source, "budget_table": options.budget_table})
    given = private
    if (private := settled_by(given, public_rows, options.notice)) is not given:
        codes = None
    planned = plan_measurements(private, options, method)
    if approved is not None:
        approved.check(given, planned.plan, options)
        planned.ledger.note(approved.sentence)
    announce(private, planned, public_rows)
    budget = budget_of(private, options.budget_table)
    with open_releases(private, planned, public_rows, budget) as out, reserved_budget(planned, budget, out, approved):
        options.phase("measuring")
        if isinstance(private, PrivateTables):
            if private.open:
                of_tables = coded_tables(private := settle_tables(private, planned, out.releases))
            tensors = train_tables(private, of_tables, planned, out)
            return seal(planned, planned.plan.rows, of_tables.schema, tensors, private.tables)
        form = private.data.file_form
        rows, sizes = rows_in_use(planned, out.releases)
        schema, without_level = settle(private, planned, out.releases, rows)
        if schema.order is None:
            vault = encode_into_vault(private, planned, out.releases, schema, codes)
            settled = private.settled
            del private, given, codes  # frees the memory of the raw table
            tensors = train(planned, plan_on(planned, rows), vault, schema.core, out.seed, public_rows)
            tensors |= expected_similarity(
                planned, rows, schema, tensors, without_level, out.seed, public_rows, settled
            )
        else:
            tensors = train_in_order(private, planned, out, schema, codes, rows, sizes)
        note_counted_rows(planned, tensors)
        note_trust(tensors, options, planned.ledger)
        return with_earlier(seal(planned, rows, schema, {**tensors, **sizes}, form=form), public_rows)
