"""Whatever a dictionary contains, an import ends with a schema that can be read or with an error of its own."""

import csv
import io
import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redcap_lines import FILES

from medsynth.dictionaries.importing import import_schema
from medsynth.errors import SchemaError
from medsynth.schema import Schema

KEYS = (
    "name fields resources schema type format constraints enum categories minimum maximum exclusiveMinimum unit label "
    "missingValues trueValues falseValues primaryKey value required tables tableSchema columns titles datatype base "
    "null url virtual recordSet field dataType references data key source extract column @id minExclusive separator "
    "title"
)
WORDS = (
    "integer number string boolean date datetime time year yearmonth dateTime sc:Text a b 1 -9 2020-01-01 %d.%m.%Y "
    "%Y%Y yyyy Y|N (a|b) cr:Enumeration x/y"
)
KEY = st.sampled_from(KEYS.split(" "))
VALUES = st.recursive(
    st.sampled_from([*WORDS.split(" "), "", "é\n"]) | st.none() | st.booleans() | st.integers(-9, 99) | st.floats(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEY, inner, max_size=6),
    max_leaves=30,
)
FIELD = st.dictionaries(KEY, VALUES, max_size=6).map(lambda of: {"name": "a", **of})
pytestmark = pytest.mark.nightly
PATIENT = settings(
    max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None
)
CELLS = st.sampled_from(
    ["", "a", "b", "text", "calc", "radio", "checkbox", "integer", "number_2dp", "date_dmy", "y", "0", "9", "today",
     "2020-01-01", "yes", "key", "1, a | 2, b", "[a] + 1", "[a] = '1'", "1=x, 2=y"]
)  # fmt: skip


def ends_well(path: Path) -> None:
    """Import a dictionary: the schema can be read, or names what is to do, or the import is refused."""
    try:
        found = import_schema([path])
    except SchemaError:
        return
    if found.unfinished:
        with suppress(SchemaError):  # such as a rule that needs the kind of an open column
            assert Schema.from_yaml(found.text).open
    else:
        assert Schema.from_yaml(found.text).names == tuple(found.outcomes)
    assert found.message


@PATIENT
@given(st.sampled_from(["fields", "tableSchema", "recordSet"]), st.lists(FIELD, max_size=3), VALUES)
def test_of_json(tmp_path: Path, form: str, fields: list[object], more: object) -> None:
    content = {
        "fields": {"fields": fields, "missingValues": more},
        "tableSchema": {"tableSchema": {"columns": fields, "primaryKey": more}},
        "recordSet": {"recordSet": [{"name": "t", "field": fields, "key": more}, more]},
    }[form]
    (tmp_path / "dictionary.json").write_text(json.dumps(content))
    ends_well(tmp_path / "dictionary.json")


@PATIENT
@given(VALUES)
def test_of_any_object(tmp_path: Path, content: object) -> None:
    (tmp_path / "dictionary.json").write_text(json.dumps({"name": "a", "schema": content}))
    ends_well(tmp_path / "dictionary.json")


@pytest.mark.parametrize("file", ["redcap.csv", "codebook.csv", "omop.csv", "scan.csv", "events.csv"])
@PATIENT
@given(st.data())
def test_of_csv(tmp_path: Path, file: str, data: st.DataObject) -> None:
    """Under the header of each form."""
    first = (FILES / file).read_text().splitlines()[0]
    header = next(csv.reader([first], delimiter=";" if ";" in first else ","))
    rows = data.draw(st.lists(st.lists(CELLS, min_size=len(header), max_size=len(header)), max_size=4))
    text = io.StringIO()
    csv.writer(text).writerows([header, *rows])
    (tmp_path / "dictionary.csv").write_text(text.getvalue())
    ends_well(tmp_path / "dictionary.csv")
