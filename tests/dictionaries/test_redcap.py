"""REDCap's data dictionary and project files become a schema: field types, logic, events, missing-data codes."""

from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from redcap_lines import FILES, HEADER, field

from medsynth.dictionaries.importing import ImportedSchema, import_schema
from medsynth.dictionaries.redcap_logic import NotExpressible, branching, calculation, checkbox_column, interval
from medsynth.dictionaries.redcap_project import project_xml
from medsynth.schema import Schema
from medsynth.schema.rules import evaluate, parse


def imported(folder: Path, *lines: str) -> ImportedSchema:
    """What a data dictionary of these lines gives, after its first field."""
    path = folder / "dictionary.csv"
    path.write_text(f"{HEADER}\n{field('record_id')}{''.join(lines)}")
    return import_schema([path])


def test_each_field_type() -> None:
    found = import_schema([FILES / "redcap.csv"])
    assert not found.unfinished and found.form == "REDCap data dictionary"
    schema = Schema.from_yaml(found.text)
    kinds = {name: column.kind for name, column in schema.columns.items()}
    assert "info" not in kinds and "info: a text on the form" in found.text
    assert kinds["record_id"] == kinds["full_name"] == kinds["remarks"] == kinds["scan"] == "identifier"
    assert schema.columns["record_id"].written and not schema.columns["full_name"].written
    assert schema.columns["sex"].levels == (0, 1) and kinds["smoker"] == "categorical"
    assert kinds["pregnant"] == kinds["consent"] == kinds["history___2"] == kinds["history____9"] == "binary"
    assert schema.columns["age"].bounds == (18, 110) and schema.columns["pain"].bounds == (0, 100)
    assert schema.columns["weight"].places == 1 and schema.columns["packs"].missing is True
    assert {kinds[name] for name in ("enrolled", "seen", "drawn")} == {"date"}
    assert schema.columns["drawn"].text(61) == "2015-01-01 01:01" and schema.columns["seen"].text(61) == "01:01"
    assert schema.columns["sex"].label == "Sex at birth" and "<b>" not in found.text
    assert schema.columns["sex"].value_labels == {"0": "Female", "1": "Male"}


def test_the_table_decides_which_columns_and_their_order() -> None:
    header = ["sex", "enrolment_complete", "record_id", "ward", "redcap_data_access_group"]
    found = import_schema([FILES / "redcap.csv"], header, "trial")
    assert list(found.outcomes) == header and found.unfinished and "name: trial" in found.text
    assert found.outcomes["enrolment_complete"].column == {
        "kind": "ordinal", "levels": [0, 1, 2], "missing": True, "label": "Status of the form enrolment",
        "value_labels": {0: "Incomplete", 1: "Unverified", 2: "Complete"},
    }  # fmt: skip
    fates = {name: one.fate for name, one in found.outcomes.items()}
    assert fates["ward"] == fates["redcap_data_access_group"] == "TODO" and fates["sex"] == "taken"
    assert "the column is not in the dictionary" in found.text and "rules" not in found.text
    assert any(remark.startswith("not columns of the table: full_name") for remark in found.remarks)
    assert {*Schema.from_yaml(found.text).open} == {name for name, fate in fates.items() if fate == "TODO"}


def test_project_files_give_missing_codes_events_and_repeats() -> None:
    found = import_schema([FILES / "redcap.csv", FILES / "project.xml"])
    assert found.unfinished and "\nunit: record_id\nmax_rows: TODO\n" in found.text
    assert found.outcomes["age"].column["missing"] == [-999, "UNK", ""]
    assert found.outcomes["age"].column["value_labels"] == {-999: "Not asked", "UNK": "Unknown"}
    assert found.outcomes["history___1"].column["missing"] is True
    assert found.outcomes["redcap_event_name"].column["levels"] == ["start_arm_1", "visit_arm_1"]
    assert found.outcomes["redcap_repeat_instrument"].column["levels"] == ["visit"]
    assert found.outcomes["redcap_repeat_instance"].fate == "TODO"
    mapped = import_schema([FILES / "events.csv", FILES / "redcap.csv"])
    assert not mapped.unfinished and Schema.from_yaml(mapped.text).max_rows == 2  # the events of the longer arm
    assert mapped.outcomes["age"].column["missing"] is True  # an event may be without its form
    without = import_schema([FILES / "events.csv", FILES / "redcap.csv"], ["age", "redcap_event_name"])
    assert "the table has no record_id: no unit is declared" in without.message and "\nunit:" not in without.text


def test_a_table_shows_that_records_have_several_rows() -> None:
    """Without a file about the project: the record is the unit all the same, and what is open names the cure."""
    found = import_schema([FILES / "redcap.csv"], ["record_id", "redcap_event_name", "redcap_repeat_instance", "age"])
    assert "\nunit: record_id\nmax_rows: TODO\n" in found.text
    assert found.outcomes["redcap_event_name"].open[0] == "pass the project's XML file as well"
    assert found.outcomes["redcap_repeat_instance"].fate == "TODO" and found.outcomes["age"].column["missing"] is True


def test_reading_a_project_stops_before_its_patients(tmp_path: Path) -> None:
    """What follows is not even well-formed."""
    text = (FILES / "project.xml").read_text()
    assert "PATIENT-ONE" in text and "</SubjectData>" not in text
    found = project_xml(FILES / "project.xml")
    (tmp_path / "no_events.xml").write_text(text.replace("</MetaDataVersion>\n</Study>", ""))
    assert project_xml(tmp_path / "no_events.xml") == found and list(found.missing) == ["-999", "UNK"]


def test_calculations_define_columns_within_bounds(tmp_path: Path) -> None:
    found = imported(
        tmp_path,
        field("a", check="integer", low="0", high="10"),
        field("b", check="number", low="1", high="4"),
        field("d", "calc", "([c] - [a]) / [b]"),  # reads a later one
        field("c", "calc", "[a]*[a] + 2"),
        field("q1", "radio", "0, no | 3, yes"),
        field("score", "calc", "sum([q1], [a])"),
        field("rest", "calc", "20 - sum([b], 1)"),  # without b, 19
        field("powers", "calc", "(((([b]^4)^4)^4)^4)^4"),
        field("late", "calc", "if([a] > 1, 'x', datediff([b], 'today', 'd'))"),
        field("loop", "calc", "[loop] + 1"),
        field("free", "calc", "1/[a]"),
    )
    assert found.outcomes["c"].column == {"kind": "count", "bounds": [2, 102]}
    assert found.outcomes["d"].column["bounds"] == [-8, 102]
    assert found.outcomes["score"].column == {"kind": "count", "bounds": [0, 13]}
    assert found.outcomes["rest"].column["bounds"] == [15, 19]
    assert found.outcomes["powers"].open[0] == "its calculation is not taken (it is too long)"
    assert 0 < found.text.index('- "c = a * a + 2"') < found.text.index('- "d = ( c - a ) / b"')
    assert "score =" not in found.text
    assert {n: "calculation is not taken" in str(found.outcomes[n].open) for n in ("late", "loop", "free")} == {
        "late": True, "loop": True, "free": False,
    }  # fmt: skip
    assert "may divide by zero" in str(found.outcomes["free"].open)


NUMBERS = {"a": None, "b": None, "sex": ("0", "1", "2"), "x___1": ("0", "1"), "w": ("m", "f'")}


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("[sex] = '1'", "sex = '1'"),
        ("'1' = [sex] and [a] >= 3", "sex = '1' and a >= 3"),
        ("[sex]=0 or [sex]=1", "sex != '2' and sex is present"),
        ("([sex] > 0) and (([a] <> -2))", "sex != '0' and sex is present and a != -2"),
        ("[sex]='0' or [sex]='1' or [sex]='2'", "sex is present"),
        ("[sex] = '' or [sex] = '1'", "sex != '0' and sex != '2'"),
        ("[w] <> '' and [sex] = \"\"", "w is present and sex is missing"),
        ("[b] <> '' and [b] < 3", "b is present and b < 3"),
        ("[x(1)] = \"1\" AND 5 < [b]", "x___1 = '1' and b > 5"),
        ("[sex] <> '1'", "sex != '1'"),
    ],
)  # fmt: skip
def test_branching_logic_becomes_a_rule(text: str, rule: str) -> None:
    found = branching("a", text, NUMBERS)
    assert found == f"a is present implies {rule}"
    parse(found, {name: levels is None for name, levels in NUMBERS.items()})


@pytest.mark.parametrize(
    "text",
    ["[sex]='1' or [a]>2", "[a] < ''", "[visit_arm_1][a] = 1", "[a] > [b]", "datediff([a],[b]) > 2", "[none] = 1",
     "[a] =", "([a] = 1", "[a] = 1)", "[a] = 'x'", "", "[w] = 'm' or [w] = 'f'", "[sex] > 5", "[a]; import os",
     "(" * 99, "[a] = 1 and " * 200 + "[a] = 1", "[sex] = '' or [sex] <> ''"],
)  # fmt: skip
def test_other_logic_is_left_out_with_a_reason(text: str) -> None:
    with pytest.raises(NotExpressible, match="."):
        branching("a", text, {**NUMBERS, "w": ("m", "f", "it's")})


@given(st.text("[ab](sex)+-*/^,.=<>'\" 0123roundsumandif", max_size=40))
def test_logic_of_any_text_is_a_rule_or_refused(text: str) -> None:
    with suppress(NotExpressible):
        parse(branching("a", text, NUMBERS), {name: levels is None for name, levels in NUMBERS.items()})
    with suppress(NotExpressible):
        parse(f"it = {calculation(text, NUMBERS).text}", {**dict.fromkeys(NUMBERS, True), "it": True})


@given(st.integers(-9, 9), st.integers(0, 9), st.integers(1, 9), st.integers(0, 9), st.floats(0, 1), st.floats(0, 1))
def test_bounds_of_a_calculation_contain_its_values(
    low: int, more: int, first: int, wide: int, s: float, t: float
) -> None:
    found = calculation("round(([a] - 2)^2 * 3 / [b]^(2) - [a]*[b] + .5, 1)", {"a": None, "b": None})
    assert found.decimals == 1 and found.exact
    ends = interval(found.formula, {"a": (low, low + more), "b": (first, first + wide)})
    values = {"a": np.array([low + s * more]), "b": np.array([first + t * wide])}
    a, b = values["a"][0], values["b"][0]
    (value,) = evaluate(found.formula, values)
    assert value == pytest.approx((a - 2) ** 2 * 3 / b**2 - a * b + 0.5) and ends[0] - 1e-9 <= value <= ends[1] + 1e-9


def test_hidden_fields_are_empty_through_chains_and_hidden_checkboxes_are_zero(tmp_path: Path) -> None:
    """An empty field is not '1', so what follows from it is hidden as well."""
    found = imported(
        tmp_path,
        field("sex", "radio", "F, female | M, male"),
        field("preg", "yesno", logic="[sex] = 'F'"),
        field("weeks", check="integer", low="1", high="42", logic="[preg] = '1'"),
        field("why", "checkbox", "1, pain | 2, check", logic="[weeks] > 20"),
        field("late", "calc", "[weeks] - 20", logic="[why(1)] = '1'"),
    )
    known = Schema.from_yaml(found.text)
    assert "late: its branching logic is not taken" in found.message
    rows = [
        ("F", "1", 30.0, "1"), ("F", "1", np.nan, "0"), ("M", None, np.nan, "0"),
        ("M", "0", np.nan, "0"), ("F", None, 12.0, "0"), ("F", "1", 20.0, "1"), ("F", "1", np.nan, "1"),
    ]  # fmt: skip
    sex, preg, weeks, why = (np.array(own) for own in zip(*rows, strict=True))
    values = {"sex": sex, "preg": preg, "weeks": weeks.astype(float), "why___1": why, "why___2": np.full(7, "0")}
    rules = [rule for rule in known.parsed_rules if not rule.defines]
    values = {name: own if name == "weeks" else own.astype(object) for name, own in values.items()}
    broken = np.any([np.broadcast_to(rule.broken(values), 7) for rule in rules], axis=0)
    assert len(rules) == 4 and broken.tolist() == [False] * 3 + [True] * 4


def test_checkbox_columns_are_named_as_exports_name_them() -> None:
    assert [checkbox_column("x", code) for code in ("1", "-1", "1.5", "N/A", "Ä b")] == [
        "x___1", "x____1", "x___1_5", "x___na", "x___b",
    ]  # fmt: skip


def test_logic_that_is_not_taken_is_reported(tmp_path: Path) -> None:
    found = imported(
        tmp_path,
        field("a", check="integer", low="0", high="10"),
        field("b", check="integer", low="0", high="10", logic="[a] > 1 or [record_id] = 2"),
        field("c", check="integer", low="0", high="today"),
        field("d", check="date_dmy", low="01-02-2015", high="2024-12-31"),
        field("e", check="date_ymd"),
        field("f", check="datetime_seconds_mdy", low="2015-01-01 10:00:00"),
    )
    assert found.outcomes["b"].column["missing"] is True  # hidden in some records, whatever the reason
    assert any("b: its branching logic is not taken" in remark for remark in found.remarks)
    assert "the limit 'today' is not a fixed value" in str(found.outcomes["c"].open)
    ends = {name: str(found.outcomes[name].open) for name in ("e", "f")}
    assert "no minimum and no maximum" in ends["e"] and "no maximum" in ends["f"] and "minimum" not in ends["f"]
    assert str(found.outcomes["d"].column["bounds"]) == "[datetime.date(2015, 2, 1), datetime.date(2024, 12, 31)]"
