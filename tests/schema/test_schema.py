"""Schemas: YAML in and out, strict keys, words that stay words."""

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medsynth.errors import SchemaError
from medsynth.schema import Schema, bundled, bundled_for
from medsynth.schema.clinical import look_up
from medsynth.schema.declared import bundled_files
from medsynth.schema.drafts import draft
from medsynth.schema.header import keys

ROOT = Path(__file__).parents[2]
GOOD = "name: t\ntarget: y\ncolumns:\n  x: {kind: continuous, bounds: [0, 1]}\n  y: {kind: binary, levels: [no, yes]}\n"


def test_words_stay_words() -> None:
    schema = Schema.from_yaml(GOOD)
    assert schema.columns["y"].levels == ("no", "yes")
    assert Schema.from_yaml(schema.to_yaml()) == schema


OTHERS = """1e5 -1e5 1E+5 .5e3 0x10 0o7 0b1 1_000 12:30:45 TODO TODO:x .inf NaN no Null ~ y <<= 2020-01-01 =1+1 --- ...
- ? : # & * ! | > % @ ` ' " , [a] {a:1} a:b a#b a\x85b a\u2028b"""
LIKE_OTHERS = st.sampled_from(re.split("[ \n]", OTHERS))
WORDS = LIKE_OTHERS | st.text(min_size=1) | st.builds("{} {}".format, st.text(), LIKE_OTHERS)
NAMED = WORDS.filter(lambda word: word == word.strip() and "\x1f" not in word)


@settings(max_examples=150, deadline=None)
@given(st.lists(NAMED, min_size=2, max_size=4, unique=True), st.lists(NAMED, max_size=2, unique=True), NAMED)
def test_any_text_comes_back_from_yaml(levels: list[str], missing: list[str], name: str) -> None:
    codes = [code for code in missing if code not in levels]
    one = {"kind": "categorical", "levels": levels, "missing": codes or True}
    schema = Schema.from_dict({"name": name, "target": name, "public_labels": name, "columns": {name: one}})
    assert Schema.from_yaml(schema.to_yaml()) == schema
    drafted = Schema.from_yaml(draft(name, [name]))
    assert drafted.names == (name,) and (name in drafted.open or name in keys([name]) or look_up(name))
    assert not (name in drafted.open and name in keys([name]))


@pytest.mark.parametrize("name", sorted(bundled()))
def test_bundled_schemas_come_back_and_are_found_by_header(name: Any) -> None:
    schema = bundled()[name]
    assert Schema.from_yaml(schema.to_yaml()) == schema
    assert bundled_for(list(reversed(schema.names))) == schema


def test_a_copy_with_other_rules_or_columns_learns_by_these() -> None:
    schema = Schema.from_yaml(GOOD + "rules: [y = yes implies x > 0.5]\n")
    assert len(schema.core.constraints) == len(schema.parsed_rules) == 1
    bare = schema.model_copy(update={"rules": ()})
    assert not bare.core.constraints and not bare.parsed_rules
    assert schema.model_copy(update={"columns": {"y": schema.columns["y"]}, "rules": ()}).core.names == ("y",)


def test_one_function_finds_all_bundled_files() -> None:
    files = bundled_files()
    assert set(files) == {"thyroid", "omop"} and {path.suffix for path in files.values()} == {".yaml"}
    assert sorted(path.name for path in files["omop"].parent.glob("*.yaml")) == ["omop.tables.yaml", "thyroid.yaml"]
    users = [path for path in (ROOT / "medsynth").rglob("*.py") if "medsynth_schemas" in path.read_text()]
    assert [path.name for path in users] == ["declared.py"]


def test_thyroid_is_bundled_with_its_columns() -> None:
    names = bundled()["thyroid"].names
    assert len(names) == 22 and names[0] == "age" and names[-2:] == ("fti", "class")
    assert bundled_for(["age", "class"]) is None


@pytest.mark.parametrize(
    "text, message",
    [
        (GOOD + "bonus: 1\n", "bonus"),
        (GOOD.replace("bounds: [0, 1]", "bounds: [0, 1], colour: red"), "colour"),
        (GOOD.replace("continuous", "magic"), "magic"),
        (GOOD.replace("[0, 1]", "[1, 0]"), "lower one first"),
        (GOOD.replace("[0, 1]", "[-1, 1], scale: log"), "log scale"),
        (GOOD.replace("[0, 1]", "[0, 1], decimals: 12"), "decimals"),
        (GOOD.replace("[no, yes]", "[no]"), "levels"),
        (GOOD.replace("[no, yes]", "[no, no]"), "differ"),
        (GOOD.replace("target: y", "target: z"), "must name a column"),
        (GOOD.replace("[0, 1]", "[0, TODO, 3]"), "columns.x"),
        (GOOD + "name: twice\n", "twice"),
        ("name: [", "YAML"),
        ("- 1\n", "top level"),
        ("name: !!python/object/apply:os.system [id]\ncolumns: {}\n", "YAML"),
    ],
)
def test_what_is_no_schema_is_one_error(text: str, message: str) -> None:
    with pytest.raises(SchemaError) as caught:
        Schema.from_yaml(text, "s.yaml")
    assert "s.yaml" in str(caught.value) and message in str(caught.value)


@settings(deadline=None)
@given(st.lists(st.text(min_size=1), min_size=1, max_size=5, unique=True))
def test_what_a_draft_does_not_know_is_open(header: list[str]) -> None:
    schema = Schema.from_yaml(draft("t", header))
    known = {name for name in header if look_up(name) is not None}
    assert schema.names == (*header,) and not schema.seen
    assert all(name in schema.open or name in known or not c.modelled for name, c in schema.columns.items())


def test_a_missing_schema_file_names_the_cure(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="Draft a schema"):
        Schema.load(tmp_path / "none.yaml")
