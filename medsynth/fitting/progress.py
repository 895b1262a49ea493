"""A bar that shows what a fit is doing, on a terminal or in a notebook. It shows planned numbers alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..privacy.accounting.calibration import Plan
from .options import Phase, Progress


@contextmanager
def progress_bar(show: bool) -> Iterator[tuple[Progress, Phase]]:
    """A bar with the phase, then the device, rows a second, epsilon so far and the time left; nothing unless `show`.

    Rows are expected rows: lot sizes as drawn are private. Epsilon is read from the plan's table.
    """
    if not show:
        yield (lambda plan, device, done, total, lots: None), (lambda name: None)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[detail]}"), TimeElapsedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", detail="", total=None)
        table: list[tuple[int, float]] = []

        def advance(plan: Plan, device: str, done: int, total: int, lots: int) -> None:
            event, _ = plan.events[plan.most_frequent]
            if not table:
                table.extend(plan.epsilon_by_release())
            elapsed = bar.tasks[0].elapsed or 0.0
            rows = lots * plan.rows * getattr(event, "rate", 1.0) / elapsed if elapsed else 0
            epsilon = next((epsilon for steps, epsilon in table if lots <= steps), plan.epsilon)
            detail = f"{rows:,.0f} rows/s, epsilon {epsilon:.2f}"
            bar.update(task, description=f"fitting on {device}", completed=done, total=total, detail=detail)

        yield advance, lambda name: bar.update(task, description=name)
