"""SVG drawings: axes, lines, bars and words, each with a title and a description for screen readers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape

Point = tuple[float, float]


@dataclass
class Drawing:
    """A drawing of a fixed size in user units; colours come from the page's style sheet by class."""

    width: float
    height: float
    title: str
    description: str
    elements: list[str] = field(default_factory=list)

    def add(self, tag: str, text: str | None = None, hover: str = "", **attributes: object) -> None:
        """One element. A trailing underscore is dropped and others become hyphens: `class_`, `text_anchor`.

        `hover` is what a browser shows of it under the pointer.
        """
        words = "".join(f' {k.rstrip("_").replace("_", "-")}="{_form(v)}"' for k, v in attributes.items())
        inside = f"<title>{escape(hover)}</title>" if hover else escape(text or "")
        self.elements.append(f"<{tag}{words}>{inside}</{tag}>" if inside or text is not None else f"<{tag}{words}/>")

    def text(self, x: float, y: float, words: str, class_: str = "tick", anchor: str = "start") -> None:
        """Words whose baseline starts, ends or is centred (`anchor`) at a point."""
        self.add("text", words, x=x, y=y, class_=class_, text_anchor=anchor)

    def line(self, one: Point, other: Point, class_: str) -> None:
        """A straight stroke."""
        self.add("line", x1=one[0], y1=one[1], x2=other[0], y2=other[1], class_=class_)

    def path(self, points: Iterable[Point], class_: str) -> None:
        """A stroke through points."""
        self.add("path", d="M" + "L".join(f"{_form(x)} {_form(y)}" for x, y in points), class_=class_)

    def render(self, number: int = 1) -> str:
        """The drawing as inline SVG. `number` is its own on the page."""
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
    """From data to user units: `low` lands on `start`, `high` on `stop`."""

    low: float
    high: float
    start: float
    stop: float

    def __call__(self, value: float) -> float:
        """The place of `value`, kept on the axis."""
        part = (min(max(value, self.low), self.high) - self.low) / ((self.high - self.low) or 1.0)
        return self.start + part * (self.stop - self.start)


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round numbers that divide [low, high] into about `count` steps."""
    span = (high - low) or 1.0
    power = max(math.floor(math.log10(span / count)), -6)
    step = next(s for s in (m * 10.0**e for e in (power, power + 1) for m in (1, 2, 5)) if span / s <= count)
    first = -(-low // step)
    return [round((first + k) * step, 10) for k in range(int((high - first * step) / step + 1e-9) + 1)]


def spaced(values: Sequence[float]) -> tuple[float, float]:
    """The range of `values` with a little air."""
    low, high = min(values), max(values)
    air = 0.06 * ((high - low) or 1.0)
    return low - air, high + air
