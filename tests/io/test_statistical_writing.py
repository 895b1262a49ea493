"""Synthetic rows as SPSS, Stata and SAS files: what pyreadstat reads of them is what the schema declares."""

import io
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from medsynth.errors import UsageError
from medsynth.io import writer
from medsynth.io.reader import read
from medsynth.io.statistical_writer import DeclaredColumn, check_names
from medsynth.io.writer import csv_text, write
from medsynth.schema import Schema
from medsynth.schema.codec import csv_cells, decode

pyreadstat = pytest.importorskip("pyreadstat")
COLUMNS: dict[str, Any] = {
    "age": {"kind": "count", "bounds": [0, 120]},
    "pain": {"kind": "count", "bounds": [0, 10], "missing": [-9, -8]},
    "dose": {"kind": "continuous", "bounds": [0, 5], "decimals": 2, "missing": True},
    "stay": {"kind": "count", "bounds": [0, 30], "missing": [".a", ".b"]},
    "sex": {"kind": "categorical", "levels": ["F", "M"], "missing": ["X", ""]},
    "grade": {"kind": "categorical", "levels": [1, 2, 3]},
    "smoker": {"kind": "binary", "levels": [False, True]},
    "born": {"kind": "date", "bounds": ["1900-01-01", "2020-12-31"], "missing": True},
    "seen": {"kind": "date", "bounds": ["2020-01-01", "2020-12-31"], "resolution": "second",
             "format": "%Y-%m-%d %H:%M:%S"},
}  # fmt: skip
SCHEMA = Schema.from_dict({"name": "t", "columns": COLUMNS})
CODES = np.column_stack(
    [np.random.default_rng(0).integers(0, column.size + column.gaps, 60) for column in SCHEMA.columns.values()]
).astype(np.int32)
MISSING: dict[str, tuple[int | str, ...]] = {"pain": (-9, -8), "stay": (".a", ".b"), "sex": ("X",)}
DECLARED = {name: DeclaredColumn(column.places, MISSING.get(name, ())) for name, column in SCHEMA.columns.items()}
READERS = {"sav": pyreadstat.read_sav, "zsav": pyreadstat.read_sav, "dta": pyreadstat.read_dta,
           "xpt": pyreadstat.read_xport}  # fmt: skip
DAY = {"sav": "SDATE10", "zsav": "SDATE10", "dta": "%td", "xpt": "DATE9"}
MOMENT = {"sav": "DATETIME20", "zsav": "DATETIME20", "dta": "%tc", "xpt": "DATETIME20"}


def written(folder: Path, kind: str, frames: list[pd.DataFrame], days: Any = SCHEMA.days) -> Path:
    path, file = folder / f"t.{kind}", io.BytesIO()
    write({"t": file}, path, [{"t": one} for one in frames], [], {"t": days}, declared={"t": DECLARED})
    path.write_bytes(file.getvalue())
    return path


@pytest.mark.matrix
@pytest.mark.parametrize("kind", ["sav", "zsav", "dta", "xpt"])
def test_what_is_written_is_what_a_csv_file_contains(kind: str, tmp_path: Path) -> None:
    """Cell by cell; with the formats and, if the format has them, the codes of missing values and the types."""
    path = written(tmp_path, kind, [decode(CODES[:30], SCHEMA), decode(CODES[30:], SCHEMA)])
    csv = tmp_path / "t.csv"
    csv.write_text(csv_text(csv_cells(CODES, SCHEMA), header=True))
    pd.testing.assert_frame_equal(read(path).cells, read(csv).cells)
    _, facts = READERS[kind](path, **({} if kind == "xpt" else {"user_missing": True}))
    formats, types = facts.original_variable_types, facts.readstat_variable_types
    assert formats["born"] == DAY[kind] and formats["seen"] == MOMENT[kind]
    assert types["sex"] == "string" and types["dose"] == "double" and facts.file_label.startswith("Synthetic rows")
    assert types["age"] == types["grade"] == ("int32" if kind == "dta" else "double")
    assert types["stay"] == ("double" if kind == "dta" else "string")
    if "sav" in kind:
        codes = {name: [one["lo"] for one in found] for name, found in facts.missing_ranges.items()}
        assert codes == {"pain": [-9, -8], "stay": [".a", ".b"], "sex": ["X"]}
        assert formats["age"] == "F8.0" and formats["dose"] == "F8.2"
    if kind == "dta":
        assert facts.missing_user_values == {"stay": ["a", "b"]}


@pytest.mark.nightly
def test_columns_without_values_of_any_type_and_of_huge_numbers(tmp_path: Path) -> None:
    frame = pd.DataFrame({
        "none": pd.Series([None, None], dtype=object), "no_number": [np.nan, np.nan], "huge": [1e300, -1.0],
        "word": pd.Categorical(["a", None]), "of_whole": pd.Categorical([1, 2]), "mixed": [1.5, "x"],
        "arrow": pd.Series([1, None], dtype="int64[pyarrow]"), "truth": pd.array([True, None], "boolean"),
        "far": pd.Series(["9999-12-31", None], dtype="datetime64[s]"), "story": ["x" * 3000, ""],
    })  # fmt: skip
    for kind in ("sav", "dta"):
        cells = read(written(tmp_path, kind, [frame], ("far",))).cells
        assert cells.to_numpy().tolist() == [
            ["", "", "1e+300", "a", "1", "1.5", "1", "true", "9999-12-31", "x" * 3000],
            ["", "", "-1", "", "2", "x", "", "", "", ""],
        ]


@pytest.mark.parametrize(("ending", "names", "words"), [
    ("sav", ["a b"], "no blanks"), ("dta", ["x" * 33], "32 bytes"), ("xpt", ["größe"], "begin with a letter"),
    ("sav", ["1st"], "begin with a letter"), ("sav", ["age", "Age"], "capitals"),
])  # fmt: skip
def test_names_that_a_format_lacks_are_refused_before_rows_are_drawn(ending: str, names: list[str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        check_names(Path(f"t.{ending}"), names)
    check_names(Path("t.sav"), ["größe", "a.b", "x" * 64])
    check_names(Path("t.dta"), ["age", "Age", "_x"])


def test_what_a_format_cannot_contain_is_refused(tmp_path: Path) -> None:
    """A word that SPSS reserves is a name that its files cannot have."""
    with pytest.raises(UsageError, match=r"cannot contain these rows.*\.csv or \.parquet"):
        written(tmp_path, "sav", [pd.DataFrame({"AND": [1.0, 2.0]})])


def test_without_the_package_the_cure_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyreadstat", None)
    with pytest.raises(UsageError, match=r"medsynth\[stats\]"):
        writer.check(Path("t.sav"))
    with pytest.raises(UsageError, match=r"\.sas7bdat files cannot be written.*\.xpt"):
        writer.check(Path("t.sas7bdat"))
