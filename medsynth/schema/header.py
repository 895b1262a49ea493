"""Find keys of persons, keys of rows and free text by the header's names.

The lists of names, in header.txt, are public; docs/reference documents them. Names count in lower case, without
accents, blanks and signs: `Patiënt-Nr.` is `patientnr`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable
from importlib import resources

LETTERS = str.maketrans({"ø": "o", "Ø": "O", "ł": "l", "Ł": "L", "ı": "i", "ß": "ss", "æ": "ae", "đ": "d"})


def _lists() -> dict[str, frozenset[str]]:
    """Return the lists of header.txt by name."""
    text = (resources.files(__package__) / "header.txt").read_text(encoding="utf-8")
    _, *parts = re.split(r"^\[(\w+)\]$", re.sub("#.*", "", text), flags=re.MULTILINE)
    return {name: frozenset(words.split()) for name, words in zip(parts[::2], parts[1::2], strict=True)}


LISTS = _lists()
PERSON_KEYS = LISTS["person_keys"]
PERSON_PARTS = LISTS["person_parts"]
KEY_PARTS = LISTS["key_parts"]
OTHER_PARTS = LISTS["other_parts"]
ROW_KEYS = LISTS["row_keys"]
FREE_TEXTS = LISTS["free_texts"]
FACTS_OF_A_PERSON = LISTS["facts_of_a_person"]
DOUBTFUL = LISTS["doubtful"]
# The end of a name that may be a key's: patient_id and sampleId, but not paid or fluid.
_ENDS = re.compile(r"(?i:(?:^|[^a-z])(?:id|uid|uuid|guid|mrn|key)$)|(?<=[a-z0-9])(?:Id|ID|Key)$")
AMOUNTS = LISTS["amounts"]


def normalised(name: str) -> str:
    """Return a name in the form of the lists.

    >>> normalised("Patient-Nr.")
    'patientnr'
    """
    return re.sub(r"[^a-z0-9]", "", _without_accents(name).lower())


def _without_accents(name: str) -> str:
    plain = unicodedata.normalize("NFKD", name.translate(LETTERS))
    return "".join(letter for letter in plain if not unicodedata.combining(letter))


def is_person_key(name: str) -> bool:
    """Return whether a name is that of a person's key: listed as a whole, or by its parts.

    >>> [is_person_key(name) for name in ("Patienten-ID", "n° dossier", "codicePaziente", "patient_age", "n_patients")]
    [True, True, True, False, False]
    """
    spelled = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", _without_accents(name))
    parts = [part for word in re.findall(r"[a-z]+", spelled.lower()) for part in _compound(word)]
    known = PERSON_PARTS | KEY_PARTS | OTHER_PARTS
    named = known.issuperset(parts) and not (PERSON_PARTS.isdisjoint(parts) or KEY_PARTS.isdisjoint(parts))
    return named or normalised(name) in PERSON_KEYS


def _compound(word: str) -> tuple[str, ...]:
    """Return a word of a person and one of a key that are written as one word, as in `patid`; else the word."""
    ends = [(word[:k], word[k:]) for k in range(1, len(word))]
    both = (pair for a, b in ends for pair in ((a, b), (b, a)) if pair[0] in PERSON_PARTS and pair[1] in KEY_PARTS)
    return next(both, (word,))


def facts_of_a_person(header: Iterable[str]) -> list[str]:
    """Return the columns that by their names say something about a person that visits hardly change.

    >>> facts_of_a_person(["id", "Sex", "birth_year", "pulse"])
    ['Sex', 'birth_year']
    """
    return [name for name in header if normalised(name) in FACTS_OF_A_PERSON]


def person_keys(header: Iterable[str]) -> list[str]:
    """Return the columns that read like a person's key, which several rows may share."""
    return [name for name in header if is_person_key(name)]


def keys(header: Collection[str]) -> list[str]:
    """Return the columns that are keys of persons or rows by their names, in order, without doubtful ones."""
    listed = (name for name in header if normalised(name) in ROW_KEYS or is_person_key(name))
    return [name for name in listed if not doubtful(name)]


def doubtful(name: str) -> bool:
    """Return whether columns that are not keys also have this name, as PID is a party's: then the levels decide."""
    return normalised(name) in DOUBTFUL


def may_be_key(name: str) -> bool:
    """Return whether a name is doubtful or ends as keys do: then the levels and the numbers decide.

    >>> may_be_key("implant_id"), may_be_key("deviceId"), may_be_key("fluid"), may_be_key("paid")
    (True, True, False, False)
    """
    return doubtful(name) or bool(_ENDS.search(name))


def is_amount(name: str) -> bool:
    """Return whether a word of a name means an amount.

    >>> is_amount("Total charges"), is_amount("cellCount"), is_amount("pidnum")
    (True, True, False)
    """
    return not AMOUNTS.isdisjoint(re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()))


def free_texts(header: Iterable[str]) -> list[str]:
    """Return the columns that read like free text."""
    return [name for name in header if normalised(name) in FREE_TEXTS]
