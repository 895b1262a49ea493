"""Look up clinical columns by their headers in the public catalogue `schemas/clinical/`, and write rules between them.

No cell is read. `docs/reference/clinical.md` is made from the catalogue, and states how headers are read.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import combinations
from typing import Any, Literal

from .cells import USUAL_WORDS
from .columns.column import Level, level_text
from .declared import bundled_files, bundled_yaml
from .header import normalised
from .rules import in_rule

MOST_WORDS = 12  # of a header
SHORT = 2  # characters of an abbreviation that needs a unit
PER = ("per", "pro", "par")  # words of units
SHARED = ("words", "relations")  # files that are not groups of variables
NAMES = ("en", "de", "fr", "short", "alone")  # entries of a variable that name it
ENDS = {"min", "max", "worst"}  # qualifiers of values at different moments
SIGNS = str.maketrans({"μ": "u", "Μ": "U", "œ": "oe", "Œ": "Oe", "%": " percent "})  # two Greek letters
UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue"})
_PER = re.compile(r"(?<![\w%])/ *(?=[^\W\d])")  # of /min and /µl, which mean 1/min and 1/µl
_WORD = re.compile(r"[^\W\d_A-Z]+|[A-Z]+(?![^\W\d_A-Z])|[A-Z][^\W\d_A-Z]+|[0-9]+")
_NUMBER = re.compile(r"[0-9]{1,2}")  # of a repeated measurement
_IN_RULE = re.compile(r"(?!implies)\b([a-z]\w*)(?:\.(\w+))?")  # a variable, or one of its levels
Bounds = tuple[float, float]
Variable = Mapping[str, Any]  # `schemas/clinical/words.yaml` describes its entries


@dataclass(frozen=True)
class ClinicalColumn:
    """What a header states about its column. `bounds` and `decimals` are None if they depend on a unit that it lacks.

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
    levels: tuple[Level, ...]
    level_sets: tuple[tuple[Level, ...], ...]
    qualifiers: frozenset[str] = frozenset()

    def declaration(self) -> dict[str, object]:
        """Return what a schema declares about the column, as plain data; empty if the header does not decide it."""
        if self.levels:
            return {"kind": self.kind, "levels": [*self.levels], "missing": True}
        if self.bounds is None:
            return {}
        found: dict[str, object] = {
            "kind": self.kind,
            "bounds": [int(end) if end % 1 == 0 else end for end in self.bounds],
        }
        found |= {"scale": "log"} if self.scale == "log" else {}
        found |= {"decimals": self.decimals} if self.kind == "continuous" else {}
        return (
            found
            | ({"unit": self.unit} if self.unit else {})
            | {"missing": True, "unknown": "missing", "out_of_range": "missing"}
        )


@cache
def content(name: str) -> Any:
    """Return a file of the catalogue as plain data."""
    path = bundled_files("clinical")[name]
    return bundled_yaml(path.read_text(encoding="utf-8"), path.name)


@cache
def variables() -> dict[str, Variable]:
    """Return all variables by name."""
    files = [content(name) for name in bundled_files("clinical") if name not in SHARED]
    return {name: variable for file in files for name, variable in file["variables"].items()}


def usual_sets(own: Sequence[Sequence[Level]] = ()) -> list[tuple[Level, ...]]:
    """Return a column's own sets of levels or, if it has none, all usual ones; in small letters and capitals, too."""
    families = content("words")["levels"].values()
    sets = own or [*(one for family in families for one in family["sets"]), *USUAL_WORDS]
    forms = (str, str.lower, str.capitalize, str.upper)
    return [tuple(form(one) if isinstance(one, str) else one for one in words) for words in sets for form in forms]


def spelled(text: str) -> list[str]:
    """Return the words of a header or a unit, in the form of the catalogue.

    >>> spelled("Kreatinin_Aufnahme (µmol/l)"), spelled("HeartRate [/min]")
    (['kreatinin', 'aufnahme', 'umol', 'l'], ['heart', 'rate', '1', 'min'])
    """
    text = unicodedata.normalize("NFKC", text).translate(SIGNS)
    return list(filter(None, map(normalised, _WORD.findall(_PER.sub(" 1 ", text)))))


@cache
def _index(of: Literal["units", "names", "qualifiers"]) -> dict[str, set[str]]:
    """Return what each text may mean, by its words without blanks."""
    shared = content("words")
    texts = {
        "units": ((text, key) for key, one in shared["units"].items() for text in (key, *one.get("also", ()))),
        "names": ((text, key) for key, one in variables().items() for name in NAMES for text in one.get(name, ())),
        "qualifiers": ((text, key) for key, words in shared["qualifiers"].items() for text in words),
    }
    found = dict[str, set[str]]()
    for text, key in texts[of]:
        for form in (text, text.translate(UMLAUTS)):
            found.setdefault("".join(spelled(form)), set()).add(key)
    return found


def _named(words: Sequence[str]) -> set[str]:
    """Return the variables that words name, once or twice, as in "Hämoglobin (Hb)"."""
    ends = [("".join(words[:k]), "".join(words[k:])) for k in range(1, len(words))]
    twice = [_index("names").get(a, set()) & _index("names").get(b, set()) for a, b in ends]
    return _index("names").get("".join(words), set()).union(*twice)


def look_up(name: str, unit: str | None = None) -> ClinicalColumn | None:
    """Return what the catalogue states about a column, by its header and, if known from elsewhere, its unit.

    A header must name one variable in full: no other words but a unit of this variable and qualifiers. An abbreviation
    of at most two characters needs a unit, unless the catalogue lists it as safe.

    >>> [found and (found.name, found.unit) for found in map(look_up, ("crp_mg_l", "HR", "Hb", "Hb [g/dL]", "ward"))]
    [('crp', 'mg/l'), ('heart_rate', '/min'), None, ('hemoglobin', 'g/dl'), None]
    """
    words = spelled(name)
    known, times = _index("units"), _index("qualifiers")
    asked = known.get("".join(spelled(unit)), set()) if unit and spelled(unit) else None
    ranked = dict[tuple[bool, bool], dict[tuple[str, str], frozenset[str]]]()  # with a unit first, then in full
    for start, stop in [(0, 0), *combinations(range(len(words) + 1), 2)] if len(words) <= MOST_WORDS else []:
        units = known.get("".join(word for word in words[start:stop] if word not in PER), set()) if stop else {""}
        units = units if asked is None else units & asked if stop else asked
        rest = words[:start] + words[stop:]
        kept = [word for word in rest if word not in times and not _NUMBER.fullmatch(word)]
        others = frozenset(min(times.get(word, {word})) for word in rest if word not in kept) - {""}
        for part, own in ((rest, frozenset[str]()), (kept, others)):
            for key in _named(part):
                safe = len("".join(part)) > SHORT or "".join(part) in variables()[key].get("alone", ())
                for fit in units & ({""} if safe else set()).union(variables()[key].get("units", ())):
                    ranked.setdefault((not fit, part is kept), {})[key, fit] = own
    best = ranked[min(ranked)] if ranked else {}
    return _column(*min(best), min(best.values())) if len(best) == 1 else None


def _column(name: str, unit: str, qualifiers: frozenset[str]) -> ClinicalColumn:
    """Return what the catalogue states about a variable in a unit, "" for a header without one."""
    one = variables()[name]
    own = unit or one.get("usual_unit")
    bounds, decimals = ends(one, own)
    levels = one.get("levels", ())
    sets = tuple(map(tuple, content("words")["levels"][levels]["sets"] if isinstance(levels, str) else levels))
    kind = "count" if decimals == 0 else one.get("kind", "continuous")
    source = content("words")["sources"][one.get("source", "own")]
    scale = one.get("scale", "linear")
    only = sets[0] if len(sets) == 1 else ()
    return ClinicalColumn(name, one["en"][0], kind, source, own, bounds, decimals, scale, only, sets, qualifiers)


def ends(one: Variable, unit: str | None) -> tuple[Bounds, int] | tuple[None, None]:
    """Return bounds and decimals in a unit. Converted bounds are rounded outwards, to three digits."""
    units = one.get("units", [None])
    if "bounds" not in one or unit not in units:
        return None, None
    low, high = one["bounds"]
    digits = one.get("decimals", 0)
    if unit == units[0]:
        return (low, high), digits
    own, other = (content("words")["units"][name] for name in (units[0], unit))
    moles = {("gram", "mole"): -1, ("mole", "gram"): 1}.get((own["of"], other["of"]), 0)
    factor = own["size"] / other["size"] * one.get("molar_mass", 1.0) ** moles
    first, last = one.get("other_bounds", {}).get(unit, (factor * low, factor * high))
    digits = max(0, digits - round(math.log10((last - first) / (high - low))))
    digits = one.get("other_decimals", {}).get(unit, digits)
    step = 10.0 ** max(-digits, math.floor(math.log10(max(-first, last))) - 2)
    first, last = (to(round(end / step, 6)) * step for to, end in ((math.floor, first), (math.ceil, last)))
    return (round(first, 9), round(last, 9)), digits


def sex_of_code(code: str) -> str | None:
    """Return the only sex in which a diagnosis occurs, by its ICD-10 code: "female", "male", or None for both.

    >>> sex_of_code("C61"), sex_of_code("O80.0"), sex_of_code("E11.9")
    ('male', 'female', None)
    """
    plain = code.upper().replace(".", "").strip()
    groups = [(sex, *one.split("-")) for sex, ones in content("relations")["one_sex"].items() for one in ones]
    return next((sex for sex, first, *last in groups if first <= plain[: len(first)] <= (*last, first)[0]), None)


def rules(columns: Mapping[str, ClinicalColumn], *, any_unit: bool = False) -> list[str]:
    """Return the rules of the catalogue between these columns, by their names, in the language of schemas.

    Columns with the same qualifiers belong together, and lasting ones such as sex to all. A rule about a level needs
    the `levels` of its column. any_unit: whether a column without a unit may have any.
    """
    found = list[str]()
    for times in dict.fromkeys(column.qualifiers for column in columns.values()):
        lasting = {n: c for n, c in columns.items() if c.name in content("relations")["lasting"] and not c.qualifiers}
        own = lasting | {n: c for n, c in columns.items() if c.qualifiers == times}
        counts = Counter(column.name for column in own.values())
        at = {column.name: name for name, column in own.items() if counts[column.name] == 1}
        for rule in content("relations")["rules"]:
            parts = _IN_RULE.findall(rule["rule"])
            fits = all(key in at for key, _ in parts) and any(own[at[key]].qualifiers == times for key, _ in parts)
            computed = " = " in rule["rule"] and "implies" not in rule["rule"]
            if not fits or (computed and times & ENDS):  # ends are of different moments
                continue
            units = {key: own[at[key]].unit or "" for key, _ in parts if "units" in variables()[key]}
            same = dict.fromkeys(units, max(units.values(), default="") or "?")
            wanted = same if rule.get("units") == "same" else rule.get("units", {})
            words = {".".join(part).strip("."): _written(at[part[0]], own[at[part[0]]], part[1]) for part in parts}
            known = {key: wanted.get(key, "") if any_unit and not unit else unit for key, unit in units.items()}
            if all(words.values()) and known | wanted == known:
                found.append(_IN_RULE.sub(partial(_word, words), rule["rule"]))
    return found


def _word(to: Mapping[str, str], found: re.Match[str]) -> str:
    return to[found[0]]


def _written(name: str, column: ClinicalColumn, meaning: str) -> str:
    """Return a column, or its level with a meaning, as a rule writes it; "" if that is impossible."""
    if not meaning:
        return in_rule(name)
    family = content("words")["levels"][variables()[column.name]["levels"]]
    spelling = {level_text(level).lower(): level_text(level) for level in column.levels}
    sets = [[level_text(level).lower() for level in one] for one in family["sets"]]
    known = [one for one in sets if spelling and len(spelling) <= len(one) and set(spelling) <= set(one)]
    place = family["meanings"].index(meaning)
    levels = {one[place] if place < len(one) else "" for one in known}
    level = spelling.get(levels.pop(), "") if len(levels) == 1 else ""
    return f'"{level}"' if level and '"' not in level else ""
