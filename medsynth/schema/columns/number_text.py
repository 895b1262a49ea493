"""How a number is written in a cell: unit, sign and marks, declared by an example, and lengths of time.

    {} mg    ~{}    {1,234.5}    {1'234} €    {+0.35}    {−1.8}    {1.03E+09}    {0,5}    {h}:{mm}    {h} h {m} min

The braces contain an example of the number, or nothing. A mark in front of exactly three digits is a thousands mark,
unless the number begins with zero. Any blank counts as any other.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import Protocol

from ...errors import EntryError

_BRACES = re.compile(r"\{([^{}]*)\}")
_EXAMPLE = re.compile(
    r"(?P<sign>[+\-−]?)(?:(?P<whole>[1-9][0-9]{0,2}(?:(?P<mark>[,.'’\s])[0-9]{3})(?:(?P=mark)[0-9]{3})*)|[0-9]+)"
    r"(?:(?P<point>[.,])(?P<rest>[0-9]+))?(?:(?P<e>[eE])(?P<plus>\+?)(?P<digits>[0-9]{1,3}))?"
)
_SIGN, _EXPONENT = r"[+\-−]?", r"(?:[eE][+\-−]?[0-9]{1,3})?"
_SECONDS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
EXAMPLES = "such as '{} mg', '{1,234.5}' or '{h}:{mm}'"


class NumberText(Protocol):
    """A form in which a number is written."""

    def read(self, text: str) -> float:
        """Return the number in a cell's text, NaN if it does not have the form."""

    def write(self, number: str) -> str:
        """Return a plain decimal, such as -1234.5, in the form."""


@dataclass(frozen=True)
class _Marks:
    """A number between two texts. `mantissa`: decimals before the exponent; None without an exponent."""

    before: str
    after: str
    thousands: str
    decimal: str
    plus: bool
    minus: str
    mantissa: int | None = None
    exponent: str = ""

    def read(self, text: str) -> float:
        found = _pattern(self).fullmatch(text)
        if found is None:
            return float("nan")
        whole, rest = re.sub(r"[^0-9]", "", found["whole"]), re.sub(r"[^0-9]", "", found["rest"] or "")
        tail = f"{whole or 0}.{rest or 0}{found['exponent']}"
        return float(f"{found['sign']}{tail}".replace("−", "-"))

    def write(self, number: str) -> str:
        value = Decimal(number)
        sign = self.minus if value < 0 else "+" if self.plus and value > 0 else ""
        if self.mantissa is not None:
            digits, _, power = f"{abs(value):.{self.mantissa}E}".partition("E")
            width = len(self.exponent.lstrip("eE+"))
            raised = "-" if int(power) < 0 else "+" * ("+" in self.exponent)
            return f"{self.before}{sign}{digits.replace('.', self.decimal)}{self.exponent[0]}{raised}" + (
                f"{abs(int(power)):0{width}}{self.after}"
            )
        whole, _, rest = number.lstrip("-").partition(".")
        grouped = f"{int(whole):,}".replace(",", self.thousands) if self.thousands else whole
        return f"{self.before}{sign}{grouped}{self.decimal if rest else ''}{rest}{self.after}"


@dataclass(frozen=True)
class _Time:
    """A length of time. `parts`: texts and units in turn; the number counts the smallest unit."""

    parts: tuple[str, ...]

    @property
    def units(self) -> tuple[str, ...]:
        """The units, each repeated as often as the digits that it has at least."""
        return self.parts[1::2]

    def read(self, text: str) -> float:
        pattern = "".join(spaced(p) if k % 2 == 0 else r"\s*([0-9]{1,6})\s*" for k, p in enumerate(self.parts))
        found = re.fullmatch(pattern, text)
        if found is None:
            return float("nan")
        numbers = list(map(int, found.groups()))
        sizes = [_SECONDS[unit[0]] for unit in self.units]
        if any(n * one >= above for n, one, above in zip(numbers[1:], sizes[1:], sizes, strict=False)):
            return float("nan")
        return sum(n * size for n, size in zip(numbers, sizes, strict=True)) / sizes[-1]

    def write(self, number: str) -> str:
        left = int(Decimal(number)) * _SECONDS[self.units[-1][0]]
        made = [self.parts[0]]
        for unit, text in zip(self.units, self.parts[2::2], strict=True):
            count, left = divmod(left, _SECONDS[unit[0]])
            made += [f"{count:0{len(unit)}}", text]
        return "".join(made)


def spaced(text: str) -> str:
    """Return a pattern of a text in which blanks may be left out or be of another kind."""
    return r"\s*".join(["", *map(re.escape, text.split()), ""]) if text.split() else r"\s*"


@cache
def _pattern(form: _Marks) -> re.Pattern[str]:
    """Return the pattern of cells in a form."""
    mark = r"\s" if form.thousands.isspace() else "['’]" if form.thousands in "'’" else re.escape(form.thousands)
    whole = rf"[0-9]{{1,3}}(?:{mark}[0-9]{{3}})+|[0-9]+" if form.thousands else "[0-9]+"
    # A file with semicolons is read with points for decimal commas.
    point = r"[.,]" if form.decimal == "," else r"\."
    number = rf"(?:(?P<whole>{whole})|(?={point}[0-9]))(?P<rest>{point}[0-9]*)?(?P<exponent>{_EXPONENT})"
    return re.compile(f"{spaced(form.before)}(?P<sign>{_SIGN}){number}{spaced(form.after)}")


@cache
def number_text(example: str) -> NumberText:
    """Return the form that an example declares. Raise ValueError if it is not one.

    >>> form = number_text("{1,234.5} mg")
    >>> form.read("8,197 mg"), form.write("8197.5")
    (8197.0, '8,197.5 mg')
    >>> number_text("{h}:{mm}").read("3:08"), number_text("{h} h {m} min").write("80")
    (188.0, '1 h 20 min')
    """
    parts = _BRACES.split(example)
    if len(parts) > 1 and all(re.fullmatch("d+|h+|m+|s+", unit) for unit in parts[1::2]):
        sizes = [_SECONDS[unit[0]] for unit in parts[1::2]]
        if sizes == sorted(set(sizes), reverse=True) and not set("{}") & set("".join(parts)):
            return _Time(tuple(parts))
    found = _EXAMPLE.fullmatch(parts[1] or "1") if len(parts) == 3 else None
    if found is None or set("{}") & set("".join(parts)):
        raise EntryError(
            "text", f"`text` needs one pair of braces, with an example of the number or nothing, {EXAMPLES}"
        )
    thousands = found["mark"] or ""
    decimal = found["point"] or ("," if thousands == "." else ".")
    return _Marks(
        before=parts[0], after=parts[2], thousands=thousands, decimal=decimal, plus=found["sign"] == "+",
        minus="−" if found["sign"] == "−" else "-", mantissa=len(found["rest"] or "") if found["e"] else None,
        exponent=f"{found['e']}{found['plus']}{found['digits']}" if found["e"] else "",
    )  # fmt: skip
