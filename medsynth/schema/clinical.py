"""Look up clinical columns by their headers in the public catalogue `schemas/clinical/`, and write rules between them.

No cell is read. `docs/reference/clinical.md` is made from the catalogue, and states how headers are read.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from .columns.column import Level, level_text
from .declared import bundled_files, parse_yaml
from .header import normalised

MOST_WORDS = 12  # of a header
SHORT = 2  # characters of an abbreviation that needs a unit
SHARED = ("words", "relations")  # files that are not groups of variables
UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue"})
RESERVED = ("and", "implies", "previous", "cumulative", "first", "last")  # words of the language of rules
_PER = re.compile(r"(?<![\w%])/ *(?=[^\W\d])")  # of /min and /µl, which mean 1/min and 1/µl
_WORD = re.compile(r"[^\W\d_A-Z]+|[A-Z]+(?![^\W\d_A-Z])|[A-Z][^\W\d_A-Z]+|[0-9]+")
_NUMBER = re.compile(r"[0-9]{1,2}")  # of a repeated measurement
_NAME = re.compile(r"[a-z]\w*(?:\.\w+)?")  # in a rule of the catalogue: a variable, or one of its levels
Bounds = tuple[float, float]
LevelSet = tuple[Level, ...]


class ClinicalVariable(BaseModel):
    """A variable of the catalogue. `bounds` and `decimals` are those in the first of the `units`.

    `alone`: abbreviations of at most two characters that need no unit. `usual_unit` holds for a header without a unit.
    `other_bounds`: bounds in units that convert by more than a factor. `mimic`: its row in MIMIC-Extract's table.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    en: tuple[str, ...]
    de: tuple[str, ...]
    fr: tuple[str, ...]
    short: tuple[str, ...] = ()
    alone: tuple[str, ...] = ()
    kind: Literal["continuous", "binary", "categorical", "ordinal", "date", "parts"] = "continuous"
    units: tuple[str, ...] = ()
    usual_unit: str | None = None
    bounds: Bounds | None = None
    other_bounds: dict[str, Bounds] = {}
    molar_mass: float | None = None  # grams per mole
    decimals: int = 0
    scale: Literal["linear", "log"] = "linear"
    levels: str | tuple[LevelSet, ...] = ()  # the name of a family of sets, or the usual sets
    source: str = "own"
    mimic: str | None = None

    @property
    def level_sets(self) -> tuple[LevelSet, ...]:
        """The usual ways to write the levels."""
        family = isinstance(self.levels, str)
        return tuple(map(tuple, content("words")["levels"][self.levels]["sets"])) if family else tuple(self.levels)

    def bounds_in(self, unit: str | None) -> Bounds | None:
        """Return the bounds in a unit: converted ones are rounded outwards to three digits."""
        if self.bounds is None or unit not in (self.units or (None,)):
            return None
        if unit is None or unit == self.units[0]:
            return self.bounds
        if unit in self.other_bounds:
            return self.other_bounds[unit]
        own, other = (content("words")["units"][name] for name in (self.units[0], unit))
        moles = {("gram", "mole"): -1, ("mole", "gram"): 1}.get((own["of"], other["of"]), 0)
        factor = own["size"] / other["size"] * (self.molar_mass or 1.0) ** moles
        low, high = (factor * end for end in self.bounds)
        return _rounded(low, math.floor), _rounded(high, math.ceil)

    def decimals_in(self, unit: str | None) -> int | None:
        """Return the decimals in a unit, with which about the same differences are kept."""
        ends = self.bounds_in(unit)
        if ends is None or self.bounds is None:
            return None
        ratio = (ends[1] - ends[0]) / (self.bounds[1] - self.bounds[0])
        return max(0, self.decimals - round(math.log10(ratio)))


@dataclass(frozen=True)
class ClinicalColumn:
    """What a header says of its column. `bounds` and `decimals` are None if they depend on a unit that it lacks.

    `levels` are empty if people write them in several ways, the `level_sets`. `qualifiers` are words such as "max".
    """

    name: str
    label: str
    kind: str
    source: str
    unit: str | None
    bounds: Bounds | None
    decimals: int | None
    scale: str
    levels: LevelSet
    level_sets: tuple[LevelSet, ...]
    qualifiers: frozenset[str] = frozenset()

    def declaration(self) -> dict[str, object]:
        """Return what a schema declares about the column, as plain data; empty if the header does not decide it."""
        if self.levels:
            return {"kind": self.kind, "levels": [*self.levels], "missing": True}
        if self.bounds is None:
            return {}
        ends = [int(end) if end % 1 == 0 else end for end in self.bounds]
        found = {"kind": self.kind, "bounds": ends} | ({"scale": self.scale} if self.scale == "log" else {})
        found |= {"decimals": self.decimals} if self.kind == "continuous" else {}
        return found | ({"unit": self.unit} if self.unit else {}) | {"missing": True}


@cache
def content(name: str) -> Any:
    """Return a file of the catalogue as plain data."""
    path = bundled_files("clinical")[name]
    return parse_yaml(path.read_text(encoding="utf-8"), path.name)


@cache
def variables() -> dict[str, ClinicalVariable]:
    """Return all variables by name."""
    files = [content(name) for name in bundled_files("clinical") if name not in SHARED]
    return {name: ClinicalVariable.model_validate(one) for file in files for name, one in file["variables"].items()}


def spelled(text: str) -> list[str]:
    """Return the words of a header or a unit, in the form of the catalogue.

    >>> spelled("Kreatinin_Aufnahme (µmol/l)"), spelled("HeartRate [/min]")
    (['kreatinin', 'aufnahme', 'umol', 'l'], ['heart', 'rate', '1', 'min'])
    """
    text = unicodedata.normalize("NFKC", text).replace("μ", "u").replace("œ", "oe").replace("%", " percent ")
    return list(filter(None, map(normalised, _WORD.findall(_PER.sub(" 1 ", text)))))


@cache
def _units() -> dict[str, set[str]]:
    """Return the units that a text may mean, without blanks and signs."""
    found = dict[str, set[str]]()
    for name, unit in content("words")["units"].items():
        for text in (name, *unit.get("also", ())):
            found.setdefault("".join(spelled(text)), set()).add(name)
    return found


@cache
def _names() -> dict[str, set[str]]:
    """Return the variables that a name may mean, without blanks and signs."""
    found = dict[str, set[str]]()
    for key, one in variables().items():
        for text in (*one.en, *one.de, *one.fr, *one.short, *one.alone):
            for form in (text, text.translate(UMLAUTS)):
                found.setdefault("".join(spelled(form)), set()).add(key)
    return found


@cache
def _qualifiers() -> dict[str, str]:
    return {"".join(spelled(word)): name for name, of in content("words")["qualifiers"].items() for word in of}


def _named(words: Sequence[str]) -> set[str]:
    """Return the variables that words name, once or twice, as in "Hämoglobin (Hb)"."""
    ends = [("".join(words[:k]), "".join(words[k:])) for k in range(1, len(words))]
    twice = [_names().get(a, set()) & _names().get(b, set()) for a, b in ends]
    return _names().get("".join(words), set()).union(*twice)


def look_up(name: str, unit: str | None = None) -> ClinicalColumn | None:
    """Return what the catalogue says of a column, by its header and, if it is known from elsewhere, its unit.

    A header must name one variable in full: no other words but a unit of this variable and qualifiers. An abbreviation
    of at most two characters needs a unit, unless the catalogue lists it as safe.

    >>> [found and (found.name, found.unit) for found in map(look_up, ("crp_mg_l", "HR", "Hb", "Hb [g/dL]", "ward"))]
    [('crp', 'mg/l'), ('heart_rate', '/min'), None, ('hemoglobin', 'g/dl'), None]
    """
    words = spelled(name)
    asked = _units().get("".join(spelled(unit)), set()) if unit and spelled(unit) else None
    found = dict[tuple[bool, bool], dict[tuple[str, str], frozenset[str]]]()  # by rank: with a unit, without qualifiers
    for start, stop in [(0, 0), *combinations(range(len(words) + 1), 2)] if len(words) <= MOST_WORDS else []:
        units = _units().get("".join(word for word in words[start:stop] if word not in ("per", "pro", "par")), set())
        units = {""} if not stop and asked is None else asked or set() if not stop else units & (asked or units)
        rest = words[:start] + words[stop:]
        kept = [word for word in rest if word not in _qualifiers() and not _NUMBER.fullmatch(word)]
        times = frozenset(_qualifiers().get(word, word) for word in rest if word not in kept) - {""}
        for part, qualifiers in ((rest, frozenset[str]()), (kept, times)):
            text = "".join(part)
            for key in _named(part):
                one = variables()[key]
                for fits in units & {"", *one.units}:
                    if fits or len(text) > SHORT or text in one.alone:
                        found.setdefault((not fits, part is kept), {})[key, fits] = qualifiers
    best = found[min(found)] if found else {}
    return None if len(best) != 1 else _column(*next(iter(best)), next(iter(best.values())))


def _column(name: str, unit: str, qualifiers: frozenset[str]) -> ClinicalColumn:
    """Return what the catalogue says of a variable in a unit, "" for a header without one."""
    one = variables()[name]
    own = unit or one.usual_unit
    bounds = one.bounds_in(own)
    decimals = one.decimals_in(own)
    sets = one.level_sets
    return ClinicalColumn(
        name=name,
        label=one.en[0],
        kind="count" if decimals == 0 else one.kind,
        source=content("words")["sources"][one.source],
        unit=own,
        bounds=bounds,
        decimals=decimals,
        scale=one.scale,
        levels=sets[0] if len(sets) == 1 else (),
        level_sets=sets,
        qualifiers=qualifiers,
    )


def _rounded(value: float, to: Callable[[float], int]) -> float:
    """Return a number rounded to three digits by `to`."""
    places = 2 - math.floor(math.log10(abs(value))) if value else 0
    return round(to(round(value * 10.0**places, 6)) / 10.0**places, max(places, 0))


def sex_of_code(code: str) -> str | None:
    """Return the sex in which alone a diagnosis occurs, by its ICD-10 code: "female", "male", or None for both.

    >>> sex_of_code("C61"), sex_of_code("O80.0"), sex_of_code("E11.9")
    ('male', 'female', None)
    """
    plain = code.upper().replace(".", "").strip()
    groups = [(sex, *one.split("-")) for sex, ones in content("relations")["one_sex"].items() for one in ones]
    return next((sex for sex, first, *last in groups if first <= plain[: len(first)] <= (*last, first)[0]), None)


def rules(columns: Mapping[str, ClinicalColumn]) -> list[str]:
    """Return the rules of the catalogue between these columns, by their names, in the language of schemas.

    Columns with the same qualifiers belong together; a column without one belongs to all. A rule that needs a level is
    written if the column has `levels`. A smallest value is at most the largest one.
    """
    found = list[str]()
    for times in dict.fromkeys(column.qualifiers for column in columns.values()):
        at = dict[str, list[str]]()
        for both in (frozenset[str](), times):
            own = {key: [n for n, c in columns.items() if (c.name, c.qualifiers) == (key, both)] for key in variables()}
            at |= {key: names for key, names in own.items() if names}
        one = {key: names[0] for key, names in at.items() if len(names) == 1}
        if 'max' in times:
            pass
    return found
