"""Judge by its names alone whether a header may be a row of values: a patient's, of a file without a header line.

The lists are public knowledge; docs/schema.md documents them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..io.table import is_number
from .cells import BOOLEANS, FALSE, MISSING_WORDS, USUAL_WORDS, moment

# Levels in more languages: yes, no, true, false, male, female, positive, negative, single, married.
_LEVELS = (
    "ja nein wahr falsch männlich weiblich divers positiv negativ ledig verheiratet oui non vrai faux homme femme",
    "masculin féminin positif négatif sì si vero falso maschio femmina positivo negativo sí verdadero hombre mujer",
    "masculino femenino varón sim não verdadeiro homem mulher feminino nee waar onwaar man vrouw mannelijk vrouwelijk",
    "positief negatief nej kvinna kvinde mand mann kvinne tak nie mężczyzna kobieta ano ne muž žena w d",
)
# Levels that are also usual names of columns: they count only next to another value.
_ALSO_NAMES = (
    "y n t d w man low medium high left right normal current case",
    "control dead died deceased survived alive sick si ne tak na",
)
_USUAL = frozenset(
    word.lower()
    for words in (*USUAL_WORDS, BOOLEANS, FALSE, MISSING_WORDS, " ".join(_LEVELS).split())
    for word in words
    if word
)
_UNIT = r"%|°?[cfk]|[kmµcdnp]?(g|l|m|mol|s)(/\w+)*|[mµ]?iu(/\w+)*|mm ?hg|bpm|h|y|yo|(hour|day|week|month|year|yr)s?|min"
_FIGURE = r"[<>≤≥~]?\s*[-+]?[0-9]+([.,'/–-][0-9]+)*"
_AMOUNT = re.compile(rf"{_FIGURE}\s*({_UNIT})|{_FIGURE}\s+[^\W\d_]+(/\w+)*|{_FIGURE}\s*[x×*]\s*[0-9]+", re.IGNORECASE)
# Stages of tumours, and codes of ICD-10 with a point.
_STAGE = re.compile(r"[cpyr]*T([0-4]\w?|is|x)\s?N([0-3]\w?|x)(\s?M[01x]\w?)?|[A-Z][0-9]{2}\.[0-9]{1,2}", re.IGNORECASE)
# Days with the name of a month, in any order, with or without a time and a zone; weeks and quarters; times and spans.
_MONTHS = (
    "jan(uary?|vier)?", "feb(ruary?)?", "f[ée]v(rier)?", "mar(ch|s|zo)?", "märz?", "apr(il|ile)?", "a[vb]r(il)?",
    "ma[iy]o?", "june?|juni|juin", "july?|juli|juil(let)?", "aug(ust)?|ao[uû]t", "sept?(ember|embre)?",
    "o[ck]t(ober|obre)?", "nov(ember|embre)?", "d[eé][cz](ember|embre)?",
)  # fmt: skip
_MONTH = rf"({'|'.join(_MONTHS)})"
_DAYS = (
    rf"(\w+ )?[0-9]{{1,4}}[ ./-]*{_MONTH}\.?([ .,/:-]*[0-9].*)?", rf"(\w+ )?{_MONTH}\.? [0-9]{{1,2}}.*[0-9].*",
    rf"{_MONTH}\.?[ -]?(19|20)[0-9]{{2}}", "[0-9]{4}-[0-9]{2}-[0-9]{2}.*", "[0-9]{4}-?[wqtsm][0-9]{1,2}(-[1-7])?",
    "[0-9]{4}年.*", "[0-9]{8}T[0-9:]+", "[0-9]{1,2}([:.h][0-9]{2}){1,2}", "-?[0-9]+ days [-+0-9].*",
)  # fmt: skip
_DAY = re.compile(rf"({'|'.join(_DAYS)})(\s*([ap]\.?m\.?|utc|gmt|z|uhr|ce?s?t))?", re.IGNORECASE)


def _is_number(name: str) -> bool:
    """Return whether a name has digits and no letter, as numbers, years and most dates do, or is another date."""
    digits = any(sign.isnumeric() for sign in name) and not any(sign.isalpha() for sign in name)
    return digits or is_number(name) or moment(name) is not None or bool(_DAY.fullmatch(name))


def value_like(header: Sequence[str]) -> list[str]:
    """Return the names that look like values: numbers, with units too, dates and usual levels.

    >>> value_like(["Basel", "54", "80 kg", "male", "no"]), value_like(["B12", "A1c", "T3", "24h_urine", "x", "y"])
    (['54', '80 kg', 'male', 'no'], [])
    """
    words = [name.strip() for name in header]
    levels = {word for word in words if word.lower() in _USUAL}
    values = {word for word in words if any(form.fullmatch(word) for form in (_AMOUNT, _STAGE)) or _is_number(word)}
    values |= {word for word in levels if word.lower() not in " ".join(_ALSO_NAMES).split()}
    return [name for name, word in zip(header, words, strict=True) if word in (values | levels if values else values)]


def may_be_row(header: Sequence[str]) -> bool:
    """Return whether a header may be a row of values: a name is a number or a date, or half of the names are values.

    >>> may_be_row(["Basel", "flu", "yes", "f"]), may_be_row(["age", "2019"]), may_be_row(["age", "sex", "male"])
    (True, True, False)
    """
    return any(_is_number(name.strip()) for name in header) or 2 * len(value_like(header)) >= max(1, len(header))


def doubtful_names(names: Sequence[str]) -> list[str]:
    r"""Return the names in a model that may be a patient's cells, which earlier versions may have read as a header.

    >>> doubtful_names(["#p0", "HIV", "bern"]), doubtful_names(["p0", "HIV\npositive"]), doubtful_names(["age", "sex"])
    (['#p0', 'HIV', 'bern'], ['HIV\npositive'], [])
    """
    values = value_like(names)
    return [name for name in names if names[0].startswith("#") or name in values or len(name.splitlines()) > 1]
