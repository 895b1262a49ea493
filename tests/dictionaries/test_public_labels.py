"""`schema import` of SPSS, Stata and SAS files: labels are taken only if they are declared public, rows never."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from commands import good, run
from simulated_rows import simulated_rows

import medsynth
from medsynth.dictionaries import statistical
from medsynth.dictionaries.importing import import_schema
from medsynth.errors import MedsynthError, SchemaError, TableError
from medsynth.io import reader, statistical_process
from medsynth.io.formats import CATALOGUE
from medsynth.io.statistical import FileVariable
from medsynth.sampling import provenance
from medsynth.schema import Schema

pyreadstat = pytest.importorskip("pyreadstat")
ROWS: dict[str, Any] = {"sex": [1.0, 2.0, 2.0], "pain": [3.0, -9.0, 1.0], "age": [40.0, 51.0, np.nan],
                        "dose": [0.5, 1.5, -7.0], "town": ["A", "B", "A"]}  # fmt: skip
VALUES = {"sex": {1.0: "female", 2.0: "male", 3.0: "=never()"}, "pain": {0.0: "none", 1.0: "mild", -9.0: "refused"},
          "dose": {-8.0: "not given", 0.0: "zero"}}  # fmt: skip


def spss(folder: Path, rows: dict[str, Any] = ROWS) -> Path:
    path = folder / "visits.sav"
    pyreadstat.write_sav(
        pd.DataFrame(rows), path, variable_value_labels=VALUES, column_labels={"sex": "Sex at birth"},
        missing_ranges={"pain": [-9.0], "dose": [{"lo": -9.0, "hi": -7.0}]}, note="SECRET note",
        variable_measure={"pain": "ordinal", "dose": "scale"}, variable_format={"age": "F8.0", "dose": "F8.1"},
    )  # fmt: skip
    return path


def test_labels_missing_codes_measures_and_formats_are_taken(tmp_path: Path) -> None:
    found = import_schema([spss(tmp_path)], labels_are_public=True)
    columns = {name: one.column for name, one in found.outcomes.items()}
    assert columns["sex"] == {"kind": "categorical", "levels": [1, 2, 3], "missing": True, "label": "Sex at birth",
                              "value_labels": {1: "female", 2: "male", 3: "=never()"}}  # fmt: skip
    assert columns["pain"] == {"kind": "ordinal", "levels": [0, 1], "missing": [-9, ""],
                               "value_labels": {0: "none", 1: "mild", -9: "refused"}}  # fmt: skip
    assert columns["age"]["kind"] == "count" and columns["dose"]["kind"] == "continuous"
    assert columns["dose"]["decimals"] == 1 and columns["dose"]["missing"] == [-8, ""]
    assert any("-9 to -7" in text for text in found.outcomes["dose"].open) and found.outcomes["town"].fate == "TODO"
    assert "public_labels: visits.sav" in found.text or 'public_labels: "visits.sav"' in found.text
    assert columns["dose"]["value_labels"] == {-8: "not given"} and "SECRET" not in found.text


def test_letters_with_a_label_are_codes_of_missing_values(tmp_path: Path) -> None:
    rows = pd.DataFrame({"pain": [1.0, "a", 2.0]})
    pyreadstat.write_dta(
        rows, tmp_path / "t.dta", missing_user_values={"pain": ["a"]},
        variable_value_labels={"pain": {1: "mild", 2: "severe", "a": "refused"}},
    )  # fmt: skip
    found = import_schema([tmp_path / "t.dta"], labels_are_public=True)
    assert found.outcomes["pain"].column == {
        "kind": "binary", "levels": [1, 2], "missing": [".a", ""],
        "value_labels": {1: "mild", 2: "severe", ".a": "refused"},
    }  # fmt: skip


def test_a_catalogue_has_the_labels_of_a_sas_files_formats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No library writes a catalogue, so its reader is replaced. Of other formats nothing is taken."""
    rows = pd.DataFrame({"sex": [1.0, 2.0], "age": [40.0, 50.0], "visit": ["a", "b"]})
    pyreadstat.write_xport(rows, tmp_path / "t.xpt", variable_format={"sex": "SEXF", "age": "F8.0", "visit": "$WARD"})
    labels = {
        "SEXF": {1.0: "female", 2.0: "male", "A": "refused"},
        "$WARD": {"a": "ward A", "b": "ward B"},
        "X": {1.0: "x"},
    }
    monkeypatch.setattr(pyreadstat, "read_sas7bcat", lambda *_, **__: (None, SimpleNamespace(value_labels=labels)))
    head = statistical_process.read(
        "xpt", str(tmp_path / "t.xpt"), "utf-8", None, labels=True, catalogue="formats.sas7bcat"
    )
    values = [json.loads(field.metadata[b"labels"])["values"] for field in head.schema]
    assert values == [[[1.0, "female"], [2.0, "male"], ["A", "refused"]], [], [["a", "ward A"], ["b", "ward B"]]]


def test_a_catalogue_goes_with_its_sas_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    catalogue = tmp_path / "formats.sas7bcat"
    catalogue.write_bytes(CATALOGUE)
    (tmp_path / "book.csv").write_text("column,type,min,max\na,int,0,9\n")
    pyreadstat.write_xport(pd.DataFrame({"sex": [1.0]}), tmp_path / "t.xpt")
    with pytest.raises(TableError, match="has no rows. Pass it to `schema import`"):
        reader.read(catalogue)
    for paths, message in (
        ([catalogue], "goes with its SAS file"),
        ([tmp_path / "book.csv", catalogue], "Only a SAS file"),
        ([spss(tmp_path), catalogue], "is not a SAS file"),
        ([tmp_path / "t.xpt", catalogue], "t.xpt is a SAS file that"),
    ):
        with pytest.raises(MedsynthError, match=message):
            import_schema(paths, labels_are_public=True)
    with pytest.raises(SchemaError, match="set `labels_are_public`"):
        import_schema([tmp_path / "t.xpt", catalogue])
    monkeypatch.setattr(
        statistical, "variables", lambda *_: [FileVariable("sex", "number", None, "", (("1", "f"),), (), "")]
    )
    found = import_schema([tmp_path / "t.xpt", catalogue], labels_are_public=True)
    assert 'public_labels: "t.xpt, formats.sas7bcat"' in found.text


def test_rows_decide_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither values, nor their number, types or widths; and the process is not asked for rows."""
    monkeypatch.setattr(reader, "read", None)
    other = {**ROWS, "age": [1e9, 2.0, 3.0], "town": ["a longer name of a town", "", ""]}
    more = {name: [*values, *values] for name, values in other.items()}
    texts = {import_schema([spss(tmp_path, rows)], labels_are_public=True).text for rows in (ROWS, more)}
    assert len(texts) == 1
    assert reader.header(spss(tmp_path)).header == tuple(ROWS)


def test_labels_that_nobody_declared_public_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SchemaError, match="set `labels_are_public`"):
        import_schema([spss(tmp_path)])
    monkeypatch.chdir(tmp_path)
    done = run("schema", "import", "visits.sav")
    assert done.exit_code == 4 and "--labels-are-public" in done.stderr and not Path("visits.schema.yaml").exists()


@pytest.mark.nightly
@pytest.mark.usefixtures("quick")
def test_ledger_and_provenance_repeat_the_declaration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From a file with labels to a sample, with no YAML edited: its columns all have labels."""
    monkeypatch.chdir(tmp_path)
    rows = {name: ROWS[name] for name in ("sex", "pain")}
    good("schema", "import", spss(tmp_path, rows), "--labels-are-public")
    schema = Schema.load("visits.schema.yaml")
    assert schema.public_labels == "visits.sav"
    simulated_rows(schema, 300).to_csv("visits.csv", index=False)
    Path("visits.sav").unlink()
    good("fit", "visits.csv", "--epsilon", "3", "--rows", "300", "--method", "independent", "--target", "none")
    model = medsynth.load("visits.medsynth")
    assert any("labels of visits.sav are public" in note for note in model.ledger.notes)
    good("sample", "-n", "100", "-o", "rows.sav")
    found = provenance.load(Path("rows.sav"))
    assert found is not None and "labels of visits.sav" in found.note
    assert provenance.drawn_by(model, Path("rows.sav"))
