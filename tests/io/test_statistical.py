"""SPSS, Stata and SAS files are read as text, cell by cell. Only cells are read, and bad files end in clear errors."""

import datetime
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from medsynth.errors import TableError
from medsynth.io import formats, statistical
from medsynth.io.calendars import calendar_of, text_of
from medsynth.io.formats import SavedAs
from medsynth.io.reader import header, is_large, read
from medsynth.io.split import split

pyreadstat = pytest.importorskip("pyreadstat")
DAYS = [datetime.date(2020, 1, 5), None, datetime.date(1890, 2, 28), datetime.date(2020, 1, 6)]
MOMENTS = [pd.Timestamp("2020-01-05 08:30:00"), pd.Timestamp("2020-01-06"), pd.NaT, pd.Timestamp("1890-02-28 23:59:59")]
CLOCKS = [datetime.time(8, 30), None, datetime.time(0), datetime.time(23, 59, 59)]
ROWS: dict[str, Any] = {
    "pain": [1.0, 99.0, np.nan, 3.0], "dose": [0.1, 2.5, np.nan, -4.0], "sex": ["F", "", "M", " x "],
    "born": DAYS, "seen": MOMENTS, "at": CLOCKS,
}  # fmt: skip
TEXTS = [
    ["1", "0.1", "F", "2020-01-05", "2020-01-05 08:30:00", "08:30:00"],
    ["99", "2.5", "", "", "2020-01-06 00:00:00", ""],
    ["", "", "M", "1890-02-28", "", "00:00:00"],
    ["3", "-4", "x", "2020-01-06", "1890-02-28 23:59:59", "23:59:59"],
]
LABELS = {"pain": {1.0: "a little", 99.0: "refused"}}
KINDS = ["sav", "zsav", "dta", "xpt"]


def saved(path: Path, rows: dict[str, Any] = ROWS, **facts: Any) -> Path:
    """A file of these rows in the format that its name gives."""
    writers = {
        ".sav": pyreadstat.write_sav, ".zsav": pyreadstat.write_sav, ".dta": pyreadstat.write_dta,
        ".xpt": pyreadstat.write_xport,
    }  # fmt: skip
    packed = {"compress": True} if path.suffix == ".zsav" else {}
    writers[path.suffix](pd.DataFrame(rows), path, **packed, **facts)
    return path


@pytest.mark.matrix
@pytest.mark.parametrize("kind", KINDS)
def test_a_cell_is_the_text_of_its_value_in_its_columns_format(kind: str, tmp_path: Path) -> None:
    """A code stays a code: value labels are not applied, and user-missing values are not made missing."""
    facts: dict[str, Any] = {} if kind == "xpt" else {"variable_value_labels": LABELS}
    if "sav" in kind:
        facts["missing_ranges"] = {"pain": [99.0]}
    path = saved(tmp_path / f"t.{kind}", **facts)
    table = read(path)
    alone = header(path)
    assert table.header == tuple(ROWS) == alone.header and alone.rows == 0
    assert table.cells.to_numpy().tolist() == TEXTS
    assert table.form == f"of {formats.STATISTICAL[f'.{kind}']}" and not is_large(formats.TableFile.of(path))


def test_letters_of_missing_values_are_codes(tmp_path: Path) -> None:
    rows = {"pain": [1.0, "a", 2.5, None, "z"], "none": ["a", "a", "a", "b", "b"]}
    path = saved(tmp_path / "t.dta", rows, missing_user_values={"pain": ["a", "z"], "none": ["a", "b"]})
    cells = read(path).cells
    assert list(cells["pain"]) == ["1", ".a", "2.5", "", ".z"] and list(cells["none"]) == [".a"] * 3 + [".b"] * 2


@pytest.mark.parametrize(("kind", "form", "value", "text"), [
    ("sav", "SDATE10", 13_797_561_600, "2020-01-05"), ("sav", "MOYR8", 13_797_561_600.0, "2020-01-05"),
    ("sav", "WKDAY3", 2, "2"), ("sav", "F8.2", 13_797_561_600.0, "13797561600"), ("sav", "TIME8", 93_600, "26:00:00"),
    ("sav", "DATETIME23.2", 13_797_592_200.25, "2020-01-05 08:30:00.250000"), ("sav", "DTIME10", -1, "-00:00:01"),
    ("sav", "DATE11", 1e300, "1e+300"), ("sav", "DATE11", -86_400, "1582-10-13"),
    ("dta", "%td", 21_919, "2020-01-05"), ("dta", "%tdCCYY-NN-DD", 21_919.75, "2020-01-05"),
    ("dta", "%d", -1, "1959-12-31"),
    ("dta", "%-td", 0, "1960-01-01"), ("dta", "%tm", 720, "720"), ("dta", "%9.0g", 21_919, "21919"),
    ("dta", "%tc", 1_893_832_200_000, "2020-01-05 08:30:00"), ("dta", "%tcHH:MM:SS", 30_600_000, "08:30:00"),
    ("dta", "%tcHH:MM_DDmonCCYY", 1_893_832_200_000, "2020-01-05 08:30:00"),
    ("xpt", "DATE9", 21_919, "2020-01-05"), ("xpt", "YYMMDD10", 21_919, "2020-01-05"), ("xpt", "BEST12", 7.5, "7.5"),
    ("xpt", "DATETIME20.", 1_893_832_200, "2020-01-05 08:30:00"), ("xpt", "E8601DT19.3", 0, "1960-01-01 00:00:00"),
    ("sas7bdat", "DTDATE9.", 1_893_832_200, "2020-01-05"), ("sas7bdat", "TIME8.", 30_600, "08:30:00"),
    ("sas7bdat", "YEAR4.", 21_919, "21919"),
])  # fmt: skip
def test_what_a_format_makes_of_a_number(kind: str, form: str, value: float, text: str) -> None:
    calendar = calendar_of(kind, form)
    assert (str(value).removesuffix(".0") if calendar is None else text_of(value, calendar, kind)) == text


@pytest.mark.matrix
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_but_names_and_cells_is_read(kind: str, tmp_path: Path) -> None:
    """Other labels, notes, widths, and displayed formats of a file make no other table: so no fit can release them."""
    facts: dict[str, Any] = {"file_label": "SECRET", "column_labels": {"pain": "SECRET pain"}}
    if kind != "xpt":
        facts["variable_value_labels"] = {"pain": {1.0: "SECRET one", 7.0: "SECRET seven"}}
    if "sav" in kind:
        facts |= {"note": "SECRET", "missing_ranges": {"pain": [{"lo": 90.0, "hi": 99.0}]}}
        facts |= {"variable_measure": {"pain": "ordinal"}, "variable_format": {"pain": "F20.5"}}
    one, other = read(saved(tmp_path / f"t.{kind}")), read(saved(tmp_path / f"t.{kind}", **facts))
    assert (one.header, one.form, one.written, one.where) == (other.header, other.form, other.written, other.where)
    assert "SECRET" not in repr(vars(other)) + other.cells.to_string()
    pd.testing.assert_frame_equal(one.cells, other.cells)


ODD: dict[str, Any] = {"pain": 1e300, "dose": 123456.789, "sex": "x" * 200, "born": datetime.date(9999, 1, 1),
                       "seen": pd.Timestamp("2200-01-01 00:00:00.25"), "at": datetime.time(1, 2, 3, 4)}  # fmt: skip


@pytest.mark.nightly_for("dta", "xpt")
@pytest.mark.parametrize("kind", ["sav", "dta", "xpt"])
def test_a_cell_of_a_statistical_file_is_one_cell(kind: str, tmp_path: Path) -> None:
    """Whatever the third row contains, all other rows have the same texts: widths and types of columns differ."""
    table, rest = read(saved(tmp_path / f"t.{kind}")), [0, 1, 3]
    empty = {name: "" if name == "sex" else None for name in ROWS}
    for cells in (empty, {**ODD, "pain": 99, "sex": "é\n"}):
        changed = {name: [*values[:2], cells[name], *values[3:]] for name, values in ROWS.items()}
        other = read(saved(tmp_path / f"t.{kind}", changed))
        pd.testing.assert_frame_equal(other.cells.iloc[rest], table.cells.iloc[rest])


def test_an_xpt_file_of_texts_alone_is_refused(tmp_path: Path) -> None:
    """pyreadstat drops its empty last rows, so that one row would change the number of rows."""
    path = saved(tmp_path / "t.xpt", {"a": ["x", "y", ""]}, file_format_version=5)
    with pytest.raises(TableError, match="no column of numbers"):
        read(path)
    rows = {"a": ["x", "", ""], "n": [1.0, None, None]}
    assert read(saved(path, rows, file_format_version=5)).rows == 3


def test_a_split_of_a_statistical_file_is_text(tmp_path: Path) -> None:
    path = saved(tmp_path / "t.sav", {"a": [*map(float, range(60))], "y": ["n", "y"] * 30})
    split(read(path), 0.5, tmp_path / "train.csv", tmp_path / "heldout.csv", force=False)
    parts = [pd.read_csv(tmp_path / name) for name in ("train.csv", "heldout.csv")]
    assert sorted(pd.concat(parts)["a"]) == list(range(60))


def lying(path: Path, rows: int) -> bytes:
    """The file with another number of rows in its header."""
    whole = bytearray(path.read_bytes())
    place = 80 if path.suffix == ".sav" else whole.index(b"<N>") + 3
    whole[place : place + 4] = rows.to_bytes(4, "little")
    return bytes(whole)


@pytest.mark.parametrize("rows", [5, 10**9])
@pytest.mark.parametrize("kind", ["sav", "dta"])
def test_a_row_count_that_lies_is_an_error(kind: str, rows: int, tmp_path: Path) -> None:
    path = saved(tmp_path / f"t.{kind}")
    path.write_bytes(lying(path, rows))
    with pytest.raises(TableError, match="damaged|too large"):
        read(path)


@pytest.mark.parametrize(("name", "content", "words"), [
    ("t.sav", b"$FL2" + bytes(999), "SPSS file that is damaged"), ("t.dta", b"age,sex\n1,2\n", "not a Stata file"),
    ("t.xpt", b"HEADER RECORD*******LIBV8   ", "SAS file that is damaged"), ("t.csv", b"$FL3@(#)", "SPSS file that"),
    ("t.sas7bdat", bytes(12) + b"\xc2\xea\x81\x60\xb3\x14\x11\xcf\xbd\x92\x08\0" + bytes(9), "SAS file that is"),
])  # fmt: skip
def test_another_file_is_refused(name: str, content: bytes, words: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(TableError, match=words):
        read(tmp_path / name)


@pytest.mark.nightly
@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_file_is_an_error_or_a_table(kind: str, tmp_path: Path) -> None:
    """Cut anywhere, and with any bytes changed; no value of a cell is in the message."""
    path, draw = saved(tmp_path / f"t.{kind}"), np.random.default_rng(0)
    whole = path.read_bytes()
    for k in range(30):
        damaged = bytearray(whole)
        if k % 2:
            damaged = damaged[: int(draw.integers(1, len(whole)))]
        else:
            for place in draw.integers(0, len(whole), 6):
                damaged[place] = int(draw.integers(0, 256))
        path.write_bytes(damaged)
        try:
            read(path)
        except TableError as error:
            assert "2020-01" not in str(error) and "Traceback" not in str(error)


def test_text_in_another_encoding_asks_for_it(tmp_path: Path) -> None:
    path = saved(tmp_path / "t.sav", {"town": ["Zürich", "Genève"] * 2})
    path.write_bytes(path.read_bytes().replace("ü".encode(), b"\xfc ").replace("è".encode(), b"\xe8 "))
    with pytest.raises(TableError, match="encoding"):
        read(path)
    assert list(read(path, SavedAs(encoding="cp1252")).cells["town"])[:2] == ["Zü rich", "Genè ve"]


@pytest.mark.matrix
@pytest.mark.parametrize("kind", ["sav", "dta", "xpt"])
def test_a_cell_of_any_encoding_is_one_cell(kind: str, tmp_path: Path) -> None:
    """pyreadstat's own decoder keeps letters of Hebrew and Vietnamese for the next cell, which is another patient's."""
    blank = b"\0" if kind == "dta" else b" "
    found = []
    for second in ("\u05e8\u05d5\u05ea\u05d0\u05d0", ""):
        words = ["\u05d3\u05e0\u05d4", second, "\u05de\u05e9\u05d4", "x"]
        places = [f"Q{k}ZZZZZZ" for k in range(4)]
        path = saved(
            tmp_path / f"t.{kind}", {"ward": places, "n": [1.0, 2, 3, 4]}, **{"version": 10} if kind == "dta" else {}
        )
        content = path.read_bytes()
        for place, word in zip(places, words, strict=True):
            assert content.count(place.encode()) == 1
            content = content.replace(place.encode(), word.encode("cp1255").ljust(8, blank))
        path.write_bytes(content)
        cells = read(path, SavedAs(encoding="cp1255")).cells["ward"].tolist()
        assert cells == words
        found.append(cells)
    assert found[0][2:] == found[1][2:]


@pytest.mark.parametrize(("release", "encoding"), [(10, "cp1252"), (13, "cp1252"), (14, "utf-8"), (15, "utf-8")])
def test_older_files_of_stata_are_those_of_windows(release: int, encoding: str, tmp_path: Path) -> None:
    path = saved(tmp_path / "t.dta", {"ward": ["QQQQQ", "x"], "n": [1.0, 2.0]}, version=release)
    path.write_bytes(path.read_bytes().replace(b"QQQQQ", "Zürß".encode(encoding).ljust(5, b"\0")[:5]))
    assert read(path).cells["ward"][0] == ("Zürß" if encoding == "cp1252" else "Zür")


@pytest.mark.matrix
@pytest.mark.parametrize("stated", ["ISO-2022-JP", "UTF-7", "IBM930"])
def test_an_encoding_with_states_that_a_file_states_is_refused(stated: str, tmp_path: Path) -> None:
    path = saved(tmp_path / "t.sav", {"ward": ["abc", "def"], "n": [1.0, 2.0]})
    content = path.read_bytes()
    at = content.find(b"UTF-8") - 4
    path.write_bytes(content[:at] + len(stated).to_bytes(4, "little") + stated.encode() + content[at + 9 :])
    with pytest.raises(TableError, match="text in another encoding"):
        read(path)
    assert read(path, SavedAs(encoding="utf-8")).cells["ward"].tolist() == ["abc", "def"]


def test_without_the_package_the_cure_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(tmp_path / "t.sav")
    monkeypatch.setitem(sys.modules, "pyreadstat", None)
    with pytest.raises(TableError, match=r"SPSS file.*CSV or Parquet.*medsynth\[stats\]"):
        read(path)


# The process that reads.


def replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> Path:
    """A file that is read by another script, which does what a damaged file may make of C code."""
    (tmp_path / "script.py").write_text(script)
    monkeypatch.setattr(statistical, "SCRIPT", tmp_path / "script.py")
    return saved(tmp_path / "t.sav")


@pytest.mark.parametrize(("script", "words"), [
    ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "damaged"),
    ("raise ValueError('SECRET')", "damaged"), ("", "damaged"), ("print('SECRET')", "damaged"),
    ("import sys; sys.stdout.write('x' * 9000)", "too large"), ("import time; time.sleep(20)", "seconds"),
])  # fmt: skip
def test_whatever_the_process_does_is_a_clear_error(
    script: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(statistical, "SECONDS", 1 if words == "seconds" else 300)
    monkeypatch.setattr(statistical, "MOST_BYTES", 4000)
    with pytest.raises(TableError, match=words) as error:
        read(replaced(tmp_path, monkeypatch, script))
    assert "SECRET" not in str(error.value) + "".join(capfd.readouterr()) and error.value.__context__ is None


@pytest.mark.nightly
def test_a_file_that_needs_too_much_memory_or_has_too_many_cells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = saved(tmp_path / "t.sav", {"a": np.arange(60_000.0)})
    monkeypatch.setattr(statistical, "MOST_CELLS", 59_999)
    with pytest.raises(TableError, match="too large"):
        read(path)
    monkeypatch.setattr(statistical, "MOST_CELLS", 60_000)
    assert read(path).rows == 60_000
    monkeypatch.setattr(statistical, "MEMORY", 1 << 28)
    with pytest.raises(TableError, match="too large|damaged"):
        read(path)


@pytest.mark.parametrize("what", ["no names", "lists", "no columns", "no rows"])
def test_an_answer_in_another_form_is_an_error(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process is not trusted: its answer can contain numbers and texts alone."""
    table = {
        "no names": 'pa.table({"0": named})',
        "lists": 'pa.table({"0": [[1], [2]]}, schema=pa.schema([listed]))',
        "no columns": "pa.table({})",
        "no rows": 'pa.table({"0": named}, schema=pa.schema([about]))',
    }
    script = f"""
import sys
import pyarrow as pa
named, about = pa.array([1.0]), pa.field("0", pa.float64(), metadata={{"name": "a", "format": ""}})
listed = pa.field("0", pa.list_(pa.int64()), metadata={{"name": "a", "format": ""}})
table, out = {table[what]}, pa.BufferOutputStream()
pa.ipc.new_stream(out, table.schema).write_table(table)
content = out.getvalue().to_pybytes()
sys.stdout.buffer.write(len(content).to_bytes(8, "little") + content + content * {what != "no rows"})
"""
    with pytest.raises(TableError, match="damaged|no columns"):
        read(replaced(tmp_path, monkeypatch, script))
