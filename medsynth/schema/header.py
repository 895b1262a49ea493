"""Find keys of persons, keys of rows and free text by the header's names.

The lists of names are public; docs/reference documents them. Names count in lower case, without accents, blanks and
signs: `Patiënt-Nr.` is `patientnr`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable

LETTERS = str.maketrans({"ø": "o", "Ø": "O", "ł": "l", "Ł": "L", "ı": "i", "ß": "ss", "æ": "ae", "đ": "d"})


def _words(*lines: str) -> frozenset[str]:
    return frozenset(" ".join(lines).split())


PERSON_KEYS = _words(
    "id pid pidnum pidno idnum idno idnumber ptid mrn ssn ahv empi mpi patient patientid patientnbr patientno",
    "patientnr patientnum patientnumber patientkey patid patnr patno medicalrecordnumber medrecno hospitalnumber",
    "hospitalno nhsnumber nhsno chi chinumber subject subjectid subjectno subjectnumber subjid usubjid participant",
    "participantid person personid personnumber personnr memberid member beneficiaryid respondentid clientid",
    "individualid userid studyid insurancenumber ahvnumber ahvnr socialsecuritynumber name fullname patientname",
    "firstname lastname surname email phone phonenumber telephone address",
    "pseudonym pseudonim pseudoniem personsourcevalue eid seqn randid uniquepid idauniq hhidpn mergeid persnr uhid nhi",
    "nhinumber urno urnumber medicarenumber svnr kvnr nhc cpf cartaosus dni bsn burgerservicenummer pesel cprnr",
    "codicefiscale numerotesserasanitaria numerosecuritesociale numeroseguridadsocial numeroprocessoclinico rodnecislo",
    "ipp tckimlikno tckn journalnr journalnummer fodselsnummer henkilotunnus hetu tajszam cnp",
)
# Parts of names of patients' keys, without accents. Such a name has a part of each of the first two lists, together or
# apart, in any order, and no part that is on none. Plurals are left out: `n_patients` is a count.
PERSON_PARTS = _words(
    "patient pat pt subject subj participant person client member beneficiary respondent individual nhs chart",  # en
    "patienten patientin proband probanden teilnehmer pers personen versicherten versicherungs krankenversicherungs",
    "sozialversicherungs kranken krankenakten patientenakten akten klient klienten mitglieds",  # de
    "patiente dossier malade sujet assure beneficiaire individu personne ipp",  # fr
    "paziente cartella soggetto assistito individuo partecipante persona",  # it
    "paciente historia expediente sujeto participante afiliado asegurado",  # es
    "prontuario doente utente sujeito beneficiario pessoa",  # pt
    "clienten deelnemer persoon persoons proefpersoon verzekerde verzekerden",  # nl
    "pacjent pacjenta pacjentki chorego uczestnik uczestnika osoby osoba badanego historii",  # pl
    "patientens pasient pasientens persons deltagare deltagar deltager deltaker deltakar fodsels cpr",  # sv, da, no
    "hasta katilimci kisi dosya birey denek",  # tr
    "pacient pacienta pacientka pacientky ucastnik ucastnika pojistence",  # cs
    "potilas potilaan henkilo beteg paciens pacientului",  # fi, hu, ro
)
KEY_PARTS = _words(
    "id ids ident identifier key no nr n num nbr number code pseudonym",  # en
    "nummer kennung kennzahl schluessel schlussel kode",  # de
    "identifiant numero cle matricule codice identificativo identificatore chiave",  # fr, it
    "nro cod codigo clave identificador identificacion chave sleutel pseudoniem",  # es, pt, nl
    "numer kod identyfikator klucz pseudonim lopenr lopenummer nyckel nogle nokkel",  # pl, sv, da, no
    "numara numarasi kodu kimlik cislo klic numero tunniste azonosito",  # tr, cs, fi, hu
)
OTHER_PARTS = _words(
    "the of de du d le la l del della dell di do da van medical clinica clinico medico medica choroby",
    "hashed anon anonymous anonymized anonymised pseudo deidentified encrypted unique study source main internal",
)
ROW_KEYS = _words(
    "encounterid encounternbr encounter visitid admissionid hadmid stayid icustayid caseid caseno casenr",
    "casenumber fallnr fallnummer recordid recordno recordnumber record rowid rowno rownumber rownames index",
    "unnamed0 uuid guid sampleid specimenid orderid accession accessionnumber barcode eventid episodeid",
    "nsejour numerosejour idsejour numeroepisodio numeroingreso",
)
FREE_TEXTS = _words(
    "note notes comment comments remark remarks freetext text narrative clinicalnote clinicalnotes",
    "dischargesummary reporttext findingstext anamnesis bemerkung bemerkungen kommentar freitext",
)


FACTS_OF_A_PERSON = _words(
    "sex gender geschlecht age agegroup ageyears alter birthyear yearofbirth geburtsjahr dob dateofbirth birthdate",
    "geburtsdatum race ethnicity ethnicgroup bloodgroup bloodtype country nationality dateofdeath deathdate",
)
DOUBTFUL = _words(
    "pid subject participant person patient index record encounter name case chi ssn",
)
# The end of a name that may be a key's: patient_id and sampleId, but not paid or fluid.
_ENDS = re.compile(r"(?i:(?:^|[^a-z])(?:id|uid|uuid|guid|mrn|key)$)|(?<=[a-z0-9])(?:Id|ID|Key)$")
# Amounts may have as many digits as keys.
AMOUNTS = _words(
    "amount amounts cost costs charge charges price income salary wage wages revenue payment payments paid balance",
    "expense expenses expenditure total totals claims premium usd eur chf gbp dollars euros count counts steps",
    "platelet platelets plt population weight grams volume area distance budget sum value",
    "age ages year years month months day days hours minutes score pulse bp systolic diastolic height",
)


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
