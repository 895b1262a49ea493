"""The form of the columns: what it does not change stays the same, and what it writes is read as it was typed."""

from typing import Any

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st
from medsynth_cli.app.columns import KEYS, Fields, content_of, fields_of, rules_of, yaml_of
from medsynth_sample_data import simulate

from medsynth.errors import SchemaError
from medsynth.schema import Schema, bundled
from medsynth.schema.columns.open import entries
from medsynth.schema.columns.registry import KINDS, SHARED

ODD = [
    "no", "yes", "on", "null", "~", "1e5", "0x10", "TODO", "01", "-0", "true", "1_000", "2020-12-31", " a ", "a: b",
    "# c", "[", "é\u0085ß", "\u2028", "\x7f", "🏥", "'", '"', "\\", "- x", "", "=", "<b>", "{{ t }}", "*a", "&a", "!!x",
]  # fmt: skip
TEXT = st.sampled_from(ODD) | st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=6)
NUMBER = st.integers(-(10**20), 10**20) | st.floats(allow_nan=False, allow_infinity=False)
VALUE = TEXT | NUMBER | st.booleans() | st.none()
VALUES = st.lists(VALUE, max_size=4)
COLUMN = st.fixed_dictionaries(
    {"kind": st.sampled_from([*KINDS, "other"])},
    optional={
        "levels": VALUES | TEXT, "bounds": VALUES, "missing": st.booleans() | VALUES, "decimals": st.integers(0, 4),
        "scale": st.sampled_from(["log", "linear"]), "unit": TEXT, "format": TEXT, "drop": st.booleans(),
        "hierarchy": TEXT, "later": st.dictionaries(TEXT, VALUE, max_size=2),
    },
)  # fmt: skip
CONTENT = st.fixed_dictionaries(
    {"columns": st.dictionaries(TEXT, COLUMN, min_size=1, max_size=4)},
    optional={"name": TEXT, "target": st.text("ab", min_size=1), "rules": st.lists(TEXT, min_size=1, max_size=3)},
)  # fmt: skip


def sent(content: dict[str, Any]) -> str:
    """The file after the form was saved as it was shown."""
    header = list(content.get("columns") or {})
    text: str = yaml_of(content, fields_of(content, header), rules_of(content), str(content.get("target") or ""), {})
    return text


@settings(max_examples=40)
@given(CONTENT)
def test_a_form_that_was_not_changed_changes_nothing(content: dict[str, Any]) -> None:
    """Of no finished or unfinished schema, whatever texts are in it."""
    assert content_of(sent(content)) == content


@pytest.mark.parametrize("name", [*bundled(), "clinic"])
def test_real_schemas_pass_through_the_form(name: str) -> None:
    schema = Schema.from_yaml(simulate.schema_text()) if name == "clinic" else bundled()[name]
    assert Schema.from_yaml(sent(content_of(schema.to_yaml()))) == schema


@settings(max_examples=40)
@given(st.lists(TEXT.map(str.strip).filter(lambda text: text and text.isprintable()), min_size=1, unique=True), TEXT)
@example(["no", "1e5", "0x10"], "TODO")
@example(["01", "1"], "a")
def test_levels_are_the_texts_that_were_typed(levels: list[str], unit: str) -> None:
    form = [
        Fields("a", "categorical", levels="\n".join(levels)),
        Fields("b", "continuous", low="0", high="1e5", unit=unit),
    ]
    columns = content_of(yaml_of({}, form, "", "", {}))["columns"]
    assert [str(level) for level in columns["a"]["levels"]] == levels
    assert columns["b"]["bounds"] == [0, 100_000.0] and columns["b"].get("unit", "") == unit.strip()


def test_columns_that_the_form_does_not_send_are_kept() -> None:
    """A page that was sent before it was loaded as a whole, and a column of another kind."""
    content: dict[str, Any] = {
        "columns": {"a": {"kind": "count", "bounds": [0, 3]}, "b": {"kind": "new", "x": 1}},
        "rules": {"odd": 1},
    }
    assert content_of(yaml_of(content, [], "", "", {})) == content
    changed = Fields("a", "count", low="0", high="4")
    assert content_of(yaml_of(content, [changed], "", "", {}))["columns"] == content["columns"] | {
        "a": {"kind": "count", "bounds": [0, 4]}
    }


def test_what_is_empty_is_left_to_do() -> None:
    form = [Fields("a", "binary"), Fields("b", "date", low="2020-01-31"), Fields("c", "identifier", drop="yes")]
    assert [one.open for one in form] == [True, True, False]
    text = yaml_of({"name": "x"}, form, "", "a", {})
    columns = content_of(text)["columns"]
    assert columns["a"]["levels"] == [None] and columns["b"]["bounds"] == ["2020-01-31", None] and columns["c"]["drop"]
    assert [*Schema.from_yaml(text).open] == ["a", "b"]


GERMAN = (".,", "%d.%m.%Y")


def test_all_that_a_schema_can_say_has_a_field() -> None:
    """Times of day, dates that follow others, codes of a hierarchy, forms, limits, and entries without a field."""
    typed = [
        Fields("at", "time", format="%H:%M"), Fields("out", "date", format="%d.%m.%Y", after="in"),
        Fields("in", "date", low="1.2.2019", high="31.12.2023", format="%d.%m.%Y %H:%M"),
        Fields("icd", "categorical", hierarchy="icd10", unknown="other"),
        Fields("crp", "continuous", low="0,5", high="1.000", below="<0,5", above=">1000", unknown="missing"),
        Fields("dose", "count", low="0", high="9", text="{} mg\n{} g", more="out_of_range: missing", missing="yes"),
        Fields("temperature", "continuous", limits="learn", codes="999", missing="yes"), Fields("new", "open"),
    ]  # fmt: skip
    columns = content_of(yaml_of({}, [one.heard(*GERMAN) for one in typed], "", "", {}))["columns"]
    assert columns == {
        "at": {"kind": "date", "bounds": ["1900-01-01"] * 2, "resolution": "minute", "format": "%H:%M"},
        "out": {"kind": "date", "format": "%d.%m.%Y", "after": "in"},
        "in": {"kind": "date", "bounds": ["2019-02-01", "2023-12-31"], "resolution": "minute",
               "format": "%d.%m.%Y %H:%M"},
        "icd": {"kind": "categorical", "hierarchy": "icd10", "unknown": "other"},
        "crp": {"kind": "continuous", "bounds": [0.5, 1000], "below": "<0,5", "above": ">1000",
                "unknown": "missing", "missing": True},
        "dose": {"kind": "count", "bounds": [0, 9], "text": ["{} mg", "{} g"], "missing": True,
                 "out_of_range": "missing"},
        "temperature": {"kind": "continuous", "bounds": [None, None], "limits": "learn", "missing": [999, ""]},
        "new": {"kind": None},
    }  # fmt: skip
    shown = [one.spoken(*GERMAN) for one in fields_of({"columns": columns}, [])]
    assert (shown[2].low, shown[4].low, shown[5].more) == ("01.02.2019", "0,5", "out_of_range: missing")
    assert content_of(yaml_of({}, [one.heard(*GERMAN) for one in shown], "", "", {}))["columns"] == columns


def test_a_cell_of_several_numbers_and_a_rule_that_was_seen_stay() -> None:
    two = {"kind": "parts", "text": "{}/{}", "parts": [{"kind": "count", "bounds": [0, 300]}] * 2, "seen": True}
    rules = [{"rule": "`a.1` > `a.2`", "seen": True}]
    (form,) = fields_of({"columns": {"a": two}}, [])
    changed = yaml_of(
        {"columns": {"a": two}, "rules": rules}, [form._replace(text="{}-{}")], "`a.1` > `a.2`\nx", "", {}
    )
    found = content_of(changed)
    assert (form.low, form.high, form.more) == ("0", "300", "")
    assert found["columns"]["a"] == two | {"text": "{}-{}"} and found["rules"] == [*rules, "x"]


def test_another_kind_keeps_nothing_of_the_old_one() -> None:
    content = {"columns": {"a": {"kind": "count", "bounds": [0, 3], "noise": 1}}}
    form = [Fields("a", "binary", levels="0\n1", low="0", high="3")]
    assert content_of(yaml_of(content, form, "a = 1", "", {}))["columns"] == {"a": {"kind": "binary", "levels": [0, 1]}}


def test_the_form_knows_the_kinds_and_their_keys() -> None:
    own = {"time": "date"}
    for kind, keys in KEYS.items():
        if kind not in (*SHARED, "open"):
            assert set(keys) - {"limits"} <= set(entries(KINDS[own.get(kind, kind)]))


def nested(depth: int) -> str:
    """Aliases that mean 10**depth values."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 10)}]" for k in range(1, depth)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    "text",
    ["[a", "- a", "text", "a: &a [*a]", nested(9), "[" * 5000, 'a: "\\ud800"', "a: \0", "a: !!python/object:os.x {}",
     "a: 1\na: 2", "? [a]\n: b"],
    ids=["open", "list", "text", "itself", "aliases", "deep", "surrogate", "null", "object", "twice", "key"],
)  # fmt: skip
def test_a_text_that_is_no_schema_is_one_error(text: str) -> None:
    with pytest.raises(SchemaError) as error:
        content_of(text)
    assert len(str(error.value)) < 300


def test_empty_and_unfinished_texts_are_shown() -> None:
    assert content_of("") == {} and fields_of({"columns": [1]}, ["a"])[0].kind == "open"
    odd = {"columns": {"a": None, "b": [1], "c": {"kind": {}, "bounds": {}, "levels": {"x": 1}, "missing": "y"}, 7: {}}}
    assert [one.name for one in fields_of(odd, ["a"])] == ["a", "b", "c"]
    assert yaml.safe_load(sent(odd))["columns"]["c"] == odd["columns"]["c"]
