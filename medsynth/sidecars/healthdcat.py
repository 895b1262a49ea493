"""A HealthDCAT-AP description for the catalogues of the European Health Data Space, release 8, as JSON-LD.

The program states what it knows: that the table is synthetic, its variables, and how it was made. Facts of law and of
the institution come from the review file alone; `unfilled` lists those that a catalogue will ask for.
"""

from __future__ import annotations

import calendar
import re
from datetime import date
from typing import Any

from .facts import Facts, SharedColumn, SharedTable

Json = dict[str, Any]
LISTS = "http://publications.europa.eu/resource/authority"
CATEGORIES = "https://hdeu-dcat.data.health.europa.eu/resource/authority/healthcategories/"
ACCESS = {"public": "PUBLIC", "restricted": "RESTRICTED", "non-public": "NON_PUBLIC"}
DAYS = re.compile(r"\b(\d{4})(?:-(\d\d)(?:-(\d\d))?)?(?![\w-])")  # a year, a month or a day
FILE_TYPES = {"csv": "CSV", "parquet": "PARQUET"}  # codes of the EU; others are bytes
DATATYPES = {
    "integer": "integer", "number": "decimal", "boolean": "boolean", "date": "date", "datetime": "dateTime",
    "string": "string",
}  # fmt: skip
CONTEXT = {
    "adms": "http://www.w3.org/ns/adms#",
    "csvw": "http://www.w3.org/ns/csvw#",
    "cv": "http://data.europa.eu/m8g/",
    "dcat": "http://www.w3.org/ns/dcat#",
    "dcatap": "http://data.europa.eu/r5r/",
    "dct": "http://purl.org/dc/terms/",
    "dpv": "https://w3id.org/dpv#",
    "eli": "http://data.europa.eu/eli/ontology#",
    "foaf": "http://xmlns.com/foaf/0.1/",
    "geodcatap": "http://data.europa.eu/930/",
    "healthdcatap": "http://healthdataportal.eu/ns/health#",
    "prov": "http://www.w3.org/ns/prov#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "skos": "http://www.w3.org/2004/02/skos/core#",
    "spdx": "http://spdx.org/rdf/terms#",
    "vcard": "http://www.w3.org/2006/vcard/ns#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
}


def healthdcat(facts: Facts) -> Json:
    """Return the content of healthdcat-ap.jsonld: one dataset, without a catalogue around it."""
    known, review = facts.review.catalogue, facts.review
    found: Json = {
        "@context": CONTEXT,
        "@type": "dcat:Dataset",
        "dct:title": _english(facts.title),
        "dct:description": _english(facts.description),
        "dct:type": _listed("dataset-type", "SYNTHETIC_DATA", "Synthetic data"),
        "dct:issued": {"@value": facts.made.isoformat(), "@type": "xsd:date"},
        "dct:provenance": {"@type": "dct:ProvenanceStatement", "rdfs:label": _english(facts.statement)},
        "dcat:theme": _listed("data-theme", "HEAL", "Health"),
        "dcat:keyword": [_english("synthetic data"), _english("differential privacy")],
        "dcat:distribution": [_distribution(facts, table) for table in facts.tables],
        "healthdcatap:hasStructuredData": True,
        "healthdcatap:hasVariables": {
            "@type": "csvw:TableGroup", "dct:title": _english(f"Variables of {facts.title}"),
            "csvw:table": [_table(table) for table in facts.tables],
        },
        "healthdcatap:numberOfRecords": _whole(sum(table.rows for table in facts.tables)),
        "prov:wasGeneratedBy": {"@type": "prov:Activity", "rdfs:label": _english(
            f"Sampling from a model of medsynth {facts.medsynth}, method {facts.method}")},
    }  # fmt: skip
    found |= {"@id": known.identifier} if _is_address(known.identifier) else {}
    found |= {"dct:identifier": known.identifier} if known.identifier else {}
    if level := _access(facts):
        found["dct:accessRights"] = _listed("access-right", level, level, "dct:RightsStatement")
    if law := _laws(facts):
        found["dcatap:applicableLegislation"] = law
    if known.health_category:
        found["healthdcatap:healthCategory"] = [_category(word) for word in known.health_category]
    if review.purpose:
        found["dpv:hasPurpose"] = {"@type": "dpv:Purpose", "dct:description": _english(review.purpose)}
    return found | _coverage(facts) | _people(facts)


def _coverage(facts: Facts) -> Json:
    """Return when and where the patients were seen, and the coding systems of the columns, as far as it is known."""
    known = facts.review.catalogue
    found = Json()
    if days := period(facts.review.period):
        ends = zip(("dcat:startDate", "dcat:endDate"), days, strict=True)
        dates = {name: {"@value": day.isoformat(), "@type": "xsd:date"} for name, day in ends}
        found["dct:temporal"] = {"@type": "dct:PeriodOfTime", **dates}
    if places := [_place(word) for word in known.geography if _is_place(word)]:
        found["dct:spatial"] = places
    if systems := [word for word in known.coding_systems if _is_address(word)]:
        found["healthdcatap:hasCodingSystem"] = [{"@id": word, "@type": "dct:Standard"} for word in systems]
    return found


def period(text: str | None) -> tuple[date, date] | None:
    """Return the first and the last day that a text names by one or two years, months or days; None if it does not.

    >>> period("2019 to 2020-02")
    (datetime.date(2019, 1, 1), datetime.date(2020, 2, 29))
    """
    found = [tuple(int(part) if part else 0 for part in match.groups()) for match in DAYS.finditer(text or "")]
    if not 1 <= len(found) <= 2:
        return None
    (year, month, day), (last_year, last_month, last_day) = found[0], found[-1]
    try:
        last_month = last_month or 12
        end = date(last_year, last_month, last_day or calendar.monthrange(last_year, last_month)[1])
        start = date(year, month or 1, day or 1)
    except (ValueError, calendar.IllegalMonthError):
        return None
    return (start, end) if start <= end else None


def _is_place(word: str) -> bool:
    return bool(re.fullmatch("[A-Z]{3}", word)) or _is_address(word)


def _place(word: str) -> Json:
    return {"@id": word if _is_address(word) else f"{LISTS}/country/{word}", "@type": "dct:Location"}


def unfilled(facts: Facts) -> list[str]:
    """Return the entries of the review file that the descriptions need and that are missing or not usable.

    Mandatory in HealthDCAT-AP are all but the licence, which every description names, and the last five: minimum
    metadata of the European Health Data Space, by the draft of 2026.
    """
    known, review = facts.review.catalogue, facts.review
    wanted = {
        f"access ({', '.join(ACCESS)})": bool(_access(facts)),
        "contact (an e-mail address or a page)": _reachable(review.contact) or _access(facts) == "PUBLIC",
        "licence": bool(review.licence),
        "catalogue.identifier": bool(known.identifier),
        "catalogue.access_url (an address)": _is_address(known.access_url),
        "catalogue.legislation (addresses)": bool(_laws(facts)),
        "catalogue.health_category": bool(known.health_category),
        "catalogue.access_body": bool(known.access_body),
        "catalogue.access_body_contact (an e-mail address or a page)": _reachable(known.access_body_contact),
        "period (two dates)": period(review.period) is not None,
        "catalogue.geography (DEU, or addresses)": any(map(_is_place, known.geography)),
        "catalogue.coding_systems (addresses)": any(map(_is_address, known.coding_systems)),
        "catalogue.custodian": bool(known.custodian),
        "catalogue.custodian_contact (an e-mail address or a page)": _reachable(known.custodian_contact),
    }
    return [name for name, there in wanted.items() if not there]


def _people(facts: Facts) -> Json:
    """Return contact, publisher, custodian and the body that grants access, if the review file names them."""
    known = facts.review.catalogue
    review = facts.review
    found = Json()
    if _reachable(review.contact):
        mail = "@" in str(review.contact)
        address = {"@id": f"mailto:{review.contact}" if mail else review.contact}
        found["dcat:contactPoint"] = {"@type": "vcard:Kind", f"vcard:has{'Email' if mail else 'URL'}": address}
        if known.publisher:
            found["dct:publisher"] = _agent(known.publisher, review.contact)
    if known.access_body and _reachable(known.access_body_contact):
        found["healthdcatap:hdab"] = _agent(known.access_body, known.access_body_contact)
    if known.custodian and _reachable(known.custodian_contact):
        found["geodcatap:custodian"] = _agent(known.custodian, known.custodian_contact)
    return found


def _agent(name: str, contact: str | None) -> Json:
    own = {"cv:email": contact} if "@" in str(contact) else {"cv:contactPage": {"@id": contact}}
    return {"@type": "foaf:Agent", "foaf:name": _english(name), "cv:contactPoint": {"@type": "cv:ContactPoint", **own}}


def _distribution(facts: Facts, table: SharedTable) -> Json:
    known, licence = facts.review.catalogue, facts.review.licence
    found: Json = {
        "@type": "dcat:Distribution",
        "dct:title": _english(table.file),
        "dct:description": _english(f"SYNTHETIC: {table.rows} rows of {table.name}"),
        "dct:format": _listed("file-type", FILE_TYPES.get(table.form, "OCTET"), table.media_type,
                              "dct:MediaTypeOrExtent"),
        "dcat:mediaType": {"@id": f"http://www.iana.org/assignments/media-types/{table.media_type}",
                           "@type": "dct:MediaType"},
        "dcat:byteSize": _whole(table.size),
        "spdx:checksum": {
            "@type": "spdx:Checksum", "spdx:algorithm": {"@id": "spdx:checksumAlgorithm_sha256"},
            "spdx:checksumValue": {"@value": table.sha256, "@type": "xsd:hexBinary"},
        },
    }  # fmt: skip
    if _is_address(known.access_url):
        found["dcat:accessURL"] = {"@id": known.access_url}
    if law := _laws(facts):
        found["dcatap:applicableLegislation"] = law
    if licence:
        named = {"@type": "dct:LicenseDocument", "dct:title": _english(licence)}
        found["dct:license"] = {"@id": licence, "@type": "dct:LicenseDocument"} if _is_address(licence) else named
    return found


def _table(table: SharedTable) -> Json:
    columns = [_column(column) for column in table.columns]
    return {"@type": "csvw:Table", "dct:title": _english(table.name), "csvw:column": columns}


def _column(column: SharedColumn) -> Json:
    return {
        "@type": "csvw:Column",
        "csvw:name": column.name,
        "csvw:title": column.name,
        "csvw:datatype": DATATYPES[column.values],
        "dct:description": _english(column.sentence),
    }


def _access(facts: Facts) -> str | None:
    """Return the level of access in the words of the catalogue, if the review file states one of them."""
    word = (facts.review.access or "").strip().lower().replace("_", "-").replace(" ", "-")
    return ACCESS.get(word)


def _laws(facts: Facts) -> list[Json]:
    return [
        {"@id": law, "@type": "eli:LegalResource"} for law in facts.review.catalogue.legislation if _is_address(law)
    ]


def _category(word: str) -> Json:
    code = word.strip().rstrip("/").rpartition("/")[2]
    address = word if _is_address(word) else CATEGORIES + code.upper()
    return {"@id": address, "@type": "skos:Concept", "skos:prefLabel": _english(code)}


def _is_address(text: str | None) -> bool:
    return (
        bool(text) and str(text).startswith(("http://", "https://", "urn:")) and not set(str(text)) & set(' "<>\\^`{|}')
    )


def _reachable(contact: str | None) -> bool:
    """Return whether a text is an e-mail address or a page."""
    if contact and "@" in contact:
        return not set(contact) & set(' "<>\\^`{|}')
    return _is_address(contact)


def _listed(scheme: str, code: str, label: str, *kinds: str) -> Json:
    """Return an entry of a list of the European Union, of the class concept and of the classes `kinds`."""
    return {
        "@id": f"{LISTS}/{scheme}/{code}", "@type": ["skos:Concept", *kinds], "skos:prefLabel": _english(label),
        "skos:inScheme": {"@id": f"{LISTS}/{scheme}"},
    }  # fmt: skip


def _english(text: str) -> Json:
    return {"@value": text, "@language": "en"}


def _whole(count: int) -> Json:
    return {"@value": str(count), "@type": "xsd:nonNegativeInteger"}
