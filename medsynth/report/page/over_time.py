"""Charts of patients over time: a curve of waiting, bands by the number of the row. Blue real, orange synthetic."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..sections.over_time.records import Band, Bars, Trajectory, Transitions, Waiting
from .charts import bars
from .svg import Drawing, Point, Scale, ticks


def waiting(found: Waiting, unit: str) -> Drawing:
    """Shares of rows that no next row has followed, by the time since the row."""
    width, height, left, floor = 560.0, 260.0, 48.0, 212.0
    drawing = Drawing(
        width, height, "Time to the next row",
        f"Share of rows that no other row of the patient follows within a time. At the end, after "
        f"{found.times[-1]:.4g} {unit}: synthetic {found.synthetic[-1]:.1%}. The shares stand in the table.",
    )  # fmt: skip
    across, up = Scale(0, found.times[-1], left, width - 16), Scale(0, 1, floor, 14)
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        drawing.line((left, up(share)), (width - 16, up(share)), "grid")
        drawing.text(left - 6, up(share) + 4, f"{share:.0%}", anchor="end")
    for time in ticks(0, found.times[-1]):
        drawing.text(across(time), floor + 18, f"{time:g}", anchor="middle")
    for side, shares in (("real", found.real or []), ("synthetic", found.synthetic)):
        points = [(across(t), up(s)) for t, s in zip(found.times, shares, strict=False) if s is not None]
        if len(points) > 1:
            drawing.path(points, f"stroke {side}")
    drawing.text((left + width) / 2, height - 8, f"{unit} since the row", "axis", "middle")
    return drawing


def steps(name: str, found: Bars) -> Drawing:
    """Shares in bars; a real bar that is not shown is drawn empty."""
    real = None if found.real is None else [share or 0.0 for share in found.real]
    return bars(name, found.labels, real, found.synthetic, any(" to " in label for label in found.labels))


def moves(found: Transitions) -> Drawing:
    """From each level (row) to each (column): two bars a cell, their heights the shares that go there."""
    count = len(found.levels)
    left, head, size = 14 + 6.2 * min(18, max(map(len, found.levels))), 22.0, min(56.0, 190.0 / count)
    drawing = Drawing(
        left + count * size + 8, head + count * size + 6, f"Transitions of {found.name}",
        f"Shares that go from the level of a row to that of a column, of {count} levels. The table has the shares.",
    )  # fmt: skip
    for i, level in enumerate(found.levels):
        name = level if len(level) <= 18 else level[:17] + "…"
        floor = head + (i + 1) * size
        drawing.text(left - 6, floor - size / 2 + 4, f"{name} {i + 1}", "small", "end")
        drawing.text(left + (i + 0.5) * size, head - 7, str(i + 1), "small", "middle")
        drawing.line((left, floor), (left + count * size, floor), "grid")
        for kind, rows, start in (("solid real", found.real, 0.12), ("fill synthetic", found.synthetic, 0.5)):
            shares = rows[i] if rows else None
            for j, share in enumerate(shares or []):
                height = max(share * (size - 4), 0.5)
                drawing.add("rect", hover=f"{level} to {found.levels[j]}: {share:.1%}", x=left + (j + start) * size,
                            y=floor - height, width=0.36 * size, height=height,
                            class_=kind)  # fmt: skip
    return drawing


def bands(found: Trajectory) -> Drawing:
    """A number column by the number of the row: medians as strokes, quartiles as a band (real) and as thin strokes."""
    width, height, left, floor = 236.0, 150.0, 42.0, 122.0
    shown = [band for side in (found.real or [], found.synthetic) for band in side if band]
    words = "; ".join(
        f"row {k + 1}: " + ", ".join(f"{side} {band[1]:.4g}" for side, band in _sides(found, k) if band)
        for k in range(len(found.synthetic))
    )
    drawing = Drawing(width, height, f"{found.name} by row", f"Medians. {words}" if shown else "no values")
    if not shown:
        return drawing
    place = [_placed(found, value) for band in shown for value in band]
    low, high = min(place), max(place)
    up, across = Scale(low, high, floor, 12), Scale(0, max(len(found.synthetic) - 1, 1), left, width - 10)
    for end in (low, (low + high) / 2, high):
        drawing.line((left, up(end)), (width - 10, up(end)), "grid")
        drawing.text(left - 5, up(end) + 4, f"{math.exp(end) if found.logarithm else end:.3g}", anchor="end")
    for k in range(len(found.synthetic)):
        drawing.text(across(k), floor + 18, str(k + 1), anchor="middle")
    real = _line(found, found.real or [], across, up)
    if len(real) > 1:
        drawing.path([p[2] for p in real] + [p[0] for p in reversed(real)], "reach")
        drawing.path([p[1] for p in real], "stroke real")
    made = _line(found, found.synthetic, across, up)
    if len(made) > 1:
        for end, kind in ((0, "stroke thin synthetic"), (1, "stroke synthetic"), (2, "stroke thin synthetic")):
            drawing.path([p[end] for p in made], kind)
    return drawing


def _sides(found: Trajectory, k: int) -> list[tuple[str, Band | None]]:
    return [("real", found.real[k] if found.real else None), ("synthetic", found.synthetic[k])]


def _placed(found: Trajectory, value: float) -> float:
    """A value on the axis: its logarithm where the column's scale is one."""
    return math.log(value) if found.logarithm else value


def _line(found: Trajectory, side: Sequence[Band | None], across: Scale, up: Scale) -> list[list[Point]]:
    """The three points of each row's band."""
    return [[(across(k), up(_placed(found, v))) for v in band] for k, band in enumerate(side) if band]
