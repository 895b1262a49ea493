"""The budget of a fit: on file in full before the first measurement, whatever happens afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..budget import Budget
from ..errors import MedsynthError
from ..io.table import Table
from .preparation import PlannedFit, WayOut


def budget_of(table: object, declared: Path | str | None) -> Budget | None:
    """The budget file of a fit: that of the table `declared`, else of the file that `table` is or was read from."""
    path = declared if declared is not None else table if isinstance(table, Path | str) else None
    if path is None and isinstance(table, Table) and table.written is not None:
        path = table.where
    return None if path is None else Budget.of(Path(path))


UNFIT = (ArithmeticError, LookupError, StopIteration, ValueError)  # what altered records provoke, at once or later


@contextmanager
def reserved_budget(planned: PlannedFit, budget: Budget | None, out: WayOut) -> Iterator[None]:
    """Reserve all that the plan may release, and settle it once the fit has ended.

    A resumed fit has its number from its checkpoint, so that it is counted once. A fit that ends in an error stays on
    file with what it was charged, and not at all where that is nothing. One that is resumed stays in full: its ledger
    does not hold what was released before. So does one that is interrupted: a person decided when, who may have seen
    more than the ledger says.
    """
    notice, epsilon = planned.options.notice, planned.options.epsilon
    if budget is None:
        notice("No budget file: the table is no file. `budget_table` names one, so that its fits can be added up.")
        yield
        return
    number = budget.reserve(planned.plan, method=planned.method.name, noise=epsilon is not None, number=out.number)
    notice(f"{budget.spent().sentence(number)} ({budget.path.name})")
    try:
        yield
    except BaseException as error:
        if not (planned.ledger.entries or out.resumed):
            budget.cancel(number)
        elif isinstance(error, Exception) and not out.resumed:
            budget.end(number, planned.ledger.composition())
        # An array of another shape provokes a TypeError where it is used, and nowhere later.
        if out.resumed and isinstance(error, (*UNFIT, TypeError) if out.releases.replaying else UNFIT):
            raise MedsynthError(
                f"The records of {planned.options.checkpoint} do not fit this table: it was altered, or is of another "
                "version. Start anew without `resume`."
            ) from error
        raise
    budget.settle(number, planned.options.model_name or "in memory")
