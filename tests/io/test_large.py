"""Tables read in pieces: the same cells as in memory, the same places in messages, and one file throughout."""

import gzip
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from medsynth.errors import TableError, UsageError
from medsynth.io import reader
from medsynth.io.formats import SavedAs, TableFile
from medsynth.io.table import Table
from medsynth.schema import Schema
from medsynth.schema.codec import encode

FRAME = pd.DataFrame({
    "n": [1, 2, None, 4, 5, 6, 7], "x": [0.5, 1.0, None, 2.25, 3.0, -0.0, 1e300],
    "word": ["a", "b ", None, "ü", "a", "NA", ""], "truth": [True, False, None, True, True, False, False],
    "day": pd.to_datetime(pd.Series(["2020-01-01", None, *["2021-05-06 10:00"] * 5]), format="mixed"),
    "kind": pd.Categorical(["u", "v", None, "u", "u", "v", "w"]),
    "large": pd.array([2**60 + 1, None, 3, 4, 5, 6, 7], dtype="Int64"),
})  # fmt: skip


@pytest.fixture(autouse=True)
def two_rows_a_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_rows_of_a_chunk", lambda columns: 2)


def write(path: Path) -> Path:
    semicolons = path.stem == "semicolons"
    if path.suffix == ".parquet":
        FRAME.to_parquet(path)
    else:
        FRAME.to_csv(path, index=False, sep=";" if semicolons else ",", decimal="," if semicolons else ".")
    return path


@pytest.mark.parametrize("name", ["plain.csv", "packed.csv.gz", "semicolons.csv", "plain.parquet"])
def test_pieces_are_the_table_in_memory(name: str, tmp_path: Path) -> None:
    path = write(tmp_path / name)
    whole, found = reader.read(path), reader.read_large(path)
    pieces = list(found.chunks())
    assert [piece.before for piece in pieces] == [0, 2, 4, 6] and [piece.rows for piece in pieces] == [2, 2, 2, 1]
    assert (found.header, found.rows, found.form, found.public_rows) == (whole.header, 7, whole.form, 7)
    cells = pd.concat([piece.cells for piece in pieces], ignore_index=True)
    pd.testing.assert_frame_equal(cells, whole.cells)
    assert list(cells["large"])[:2] == [str(2**60 + 1), ""]
    assert [list(piece.cells["n"]) for piece in found.chunks()] == [list(piece.cells["n"]) for piece in pieces]


def encoded(table: Table) -> list[list[int]]:
    """The codes of the columns `word` and `n`."""
    columns: dict[str, Any] = {"n": {"kind": "count", "bounds": [0, 9], "missing": True}}
    columns["word"] = {"kind": "categorical", "levels": ["a", "b", "ü"], "missing": True}
    return encode(table, Schema.from_dict({"name": "t", "columns": columns})).tolist()


@pytest.mark.parametrize("name", ["plain.csv", "plain.parquet"])
def test_a_changed_table_has_the_categories_of_its_own_cells(name: str, tmp_path: Path) -> None:
    """Codes and digest are those of the cells, with categories and without, of all rows and of some."""
    whole = reader.read(write(tmp_path / name))
    assert whole.categories
    for table in (whole, whole.only(np.array([6, 3, 1])), replace(whole, cells=whole.cells[::-1])):
        plain = Table(table.where, table.header, table.cells.reset_index(drop=True))
        assert encoded(table) == encoded(plain) and table.digest == plain.digest


def test_whole_numbers_among_missing_ones_are_exact_in_a_plain_parquet_file(tmp_path: Path) -> None:
    """Without the dtypes that pandas writes beside the columns."""
    import pyarrow
    import pyarrow.parquet

    columns = {"n": pyarrow.array([2**60 + 1, None, 3]), "s": pyarrow.array([1, None, 300], pyarrow.uint16())}
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "t.parquet")
    cells = pd.concat([piece.cells for piece in reader.read_large(tmp_path / "t.parquet").chunks()])
    assert list(cells["n"]) == [str(2**60 + 1), "", "3"] and list(cells["s"]) == ["1", "", "300"]


def test_an_index_with_a_name_is_a_column(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    FRAME.set_index("word").to_parquet(path)
    whole, found = reader.read(path), reader.read_large(path)
    assert found.header == whole.header
    pd.testing.assert_frame_equal(pd.concat([piece.cells for piece in found.chunks()], ignore_index=True), whole.cells)


def test_some_of_the_rows_stay_in_their_order(tmp_path: Path) -> None:
    found = reader.read_large(write(tmp_path / "t.csv"))
    some = found.only(np.array([1, 4, 5]))
    assert some.rows == 3 and [list(piece.cells["n"]) for piece in some.chunks()] == [["2.0"], [], ["5.0", "6.0"], []]


@pytest.mark.parametrize("change", ["before", "within"])
def test_a_file_that_changes_meanwhile_is_refused(change: str, tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv")
    found = reader.read_large(path)
    if change == "before":
        os.utime(path, ns=(0, 0))
    with pytest.raises(TableError, match="changed while it was read"):
        for _ in found.chunks():
            os.utime(path, ns=(1, 1))


def test_its_digest_is_that_of_its_bytes(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv")
    first = reader.read_large(path).digest
    assert first == reader.read_large(path).digest
    path.write_bytes(path.read_bytes().replace(b"0.5", b"0.6"))
    assert first != reader.read_large(path).digest


@pytest.mark.parametrize(
    "content, message",
    [(b"a,b\n1,2\n", "too few rows"), (b"", "is empty"), (b"a,b\n1,2\n3\n4,5\n", "row 2 .line 3.: this row has fewer")],
)  # fmt: skip
def test_what_is_wrong_with_a_table_is_said_as_in_memory(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    for read in (reader.read, reader.read_large):
        with pytest.raises(TableError, match=message):
            read(path)
    with pytest.raises(UsageError):
        reader.read_large(path, SavedAs(encoding="no-such-encoding"))


def test_a_row_that_is_wrong_has_its_number_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "1,2\n" * 6 + "1\n")
    with pytest.raises(TableError, match="row 7"):
        reader.read_large(path)


@pytest.mark.parametrize("damaged", ["t.parquet", "t.csv.gz"])
def test_a_damaged_file_is_refused(damaged: str, tmp_path: Path) -> None:
    path = write(tmp_path / damaged)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(TableError, match="damaged"):
        list(reader.read_large(path).chunks())


def test_lists_in_cells_are_refused(tmp_path: Path) -> None:
    pd.DataFrame({"a": [1, 2], "b": [[1], [2]]}).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(TableError, match="column 'b' contains lists"):
        reader.read_large(tmp_path / "t.parquet")


def test_which_tables_are_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    csv, packed, parquet = (write(tmp_path / name) for name in ("t.csv", "t.csv.gz", "t.parquet"))

    def is_large(path: Path) -> bool:
        return reader.is_large(TableFile.of(path))

    assert not any(map(is_large, (csv, packed, parquet)))
    monkeypatch.setattr(reader, "LARGE_CELLS", 7 * len(FRAME.columns))
    assert not is_large(parquet)
    monkeypatch.setattr(reader, "LARGE_CELLS", 7 * len(FRAME.columns) - 1)
    assert is_large(parquet)
    monkeypatch.setattr(reader, "LARGE_BYTES", csv.stat().st_size - 1)
    assert is_large(csv)
    monkeypatch.setattr(reader, "LARGE_BYTES", 2 * packed.stat().st_size)
    assert is_large(packed)  # it unpacks to more
    packed.write_bytes(gzip.compress(b"x" * 100)[:9])
    with pytest.raises(TableError, match="damaged"):
        is_large(packed)


def test_pieces_of_a_wide_table_have_fewer_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    few: Any = reader._rows_of_a_chunk
    assert few(2000) * 2000 <= reader.CHUNK_CELLS < (few(2000) + 1) * 2000 and few(10**9) == 1
