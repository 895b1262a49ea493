"""A research object crate: the files of the folder, how they were made, and their variables (w3id.org/ro/crate)."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from .facts import Facts, SharedColumn, SharedTable

Json = dict[str, Any]
VERSION = "https://w3id.org/ro/crate/1.2"
SOFTWARE, RUN, CLAIM = "#medsynth", "#sampling", "#claim"


def rocrate(facts: Facts, files: dict[str, str]) -> Json:
    """Return the content of ro-crate-metadata.json. `files`: the other descriptions in the folder, by name."""
    review = facts.review
    names = [quote(table.file) for table in facts.tables]
    root: Json = {
        "@id": "./",
        "@type": "Dataset",
        "name": facts.title,
        "description": facts.description,
        "datePublished": facts.made.isoformat(),
        "keywords": ["synthetic data", "differential privacy"],
        "hasPart": [{"@id": name} for name in (*names, *map(quote, files))],
        "mainEntity": {"@id": names[0]},
        "variableMeasured": [{"@id": _id(table, column)} for table in facts.tables for column in table.columns],
    }
    root |= {"identifier": review.catalogue.identifier} if review.catalogue.identifier else {}
    graph = [
        {"@id": "ro-crate-metadata.json", "@type": "CreativeWork", "conformsTo": {"@id": VERSION},
         "about": {"@id": "./"}},
        root,
        *[_file(table) for table in facts.tables],
        *({"@id": quote(name), "@type": "File", "name": name, "description": text} for name, text in files.items()),
        *_made(facts, names),
        *[_variable(table, column) for table in facts.tables for column in table.columns],
    ]  # fmt: skip
    for key, entity in _people(facts):
        root[key] = {"@id": entity["@id"]}
        graph.append(entity)
    return {"@context": f"{VERSION}/context", "@graph": graph}


def _people(facts: Facts) -> list[tuple[str, Json]]:
    """Return what the review file states about licence, publisher and contact, as properties of the root."""
    review = facts.review
    found = list[tuple[str, Json]]()
    if review.licence:
        address = review.licence if review.licence.startswith("http") else "#licence"
        found.append(("license", {"@id": address, "@type": "CreativeWork", "name": review.licence}))
    if review.catalogue.publisher:
        name = review.catalogue.publisher
        found.append(("publisher", {"@id": "#publisher", "@type": "Organization", "name": name}))
    if review.contact:
        contact: Json = {"@id": "#contact", "@type": "ContactPoint", "contactType": "questions on this table"}
        kind = "email" if "@" in review.contact else "url" if review.contact.startswith("http") else "name"
        found.append(("contactPoint", contact | {kind: review.contact}))
    return found


def _file(table: SharedTable) -> Json:
    return {
        "@id": quote(table.file),
        "@type": "File",
        "name": f"{table.name}, SYNTHETIC",
        "description": f"{table.rows} synthetic rows",
        "encodingFormat": table.media_type,
        "contentSize": str(table.size),
        "sha256": table.sha256,
    }


def _made(facts: Facts, names: list[str]) -> list[Json]:
    """Return the action that drew the rows, its program, and the claim in numbers."""
    figures = [("method", facts.method), ("epsilon", facts.epsilon), ("delta", facts.delta), ("unit", facts.unit)]
    return [
        {"@id": SOFTWARE, "@type": "SoftwareApplication", "name": "medsynth", "softwareVersion": facts.medsynth},
        {"@id": RUN, "@type": "CreateAction", "name": "Sampling of synthetic rows", "instrument": {"@id": SOFTWARE},
         "result": [{"@id": name} for name in names], "description": facts.statement,
         "additionalProperty": [{"@id": f"{CLAIM}-{name}"} for name, value in figures if value is not None]},
        *({"@id": f"{CLAIM}-{name}", "@type": "PropertyValue", "name": name, "value": value}
          for name, value in figures if value is not None),
    ]  # fmt: skip


def _id(table: SharedTable, column: SharedColumn) -> str:
    return f"#variable/{quote(table.name, safe='')}/{quote(column.name, safe='')}"


def _variable(table: SharedTable, column: SharedColumn) -> Json:
    found: Json = {
        "@id": _id(table, column), "@type": "PropertyValue", "name": column.name, "description": column.sentence,
    }  # fmt: skip
    if column.values in ("integer", "number") and column.low:
        found |= {"minValue": float(column.low), "maxValue": float(column.high)}
    return found | ({"unitText": column.unit} if column.unit else {})
