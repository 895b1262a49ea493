"""A Frictionless data package, whose resources are described by table schemas (specs.frictionlessdata.io)."""

from __future__ import annotations

from typing import Any

from .facts import Facts, SharedColumn, SharedTable, identifiers

Json = dict[str, Any]
NUMBERS = ("integer", "number")  # kinds of values
MOST_LEVELS = 1000  # levels that a constraint lists


def datapackage(facts: Facts) -> Json:
    """Return the content of datapackage.json."""
    review = facts.review
    names = identifiers(table.name for table in facts.tables)
    content: Json = {
        "name": identifiers([facts.title])[facts.title],
        "title": facts.title,
        "description": facts.description,
        "created": f"{facts.made.isoformat()}T00:00:00Z",
        "resources": [_resource(table, names) for table in facts.tables],
        "synthetic": True,
        "privacy": {"epsilon": facts.epsilon, "delta": facts.delta, "unit": facts.unit, "method": facts.method},
    }
    if review.licence:
        address = review.licence.startswith("http")
        content["licenses"] = [{"path" if address else "name": review.licence}]
    if review.contact or review.catalogue.publisher:
        person = {"title": review.catalogue.publisher or review.contact, "role": "publisher"}
        content["contributors"] = [person | ({"email": review.contact} if "@" in (review.contact or "") else {})]
    return content


def _resource(table: SharedTable, names: dict[str, str]) -> Json:
    """Return the resource of a table. `names`: the names of all resources, by table."""
    schema: Json = {"fields": [_field(column, table) for column in table.columns], "missingValues": [""]}
    if table.key:
        schema["primaryKey"] = [table.key]
    links = [(column.name, column.refers_to) for column in table.columns if column.refers_to]
    if links:
        schema["foreignKeys"] = [
            {"fields": [name], "reference": {"resource": names[other], "fields": [key]}} for name, (other, key) in links
        ]
    # The library of this standard cannot compare the size and checksum of a Parquet file, and fails.
    check = {} if table.form == "parquet" else {"bytes": table.size, "hash": f"sha256:{table.sha256}"}
    check |= {"encoding": table.text.encoding} if table.text.encoding != "utf-8" else {}
    check |= {"dialect": {"delimiter": table.text.delimiter}} if table.text.delimiter != "," else {}
    return {
        "name": names[table.name],
        "path": table.file,
        "type": "table",
        "format": table.form,
        "mediatype": table.media_type,
        **check,
        "synthetic": True,
        "schema": schema,
    }


def _field(column: SharedColumn, table: SharedTable) -> Json:
    """Return a field of a table schema. Constraints have only what every cell of the column meets."""
    found: Json = {"name": column.name, "type": column.values, "description": column.sentence}
    found |= {"title": column.label} if column.label else {}
    found |= {"decimalChar": ","} if column.values == "number" and table.text.decimal == "," else {}
    if column.missing:
        words = [word for word in column.missing if word]
        if table.form == "parquet" and column.values in NUMBERS:  # which a reader writes as 9.0 or nan
            words += ["nan", *(f"{float(word)}" for word in words)]
        found["missingValues"] = ["", *words]
    if column.format and column.values in ("date", "datetime"):
        found["format"] = "default" if column.format == "%Y-%m-%d" else column.format
    if column.values == "boolean":
        found |= {"trueValues": ["true", "True", "TRUE"], "falseValues": ["false", "False", "FALSE"]}
    read = int if column.values == "integer" else float if column.values == "number" else None
    limits: Json = {} if column.missing or column.is_key or "" in column.levels else {"required": True}
    if read and column.low:
        limits |= {"minimum": read(column.low), "maximum": read(column.high)}
    elif column.levels and column.values != "boolean" and len(column.levels) <= MOST_LEVELS:
        limits["enum"] = [read(level) if read else level for level in column.levels if level]
        if read is not float and (labels := column.value_labels):
            named = (
                {"value": level} | ({"label": labels[str(level)]} if str(level) in labels else {})
                for level in limits["enum"]
            )
            found["categories"] = [*named]
    return found | ({"constraints": limits} if limits else {})
