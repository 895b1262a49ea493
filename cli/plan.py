"""The command `medsynth plan`: what a fit would measure and cost, before any budget is used."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from medsynth.errors import MedsynthError, UsageError
from medsynth.fitting.settings import FitSettings
from medsynth.io.formats import name_of

from .console import check_page, guarded, result
from .flags import translated
from .options import WHOLE, Force, Json, whole_number, with_settings

if TYPE_CHECKING:
    from medsynth.privacy.accounting.calibration import Plan


NOISE_AND_SHARE = (
    "Noise multiplier: the standard deviation of the noise, divided by the most that one row can change. Share: the "
    "approximate part of the budget that a measurement uses."
)

ApprovalPage = Annotated[
    Path | None,
    typer.Option(help="HTML page for approval to write, with a JSON file next to it that `fit --plan` keeps to."),
]
AskedFor = Annotated[
    Path | None, typer.Option(help="With --page: YAML file with purpose and recipient, as of `report`.")
]


@guarded
@with_settings("decimal_comma", "device", "seed", "no_dp", required=("epsilon",))
def plan(
    table: Annotated[
        str, typer.Argument(help="Table, in any form that a fit reads, or a number of rows (for 20 columns).")
    ],
    settings: FitSettings,
    page: ApprovalPage = None,
    review: AskedFor = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Show the budget of a fit: every measurement, its noise multiplier and its share. Uses no budget.

    For a table without a schema, the plan includes the measurements that would learn one. With --page, a board can
    approve the plan before anything is spent.

    Examples:

        medsynth plan 3772 --epsilon 3.7

        medsynth plan patients.csv --epsilon 1

        medsynth plan hospital.tables.yaml --epsilon 3.7

        medsynth plan patients.csv --epsilon 1 --page plan.html --review review.yaml
    """
    from medsynth.fitting.opening import opened
    from medsynth.fitting.planning import classes_lost_below, plan_fit
    from medsynth.fitting.settings import silent
    from medsynth.privacy.accounting.accountant import rounded_up

    source = whole_number(table) if WHOLE.fullmatch(table) else Path(table)
    _check(page, source, review, settings, force)
    private = source if isinstance(source, int) else opened(source, settings, silent)
    made, notes, expected = plan_fit(private, settings)
    content, odds = _content(source, made, settings)
    content |= {"notes": notes, "classes_lost_below": classes_lost_below(private, made, settings.patients)}
    content["expected"] = None if expected is None else asdict(expected) | {"stops": expected.stops}
    lines = [
        f"A fit would use epsilon {rounded_up(made.epsilon)} of {settings.budget:g}, at delta {made.delta:g}, for "
        f"{made.rows} rows (accountant {made.accountant.upper()}). "
        f"The claim would be for {settings.protects(made.unit)}.",
        odds,
        "",
        *table_of(content["measurements"]),
        "",
        *map(translated, notes),
        NOISE_AND_SHARE,
    ]
    if page is not None and not isinstance(private, int):
        from medsynth.report.data.verdict import Review, load
        from medsynth.sidecars.approval import plan_content, save_plan

        asked = plan_content(private, content, load(review, Review), name_of(Path(table)))
        lines += ["", f"Wrote {page} to sign, and {save_plan(asked, page, force=force)} for `fit`."]
    result(content, "\n".join(lines), as_json=as_json)


def _check(page: Path | None, source: Path | int, review: Path | None, settings: FitSettings, force: bool) -> None:
    """Raise unless the page can be written, if one is wanted."""
    if page is None and review is not None:
        raise UsageError("--review describes what a page asks for. Give --page too.")
    if page is not None:
        if isinstance(source, int):
            raise UsageError("--page needs the table. Pass its file in place of a number of rows.")
        check_page(page, source, review, settings.schema if isinstance(settings.schema, Path) else None, force=force)


def _content(source: Path | int, made: Plan, settings: FitSettings) -> tuple[dict[str, Any], str]:
    """Return a plan as plain data, and the odds of a guess in words."""
    from medsynth.methods.registry import settle
    from medsynth.report.data.reach import guess, reach

    most = reach(list(made.events.values()), made.epsilon, made.delta, made.accountant)
    content = {
        "epsilon": made.epsilon,
        "epsilon_asked": settings.epsilon,
        "delta": made.delta,
        "rows": made.rows,
        "noun": made.unit.noun,
        "method": settle(settings.method, settings.preset),
        "preset": settings.preset,
        "accountant": made.accountant,
        "steps": made.events[made.most_frequent][1],
        "on_file": _on_file(source, made),
        "measurements": measurements(made),
        "protects": settings.protects(made.unit),
        "guess_right": most.guess_right,
        "curve": most.curve,
    }
    return content, guess(made.unit.noun, most.guess_right, "would be")


def _on_file(source: Path | int, made: Plan) -> dict[str, Any]:
    """Return the number and the cost of all fits on the table, and what they would cost together with this one.

    The costs are None without a bound for the unit: one patient, if this fit protects patients, else one row.
    """
    from medsynth.budget import Fit, Spent
    from medsynth.fitting.budgets import spent_on

    earlier = Spent(fits=())
    if isinstance(source, Path):
        with suppress(MedsynthError):  # no fit is on file
            earlier = spent_on(source)
    this = Fit(number="", started="", method="", max_rows=made.max_rows, noise=True, delta=made.delta,
               accountant=made.accountant, events=tuple(made.events.values()))  # fmt: skip

    def cost(spent: Spent) -> float | None:
        return (spent.row() if made.max_rows is None else spent.patient()).epsilon

    return {"fits": len(earlier.fits), "epsilon": cost(earlier) if earlier.fits else 0.0,
            "epsilon_after": cost(Spent(fits=(*earlier.fits, this)))}  # fmt: skip


def measurements(made: Plan) -> list[dict[str, Any]]:
    """Return the measurements of a plan as plain data."""
    shares = made.shares()
    return [
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


def table_of(lines: list[dict[str, Any]]) -> list[str]:
    """Return the measurements as lines of text."""
    width = max([28, *(len(line["label"]) for line in lines)])
    heading = (
        f"{'measurement':<{width}} {'mechanism':<20} {'times':>6} {'noise multiplier':>16} {'sampling rate':>13} "
        f"{'share':>7}"
    )
    return [heading] + [
        f"{m['label']:<{width}} {m['mechanism']:<20} {m['times']:>6} {m['multiplier']:>16.4f} "
        f"{m['rate']:>13.5f} {m['share']:>7.1%}"
        for m in lines
    ]
