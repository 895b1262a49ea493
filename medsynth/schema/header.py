"""What names of columns tell: keys of persons, keys of rows, free text. Public lists, documented in docs/schema.md.

A name counts in lower case, without blanks and signs: `Patient-Nr.` is `patientnr`. No cell is looked at.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterable, Sequence

MOST_PAIRS = 10  # of columns of dates


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


PERSON_KEYS = _words("""
    id pid ptid mrn ssn ahv empi mpi patient patientid patientnbr patientno patientnr patientnum patientnumber
    patientkey patid patnr patno medicalrecordnumber medrecno hospitalnumber hospitalno nhsnumber nhsno chi
    chinumber subject subjectid subjectno subjectnumber subjid usubjid participant participantid person personid
    personnumber personnr memberid member beneficiaryid respondentid clientid individualid userid studyid
    insurancenumber ahvnumber ahvnr socialsecuritynumber name fullname patientname firstname lastname surname
    email phone phonenumber telephone address
""")
ROW_KEYS = _words("""
    encounterid encounternbr encounter visitid admissionid hadmid stayid icustayid caseid caseno casenr
    casenumber fallnr fallnummer recordid recordno recordnumber record rowid rowno rownumber rownames index
    unnamed0 uuid guid sampleid specimenid orderid accession accessionnumber barcode eventid episodeid
""")
FREE_TEXTS = _words("""
    note notes comment comments remark remarks freetext text narrative clinicalnote clinicalnotes
    dischargesummary reporttext findingstext anamnesis bemerkung bemerkungen kommentar freitext
""")


DOUBTFUL = _words("""
    pid subject participant person patient index record encounter name case chi ssn
""")


def normalised(name: str) -> str:
    """A name as the lists have it.

    >>> normalised("Patient-Nr.")
    'patientnr'
    """
    return re.sub(r"[^a-z0-9]", "", name.lower())


def person_keys(header: Iterable[str]) -> list[str]:
    """The columns that read like a person's key: several rows may share one."""
    return [name for name in header if normalised(name) in PERSON_KEYS]


def row_keys(header: Iterable[str]) -> list[str]:
    """The columns that read like the key of a row, a visit or a sample."""
    return [name for name in header if normalised(name) in ROW_KEYS]


def keys(header: Collection[str]) -> list[str]:
    """The columns that are keys of persons or of rows by their names, in order; doubtful ones are not."""
    known = {*person_keys(header), *row_keys(header)}
    return [name for name in header if name in known and not doubtful(name)]


def doubtful(name: str) -> bool:
    """Whether a name in the lists is also one of columns that are no keys, as PID is of a party: levels decide."""
    return normalised(name) in DOUBTFUL


def free_texts(header: Iterable[str]) -> list[str]:
    """The columns that read like free text."""
    return [name for name in header if normalised(name) in FREE_TEXTS]


def by_start(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Of pairs (a date, one that comes after it), the date that each comes after, if any.

    A date that others come after comes after none itself: the one with most of them goes first, of equals the first.

    >>> by_start([("admitted", "operated"), ("admitted", "discharged"), ("operated", "discharged")])
    {'operated': 'admitted', 'discharged': 'admitted'}
    """
    left, found = list(pairs), dict[str, str]()
    while left:
        starts = [first for first, _ in left]
        start = max(starts, key=starts.count)
        after = {second: start for first, second in left if first == start}
        found |= after
        left = [pair for pair in left if not {start, *after}.intersection(pair)]
    return found


def date_pairs(names: Sequence[str]) -> list[tuple[str, str]]:
    """Pairs of columns of dates whose differences are counted: at most ten, those nearest in the header first.

    >>> date_pairs(["born", "admitted", "discharged"])
    [('born', 'admitted'), ('admitted', 'discharged'), ('born', 'discharged')]
    """
    pairs = itertools.combinations(range(len(names)), 2)
    return [(names[a], names[b]) for a, b in sorted(pairs, key=lambda pair: (pair[1] - pair[0], pair))][:MOST_PAIRS]
