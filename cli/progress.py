"""Progress on standard error, in place of which nothing is printed where nobody watches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from medsynth.privacy.accounting.calibration import Plan


@contextmanager
def report_progress(show: bool) -> Iterator[Callable[[str], None]]:
    """A line that names the section being computed, and the time that has passed."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from medsynth.report.sections.registry import computed

    columns = (TextColumn("Report: {task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), disable=not show, transient=True) as bar:
        task = bar.add_task("reading", total=computed() + 2)

        def step(name: str) -> None:
            bar.update(task, description=name, advance=1)

        yield step


@contextmanager
def fit_progress(show: bool) -> Iterator[Callable[[Plan, str, int, int, int], None]]:
    """A bar with the device, rows a second, epsilon so far and the time left.

    Rows are expected rows: lot sizes as drawn are private. Epsilon is read from the plan's table.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("Fitting on {task.fields[device]}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"))
    detail = (TextColumn("{task.fields[rate]} rows/s, epsilon {task.fields[epsilon]}"), TimeRemainingColumn())
    with Progress(*columns, *detail, console=Console(stderr=True), disable=not show, transient=True) as bar:
        task = bar.add_task("fit", device="...", rate="-", epsilon="-", total=None)
        table: list[tuple[int, float]] = []

        def advance(plan: Plan, device: str, done: int, total: int, lots: int) -> None:
            if not show:
                return
            event, _ = plan.events[plan.most_frequent]
            if not table:
                table.extend(plan.epsilon_by_release())
            elapsed = bar.tasks[0].elapsed or 0.0
            rows = lots * plan.rows * getattr(event, "rate", 1.0) / elapsed if elapsed else 0
            epsilon = next((epsilon for steps, epsilon in table if lots <= steps), plan.epsilon)
            bar.update(task, completed=done, total=total, device=device, rate=f"{rows:,.0f}", epsilon=f"{epsilon:.2f}")

        yield advance


@contextmanager
def audit_progress(show: bool) -> Iterator[Callable[[str, int, int], None]]:
    """A bar that names what is audited, and the time that has passed."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("Audit: {task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), disable=not show, transient=True) as bar:
        task = bar.add_task("starting")

        def step(what: str, done: int, total: int) -> None:
            bar.update(task, description=what, completed=done, total=total)

        yield step
