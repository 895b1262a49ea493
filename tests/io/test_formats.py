"""Files of tables in every form they come in, and frames in every dtype: read alike, given back in kind."""

import bz2
import gzip
import io
import lzma
import zipfile
from contextlib import AbstractContextManager
from decimal import Decimal
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from medsynth_cli.main import app
from typer.testing import CliRunner

import medsynth
from medsynth.errors import SchemaError, TableError, UsageError
from medsynth.io import reader, text
from medsynth.io.formats import SavedAs, TableFile
from medsynth.io.split import split
from medsynth.io.table import from_frame
from medsynth.sampling import Draw
from medsynth.sampling import pipeline as sampling
from medsynth.schema import Schema
from medsynth.schema.codec import decode, encode
from medsynth.schema.columns.dtypes import cast

PLAIN = "age,ward,dose\n41,Zürich,1.5\n52,Genève,2.25\n63,Bern,0.5\n"
SEMICOLONS = PLAIN.replace(",", ";").replace(".", ",")
FILES = {
    "plain.csv": PLAIN.encode(),
    "bom.csv": PLAIN.encode("utf-8-sig"),
    "wide.csv": PLAIN.encode("utf-16"),
    "semicolons.csv": SEMICOLONS.encode(),
    "tabs.tsv": PLAIN.replace(",", "\t").encode(),
    "bars.txt": PLAIN.replace(",", "|").encode(),
    "packed.csv.gz": gzip.compress(PLAIN.encode()),
    "packed.csv.bz2": bz2.compress(PLAIN.encode("utf-16")),
    "packed.csv.xz": lzma.compress(SEMICOLONS.encode()),
    "misnamed.csv": gzip.compress(PLAIN.encode()),
}


@pytest.mark.parametrize("name", FILES)
def test_every_form_reads_alike(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(FILES[name])
    read = reader.read(tmp_path / name)
    assert read.header == ("age", "ward", "dose")
    assert read.cells.to_csv(index=False) == PLAIN
    assert (read.form == "") == (name in ("plain.csv", "bom.csv", "packed.csv.gz", "misnamed.csv"))


def test_zip_and_parquet(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("inner.csv", PLAIN)
    assert reader.read(tmp_path / "a.zip").cells.to_csv(index=False) == PLAIN
    pd.read_csv(io.StringIO(PLAIN)).to_parquet(tmp_path / "a.parquet")
    read = reader.read(tmp_path / "a.parquet")
    assert read.cells.to_csv(index=False) == PLAIN


def test_the_first_line_decides_and_quotes_hide_delimiters(tmp_path: Path) -> None:
    (tmp_path / "q.csv").write_text('"a;b;c;d",x\n"1;2;3",2\n3,4\n')
    assert reader.read(tmp_path / "q.csv").header == ("a;b;c;d", "x")


def workbook() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("[Content_Types].xml", "")
    return file.getvalue()


def two() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a.csv", PLAIN)
        archive.writestr("b.csv", PLAIN)
    return file.getvalue()


BROKEN = {
    "workbook": (workbook(), "workbook"),
    "old workbook": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(99), "workbook"),
    "two files": (two(), "archive of 2"),
    "half a gzip": (gzip.compress(PLAIN.encode() * 99)[:60], "damaged"),
    "gzip of nothing known": (b"\x1f\x8b" + bytes(40), "damaged"),
    "half a zip": (two()[:80], "damaged"),
    "xz that is none": (b"\xfd7zXZ\x00" + bytes(40), "damaged"),
    "parquet that is none": (b"PAR1" + bytes(40), "damaged"),
    "half UTF-16": (PLAIN.encode("utf-16")[:-1], "not valid utf-16"),
    "a header in another encoding": (PLAIN.replace("ward", "Größe").encode("cp1252"), "`encoding`"),
    "UTF-16 without its mark": (PLAIN.encode("utf-16-le"), "binary"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files_have_one_message(tmp_path: Path, name: str) -> None:
    content, message = BROKEN[name]
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(TableError, match=message) as error:
        reader.read(tmp_path / "t.csv")
    assert "Genève" not in str(error.value)


COLUMNS: dict[str, dict[str, Any]] = {
    "code": {"kind": "categorical", "levels": ["007", "010", "100"]},
    "ward": {"kind": "categorical", "levels": ["n", "s"], "missing": True},
    "grade": {"kind": "ordinal", "levels": ["low", "mid", "high"]},
    "visits": {"kind": "count", "bounds": [0, 9], "missing": True},
    "dose": {"kind": "continuous", "bounds": [0, 9], "decimals": 2},
    "smokes": {"kind": "binary", "levels": [False, True], "missing": True},
    "day": {"kind": "date", "bounds": ["2020-01-01", "2020-12-31"], "missing": True},
    "y": {"kind": "binary", "levels": [0, 1]},
}
DTYPES = [
    ("code", "object"), ("code", "category"), ("code", "string[python]"), ("code", "string[pyarrow]"),
    ("code", pd.ArrowDtype(pa.string())), ("ward", "category"), ("ward", pd.ArrowDtype(pa.large_string())),
    ("grade", pd.CategoricalDtype(["low", "mid", "high"], ordered=True)),
    ("visits", "Int64"), ("visits", "Int8"), ("visits", "float64"), ("visits", "float32"), ("visits", "int64[pyarrow]"),
    ("dose", "float32"), ("dose", "Float64"), ("dose", "float64"), ("dose", "double[pyarrow]"),
    ("smokes", "boolean"), ("smokes", "object"), ("day", "datetime64[ns]"), ("day", "datetime64[s]"), ("day", "object"),
    ("y", "int64"), ("y", "uint8"), ("y", "category"), ("y", "Int16"), ("y", "float64"),
]  # fmt: skip


def frame(rows: int = 60) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    made = pd.DataFrame({name: rng.choice(c["levels"], rows).astype(object) for name, c in COLUMNS.items()
                         if "levels" in c})  # fmt: skip
    made["visits"] = pd.Series(rng.integers(0, 9, rows), dtype=object)
    made["dose"] = np.round(rng.uniform(0, 9, rows), 2)
    made["day"] = [(pd.Timestamp("2020-01-01") + pd.Timedelta(days=int(d))).date().isoformat() for d in range(rows)]
    for name, column in COLUMNS.items():
        if column.get("missing"):
            made[name] = made[name].astype(object).mask(rng.random(rows) < 0.2, None)
    return made[list(COLUMNS)]


@pytest.mark.parametrize(("name", "dtype"), DTYPES, ids=str)
def test_dtypes_come_back(name: Any, dtype: Any) -> None:
    """Those of a frame that the schema declares: here, all that the frame has."""
    given = frame()
    given[name] = given[name].astype(dtype)
    schema = Schema.from_dict({"name": "t", "target": "y", "columns": COLUMNS}).with_dtypes(given)
    again = decode(encode(from_frame(given), schema), schema)
    assert again[name].dtype == given[name].dtype
    pd.testing.assert_series_equal(again[name], given[name], rtol=1e-6)


def test_dtypes_go_through_a_model_and_its_file(quick: None, tmp_path: Path) -> None:
    given = frame().astype({"code": "category", "visits": "Int16", "y": "uint8"})
    schema = Schema.from_dict({"name": "t", "target": "y", "columns": COLUMNS}).with_dtypes(given)
    assert Schema.from_yaml(schema.to_yaml()) == schema
    model = medsynth.load(medsynth.fit(given, epsilon=3, schema=schema, rows=60).save(tmp_path / "m.medsynth"))
    drawn = medsynth.sample(model, 50)
    assert drawn.dtypes.astype(str).to_dict() == given.dtypes.astype(str).to_dict()
    assert not set(drawn["code"]) - {"007", "010", "100"}


@pytest.mark.parametrize("name", ["O; import os", "void", "arrow:null", "datetime64[ns, utc]", "float128"])
def test_a_dtype_from_elsewhere_is_left_alone(name: str) -> None:
    values = pd.Series(["a"])
    assert cast(values, name, pd.CategoricalDtype()).equals(values)
    with pytest.raises(SchemaError, match="dtype"):
        Schema.from_dict({"name": "t", "columns": {"x": {**COLUMNS["code"], "dtype": name}}})


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "csv.bz2", "csv.xz", "parquet"])
def test_samples_are_written_in_every_form(
    quick: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    """In parts, of which one alone is in memory; the same rows whatever the form."""
    monkeypatch.setattr(sampling, "CHUNK_ROWS", 40)
    monkeypatch.chdir(tmp_path)
    columns = {**COLUMNS, "lab": {"kind": "continuous", "bounds": [0, 5], "missing": [-9, "refused"]}}
    given = frame().assign(lab=["refused", "1.5"] * 30)
    schema = Schema.from_dict({"name": "t", "target": "y", "columns": columns})
    medsynth.fit(given, epsilon=3, schema=schema, rows=60, method="independent").save("t.medsynth")
    result = CliRunner().invoke(app, ["sample", "-n", "100", "--seed", "1", "--output", f"t.synthetic.{ending}"])
    assert result.exit_code == 0, result.stderr
    read = reader.read(f"t.synthetic.{ending}")
    assert len(read.cells) == 100
    texts = pd.read_csv(
        io.StringIO(medsynth.sampling.sample_csv(medsynth.load("t.medsynth"), Draw(rows=100, seed=1))), dtype=str
    )
    codes = encode(from_frame(texts.fillna("")), schema)
    assert (encode(read, schema) == codes).all()
    refused = CliRunner().invoke(app, ["sample", "--output", "t.zip"])
    assert refused.exit_code == 2 and ".parquet" in refused.stderr


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["semicolons.csv", "packed.csv.gz", "p.parquet"])
def test_rows_are_held_out_in_their_own_form(tmp_path: Path, name: str) -> None:
    """A part without a row has a chance of 0.7^120: the false-alarm rate is below 1e-18."""
    path = tmp_path / name
    many = "\n".join([SEMICOLONS.splitlines()[0], *SEMICOLONS.splitlines()[1:] * 40]) + "\n"
    if name == "p.parquet":
        pd.read_csv(io.StringIO(many), sep=";", decimal=",").astype({"ward": "category"}).to_parquet(path)
    else:
        path.write_bytes(gzip.compress(many.encode()) if "gz" in name else many.encode())
    split(reader.read(path), 0.3, tmp_path / "a", tmp_path / "b", force=False)
    whole, parts = reader.read(path), [reader.read(tmp_path / part) for part in "ab"]
    assert sum(len(part.cells) for part in parts) == 120
    both = pd.concat([part.cells for part in parts])
    assert sorted(map(tuple, both.to_numpy())) == sorted(map(tuple, whole.cells.to_numpy()))


def test_a_fit_states_how_it_read_the_file(tmp_path: Path, quick: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "w.csv.gz").write_bytes(gzip.compress(SEMICOLONS.encode("cp1252")))
    words = ["fit", "w.csv.gz", "--epsilon", "3", "--rows", "3", "--anyway"]
    schema = "name: w\ntarget: ward\ncolumns:\n  age: {kind: count, bounds: [0, 99]}\n"
    schema += "  ward: {kind: categorical, levels: [Zürich, Genève, Bern]}\n"
    schema += "  dose: {kind: continuous, bounds: [0, 9], decimals: 2}\n"
    (tmp_path / "w.schema.yaml").write_text(schema)
    refused = CliRunner().invoke(app, words)
    assert refused.exit_code == 4 and "--encoding" in refused.stderr and "\\xfc" not in refused.stderr
    result = CliRunner().invoke(app, [*words, "--encoding", "cp1252"])
    assert result.exit_code == 0, result.stderr
    assert "separated by semicolons" in result.stderr and "cp1252" in result.stderr
    assert (tmp_path / "w.medsynth").exists() and (tmp_path / "w.medsynth-ledger").exists()


CELLS = [
    True,
    1,
    1.0,
    Decimal("1"),
    Decimal("5.0000"),
    5,
    np.float32(1),
    np.int8(1),
    np.bool_(True),
    -0.0,
    0,
    "1",
    None,
]


@pytest.mark.parametrize(
    "cell", [True, 1.0, Decimal("1.00"), Decimal("5.0"), np.bool_(False), np.float64(1), -0.0, "x"]
)
@pytest.mark.parametrize("at", [0, 7, len(CELLS)])
def test_no_row_decides_how_another_row_is_written(cell: Any, at: Any) -> None:
    """Neighbours: one row more, whose cell equals others and is of another type, leaves every other row's text."""

    def texts(cells: Any) -> Any:
        return from_frame(pd.DataFrame({"x": pd.Series(cells, dtype=object)})).cells["x"].tolist()

    more = texts([*CELLS[:at], cell, *CELLS[at:]])
    assert more[:at] + more[at + 1 :] == texts(CELLS)


def test_values_of_every_type_have_their_text() -> None:
    cells = from_frame(pd.DataFrame({"x": pd.Series(CELLS, dtype=object)})).cells["x"].tolist()
    assert cells == ["True", "1", "1", "1", "5", "5", "1", "1", "True", "0", "0", "1", ""]


def test_a_held_out_file_keeps_its_fields_as_written(tmp_path: Path) -> None:
    content = 'age ; note;dose\n 41;"a;b";1,50\n52 ;" c";2\n' * 1 + '63;"say ""so""";0,5\n' * 30
    (tmp_path / "t.csv").write_text(content)
    split(reader.read(tmp_path / "t.csv"), 0.5, tmp_path / "a.csv", tmp_path / "b.csv", force=False)
    parts = [(tmp_path / name).read_text().splitlines() for name in ("a.csv", "b.csv")]
    assert parts[0][0] == parts[1][0] == "age ; note;dose"
    assert sorted(parts[0][1:] + parts[1][1:]) == sorted(content.replace('" c"', " c").splitlines()[1:])


@pytest.mark.statistical
def test_the_parts_are_the_tables_that_their_files_hold(tmp_path: Path) -> None:
    """A part without a row has a chance of 2 x 0.5^93: the false-alarm rate."""
    (tmp_path / "t.csv").write_bytes((SEMICOLONS + SEMICOLONS.split("\n", 1)[1] * 30).encode())
    part = split(reader.read(tmp_path / "t.csv"), 0.5, tmp_path / "a.csv", tmp_path / "b.csv", force=False)
    again = reader.read(tmp_path / "a.csv")
    assert part.cells.equals(again.cells) and (part.where, part.header) == (again.where, again.header)
    assert part.form == again.form and reader.read(tmp_path / "b.csv").form == again.form
    assert part.public_rows == 46  # half of 93, however the coins fell


@pytest.mark.statistical
def test_one_coin_decides_for_all_rows_of_a_patient(tmp_path: Path) -> None:
    """A part without a patient has a chance of 2 x 0.5^40: the false-alarm rate is below 1e-11."""
    path = tmp_path / "t.parquet"
    pd.DataFrame({"who": np.repeat(np.arange(40), 5), "x": 1.5}).astype({"x": "float32"}).to_parquet(path)
    train = split(reader.read(path), 0.5, tmp_path / "a", tmp_path / "b", force=False, unit="who")
    heldout = reader.read(tmp_path / "b")
    assert not set(train.cells["who"]) & set(heldout.cells["who"])
    assert train.cells.equals(reader.read(tmp_path / "a").cells)
    assert pd.read_parquet(tmp_path / "a")["x"].dtype == "float32"


@pytest.mark.statistical
def test_a_file_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick: None) -> None:
    """A fit that holds rows out opens its table for its bytes once, and never the files that it wrote.

    A part without a row has a chance below 0.7^60: the false-alarm rate is below 1e-9.
    """
    monkeypatch.chdir(tmp_path)
    frame().to_csv("t.csv", index=False)
    schema = Schema.from_dict({"name": "t", "target": "y", "columns": COLUMNS})
    (tmp_path / "t.schema.yaml").write_text(schema.to_yaml())
    opened: list[str] = []
    unchanged = text.decoded

    def recorded(path: Path, encoding: str) -> AbstractContextManager[TextIO]:
        opened.append(path.name)
        return unchanged(path, encoding)

    monkeypatch.setattr(text, "decoded", recorded)
    result = CliRunner().invoke(app, ["fit", "t.csv", "--epsilon", "3", "--rows", "60", "--holdout", "0.3", "--anyway"])
    assert result.exit_code == 0, result.stderr
    assert opened == ["t.csv"]


@pytest.mark.parametrize("name", ["plain.csv", "semicolons.csv"])
def test_a_declared_encoding_is_the_one_that_reads(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(FILES[name].decode().encode("cp1252"))
    assert reader.read(tmp_path / name, SavedAs(encoding="cp1252")).cells.to_csv(index=False) == PLAIN
    with pytest.raises(UsageError, match="`encoding`"):
        reader.read(tmp_path / name, SavedAs(encoding="no-such-encoding"))


def test_a_byte_that_is_no_text_changes_its_own_cell_alone(tmp_path: Path) -> None:
    """On the old code the whole file was read again in another encoding, and every ü became two other letters."""
    other = PLAIN.encode().replace(b"Bern", b"Be\xfcrn")
    (tmp_path / "t.csv").write_bytes(other)
    (tmp_path / "plain.csv").write_bytes(PLAIN.encode())
    cells, plain = reader.read(tmp_path / "t.csv").cells, reader.read(tmp_path / "plain.csv").cells
    assert cells.loc[2, "ward"] == "Be\\xfcrn"
    cells.loc[2, "ward"] = "Bern"
    assert cells.equals(plain)


def test_a_workbook_in_a_cell_makes_no_workbook_of_a_file(tmp_path: Path) -> None:
    """Python finds an archive wherever it is in a file: one cell would decide what the file is."""
    table = pd.DataFrame({"note": [workbook().decode("latin-1"), "x"], "age": [54, 60]})
    table.to_parquet(tmp_path / "t.parquet", compression=None)
    table.to_csv(tmp_path / "t.csv", index=False, encoding="latin-1")
    table.to_stata(tmp_path / "t.dta", write_index=False, version=118, convert_strl=["note"])
    for path in tmp_path.iterdir():
        assert zipfile.is_zipfile(path) and TableFile.of(path).kind != "workbook"
    assert reader.read(tmp_path / "t.parquet").rows == reader.read(tmp_path / "t.dta").rows == 2
