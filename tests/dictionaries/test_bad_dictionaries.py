"""Bad dictionaries are refused within seconds by an error that names the line: never a traceback."""

import csv
import json
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from commands import run
from redcap_lines import FILES, HEADER, field

from medsynth.dictionaries.files import MAX_FIELDS
from medsynth.errors import SchemaError

SECONDS = 10  # that a refusal may take


@pytest.fixture(autouse=True)
def longest_cell() -> Iterator[None]:
    """The csv module's own limit: a package that other tests import raises it for the whole process."""
    before = csv.field_size_limit(1 << 17)
    yield
    csv.field_size_limit(before)


def refused(path: Path, *more: object) -> str:
    """The message of an import that ends with an error of its own, in time."""
    start = time.perf_counter()
    result = run("schema", "import", path, *more, "-o", path.with_name("out.schema.yaml"))
    assert time.perf_counter() - start < SECONDS
    assert result.exit_code == SchemaError.exit_code, result.output
    assert "bug" not in result.stderr and not path.with_name("out.schema.yaml").exists()
    return " ".join(result.stderr.split())


def csv_of(*lines: str) -> str:
    return f"{HEADER}\n{field('record_id')}{''.join(lines)}"


WHOLE = {"check": "integer", "low": "0", "high": "9"}
BAD: dict[str, tuple[str | bytes, str]] = {
    "encoding": (csv_of(field("a", "radio", "1, Größe")).encode("cp1252"), "line 3: not valid utf-8"),
    "binary": ("\0\1\2", "line 1: binary content"),
    "empty": ("", "has no entries"),
    "header alone": (HEADER, "has no entries"),
    "prose": ("Dear colleague, enclosed\nplease find\n", "is not a dictionary of a known form"),
    "a table": ("id,age,sex\n1,40,F\n", "is not a dictionary of a known form"),
    "open quote": (f'{csv_of()}b,form,,text,"B\n', "line 3: a quote is not closed"),
    "more cells": (f"{csv_of().rstrip()},,,9\n", "line 2: more cells than the header's 18"),
    "name twice in the header": ("name,type,type\na,int,int\n", "line 1: two columns have the name 'type'"),
    "twice": (csv_of(field("a", **WHOLE), field("a", **WHOLE)), "line 4: 'a' is described twice, first in line 3"),
    "field name": (csv_of(field("Größe", **WHOLE)), "line 3: 'Größe' is not a name of a REDCap field"),
    "blank lines": ("column,type\n" + "\n" * 10**6 + "a,date", "line 100001: more than 100000 lines"),
    "blank cells": ("," * 10**6, "has no entries"),
    "signs that turn the text": ("column,type,min,max\nage\u202e,integer,0,9\n", "line 2: 'age\\u202e': a name, unit"),
    "zero width": ("column,type,min,max\nage\u200b,integer,0,9\n", "line 2: 'age\\u200b': a name, unit"),
    "utf-32": (csv_of().encode("utf-32"), "line 1: binary content"),
    "deep xml": ("<ODM>" + "<a>" * 10**4, "line 1: not valid XML"),
    "many fields": (csv_of(*(field(f"a{k}", **WHOLE) for k in range(35_000))), f"line {MAX_FIELDS + 2}: more than"),
    "label of a megabyte": (csv_of(field("x" * 10**6, **WHOLE)), "line 3: a quote is not closed"),
    "label of 30,000": (csv_of(field("x" * 30_000, **WHOLE)), "line 3: a cell has more than 20000 characters"),
    "control signs": ("column,type,codes\na,factor,1\x07;2\n", "line 2: 'a': a name, unit or code contains signs"),
    "json": ('{"fields": [\n{"name": }]}', "line 2: not valid JSON"),
    "json list": ("[1]", "is one object"),
    "deep json": ('{"fields":' + "[" * 10**5 + "]" * 10**5 + "}", "nested too deeply"),
    "long number": ('{"fields": [' + "9" * 5000 + "]}", "a number is too long"),
    "other json": ('{"resourceType": "StructureDefinition"}', "is JSON, but not a dictionary of a known form"),
    "xml alone": ("<ODM></ODM>", "the data dictionary is missing"),
    "other xml": ("<html></html>", "is XML, but not the XML file of a REDCap project"),
    "broken xml": ("<ODM><a></ODM>", "line 1: not valid XML"),
    "xml bomb": (
        "<!DOCTYPE o [<!ENTITY a 'ha'><!ENTITY b '&a;&a;&a;'><!ENTITY c '&b;&b;&b;'>]><ODM>&c;</ODM>",
        "it declares a document type or entities"
    ),
    "external entity": ('<!DOCTYPE o SYSTEM "file:///etc/passwd"><ODM/>', "it declares a document type or entities"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_bad_dictionary_is_refused_by_its_line(name: str, tmp_path: Path) -> None:
    content, message = BAD[name]
    path = tmp_path / "dictionary"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert message in refused(path)


JSON: dict[str, tuple[dict[str, Any], str]] = {
    "frictionless twice": ({"fields": [{"name": "a", "type": "date"}] * 2}, "line 8: 'a' is described twice"),
    "no name": ({"fields": [{"type": "integer"}]}, "field 1 has no name"),
    "fields of another kind": ({"fields": [7, None, []]}, "3 faults"),
    "many fields": ({"fields": [{"name": f"a{k}", "type": "date"} for k in range(35_000)]}, "more than 5000 entries"),
    "label of a megabyte": ({"fields": [{"name": "a", "title": "x" * 10**6, "type": "date"}]}, "a text is too long"),
    "csvw without names": ({"tableSchema": {"columns": [{}]}}, "column 1 has neither titles nor a name"),
    "no columns": ({"tableSchema": {"columns": []}}, "describes no column"),
    "croissant": ({"recordSet": [{"name": "a"}]}, "no record set has fields"),
}  # fmt: skip


@pytest.mark.parametrize("name", JSON)
def test_bad_json_is_refused_by_its_line(name: str, tmp_path: Path) -> None:
    content, message = JSON[name]
    (tmp_path / "dictionary.json").write_text(json.dumps(content, indent=1))
    assert message in refused(tmp_path / "dictionary.json")


def test_other_files_are_refused(tmp_path: Path) -> None:
    assert "There is no dictionary" in refused(tmp_path / "none.csv")
    assert "cannot be read" in refused(tmp_path)
    assert "is a second dictionary" in refused(FILES / "redcap.csv", FILES / "codebook.csv")
    assert "Only a REDCap dictionary" in refused(FILES / "codebook.csv", FILES / "events.csv")
    assert "describes none of the table's columns" in refused(FILES / "codebook.csv", "--table", FILES / "events.csv")
    (large := tmp_path / "large.csv").write_bytes(b"x" * (1 << 24) + b"x")
    assert "at most 16 MB" in refused(large)


def test_a_workbook_that_unpacks_to_too_much_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "bomb.xlsx", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        for k in range(3):
            archive.writestr(f"xl/{k}.xml", b" " * 30_000_000)
    assert "unpacks to more than 64 MB" in refused(tmp_path / "bomb.xlsx")
    with zipfile.ZipFile(tmp_path / "parts.xlsx", "w") as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        for k in range(1000):
            archive.writestr(f"xl/{k}.xml", "")
    assert "more than 1000 parts" in refused(tmp_path / "parts.xlsx")
    (tmp_path / "damaged.xlsx").write_bytes((tmp_path / "bomb.xlsx").read_bytes().replace(b"<Types/>", b"<Types?>"))
    assert refused(tmp_path / "damaged.xlsx")
