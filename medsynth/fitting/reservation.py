"""What releases measurements: the releases with their checkpoint, and the budget that is reserved for them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from ..budget import Budget
from ..errors import MedsynthError, Message, TargetError, brief
from ..privacy.accounting.accountant import rounded_up
from ..privacy.checkpoint import Checkpoint, sole_user
from ..privacy.release import SECRET, Releases
from .approval import ApprovedPlan
from .holdout import budget_of_part
from .planning import PlannedFit
from .private_table import PrivateTable
from .public_rows import PublicRows
from .settings import FACTS_OF_THE_FILE, FitSettings


@dataclass(frozen=True, kw_only=True)
class WayOut:
    """The only path from private rows to a release, the seed of public streams, and the checkpoint if there is one.

    `resumed`: whether a killed fit left a checkpoint, which may have measured something already. `complete`: whether
    the checkpoint contains all measurements of the plan, so that the fit draws nothing more.
    """

    releases: Releases
    seed: int | None
    checkpoint: Checkpoint | None = None
    resumed: bool = False
    complete: bool = False


def facts_of(
    private: PrivateTable, planned: PlannedFit, public_rows: PublicRows | None, budget: Budget | None
) -> dict[str, Any]:
    """Return everything that the records of a fit's checkpoint depend on: every option, with its final value."""
    options = planned.options
    own = {field.name: getattr(options, field.name) for field in fields(FitSettings)}
    for name in set(FACTS_OF_THE_FILE).difference(options.facts_of_the_file):
        del own[name]
    for name in () if options.public else ("citation", "public_patients"):
        del own[name]
    own = {name: value.item() if isinstance(value, np.generic) else value for name, value in own.items()}
    return {
        **own,
        "method": planned.method.name,
        "settings": planned.method.settings,
        "device": planned.method.device,
        "rows": planned.plan.rows,
        "public": public_rows.digest if public_rows else None,
        "delta": planned.plan.delta,
        "split_number": options.split_number,
        "budget_table": budget.path.name if budget else None,
        "noise": planned.entropy.source,
        "plan": planned.plan.to_json(),
        **private.facts(),
    }


@contextmanager
def open_releases(
    private: PrivateTable, planned: PlannedFit, public_rows: PublicRows | None, budget: Budget | None
) -> Iterator[WayOut]:
    """Open the releases, with the checkpoint if there is one: locked against other fits, and with its seed.

    Raises UsageError, before anything is written or drawn, if the checkpoint belongs to a fit with other options.
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


def budget_of(private: PrivateTable, declared: Path | str | None) -> Budget | None:
    """Return the budget file of a fit: that of the table `declared`, else of the file that was read.

    A fit on a part of a table counts on that table.
    """
    path = private.place if declared is None else declared
    return None if path is None else budget_of_part(Path(path)) or Budget.of(Path(path))


UNFIT = (ArithmeticError, LookupError, StopIteration, ValueError)  # errors that altered records cause, at once or later


@contextmanager
def reserved_budget(
    planned: PlannedFit, budget: Budget | None, out: WayOut, approved: ApprovedPlan | None = None
) -> Iterator[None]:
    """Reserve all that the plan may release, and settle it after the fit.

    After an error, the budget file keeps what the fit was charged; a fit that was charged nothing is removed. A resumed
    fit stays in full: its ledger does not contain what was released before. So does an interrupted fit: a person chose
    the moment, and may have seen more than the ledger contains. Raises BudgetError if the table had another fit after a
    plan was `approved`.
    """
    notice = planned.options.notice
    if budget is None:
        notice("No budget file: the table is not a file. Set `budget_table` to a file, so that its fits are added up.")
        yield
        return
    with ExitStack() as running:
        number = _reserved(planned, budget, out, running, approved)
        out.releases.reached = budget.reach
        spent = budget.spent().sentence(number)
        notice(Message(f"{spent} ({budget.path.name})", brief(spent)))
        try:
            yield
        except BaseException as error:
            if not (planned.ledger.entries or out.resumed):
                budget.cancel(number)
                if out.checkpoint is not None:
                    out.checkpoint.path.unlink(missing_ok=True)
            elif isinstance(error, Exception) and not out.resumed:
                budget.end(number, planned.ledger.composition(), stopped=isinstance(error, TargetError))
            # An array of another shape causes a TypeError where it is used, and nowhere later.
            if out.resumed and isinstance(error, (*UNFIT, TypeError) if out.releases.replaying else UNFIT):
                raise MedsynthError(
                    f"The records of {planned.options.checkpoint} do not fit this table: they were changed, or written "
                    "by another version. Start again without `resume`."
                ) from error
            raise
        budget.settle(number, planned.options.model_name or "in memory")


def _reserved(
    planned: PlannedFit, budget: Budget, out: WayOut, running: ExitStack, approved: ApprovedPlan | None
) -> str:
    """Return the number of a fit that the budget file lists in full, locked while it is `running`.

    A resumed fit keeps its number, with two exceptions: the number has a model, or the checkpoint is a copy of one that
    another process has resumed or is using. Then all of the plan is reserved again, under a new number.
    """
    plan, name, noise = planned.plan, planned.method.name, not planned.options.no_dp
    if out.checkpoint is None or not out.resumed:
        if approved is not None:
            approved.check_fits(budget, continued=False)
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
    if approved is not None:
        approved.check_fits(budget, continued=found is not None)
    fit = budget.resume(plan, method=name, noise=noise, attempts=attempts, records=records, complete=out.complete)
    if fit.number != found:
        running.enter_context(budget.running(fit.number))
    out.releases.closed = fit.closed
    if fit.anew:
        cost = f"epsilon {rounded_up(plan.epsilon)} at delta {plan.delta:g}" if noise else "no noise, so no bound"
        text = f"This fit has the number {fit.number} in the budget file, and was reserved in full when it was resumed"
        planned.ledger.note(f"{text}.")
        planned.options.notice(
            f"{text} ({cost}). Its checkpoint is not the latest of a fit without a model: that fit has ended with a "
            "model, was resumed from another copy, or is not in this file. The fit draws new noise from here on, and "
            "the budget counts it again."
        )
    return fit.number
