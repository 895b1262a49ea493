"""The page's words: texts in each language, and messages of the library for people who type no commands."""

import ast
import re
from pathlib import Path
from string import Formatter
from typing import get_args

import pytest
import yaml

pytest.importorskip("flask")
from medsynth_cli.app.columns import KEYS, Fields, yaml_of
from medsynth_cli.app.screens import GROUPS
from medsynth_cli.app.words import FIELDS, LABELS, placed, plain
from medsynth_cli.spoken import foreign

from medsynth.errors import Problem, SchemaError
from medsynth.report.data.verdict import Purpose, Use
from medsynth.schema import Schema

APP = Path(__file__).parents[2] / "cli" / "app"
MEDSYNTH = APP.parents[1] / "medsynth"
TEXTS = {path.stem: yaml.safe_load(path.read_text("utf-8")) for path in (APP / "texts").glob("*.yaml")}
ENGLISH = TEXTS["en"]
BUILT = ("nav_", "title_", "kind_", "name_", "format.", "review_", "outcome_", "picture_", "phase_", "error_",
         "encoding_", "refused_", "count_of_", "patients_", "system_", "fault_",
         "status_", "use_", "messages")  # fmt: skip  # of templates


@pytest.mark.parametrize("language", sorted(set(TEXTS) - {"en"}))
def test_a_translation_has_every_text_and_its_places(language: str) -> None:
    other = TEXTS[language]
    assert set(other) == set(ENGLISH)
    odd = [key for key in other if key != "messages" and sorted(re.findall(r"{\d?}", str(other[key])))
           != sorted(re.findall(r"{\d?}", str(ENGLISH[key])))]  # fmt: skip
    assert not odd and other["english"]


def templates() -> str:
    """Each text of the program, one per line, with {} for its values."""
    found = set()
    for path in [*MEDSYNTH.rglob("*.py"), *APP.parent.rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(node.value)
            elif isinstance(node, ast.JoinedStr):
                found.add("".join(str(one.value) if isinstance(one, ast.Constant) else "{}" for one in node.values))
    return "\n".join(found)


@pytest.mark.nightly
@pytest.mark.parametrize("language", sorted(set(TEXTS) - {"en"}))
def test_each_translated_message_is_a_live_one(language: str) -> None:
    """A message whose words have changed would be shown in English, and its entry would stay for ever."""
    live, table = templates(), TEXTS[language]["messages"]
    assert not [english for english in table if english not in live] and TEXTS["en"]["messages"] == {}
    for english, own in table.items():
        places = [name for _, name, _, _ in Formatter().parse(own) if name is not None]
        assert set(places) <= set(map(str, range(english.count("{}")))), own
        named = {key[5:] for key in TEXTS[language] if key.startswith("name_")} | {*LABELS}
        assert {*re.findall(r"`(\w+)`", own)} <= named, own


@pytest.mark.parametrize(
    ("message", "shown", "english"),
    [
        (
            "a.csv, column 'sex', row 41: not a declared level. Add it to `levels`, set `unknown`, or correct the cell."
            " If the file is not UTF-8, set `encoding`.",
            "a.csv, Spalte 'sex', Zeile 41: Diese Stufe ist nicht beschrieben. Ergänzen Sie die Stufen, sagen Sie, als "
            "was andere Zellen gelten, oder berichtigen Sie die Zelle. Wenn die Datei nicht als UTF-8 gespeichert ist, "
            "ändern Sie „Wie die Datei gespeichert wurde“.",
            False,
        ),
        (
            "Fits on this table: 1. All of them together cost epsilon 3.693 at delta 0.00001 for one row, and for one "
            "patient with all of their rows.",
            "Anpassungen dieser Tabelle: 1. Alle zusammen kosten Epsilon 3.693 bei Delta 0.00001 für eine Zeile und für"
            " einen Patienten mit allen seinen Zeilen.",
            False,
        ),
        ("This message is new. It is not a number.", "This message is new. It is not a number.", True),
        ('<text x="1">a coin: 50</text>', '<text x="1">eine Münze: 50</text>', False),
    ],
)
def test_messages_are_in_the_language_of_the_page(message: str, shown: str, english: bool) -> None:
    assert plain(message, TEXTS["de"]) == shown and plain(message, ENGLISH) == plain(message, TEXTS["en"])
    assert (foreign(message, TEXTS["de"]) == TEXTS["de"]["english"]) is english and foreign(message, ENGLISH) == ""


def test_every_text_is_used_and_exists() -> None:
    source = "".join(path.read_text("utf-8") for path in [*APP.glob("*.py"), *APP.glob("templates/*.html")])
    used = set(re.findall(r"\bt\.(\w+)", source)) | set(re.findall(r'"([a-z_]+)"', source))
    used |= set(re.findall(r"\b([a-z_]+)=", source))  # as of a refusal
    named = set(re.findall(r"\bt\.(\w+)", source)) | set(re.findall(r'say\("(\w+)"', source))
    assert not sorted(named - set(ENGLISH))
    assert not [key for key in ENGLISH if key not in used and not key.startswith(BUILT)]
    assert not set(ENGLISH) & set(dir(dict))  # a template would show the dictionary's method


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("Use a larger `epsilon`.", "Use a larger epsilon."),
        ("Set `max_rows` lower.", "Set “Rows per patient at most” lower."),
        ("Add --resume to continue.", "Add “Go on with the fit” to continue."),
        ("Wrote a.medsynth, fitted on cpu.\n99% alike.\nNext: medsynth sample -n 10000", "99% alike."),
        ("Fill in `x y`, then: medsynth schema check a.csv", "Fill in “x y”"),
        ("a--b and -9", "a--b and -9"),
    ],
)
def test_messages_have_no_flags_and_no_commands(message: str, shown: str) -> None:
    assert plain(message, ENGLISH) == shown


def test_problems_come_with_their_columns() -> None:
    text = """
name: a
columns:
  a.b: {kind: binary, levels: [1]}
  a: {kind: continuous, bounds: [5, 1]}
  c: {kind: date, bounds: [2020-01-01, 2020-13-45]}
"""
    with pytest.raises(SchemaError) as error:
        Schema.from_yaml(text)
    found = placed(error.value, ["a", "a.b", "c"], ENGLISH)
    assert [(one.column, one.entry) for one in found] == [("a.b", "levels"), ("a", "low"), ("c", "low")]
    assert found[0].text == ENGLISH["required"] and found[1].text == ENGLISH["fault_low"]
    of_all = SchemaError("A sentence.", Problem(text="rule 'q = 3': `q` is not a column.", column="q", entry="levels"))
    assert placed(of_all, ["a"], ENGLISH) == [Problem(kind="english", text="rule 'q = 3': “q” is not a column.")]


BAD = {  # what a person may type into a field, none of it right everywhere
    "levels": ("a", "a\na", "a\nb\n-9", "1\nx"), "low": ("", "9", "x", "2020-13-45", "1e999"), "high": ("", "1"),
    "decimals": ("x", "-1", "300"), "scale": ("odd",), "format": ("%", "%H", "TODO", "%d\n%d"), "hierarchy": ("odd",),
    "after": ("nothing", "d", "n"), "text": ("x", "{} {}", "{\n}", "{}\n{}"), "below": ("x", "<5\n<5"),
    "above": ("x", ">5"), "limits": ("learn", "odd"), "shape": ("x",), "unknown": ("odd", "missing", "3"),
    "codes": ("5", "-9\n-9", "a"), "more": ("x: 1", "cut_points: [99]", "dtype: odd", "others: x", "part: 1", ": :"),
}  # fmt: skip


def test_each_fault_that_the_form_can_cause_has_a_field() -> None:
    """Each bad entry in each kind, also next to a second one. No fault is placed by the words of its message."""
    date = {"low": "2020-01-01", "high": "2020-12-31"}
    others = [Fields("d", "date", missing="yes", **date), Fields("n", "count", low="0", high="9")]
    forms = [Fields("c.x", "date", after=name) for name in ("nothing", "n", "d")] + [
        Fields("c.x", "identifier", shape="#")
    ]
    for kind, keys in KEYS.items():
        good = {"levels": "a\nb", "text": "{}/{}" if kind == "parts" else ""}
        good |= date if kind == "date" else {"low": "1", "high": "9"}
        usual = Fields("c.x", kind)._replace(**good)
        wanted = {*keys, "codes", "more", *(("low", "high") if "bounds" in keys else ())} & BAD.keys()
        forms += [usual._replace(**{key: text}, **more) for key in sorted(wanted) for text in BAD[key]
                  for more in ({}, {"unknown": "odd"}) if key not in more]  # fmt: skip
    found = set()
    for form in forms:
        try:
            Schema.from_yaml(
                yaml_of({"name": "a"}, [form, *others], "", "c.x" if form.kind == "identifier" else "", {})
            )
        except SchemaError as error:
            for one in placed(error, ["c", "c.x", "d", "n"], ENGLISH):
                assert one.column == "c.x" and one.entry in Fields._fields, (form, one)
                found.add(one.entry)
    assert found == {*FIELDS.values(), "more"} - {"above"}  # of limits, the first field is named


def test_every_question_about_the_purpose_is_on_the_screen() -> None:
    names = {name for name, one in Purpose.model_fields.items() if one.annotation in (str | None, list[Use])}
    assert {name for group in GROUPS.values() for name in group} == names
    assert all(f"review_{name}" in ENGLISH and f"review_note_{name}" in ENGLISH for name in names)
    assert [ENGLISH[f"use_{k}"] for k in range(1, 9)] == [*get_args(Use)]


def test_a_form_for_patients_declares_them() -> None:
    form = [Fields("id", "categorical", levels="1\n2"), Fields("day", "count", low="0", high="9"),
            Fields("sex", "binary", levels="F\nM")]  # fmt: skip
    patient = {"unit": "id", "max_rows": 3, "order": "day", "constant": []}
    schema = Schema.from_yaml(yaml_of({"name": "a"}, form, "", "sex", patient))
    assert (schema.unit, schema.max_rows, schema.order) == ("id", 3, "day")
    assert schema.columns["id"].kind == "identifier"
