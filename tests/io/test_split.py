"""The hold-out: drawn in secret, anew each time."""

from pathlib import Path

import pandas as pd
import pytest

from medsynth.errors import MedsynthError, OutputExists, TableError
from medsynth.io import reader
from medsynth.io.reader import read
from medsynth.io.split import split
from medsynth.rng import SeededEntropy


@pytest.mark.statistical
def test_who_is_held_out_is_drawn_anew_each_time(tmp_path: Path) -> None:
    """Whoever could repeat the draw would know who was trained on. Two draws agree with a chance of 2^-200."""
    path = tmp_path / "t.csv"
    pd.DataFrame({"key": range(200), "y": ["a", "b"] * 100}).to_csv(path, index=False)
    held = []
    for k in range(2):
        split(read(path), 0.5, tmp_path / f"train{k}.csv", tmp_path / f"held{k}.csv", force=False)
        held.append(set(read(tmp_path / f"held{k}.csv").cells["key"]))
    assert held[0] != held[1] and held[0] & held[1]


@pytest.mark.parametrize("unit", [None, "key"])
@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_a_table_in_pieces_is_split_into_files_as_they_were(
    ending: str, unit: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each row is in one of both, as it was written, and the rows of a patient stay together."""
    monkeypatch.setattr(reader, "_rows_of_a_chunk", lambda columns: 7)
    path, train, held = (tmp_path / f"{name}{ending}" for name in ("t", "train", "held"))
    frame = pd.DataFrame({"key": [f"P{k % 30}" for k in range(120)], "x": [f" {k}.50" for k in range(120)]})
    frame.to_csv(path, index=False) if ending == ".csv" else frame.astype({"x": float}).to_parquet(path)
    monkeypatch.setattr("medsynth.rng.system_entropy", lambda: SeededEntropy(1))
    rows = split(reader.read_large(path), 0.4, train, held, force=False, unit=unit)
    parts = [read(part).cells for part in (train, held)]
    whole = read(path).cells
    assert sorted(map(tuple, pd.concat(parts).to_numpy())) == sorted(map(tuple, whole.to_numpy()))
    assert all(len(part) > 7 for part in parts) and (rows.rows, rows.public_rows) == (len(parts[0]), 72)
    if unit:
        assert not set(parts[0]["key"]) & set(parts[1]["key"])
    if ending == ".csv":
        lines = train.read_text().splitlines()
        assert lines[0] == "key,x" and set(lines[1:]) <= set(path.read_text().splitlines()) and " " in lines[1]
    else:
        assert pd.read_parquet(train).dtypes.equals(pd.read_parquet(path).dtypes)
    assert train.stat().st_mode & 0o077 == held.stat().st_mode & 0o077 == 0
    with pytest.raises(OutputExists):
        split(reader.read_large(path), 0.4, train, held, force=False)


def test_a_split_in_pieces_that_fails_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_rows_of_a_chunk", lambda columns: 2)
    path, train, held = (tmp_path / name for name in ("t.csv", "train.csv", "held.csv"))
    path.write_text("a,b\n" + "1,2\n" * 9)
    table = reader.read_large(path)
    train.write_text("before")
    path.write_text("a,b\n" + "1,2\n" * 10)
    with pytest.raises(TableError, match="changed"):
        split(table, 0.5, train, held, force=True)
    assert train.read_text() == "before" and not held.exists()
    with pytest.raises(MedsynthError, match="holdout"):
        split(table, 1.5, train, held, force=True)
