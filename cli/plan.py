"""`medsynth plan`: what a fit would ask and what it would cost, spending nothing."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from .console import guarded, result, settings


@guarded
def plan(
    table: Annotated[str, typer.Argument(help="A CSV file, or a number of rows (of 20 columns).")],
    epsilon: Annotated[float, typer.Option(help="Privacy budget.")],
    delta: Annotated[float, typer.Option(help="Chance of a worse loss.")] = 1e-5,
    method: Annotated[
        str | None, typer.Option(help="warm-dp-cgan (default), dp-cgan, independent, gs-wgan or dp-gan.")
    ] = None,
    preset: Annotated[str | None, typer.Option(help="thyroid-study or public-order.")] = None,
    schema: Annotated[Path | None, typer.Option(help="Schema YAML [default: TABLE's .schema.yaml].")] = None,
    target: Annotated[str | None, typer.Option(help="Column to predict [default: the schema's, else last].")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="NAME=VALUE: a setting of the method; may be given again.")
    ] = None,
    rows: Annotated[int | None, typer.Option(help="Declare the public row count.")] = None,
    microbatches: Annotated[int | None, typer.Option(help="Clip this many group means a lot, not rows.")] = None,
    public: Annotated[bool, typer.Option("--public", help="Rows will be declared public: dp-gan.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")] = False,
) -> None:
    """Show the budget of a fit: every answer, its noise and its share. Spends nothing.

    For a table without a schema this includes the answers from which one would be learned.

    Examples:

        medsynth plan 3772 --epsilon 3.7

        medsynth plan patients.csv --epsilon 1
    """
    from medsynth.fitting.pipeline import plan_fit
    from medsynth.methods.registry import settle

    source = int(table) if table.isdigit() else Path(table)
    made, seconds, notes = plan_fit(
        source, epsilon=epsilon, delta=delta, schema=schema, target=target, method=method, preset=preset,
        microbatches=microbatches, settings=settings(set_), rows=rows, public=public,
    )  # fmt: skip
    rows, shares, steps = made.rows, made.shares(), made.events[made.repeated][1]
    answers = [
        {
            "label": label,
            "mechanism": type(event).__name__,
            "times": times,
            "share": shares[label],
            **asdict(event),
            "rate": getattr(event, "rate", 1.0),
        }
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
            f"{a['rate']:>8.5f} {a['share']:>6.1%}"
        )
    lines += [
        "",
        *notes,
        f"About {seconds:.0f} s on a laptop's CPU. Shares are of the first-order privacy loss.",
    ]
    content = {
        "epsilon": made.epsilon,
        "epsilon_asked": epsilon,
        "delta": delta,
        "rows": rows,
        "method": settle(method, preset),
        "preset": preset,
        "accountant": made.accountant,
        "steps": steps,
        "seconds": round(seconds, 1),
        "notes": notes,
        "answers": answers,
    }
    result(content, "\n".join(lines), as_json=as_json)
