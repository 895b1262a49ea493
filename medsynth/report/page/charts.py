"""The report's charts as SVG. Real rows are blue with a full stroke, synthetic rows orange with a broken one.

Each drawing has a title and a description for screen readers.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape

from ..data.reach import Reach
from ..data.survival import Survival
from ..data.verdict import Estimate
from ..sections.attacks import Attacks
from ..sections.claim import PrivacyLedger
from ..sections.fidelity import Fidelity
from ..sections.inference import Coefficient, Importance
from ..sections.over_time import Band, Bars, Trajectory, Transitions
from ..sections.relations import Relation
from ..sections.utility import Curve, NumericUtility, Utility

Point = tuple[float, float]
ROW = 34.0
MOST_NAMED = 60  # Columns of a heat map whose cells are named under the pointer. More would make the page large.


@dataclass
class Drawing:
    """A drawing of a fixed size in user units. The page's style sheet sets colours by class."""

    width: float
    height: float
    title: str
    description: str
    elements: list[str] = field(default_factory=list)

    def add(self, tag: str, text: str | None = None, hover: str = "", **attributes: object) -> None:
        """Add one element. A trailing underscore is dropped and others become hyphens: `class_`, `text_anchor`.

        `hover` is the text that a browser shows under the pointer.
        """
        words = "".join(f' {k.rstrip("_").replace("_", "-")}="{_form(v)}"' for k, v in attributes.items())
        inside = f"<title>{escape(hover)}</title>" if hover else escape(text or "")
        self.elements.append(f"<{tag}{words}>{inside}</{tag}>" if inside or text is not None else f"<{tag}{words}/>")

    def text(self, x: float, y: float, words: str, class_: str = "tick", anchor: str = "start") -> None:
        """Add words whose baseline starts, ends or is centred (`anchor`) at a point."""
        self.add("text", words, x=x, y=y, class_=class_, text_anchor=anchor)

    def line(self, one: Point, other: Point, class_: str) -> None:
        """Add a straight stroke."""
        self.add("line", x1=one[0], y1=one[1], x2=other[0], y2=other[1], class_=class_)

    def rect(self, x: float, y: float, width: float, height: float, class_: str, hover: str = "", **more: str) -> None:
        """Add a rectangle by its upper left corner and its size."""
        self.add("rect", hover=hover, x=x, y=y, width=width, height=height, class_=class_, **more)

    def path(self, points: Iterable[Point], class_: str) -> None:
        """Add a stroke through points."""
        self.add("path", d="M" + "L".join(f"{_form(x)} {_form(y)}" for x, y in points), class_=class_)

    def render(self, number: int = 1) -> str:
        """Return the drawing as inline SVG. `number` identifies it on the page."""
        width, height = _form(self.width), _form(self.height)
        return (
            f'<svg viewBox="0 0 {width} {height}" role="img" style="max-width:{width}px" '
            f'aria-labelledby="t{number} d{number}"><title id="t{number}">{escape(self.title)}</title>'
            f'<desc id="d{number}">{escape(self.description)}</desc>{"".join(self.elements)}</svg>'
        )


def _form(value: object) -> str:
    return f"{value:.1f}".rstrip("0").rstrip(".") if isinstance(value, float) else escape(str(value), quote=True)


@dataclass(frozen=True)
class Scale:
    """A map from data to user units: `low` becomes `start`, `high` becomes `stop`."""

    low: float
    high: float
    start: float
    stop: float

    def __call__(self, value: float) -> float:
        """Return the position of `value`, clipped to the axis."""
        part = (min(max(value, self.low), self.high) - self.low) / ((self.high - self.low) or 1.0)
        return self.start + part * (self.stop - self.start)


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Return round numbers that divide [low, high] into about `count` steps."""
    span = (high - low) or 1.0
    power = max(math.floor(math.log10(span / count)), -6)
    step = next(s for s in (m * 10.0**e for e in (power, power + 1) for m in (1, 2, 5)) if span / s <= count)
    first = -(-low // step)
    return [round((first + k) * step, 10) for k in range(int((high - first * step) / step + 1e-9) + 1)]


def spaced(values: Sequence[float]) -> tuple[float, float]:
    """Return the range of `values` with a small margin."""
    low = min(values)
    high = max(values)
    air = 0.06 * ((high - low) or 1.0)
    return low - air, high + air


def _square(drawing: Drawing, x: str, y: str) -> tuple[Scale, Scale]:
    """Draw axes from 0 to 1 both ways, with the diagonal of chance."""
    across, up = Scale(0, 1, 44.0, 264.0), Scale(0, 1, 232.0, 12.0)
    for value in (0.0, 0.5, 1.0):
        drawing.line((across(value), up(0)), (across(value), up(1)), "grid")
        drawing.line((across(0), up(value)), (across(1), up(value)), "grid")
        drawing.text(across(value), up(0) + 16, f"{value:g}", anchor="middle")
        drawing.text(across(0) - 6, up(value) + 4, f"{value:g}", anchor="end")
    drawing.line((across(0), up(0)), (across(1), up(1)), "chance")
    drawing.text(across(0.5), up(0) + 34, x, "axis", "middle")
    drawing.add("text", y, x=13, y=up(0.5), class_="axis", text_anchor="middle", transform=f"rotate(-90 13 {up(0.5)})")
    return across, up


def odds(claim: Reach) -> Drawing:
    """Draw how often a guess can be right at most, between tossing a coin and being certain."""
    width, top = 420.0, 30.0
    best = math.ceil(100 * claim.guess_right - 1e-9)
    drawing = Drawing(
        width,
        84,
        "How often a guess can be right",
        f"Of 100 guesses, a coin gets 50 right. With these rows at most {best} are right.",
    )
    place = Scale(0, 100, 12, width - 12)
    for low, high, kind in ((0, 50, "reach"), (50, best, "fill synthetic"), (0, 100, "frame")):
        drawing.rect(place(low), top, place(high) - place(low), 22, kind)
    drawing.text(place(25), top + 15, "a coin: 50", "name", "middle")
    drawing.text(place(best), top - 9, f"with these rows: at most {best}", "name", "middle" if best < 80 else "end")
    drawing.line((place(best), top - 5), (place(best), top + 22), "base")
    for value in (0, 50, 100):
        drawing.text(place(value), top + 40, str(value), anchor={0: "start", 50: "middle", 100: "end"}[value])
    drawing.text(place(75), top + 40, "right of 100 guesses", "tick", "middle")
    return drawing


def tradeoff(claim: Reach) -> Drawing:
    """Draw the attacker's best true-positive rate at each false-positive rate."""
    drawing = Drawing(
        300, 280, "What any attacker can reach at most",
        f"Upper bound of the true-positive rate against the false-positive rate, from {len(claim.curve)} points of the "
        f"ledger's own curve. From even odds, a guess is right at most {claim.guess_right:.1%} of the time.",
    )  # fmt: skip
    across, up = _square(drawing, "false-positive rate", "true-positive rate")
    line = [(across(x), up(y)) for x, y in claim.curve]
    drawing.path([*line, (across(1), up(0)), (across(0), up(0))], "reach")
    drawing.line((across(0), up(0)), (across(1), up(1)), "chance")
    drawing.path(line, "stroke ink")
    return drawing


def curves(found: Sequence[Curve], kind: str, x: str, y: str) -> list[Drawing]:
    """Draw one small square per class, with real and synthetic training rows."""
    made = []
    for curve in found:
        drawing = Drawing(
            280, 278, f"{kind}, class {curve.level}",
            f"{kind} of class {curve.level} against the rest: {y} over {x}, trained on real rows (full stroke) and "
            "on synthetic rows (broken stroke). The table lists the figures.",
        )  # fmt: skip
        across, up = _square(drawing, x, y)
        for side, points in (("real", curve.real), ("synthetic", curve.synthetic)):
            drawing.path([(across(a), up(b)) for a, b in points], f"stroke {side}")
        drawing.text(across(0.96), up(0.06), f"class {curve.level}", "mark", "end")
        made.append(drawing)
    return made


def _interval(drawing: Drawing, estimate: Estimate, place: Scale, y: float, side: str) -> None:
    if estimate.value is None:
        return
    if estimate.low is not None and estimate.high is not None:
        drawing.line((place(estimate.low), y), (place(estimate.high), y), f"bar {side}")
    if side == "synthetic":
        drawing.rect(place(estimate.value) - 4.5, y - 4.5, 9, 9, f"dot {side}")
    else:
        drawing.add("circle", cx=place(estimate.value), cy=y, r=5, class_=f"dot {side}")


def forest(
    title: str, rows: Sequence[tuple[str, Sequence[tuple[str, Estimate]]]], axis: str, mark: float | None
) -> Drawing | None:
    """Draw estimates with intervals, one row per name: circles real, squares synthetic. `mark` is a reference line.

    None if there is no value to draw.
    """
    values = [v for _, sides in rows for _, f in sides for v in (f.value, f.low, f.high) if v is not None]
    values += [mark] if mark is not None else []
    if not values:
        return None
    left = 12 + 7.2 * max(len(name) for name, _ in rows)
    height = 16 + ROW * len(rows) + 44
    words = "; ".join(
        f"{name}: " + ", ".join(f"{side} {f.value:.3f}" for side, f in sides if f.value is not None)
        for name, sides in rows
    )
    drawing = Drawing(max(620.0, left + 340), height, title, words)
    low, high = spaced(values)
    place = Scale(low, high, left, drawing.width - 24)
    for value in ticks(low, high):
        drawing.line((place(value), 10), (place(value), height - 44), "grid")
        drawing.text(place(value), height - 28, f"{value:g}", anchor="middle")
    if mark is not None:
        drawing.line((place(mark), 6), (place(mark), height - 40), "chance")
    for k, (name, sides) in enumerate(rows):
        middle = 16 + ROW * (k + 0.5)
        drawing.text(left - 12, middle + 4, name, "name", "end")
        for j, (side, estimate) in enumerate(sides):
            _interval(drawing, estimate, place, middle + (j - (len(sides) - 1) / 2) * 12, side)
    drawing.text((left + drawing.width - 24) / 2, height - 8, axis, "axis", "middle")
    return drawing


def scores(utility: Utility | NumericUtility) -> Drawing | None:
    """Draw the AuROC, or R2, of every model trained on real and on synthetic rows."""
    number = isinstance(utility, NumericUtility)
    models = utility.regressors if isinstance(utility, NumericUtility) else utility.classifiers
    title = "R2 on real rows" if number else "AuROC on real rows"
    rows = [(m.label, [("real", m.real), ("synthetic", m.synthetic)]) for m in models]
    return forest(title, rows, title if number else f"macro {title}", None)


def attack_intervals(attacks: Attacks) -> Drawing | None:
    """Draw the advantage of every membership attack with its interval. Zero is chance."""
    rows = [(m.name, [("synthetic", m.advantage)]) for m in attacks.membership]
    return forest("Advantage of membership attacks", rows, "advantage over guessing (0: none, 1: certain)", 0.0)


def coefficients(found: Sequence[Coefficient], title: str, axis: str) -> Drawing | None:
    """Draw the coefficients of a regression on both tables."""
    rows = [(c.predictor, [("real", c.real), ("synthetic", c.synthetic)]) for c in found]
    return forest(title, rows, f"{axis} with 95 % interval", 0.0)


def importances(found: Importance) -> Drawing | None:
    """Draw the columns that models rely on most."""
    rows = [
        (name, [("real", Estimate(value=a)), ("synthetic", Estimate(value=b))]) for name, a, b in found.columns[:10]
    ]
    return forest("Permutation importance", rows, "rise of the squared error when the column is permuted", 0.0)


def bars(
    name: str, labels: Sequence[str], real: Sequence[float] | None, made: Sequence[float], number: bool
) -> Drawing:
    """Draw one column's shares: filled bars synthetic, a stepped outline (numbers) or ticks (levels) real."""
    width, height, floor = 236.0, 116.0, 88.0
    top = max([*(real or [0.0]), *made, 1e-9])
    words = "; ".join(_bar(label, real[k] if real else None, made[k]) for k, label in enumerate(labels[:8]))
    drawing = Drawing(width, height, f"Distribution of {name}", words or "no values")
    step = (width - 8) / max(len(labels), 1)
    up = Scale(0, top, floor, 10)
    for k, share in enumerate(made):
        gap = 0.0 if number else step * 0.12
        drawing.rect(4 + k * step + gap, up(share), max(step - 2 * gap, 0.5), floor - up(share), "fill synthetic")
    if real and number:
        outline: list[Point] = [(4, floor)]
        for k, share in enumerate(real):
            outline += [(4 + k * step, up(share)), (4 + (k + 1) * step, up(share))]
        drawing.path([*outline, (4 + len(real) * step, floor)], "stroke real")
    elif real:
        for k, share in enumerate(real):
            drawing.line(
                (4 + k * step + step * 0.04, up(share)), (4 + (k + 1) * step - step * 0.04, up(share)), "level real"
            )
    drawing.line((4, floor), (width - 4, floor), "base")
    for k, label in enumerate(labels):  # A clear rectangle over each bar shows the bar's label under the pointer.
        drawing.add("rect", hover=_bar(label, real[k] if real else None, made[k]), x=4 + k * step, y=4.0, width=step,
                    height=floor - 4, fill="transparent")  # fmt: skip
    if number and labels:
        drawing.text(4, floor + 15, labels[0].split(" to ")[0])
        drawing.text(width - 4, floor + 15, labels[-1].split(" to ")[-1], anchor="end")
    elif len(labels) > 6:
        drawing.text(4, floor + 15, f"{len(labels)} levels")
    else:
        for k, label in enumerate(labels):
            short = _short(label, max(2, int(step / 7.6)))
            drawing.text(4 + (k + 0.5) * step, floor + 15, short, anchor="middle")
    return drawing


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _bar(label: str, real: float | None, made: float) -> str:
    return f"{label}: " + ("" if real is None else f"real {real:.1%}, ") + f"synthetic {made:.1%}"


def heat_maps(fidelity: Fidelity) -> list[tuple[str, Drawing]]:
    """Draw the associations of real rows, of synthetic rows, and their difference."""
    real, made = fidelity.association_real, fidelity.association_synthetic
    gap = [[b - a for a, b in zip(x, y, strict=True)] for x, y in zip(real, made, strict=True)]
    titles = ("real rows", "synthetic rows", "synthetic less real")
    return [(t, _heat(t, m, fidelity.names)) for t, m in zip(titles, (real, made, gap), strict=True)]


def _heat(title: str, matrix: list[list[float]], names: list[str]) -> Drawing:
    """Draw a square of cells. Darker is stronger; in the difference, blue is too weak and orange too strong.

    Rows have names if there is room, and columns have the rows' numbers. Point at a cell to see its pair.
    """
    count = len(names)
    size = min(16.0, 300 / count)
    strongest = sorted(
        ((abs(matrix[i][j]), matrix[i][j], names[i], names[j]) for i in range(count) for j in range(i)), reverse=True
    )
    words = "Strongest: " + "; ".join(f"{a} and {b} {v:.2f}" for _, v, a, b in strongest[:5])
    labelled = size >= 9
    left = 8 + (5.6 * min(20, 4 + max(map(len, names))) if labelled else 0)
    head = 18.0 if labelled else 4.0
    drawing = Drawing(left + count * size + 8, head + count * size + 8, f"Association between columns, {title}", words)
    named = count <= MOST_NAMED
    for i in range(count):
        for j in range(count):
            value = matrix[i][j]
            if i != j and abs(value) >= 0.02:
                kind = "heat" if title != "synthetic less real" else ("more" if value > 0 else "less")
                hover = f"{names[i]} and {names[j]}: {value:.2f}" if named else ""
                opacity = min(1.0, abs(value) * (1 if kind == "heat" else 2.5))
                drawing.rect(left + j * size, head + i * size, size - 0.6, size - 0.6, kind, hover,
                             fill_opacity=f"{opacity:.2f}")  # fmt: skip
        drawing.rect(left + i * size, head + i * size, size - 0.6, size - 0.6, "self")
        if labelled:
            drawing.text(left - 5, head + (i + 0.7) * size, f"{_short(names[i], 16)} {i + 1}", "small", "end")
            drawing.text(left + (i + 0.45) * size, head - 5, str(i + 1), "small", "middle")
    return drawing


def association_pairs(fidelity: Fidelity) -> list[tuple[str, str, float, float]]:
    """Return the pairs of columns whose association differs most: names, real, synthetic."""
    real, made, names = fidelity.association_real, fidelity.association_synthetic, fidelity.names
    pairs = [(names[j], names[i], real[i][j], made[i][j]) for i in range(len(names)) for j in range(i)]
    return sorted(pairs, key=lambda pair: -abs(pair[3] - pair[2]))[:12]


def relation(found: Relation) -> Drawing:
    """Draw the partner's shares in rows with the level as bars, or in rows of each level as two maps."""
    if found.level is not None:
        few = [x.replace("below ", "< ").replace("above ", "> ").removeprefix("between ") for x in found.labels]
        return bars(found.name, few, found.shares_real[0], found.shares_synthetic[0], number=False)
    size, left, head = 24.0, 14 + 6.0 * min(16, max(map(len, found.row_labels))), 36.0
    across, down = len(found.labels), len(found.row_labels)
    drawing = Drawing(
        left + 2 * across * size + 30, head + down * size + 8, f"{found.column} and {found.partner}",
        f"Shares of {found.partner} in rows of each {found.column}: real rows left, synthetic rows right. "
        f"{found.sentence}.",
    )  # fmt: skip
    for side, start, shares_ in (("real", left, found.shares_real),
                                 ("synthetic", left + across * size + 22, found.shares_synthetic)):  # fmt: skip
        drawing.text(start, 12, side, "axis")
        for j in range(across):
            drawing.text(start + (j + 0.5) * size, head - 7, str(j + 1), "small", "middle")
        for i, row in enumerate(shares_):
            for j, share in enumerate(row):
                hover = f"{found.partner} {found.labels[j]} if {found.column} {found.row_labels[i]}: {share:.0%} {side}"
                place = (start + j * size, head + i * size, size - 1, size - 1)
                drawing.rect(*place, "self")
                drawing.rect(*place, "heat", hover, fill_opacity=f"{share:.2f}")
    for i, label in enumerate(found.row_labels):
        drawing.text(left - 6, head + (i + 0.65) * size, _short(label, 16), "small", "end")
    return drawing


def shares(ledger: PrivacyLedger) -> Drawing:
    """Draw each measurement's share of the first-order privacy loss."""
    drawing = Drawing(
        620, 20 + 30 * len(ledger.events), "Shares of the privacy loss",
        "; ".join(f"{e.label}: {e.share:.1%}" for e in ledger.events),
    )  # fmt: skip
    left = 12 + 7.2 * max(len(e.label) for e in ledger.events)
    place = Scale(0, 1, left, 560)
    for k, event in enumerate(ledger.events):
        y = 10 + 30 * k
        drawing.text(left - 12, y + 15, event.label, "name", "end")
        drawing.rect(left, y, max(place(event.share) - left, 1.0), 20, "fill ink")
        drawing.text(place(event.share) + 8, y + 15, f"{event.share:.1%}")
    return drawing


def waiting(found: Survival, unit: str) -> Drawing:
    """Draw the share of rows without a next row by the time since the row."""
    drawing = Drawing(
        560.0, 260.0, "Time to the next row",
        f"Share of rows that no other row of the patient follows within a time. At the end, after "
        f"{found.times[-1]:.4g} {unit}: synthetic {found.synthetic[-1]:.1%}. The table lists the shares.",
    )  # fmt: skip
    across, up = Scale(0, found.times[-1], 48.0, 544), Scale(0, 1, 212.0, 14)
    return _by_time(drawing, found, across, up, f"{unit} since the row", count=5, air=6)


def survival(found: Survival, unit: str, name: str, since: str = " since the first row") -> Drawing:
    """Draw the share of patients without an event by time: real and synthetic Kaplan-Meier curves."""
    drawing = Drawing(
        268.0, 190.0, f"Time to {name}",
        f"Share of patients without it. At the end, after {found.times[-1]:.4g} {unit}: synthetic "
        f"{found.synthetic[-1]:.1%}.",
    )  # fmt: skip
    lowest = min([share for share in [*(found.real or []), *found.synthetic] if share is not None], default=0.0)
    bottom = 0.0 if lowest < 0.75 else math.floor(20 * lowest - 1e-9) / 20
    across, up = Scale(0, found.times[-1], 44.0, 256), Scale(bottom, 1, 142.0, 12)
    return _by_time(drawing, found, across, up, f"{unit}{since}", count=3, air=5, steps=True)


def _by_time(
    drawing: Drawing, found: Survival, across: Scale, up: Scale, axis: str, *, count: int, air: float,
    steps: bool = False,
) -> Drawing:  # fmt: skip
    """Draw shares by time, real and synthetic. Each axis has `count` labels at a distance of `air`."""
    for share in (up.low + (up.high - up.low) * k / (count - 1) for k in range(count)):
        drawing.line((across.start, up(share)), (across.stop, up(share)), "grid")
        drawing.text(across.start - air, up(share) + 4, f"{100 * share:.3g}%", anchor="end")
    for time in ticks(0, across.high, count):
        drawing.text(across(time), up.start + 12 + air, f"{time:g}", anchor="middle")
    for side, shares in (("real", found.real or []), ("synthetic", found.synthetic)):
        points = [(across(t), up(s)) for t, s in zip(found.times, shares, strict=False) if s is not None]
        if steps:
            corners = [((x, y), (x_next, y)) for (x, y), (x_next, _) in itertools.pairwise(points)]
            points = [*itertools.chain(*corners), *points[-1:]]
        if len(points) > 1:
            drawing.path(points, f"stroke {side}")
    drawing.text((across.start + drawing.width) / 2, drawing.height - 8, axis, "axis", "middle")
    return drawing


def steps(name: str, found: Bars) -> Drawing:
    """Draw shares in bars. A real bar that is not shown is drawn empty."""
    real = None if found.real is None else [share or 0.0 for share in found.real]
    return bars(name, found.labels, real, found.synthetic, any(" to " in label for label in found.labels))


def moves(found: Transitions) -> Drawing:
    """Draw transitions from each level (row) to each (column). The heights of the two bars per cell are shares."""
    count = len(found.levels)
    left = 14 + 6.2 * min(18, max(map(len, found.levels)))
    head = 22.0
    size = min(56.0, 190.0 / count)
    drawing = Drawing(
        left + count * size + 8, head + count * size + 6, f"Transitions of {found.name}",
        f"Shares of changes from the level of a row to that of a column, for {count} levels. The table lists them.",
    )  # fmt: skip
    for i, level in enumerate(found.levels):
        floor = head + (i + 1) * size
        drawing.text(left - 6, floor - size / 2 + 4, f"{_short(level, 18)} {i + 1}", "small", "end")
        drawing.text(left + (i + 0.5) * size, head - 7, str(i + 1), "small", "middle")
        drawing.line((left, floor), (left + count * size, floor), "grid")
        for kind, rows, start in (("solid real", found.real, 0.12), ("fill synthetic", found.synthetic, 0.5)):
            shares = rows[i] if rows else None
            for j, share in enumerate(shares or []):
                height = max(share * (size - 4), 0.5)
                hover = f"{level} to {found.levels[j]}: {share:.1%}"
                drawing.rect(left + (j + start) * size, floor - height, 0.36 * size, height, kind, hover)
    return drawing


def bands(found: Trajectory) -> Drawing:
    """Draw a number column by row number: medians as strokes, quartiles as a band (real) or strokes (synthetic)."""
    width, height, left, floor = 236.0, 150.0, 42.0, 122.0
    shown = [band for side in (found.real or [], found.synthetic) for band in side if band]
    sides = {"real": found.real or [None] * len(found.synthetic), "synthetic": found.synthetic}
    words = "; ".join(
        f"row {k + 1}: " + ", ".join(f"{name} {band[1]:.4g}" for name, side in sides.items() if (band := side[k]))
        for k in range(len(found.synthetic))
    )
    drawing = Drawing(width, height, f"{found.name} by row", f"Medians. {words}" if shown else "no values")
    if not shown:
        return drawing
    place = [_placed(found, value) for band in shown for value in band]
    low = min(place)
    high = max(place)
    up, across = Scale(low, high, floor, 12), Scale(0, max(len(found.synthetic) - 1, 1), left, width - 10)
    for end in (low, (low + high) / 2, high):
        drawing.line((left, up(end)), (width - 10, up(end)), "grid")
        drawing.text(left - 5, up(end) + 4, f"{math.exp(end) if found.logarithm else end:.3g}", anchor="end")
    for k in range(len(found.synthetic)):
        drawing.text(across(k), floor + 18, str(k + 1), anchor="middle")
    real = _line(found, sides["real"], across, up)
    if len(real) > 1:
        drawing.path([p[2] for p in real] + [p[0] for p in reversed(real)], "reach")
        drawing.path([p[1] for p in real], "stroke real")
    made = _line(found, found.synthetic, across, up)
    if len(made) > 1:
        for end, kind in ((0, "stroke thin synthetic"), (1, "stroke synthetic"), (2, "stroke thin synthetic")):
            drawing.path([p[end] for p in made], kind)
    return drawing


def _line(found: Trajectory, side: Sequence[Band | None], across: Scale, up: Scale) -> list[list[Point]]:
    return [[(across(k), up(_placed(found, v))) for v in band] for k, band in enumerate(side) if band]


def _placed(found: Trajectory, value: float) -> float:
    """Return a value's position on the axis: its logarithm if the column has a log scale."""
    return math.log(value) if found.logarithm else value
