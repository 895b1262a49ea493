"""The budget of a fit: on file in full before the first measurement, whatever happens afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from ..budget import Budget
from ..errors import MedsynthError, TargetError
from ..io.table import Table
from ..privacy.accounting.accountant import rounded_up
from .cluster import ClusterTable
from .preparation import PlannedFit, WayOut


def budget_of(table: object, declared: Path | str | None) -> Budget | None:
    """The budget file of a fit: that of the table `declared`, else of the file that `table` is or was read from."""
    path = declared if declared is not None else table if isinstance(table, Path | str) else None
    if path is None and (isinstance(table, ClusterTable) or (isinstance(table, Table) and table.written is not None)):
        path = table.where
    return None if path is None else Budget.of(Path(path))


UNFIT = (ArithmeticError, LookupError, StopIteration, ValueError)  # what altered records provoke, at once or later


@contextmanager
def reserved_budget(planned: PlannedFit, budget: Budget | None, out: WayOut) -> Iterator[None]:
    """Reserve all that the plan may release, and settle it once the fit has ended.

    A fit that ends in an error stays on file with what it was charged, and not at all where that is nothing. One that
    is resumed stays in full: its ledger does not hold what was released before. So does one that is interrupted: a
    person decided when, who may have seen more than the ledger says.
    """
    notice = planned.options.notice
    if budget is None:
        notice("No budget file: the table is no file. `budget_table` names one, so that its fits can be added up.")
        yield
        return
    with ExitStack() as running:
        number = _reserved(planned, budget, out, running)
        out.releases.reached = budget.reach
        notice(f"{budget.spent().sentence(number)} ({budget.path.name})")
        try:
            yield
        except BaseException as error:
            if not (planned.ledger.entries or out.resumed):
                budget.cancel(number)
                if out.checkpoint is not None:
                    out.checkpoint.path.unlink(missing_ok=True)
            elif isinstance(error, Exception) and not out.resumed:
                budget.end(number, planned.ledger.composition(), stopped=isinstance(error, TargetError))
            # An array of another shape provokes a TypeError where it is used, and nowhere later.
            if out.resumed and isinstance(error, (*UNFIT, TypeError) if out.releases.replaying else UNFIT):
                raise MedsynthError(
                    f"The records of {planned.options.checkpoint} do not fit this table: it was altered, or is of "
                    "another version. Start anew without `resume`."
                ) from error
            raise
        budget.settle(number, planned.options.model_name or "in memory")


def _reserved(planned: PlannedFit, budget: Budget, out: WayOut, running: ExitStack) -> str:
    """The number of a fit that is on file in full, held while it is `running`.

    A resumed fit goes on with its number, unless that has a model, or its checkpoint is a copy of one that another
    process has resumed or is using: then all of the plan is reserved under a new number.
    """
    plan, name, noise = planned.plan, planned.method.name, not planned.options.no_dp
    if out.checkpoint is None or not out.resumed:
        first = out.checkpoint.attempts[0] if out.checkpoint else None
        number = budget.reserve(plan, method=name, noise=noise, number=first)
        if out.checkpoint is not None:
            out.checkpoint.begin()
        running.enter_context(budget.running(number))
        return number
    attempts = out.checkpoint.resume()  # on disk before the budget file, so that a crash in between costs nothing
    records = out.checkpoint.count
    found = budget.current(attempts, records)
    try:
        if found is not None:
            running.enter_context(budget.running(found))
    except MedsynthError:  # the fit that the checkpoint was copied from is running
        found, attempts = None, attempts[-1:]
    fit = budget.resume(plan, method=name, noise=noise, attempts=attempts, records=records, complete=out.complete)
    if fit.number != found:
        running.enter_context(budget.running(fit.number))
    out.releases.closed = fit.closed
    if fit.anew:
        cost = f"epsilon {rounded_up(plan.epsilon)} at delta {plan.delta:g}" if noise else "no noise, so no bound"
        text = f"This fit has the number {fit.number} in the budget file, reserved in full when it was resumed"
        planned.ledger.notes.append(f"{text}.")
        planned.options.notice(
            f"{text} ({cost}). Its checkpoint is not the latest of a fit without a model: that fit has ended with a "
            "model, or was resumed from another copy, or is not on this file. What is drawn now is drawn anew, and "
            "counts again."
        )
    return fit.number
