"""A Croissant description, by which libraries of machine learning load the table (mlcommons.org/croissant/1.1)."""

from __future__ import annotations

from typing import Any

from .facts import Facts, SharedColumn, SharedTable, identifiers

Json = dict[str, Any]
TYPES = {
    "integer": "sc:Integer", "number": "sc:Float", "boolean": "sc:Boolean", "date": "sc:Date", "datetime": "sc:Date",
    "string": "sc:Text",
}  # fmt: skip
ISO = ("%Y-%m-%d", "%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S")
CONTEXT: Json = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "sc": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "dct": "http://purl.org/dc/terms/",
    "conformsTo": "dct:conformsTo",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "name": {"@container": "@language"},
    "description": {"@container": "@language"},
    **{word: f"cr:{word}" for word in (
        "arrayShape", "citeAs", "column", "containedIn", "equivalentProperty", "extract", "field", "fileProperty",
        "fileObject", "fileSet", "format", "includes", "isArray", "isLiveDataset", "jsonPath", "key", "md5",
        "parentField", "path", "recordSet", "references", "regex", "repeated", "replace", "samplingRate", "separator",
        "source", "subField", "transform",
    )},
}  # fmt: skip


def croissant(facts: Facts) -> Json:
    """Return the content of croissant.json."""
    review = facts.review
    names = identifiers(table.name for table in facts.tables)
    fields = _fields(facts)
    content: Json = {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.1",
        "name": facts.title,
        "description": facts.description,
        "keywords": ["synthetic data", "differential privacy"],
        "datePublished": facts.made.isoformat(),
        "rai:dataCollectionType": ["Synthetic"],
        "rai:dataCollection": facts.statement,
        "rai:personalSensitiveInformation": [facts.claim],
        "distribution": [_file(table, names[table.name]) for table in facts.tables],
        "recordSet": [_records(table, names[table.name], fields) for table in facts.tables],
    }
    content |= {"rai:dataUseCases": [review.purpose]} if review.purpose else {}
    content |= {"license": review.licence} if review.licence else {}
    content |= {"url": review.catalogue.access_url} if review.catalogue.access_url else {}
    publisher = review.catalogue.publisher
    return content | ({"publisher": {"@type": "sc:Organization", "name": publisher}} if publisher else {})


def _file(table: SharedTable, name: str) -> Json:
    return {
        "@type": "cr:FileObject",
        "@id": f"{name}_file",
        "name": table.file,
        "description": f"SYNTHETIC rows of {table.name}",
        "contentUrl": table.file,
        "contentSize": f"{table.size} B",
        "encodingFormat": "application/x-parquet" if table.form == "parquet" else table.media_type,
        "sha256": table.sha256,
    }


def _fields(facts: Facts) -> dict[tuple[str, str], str]:
    """Return the identifier of each column, by table and column."""
    names = identifiers(table.name for table in facts.tables)
    columns = {table.name: identifiers(column.name for column in table.columns) for table in facts.tables}
    return {(table, name): f"{names[table]}/{own}" for table, found in columns.items() for name, own in found.items()}


def _records(table: SharedTable, name: str, fields: dict[tuple[str, str], str]) -> Json:
    found: Json = {
        "@type": "cr:RecordSet",
        "@id": name,
        "name": table.name,
        "description": f"SYNTHETIC: {table.rows} rows",
        "field": [_field(table, column, name, fields) for column in table.columns],
    }
    return found | ({"key": {"@id": fields[table.name, table.key]}} if table.key else {})


def _field(table: SharedTable, column: SharedColumn, name: str, fields: dict[tuple[str, str], str]) -> Json:
    found: Json = {
        "@type": "cr:Field",
        "@id": fields[table.name, column.name],
        "name": column.name,
        "description": column.sentence,
        "dataType": _type(column),
        "source": {"fileObject": {"@id": f"{name}_file"}, "extract": {"column": column.name}},
    }
    return found | ({"references": {"field": {"@id": fields[column.refers_to]}}} if column.refers_to else {})


def _type(column: SharedColumn) -> str:
    """Return the type that a loader gives to the cells: text if it could misread one of them."""
    dated = column.values in ("date", "datetime") and column.format not in ISO
    return "sc:Text" if dated or column.has_words else TYPES[column.values]
