"""Render one self-contained page without network, fonts or pictures. It reads and prints without its script."""

from __future__ import annotations

import itertools
import math
import re
from functools import cache, partial
from importlib import resources
from typing import TYPE_CHECKING

from markupsafe import Markup, escape

from ...privacy.accounting.accountant import rounded_up
from ..data.verdict import Estimate
from ..document import Report
from ..sections.registry import SECTIONS, Section
from . import charts

if TYPE_CHECKING:
    from jinja2 import Environment

QUOTED = re.compile(r"`(\w+)`")
DATE = re.compile(r"(<(script|style|svg|title|pre)\b.*?</\2>|<[^>]*>)|\b\d{4}-\d\d-\d\d\b", re.DOTALL)
TEMPLATES = resources.files(__package__) / "templates"
KEY = Markup(
    '<div class="key"><span><i></i>real rows</span><span><i class="s"></i>synthetic rows</span></div>'
)  # For every chart of two tables.


def page(report: Report) -> str:
    """Return the report as HTML. Every number is in a `data` element whose value is also in the JSON twin."""
    environment = _environment()
    places = {section.id: k for k, section in enumerate(report.shown, 1)}

    def link(name: str) -> Markup:
        """Return a link that says where it leads, also on paper."""
        if name not in places:
            return Markup("not on this page")
        return Markup('<a href="#{}">section\N{NO-BREAK SPACE}{}</a>').format(name, places[name])

    titles = {name: section.title for name, section in SECTIONS.items()}
    given = {"report": report, "draw": _Charts(), "titles": titles, "link": link}

    def body(section: Section) -> Markup:
        """Render the section's fragment from its record."""
        if section.fragment is None:
            template = environment.get_template(f"sections/{section.id}.html")
        else:
            template = environment.from_string(section.fragment)
        return Markup(template.render(given, record=report.sections.get(section.id)))

    made = environment.get_template("report.html").render(
        given,
        sections=[(k, section, body(section)) for k, section in enumerate(report.shown, 1)],
        style=Markup(_text("report.css")),
        script=Markup(_text("report.js")),
    )
    return DATE.sub(lambda found: found[1] or f"<time>{found[0]}</time>", made)  # no line ends within a date


@cache
def _environment() -> Environment:
    """Return the templates and their functions, so that a process compiles each template once for all pages."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    environment = Environment(
        loader=FunctionLoader(_text), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.globals |= {
        "num": number,
        "est": estimate,
        "pct": percent,
        "eps": epsilon,
        "delta": partial(number, digits=-1),
        "per_hundred": per_hundred,
        "words": words,
        "key": KEY,
    }
    return environment


def _text(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")


def number(value: float | int | None, digits: int = 3, none: str = "not measured") -> Markup:
    """Return a number for people, with its full value for machines. Negative `digits` mean as few as possible.

    `none` replaces None.
    """
    if value is None:
        return Markup('<span class="none">{}</span>').format(none)
    if isinstance(value, int):
        shown = f"{value:,}"
    else:
        shown = f"{value:.{digits}f}" if digits >= 0 else f"{value:.12f}".rstrip("0").rstrip(".")
    if isinstance(value, float) and value and digits > 0 and float(shown) == 0:
        shown = "below " + f"{10.0**-digits:.{digits}f}" if value > 0 else f"above -{10.0**-digits:.{digits}f}"
    return Markup('<data value="{}">{}</data>').format(repr(value), shown.replace("-", "\N{MINUS SIGN}", 1))


def percent(value: float | None, digits: int = 1) -> Markup:
    """Return a share of one in per cent."""
    if value is None:
        return number(None)
    return Markup('<data value="{}">{:.{d}f}\N{NO-BREAK SPACE}%</data>').format(repr(value), 100 * value, d=digits)


def epsilon(value: float) -> Markup:
    """Return epsilon as claims quote it everywhere, rounded up."""
    return Markup('<data value="{}">{}</data>').format(repr(value), rounded_up(value))


def per_hundred(value: float) -> int:
    """Return a largest share of one as a whole number of a hundred, rounded up."""
    return math.ceil(100 * value - 1e-9)


def estimate(found: Estimate, digits: int = 3, none: str = "not measured") -> Markup:
    """Return an estimate and its interval."""
    if found.value is None or found.low is None:
        return number(found.value, digits, none)
    ends = Markup(" to ").join([number(found.low, digits), number(found.high, digits)])
    return Markup('{}<span class="ci"> ({})</span>').format(number(found.value, digits), ends)


def words(text: str) -> Markup:
    """Return a sentence of the library with its backquoted names as code.

    >>> words("at most `rows` of <100")
    Markup('at most <code>rows</code> of &lt;100')
    """
    return Markup(QUOTED.sub(r"<code>\1</code>", str(escape(text))))


class _Charts:
    """The charts of one page, for its templates. Each method returns finished SVG, numbered within the page."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    def _finished(self, made: object) -> object:
        if isinstance(made, charts.Drawing):
            return Markup(made.render(next(self._numbers)))
        if isinstance(made, list):
            return [self._finished(each) for each in made]
        if isinstance(made, tuple):
            return tuple(self._finished(each) for each in made)
        if isinstance(made, str | float):
            return made
        return Markup("")  # nothing to draw

    def __getattr__(self, name: str) -> object:
        drawing = getattr(charts, name)
        return lambda *arguments: self._finished(drawing(*arguments))
