"""`medsynth plan`: what a fit would ask and what it would cost, spending nothing."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from medsynth.errors import UsageError

from .console import guarded, result

SECONDS_A_STEP = 0.006  # one lot and one generator step on one core of a laptop; an estimate, no promise


@guarded
def plan(
    table: Annotated[str, typer.Argument(help="A CSV file, or a number of rows.")],
    epsilon: Annotated[float, typer.Option(help="Privacy budget.")],
    delta: Annotated[float, typer.Option(help="Chance of a worse loss.")] = 1e-5,
    method: Annotated[str, typer.Option(help="Method: dp-cgan.")] = "dp-cgan",
    preset: Annotated[str | None, typer.Option(help="thyroid-study.")] = None,
    microbatches: Annotated[int | None, typer.Option(help="Clip this many group means a lot, not rows.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")] = False,
) -> None:
    """Show the budget of a fit: every answer, its noise and its share. Spends nothing.

    Examples:
        medsynth plan 3772 --epsilon 3.7

        medsynth plan patients.csv --epsilon 1
    """
    from medsynth import models
    from medsynth.dp.plan import check_budget, make_plan

    check_budget(epsilon, delta)
    rows = int(table) if table.isdigit() else _rows(Path(table))
    if rows < 2:
        raise UsageError("A plan needs two rows or more.")
    module = models.module(method, preset)
    config = module.Config() if microbatches is None else module.Config(microbatches=microbatches)
    made = make_plan(module.needs(config, rows), epsilon=epsilon, delta=delta, rows=rows)
    shares = made.shares()
    steps = max(times for _, times in made.events.values())
    seconds = round(SECONDS_A_STEP * steps + 3, 1)
    answers = [
        {"label": label, "mechanism": type(event).__name__, "times": times, "share": shares[label], **asdict(event)}
        for label, (event, times) in made.events.items()
    ]
    lines = [
        f"epsilon {made.epsilon:.4f} of {epsilon:g} at delta {delta:g}, {rows} rows, {made.accountant.upper()}",
        "",
    ]
    lines.append(f"{'answer':<22} {'mechanism':<20} {'times':>6} {'multiplier':>11} {'rate':>8} {'share':>7}")
    for a in answers:
        lines.append(
            f"{a['label']:<22} {a['mechanism']:<20} {a['times']:>6} {a['multiplier']:>11.4f} "
            f"{a.get('rate', 1.0):>8.5f} {a['share']:>6.1%}"
        )
    lines += [
        "",
        f"About {seconds:.0f} s on a laptop's CPU. Shares are of the first-order privacy loss.",
    ]
    content = {"epsilon": made.epsilon, "epsilon_asked": epsilon, "delta": delta, "rows": rows, "method": method,
               "accountant": made.accountant, "steps": steps, "seconds": seconds, "answers": answers}  # fmt: skip
    result(content, "\n".join(lines), as_json=as_json)


def _rows(path: Path) -> int:
    from medsynth.fitting import check_table

    return check_table(path)
