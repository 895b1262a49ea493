"""Sampled rows are written as the fitted file is: its type, delimiter, byte-order mark, encoding and decimal mark."""

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from commands import good, run

import medsynth
from medsynth.artifact import Model
from medsynth.errors import ArtifactError, UsageError
from medsynth.io.formats import FileForm, TableFile, ending_of
from medsynth.io.reader import read
from medsynth.io.writer import csv_text, encoded
from medsynth.sampling import Draw, provenance
from medsynth.sampling.structure import structure_model
from medsynth.schema import Schema

ROWS = 300
GERMAN = {"sep": ";", "decimal": ",", "encoding": "cp1252"}
SCHEMA = """
name: klinik
target: krank
columns:
  größe: {kind: continuous, bounds: [100, 220], decimals: 1}
  station: {kind: categorical, levels: ["Süd; Ost", "Nord"]}
  aufnahme: {kind: date, bounds: [2020-01-01, 2020-12-31], format: "%d.%m.%Y"}
  dosis: {kind: ordinal, levels: ["0.5", "1.0", "2.5"], missing: true}
  krank: {kind: binary, levels: [nein, ja]}
"""


def clinic(rows: int = ROWS) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 366, rows), unit="D")
    return pd.DataFrame({
        "größe": rng.integers(1000, 2200, rows) / 10 , "station": rng.choice(["Süd; Ost", "Nord"], rows),
        "aufnahme": pd.Series(days).dt.strftime("%d.%m.%Y"), "dosis": rng.choice([0.5, 1.0, 2.5, np.nan], rows),
        "krank": rng.choice(["nein", "ja"], rows),
    })  # fmt: skip


def fitted(table: str, *words: object) -> Model:
    good("fit", table, "--epsilon", "50", "--anyway", "--rows", ROWS, "--method", "independent", *words)
    return medsynth.load(f"{Path(table).name.partition('.')[0]}.medsynth")


@pytest.mark.nightly
@pytest.mark.usefixtures("quick", "few_trees")
@pytest.mark.parametrize("declared", [True, False], ids=["declared", "bare"])
def test_a_german_table_comes_back_as_one(declared: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read by pandas with the arguments of the original: the same types, days and words; by the report without any."""
    monkeypatch.chdir(tmp_path)
    clinic().to_csv("klinik.csv", index=False, **GERMAN)  # type: ignore[call-overload]
    if declared:
        Path("klinik.schema.yaml").write_text(SCHEMA, "utf-8")
    model = fitted("klinik.csv", "--encoding", "cp1252", "--decimal-comma", "--target", "krank", "--holdout", "0.25")
    good("sample", "-n", 200)
    path = Path("klinik.synthetic.csv")
    first, made = pd.read_csv("klinik.csv", **GERMAN), pd.read_csv(path, **GERMAN)  # type: ignore[call-overload]
    assert list(made) == list(first) and list(made.dtypes) == list(first.dtypes)
    assert made["aufnahme"].str.fullmatch(r"\d\d\.\d\d\.\d{4}").all() and "Süd; Ost" in set(made["station"])
    assert not declared or set(made["dosis"].dropna()) == {0.5, 1.0, 2.5}
    assert '"Süd; Ost"'.encode("cp1252") in path.read_bytes()
    assert provenance.drawn_by(model, path)
    assert "Nothing proves" not in good("report").output and Path("klinik.report.html").exists()
    assert "Süd" in Path("klinik.report.html").read_text("utf-8")
    good("metadata")
    frictionless = pytest.importorskip("frictionless")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        valid = frictionless.validate("klinik.package/datapackage.json")
    assert valid.valid, valid.flatten(["rowNumber", "fieldName", "type", "message"])[:5]


def test_rows_have_the_form_of_the_model(tmp_path: Path) -> None:
    """Delimiter, decimal commas of numbers alone, and encoding; .tsv files have tabs; the origin is proved."""
    form = FileForm(delimiter=";", encoding="cp1252", decimal=",")
    model = replace(structure_model(Schema.from_yaml(SCHEMA)), form=form)
    (tmp_path / "klinik.yaml").write_text(SCHEMA, "utf-8")
    for name in ("a.csv", "a.tsv", "a.csv.gz"):
        path = tmp_path / name
        provenance.write_sample(model, tmp_path / "klinik.yaml", path, Draw(rows=40, seed=1))
        options: Any = {**GERMAN, "sep": "\t" if name == "a.tsv" else ";"}
        made = pd.read_csv(path, **options)
        assert made["größe"].between(100, 220).all() and set(made["dosis"].dropna()) == {0.5, 1.0, 2.5}
        assert made["aufnahme"].str.fullmatch(r"\d\d\.\d\d\.2020").all() and set(made["station"]) == {
            "Süd; Ost",
            "Nord",
        }
        assert provenance.drawn_by(model, path)
        assert not provenance.drawn_by(replace(model, form=FileForm()), path)


@pytest.mark.nightly
@pytest.mark.usefixtures("quick", "few_trees")
@pytest.mark.parametrize("ending", [".sav", ".zsav", ".dta", ".xpt", ".parquet", ".tsv", ".csv.gz"])
def test_the_default_is_a_file_of_the_fitted_type(ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The report and metadata find it, also next to an older synthetic file of another type."""
    if ending in (".sav", ".zsav", ".dta", ".xpt"):
        pytest.importorskip("pyreadstat")
    monkeypatch.chdir(tmp_path)
    schema = Schema.from_yaml(
        "name: t\ncolumns:\n  age: {kind: count, bounds: [0, 9]}\n  sex: {kind: binary, levels: [0, 1]}"
    )
    Path("t.schema.yaml").write_text(schema.to_yaml())
    rows = pd.DataFrame({"age": np.arange(ROWS) % 10, "sex": np.arange(ROWS) % 2})
    write(rows, Path(f"t{ending}"))
    model = fitted(f"t{ending}", "--holdout", "0.3")
    good("sample", "-n", 100, "-o", "t.synthetic.txt")
    good("sample", "-n", 200)
    path = Path(f"t.synthetic{ending}")
    assert model.form.ending == ending and provenance.drawn_by(model, path) and read(path).rows == 200
    assert f"Synthetic table: {path}" in good("report").stderr
    good("metadata")
    assert (Path("t.package") / path.name).exists()


def write(rows: pd.DataFrame, path: Path) -> None:
    if path.suffix == ".parquet":
        return rows.to_parquet(path)
    if path.suffix in (".tsv", ".gz"):
        return rows.to_csv(path, index=False, sep="\t" if path.suffix == ".tsv" else ",")
    import pyreadstat

    writers: dict[str, Any] = {".dta": pyreadstat.write_dta, ".xpt": pyreadstat.write_xport}
    writers.get(path.suffix, pyreadstat.write_sav)(rows, path)


@pytest.mark.parametrize(("mark", "encoding"), [(b"", "utf-8"), (b"\xef\xbb\xbf", "utf-8-sig")])
def test_the_header_line_decides_delimiter_and_mark(mark: bytes, encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(mark + b"a|b\n1|2\n3|4\n")
    assert read(path).file_form == FileForm(delimiter="|", encoding=encoding)
    path.write_text("a\tb\n1\t2\n3\t4\n", "utf-16")
    assert read(path).file_form == FileForm(delimiter="\t", encoding="utf-16")


def test_no_row_decides_the_form(tmp_path: Path) -> None:
    """Cells may have decimal commas, other delimiters and any bytes: the form follows from name and header alone."""
    forms = set()
    for cells in (b"1,5;x\n2,5;y\n", b"1.5;x\n2.5;y\n", b"\xfc;a|b\n\xff\xfe;c|d\n", b'"a\tb";\n;"c,d"\n'):
        (tmp_path / "t.csv").write_bytes(b"a;b\n" + cells)
        forms.add(read(tmp_path / "t.csv").file_form)
    assert forms == {FileForm(delimiter=";")}


@pytest.mark.parametrize(("name", "kind", "ending"), [
    ("a.csv", "text", ".csv"), ("a.CSV.GZ", "text", ".csv.gz"), ("a.tsv", "text", ".tsv"), ("a.data", "text", ".csv"),
    ("a.csv.bz2", "text", ".csv"), ("a.pq", "parquet", ".pq"), ("a", "parquet", ".parquet"),
    ("a.xlsx", "workbook", ".csv"), ("a.parquet", "text", ".csv"),
    ("a.sas7bdat", "sas7bdat", ".csv"), ("a.zsav", "sav", ".zsav"), ("a.dta", "dta", ".dta"),
])  # fmt: skip
def test_endings(name: str, kind: str, ending: str) -> None:
    assert ending_of(TableFile(Path(name), kind)) == ending


def test_decimal_commas_need_another_delimiter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    clinic(50).to_csv("t.csv", index=False)
    result = run("fit", "t.csv", "--epsilon", "1", "--decimal-comma")
    assert result.exit_code == 2 and "--decimal-comma is for a file with semicolons" in result.stderr


def test_text_of_any_delimiter_is_what_csv_writes() -> None:
    cells = pd.DataFrame({"a;b": ["x;y", 'q"', ""], "c": ["1,5", "z", "u\nv"]})
    for delimiter in ",;\t|":
        wanted = cells.to_csv(index=False, sep=delimiter, lineterminator="\n")
        assert csv_text(cells, header=True, delimiter=delimiter) == wanted


def test_one_mark_and_no_lost_character() -> None:
    assert b"".join(one["t"] for one in encoded([{"t": "ä"}, {"t": "b"}], "utf-8-sig")) == "äb".encode("utf-8-sig")
    assert b"".join(one["t"] for one in encoded([{"t": "ä"}, {"t": "b"}], "utf-16")) == "äb".encode("utf-16")
    with pytest.raises(UsageError, match=r"cp1252, does not have\. Use \.parquet"):
        list(encoded([{"t": "ü"}, {"t": "ж"}], "cp1252"))


def test_a_form_that_no_table_has_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hostile model file cannot name where rows are written. A file of an earlier version has no form."""
    schema = Schema.from_yaml("name: t\ncolumns:\n  sex: {kind: binary, levels: [0, 1]}")
    rows, path = structure_model(schema).sample(60, seed=1), tmp_path / "t.medsynth"
    model = medsynth.fit(rows, no_dp=True, method="independent", schema=schema, target="none")
    content = model.describe()
    assert content["form"] == {"ending": ".csv", "delimiter": ",", "encoding": "utf-8", "decimal": "."}
    hostile = ({"ending": "/../x.csv"}, {"delimiter": "\n"}, {"encoding": "hz"}, {"decimal": "5"}, {"x": 1}, 5)
    for form in (None, *hostile):
        monkeypatch.setattr(Model, "describe", lambda _, form=form: content | {"form": form})
        model.save(path, force=True)
        if form is None:
            assert medsynth.load(path).form == FileForm()
        else:
            with pytest.raises(ArtifactError):
                medsynth.load(path)
