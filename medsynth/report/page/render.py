"""One self-contained page: no network, no font, no picture outside it; it reads and prints without its script."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING

from markupsafe import Markup

from ..data.records import Figure
from ..sections.attacks import HOW
from . import figures, svg

if TYPE_CHECKING:
    from ..build import Report

TEMPLATES = resources.files(__package__) / "templates"


def page(report: Report) -> str:
    """The report as HTML. Every number on it is in a `data` element whose value stands in the JSON twin."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    svg.reset()
    environment = Environment(
        loader=FunctionLoader(lambda name: (TEMPLATES / name).read_text(encoding="utf-8")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"num": number, "est": estimate, "pct": percent, "draw": _Draw(), "HOW": HOW}
    style, script = ((TEMPLATES / name).read_text(encoding="utf-8") for name in ("report.css", "report.js"))
    return environment.get_template("report.html").render(r=report, style=Markup(style), script=Markup(script))


def number(value: float | int | None, digits: int = 3) -> Markup:
    """A number as people read it, with its full value for machines. `digits` below zero: as short as can be."""
    if value is None:
        return Markup('<span class="none">not measured</span>')
    if isinstance(value, int):
        shown = f"{value:,}"
    else:
        shown = f"{value:.{digits}f}" if digits >= 0 else f"{value:.12f}".rstrip("0")
    if isinstance(value, float) and value and digits >= 0 and float(shown) == 0:
        shown = "below " + f"{10.0**-digits:.{digits}f}" if value > 0 else f"above -{10.0**-digits:.{digits}f}"
    return Markup('<data value="{}">{}</data>').format(repr(value), shown.replace("-", "\N{MINUS SIGN}", 1))


def percent(value: float | None, digits: int = 1) -> Markup:
    """A share of one, in per cent."""
    if value is None:
        return number(None)
    return Markup('<data value="{}">{:.{d}f}\N{NO-BREAK SPACE}%</data>').format(repr(value), 100 * value, d=digits)


def estimate(figure: Figure, digits: int = 3) -> Markup:
    """An estimate and its interval."""
    if figure.value is None or figure.low is None:
        return number(figure.value, digits)
    ends = Markup(" to ").join([number(figure.low, digits), number(figure.high, digits)])
    return Markup('{}<span class="ci"> ({})</span>').format(number(figure.value, digits), ends)


class _Draw:
    """The figures, for the template: each returns finished SVG."""

    def __getattr__(self, name: str) -> object:
        def call(*arguments: object) -> object:
            made = getattr(figures, name)(*arguments)
            if isinstance(made, str):
                return Markup(made)
            return [(m[0], Markup(m[1])) if isinstance(m, tuple) else Markup(m) for m in made]

        return call
