"""Labels of columns and of their codes: declared, imported, written into files that keep them, and nothing else."""

import copy
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from commands import good
from simulated_rows import simulated_rows

import medsynth
from medsynth.dictionaries.importing import import_schema
from medsynth.errors import SchemaError
from medsynth.io.table import from_frame
from medsynth.sampling import provenance
from medsynth.sampling.draw import Draw
from medsynth.sampling.structure import structure_model
from medsynth.schema import Schema
from medsynth.schema.columns.column import LONGEST_LABEL

FILES = Path(__file__).parent / "files"
LABELLED = """
name: visits
target: sex
public_labels: codebook.sav
columns:
  age: {kind: count, bounds: [18, 90], label: Größe (cm), missing: [-9, ""], value_labels: {-9: refused}}
  pain: {kind: ordinal, levels: [0, 1, 2], missing: [-8], label: "=P<b>", value_labels: {0: none, 2: severe, -8: "-"}}
  town: {kind: categorical, levels: ["a longer text than eight", b], value_labels: {b: "Bad Übel"}}
  sick: {kind: binary, levels: [false, true], value_labels: {true: ill}}
  sex: {kind: binary, levels: [1, 2], label: Sex at birth, value_labels: {1: female, 2: male}}
"""
SCHEMA = Schema.from_yaml(LABELLED)
CODES: dict[str, dict[Any, str]] = {
    "age": {-9: "refused"}, "pain": {0: "none", 2: "severe", -8: "-"}, "town": {"b": "Bad Übel"},
    "sick": {"true": "ill"}, "sex": {1: "female", 2: "male"},
}  # fmt: skip


def without_labels(schema: Schema) -> Schema:
    content: Any = copy.deepcopy(schema.to_dict())
    for column in content["columns"].values():
        column.pop("label", None), column.pop("value_labels", None)
    return Schema.from_dict(content)


def test_labels_come_back_from_yaml_and_from_plain_data() -> None:
    assert SCHEMA.columns["pain"].value_labels == {"0": "none", "2": "severe", "-8": "-"}
    assert Schema.from_yaml(SCHEMA.to_yaml()) == Schema.from_dict(SCHEMA.to_dict()) == SCHEMA
    assert "label" not in str(without_labels(SCHEMA).columns["sex"].to_dict())


@pytest.mark.parametrize(("labels", "words"), [
    ("value_labels: {3: other}", "'3' is neither a level nor a code of missing values"),
    ('label: "two\\nlines"', "one line of text"), ('label: "\\e[31m"', "control characters"),
    ('label: " "', "one line"),
    (f"label: {'x' * (LONGEST_LABEL + 1)}", f"at most {LONGEST_LABEL}"), ("value_labels: {1: 7}", "valid string"),
    ("value_labels: [1, 2]", "valid dictionary"),
])  # fmt: skip
def test_other_labels_are_refused(labels: str, words: str) -> None:
    with pytest.raises(SchemaError, match=words):
        Schema.from_yaml(f"name: t\ncolumns:\n  sex: {{kind: binary, levels: [1, 2], {labels}}}")


@pytest.mark.parametrize(("file", "of", "name", "label", "codes"), [
    ("redcap.csv", None, "sex", "Sex at birth", {"0": "Female", "1": "Male"}),
    ("datapackage.json", "patients", "age", "Age at admission", {}),
    ("datapackage.json", "patients", "severity", None, {"1": "mild", "2": "moderate", "3": "severe"}),
    ("csvw.json", None, "Age", "Age at admission", {}), ("croissant.json", None, "sex", "Sex at birth", {}),
    ("omop.csv", "person", "gender_concept_id", "Sex at birth.", {}),
    ("codebook.csv", None, "sex", "Sex at birth", {"F": "female", "M": "male"}),
])  # fmt: skip
def test_every_dictionary_fills_labels_in(file: str, of: str | None, name: str, label: str | None, codes: Any) -> None:
    column = import_schema([FILES / file], of=of).outcomes[name].column
    assert column.get("label") == label
    assert {str(code): text for code, text in column.get("value_labels", {}).items()} == codes  # type: ignore[attr-defined]


def test_a_title_of_csvw_is_the_label_of_a_column_named_otherwise() -> None:
    assert import_schema([FILES / "csvw.json"], ["sodium", "Sex"]).outcomes["sodium"].column["label"] == "Sodium"


@pytest.mark.nightly
def test_labels_change_no_measurement_and_no_draw(tmp_path: Path) -> None:
    """Schemas that differ in labels alone have the same model, byte for byte, the same plan and the same rows."""
    rows = simulated_rows(SCHEMA, 300)
    exact, plans = [], []
    for schema in (SCHEMA, without_labels(SCHEMA)):
        table = from_frame(rows)
        model = medsynth.fit(table, no_dp=True, method="independent", schema=schema, seed=1)
        exact.append(({name: one.tobytes() for name, one in model.tensors.items()}, model.sample(200, seed=3).to_csv()))
        priced = medsynth.fit(table, epsilon=2.0, method="independent", schema=schema, rows=300, anyway=True)
        plans.append([(entry.label, entry.sensitivity, str(entry.event)) for entry in priced.ledger.entries])
    assert exact[0] == exact[1] and plans[0] == plans[1]


@pytest.mark.parametrize("kind", ["sav", "dta", "xpt"])
def test_files_that_keep_labels_have_them(kind: str, tmp_path: Path) -> None:
    """Read by pyreadstat: labels of columns and of codes, user-missing codes, and measurement levels."""
    pyreadstat = pytest.importorskip("pyreadstat")
    path, written = tmp_path / "visits.schema.yaml", tmp_path / f"rows.{kind}"
    path.write_text(LABELLED)
    provenance.write_sample(structure_model(SCHEMA), path, written, Draw(rows=80, seed=1))
    _, facts = getattr(pyreadstat, {"sav": "read_sav", "dta": "read_dta", "xpt": "read_xport"}[kind])(
        written, **({} if kind == "xpt" else {"user_missing": True})
    )
    labels = {name: column.label for name, column in SCHEMA.columns.items()}
    assert {name: facts.column_names_to_labels[name] or None for name in labels} == labels
    numbers = {name: found for name, found in CODES.items() if name in ("age", "pain", "sex")}
    assert facts.variable_value_labels == {"sav": CODES, "dta": numbers, "xpt": {}}[kind]
    if kind == "sav":
        assert {name: [one["lo"] for one in found] for name, found in facts.missing_ranges.items()} == {
            "age": [-9], "pain": [-8]}  # fmt: skip
        assert facts.variable_measure["pain"] == "ordinal" and facts.variable_measure["age"] == "scale"
        again = import_schema([written], labels_are_public=True).outcomes
        assert again["pain"].column["value_labels"] == CODES["pain"] and again["sex"].column["label"] == "Sex at birth"


def test_long_labels_are_cut_where_a_format_ends(tmp_path: Path) -> None:
    """Between characters: SPSS keeps 120 bytes of a code's label, Stata 80 characters of a column's."""
    pyreadstat = pytest.importorskip("pyreadstat")
    long, odd = "ü" * LONGEST_LABEL, "x" + "ü" * (LONGEST_LABEL - 1)
    content: Any = {"kind": "binary", "levels": [1, 2], "label": long, "value_labels": {1: long, 2: odd}}
    schema = Schema.from_dict({"name": "t", "columns": {"sex": content}})
    (tmp_path / "t.yaml").write_text(schema.to_yaml())
    found = {}
    for kind, read in (("sav", pyreadstat.read_sav), ("dta", pyreadstat.read_dta)):
        path = tmp_path / f"t.{kind}"
        provenance.write_sample(structure_model(schema), tmp_path / "t.yaml", path, Draw(rows=5, seed=1))
        _, facts = read(path)
        found[kind] = facts.column_labels[0], facts.variable_value_labels["sex"]
    assert found["sav"] == ("ü" * 128, {1: "ü" * 60, 2: "x" + "ü" * 59})
    assert found["dta"][0] == "ü" * 80


@pytest.mark.nightly
@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("kind", ["sav", "dta"])
def test_labels_come_back_from_a_file_through_a_fit(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Written with labels, imported, fitted on simulated rows, sampled and read by pyreadstat: labels are equal."""
    pyreadstat = pytest.importorskip("pyreadstat")
    monkeypatch.chdir(tmp_path)
    read, write = getattr(pyreadstat, f"read_{kind}"), getattr(pyreadstat, f"write_{kind}")
    gone: Any = -9.0 if kind == "sav" else "a"
    frame = pd.DataFrame({"pain": pd.Series([0, 1, gone], dtype=object if kind == "dta" else float), "sex": [1, 2, 2]})
    missing = {"missing_ranges": {"pain": [-9]}} if kind == "sav" else {"missing_user_values": {"pain": ["a"]}}
    labels = {"pain": {0: "none", 1: "mild", -9 if kind == "sav" else "a": "refused"}, "sex": {1: "female", 2: "male"}}
    write(frame, f"clinic.{kind}", column_labels={"pain": "Pain today"}, variable_value_labels=labels, **missing)
    good("schema", "import", f"clinic.{kind}", "--labels-are-public")
    simulated_rows(Schema.load("clinic.schema.yaml"), 300).to_csv("clinic.csv", index=False)
    good("fit", "clinic.csv", "--epsilon", "3", "--rows", "300", "--method", "independent", "--target", "none")
    good("sample", "-n", "100", "-o", f"rows.{kind}")
    (_, first), (_, last) = read(f"clinic.{kind}", user_missing=True), read(f"rows.{kind}", user_missing=True)
    assert first.variable_value_labels == last.variable_value_labels
    assert first.column_labels == last.column_labels and first.missing_ranges == last.missing_ranges
    assert first.missing_user_values == last.missing_user_values
