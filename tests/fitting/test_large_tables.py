"""A fit of a table in pieces is that of the table in memory, number by number, and leaves nothing on disk."""

import json
import shutil
from collections import Counter, namedtuple
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from medsynth_cli.main import app
from typer.testing import CliRunner

import medsynth
from medsynth import rng
from medsynth.errors import MedsynthError, SchemaError
from medsynth.fitting import private_rows
from medsynth.io import reader
from medsynth.privacy.checkpoint import Checkpoint
from medsynth.privacy.queries.stored_rows import StoredCodes

CODES = {"kind": "categorical", "hierarchy": {"A": ["A1", "A2"], "B": ["B1", "B2"]}, "unknown": "other"}
COLUMNS: dict[str, Any] = {
    "patient": {"kind": "identifier", "shape": "P#####"},
    "age": {"kind": "count", "bounds": [0, 100], "missing": True},
    "dose": {"kind": "continuous", "bounds": [0, 400], "decimals": 1},
    "ward": {"kind": "categorical", "levels": ["a", "b", "c"]},
    "smokes": {"kind": "binary", "levels": ["N", "Y"]},
    "sick": {"kind": "binary", "levels": ["no", "yes"]},
}
ROW: dict[str, Any] = {"name": "visits", "target": "sick", "columns": COLUMNS}
PATIENT = ROW | {"unit": "patient", "max_rows": 2}
WITH_CODES = ROW | {"columns": COLUMNS | {"ward": CODES}}


def visits(codes: bool = False) -> pd.DataFrame:
    """Rows of 90 patients, in random order, so that a patient's lie in several pieces."""
    draw = np.random.default_rng(0)
    rows = 240
    return pd.DataFrame({
        "patient": [f"P{k:05}" for k in draw.integers(0, 90, rows)],
        "age": pd.Series(draw.integers(18, 90, rows), dtype="Int64").mask(draw.random(rows) < 0.1),
        "dose": draw.uniform(0, 400, rows).round(1),
        "ward": draw.choice(["A1", "A2", "B1", "B2"] if codes else ["a", "b", "c"], rows),
        "smokes": draw.choice(["N", "Y"], rows, p=[0.8, 0.2]),
        "sick": draw.choice(["no", "yes"], rows),
    })  # fmt: skip


def write(frame: pd.DataFrame, path: Path) -> Path:
    frame.to_parquet(path) if path.suffix == ".parquet" else frame.to_csv(path, index=False)
    return path


def in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "is_large", lambda path: True)
    monkeypatch.setattr(reader, "_rows_of_a_chunk", lambda columns: 37)


def fitted(path: Path, **options: Any) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rng, "system_entropy", lambda: rng.SeededEntropy(0))
        return medsynth.fit(path, epsilon=30, seed=1, notice=lambda text: None, **options)


def same(one: Any, other: Any) -> None:
    assert one.schema == other.schema and one.ledger.to_json() == other.ledger.to_json()
    assert one.tensors.keys() == other.tensors.keys()
    for name, tensor in one.tensors.items():
        assert tensor.dtype == other.tensors[name].dtype and (tensor == other.tensors[name]).all(), name


CASES: dict[str, dict[str, Any]] = {
    "default": {"schema": ROW}, "patients": {"schema": PATIENT}, "codes of a hierarchy": {"schema": WITH_CODES},
    "lots": {"schema": ROW, "method": "dp-cgan"}, "lots of patients": {"schema": PATIENT, "method": "dp-cgan"},
    "pairs": {"schema": PATIENT, "method": "dp-gan"}, "shards": {"schema": PATIENT, "method": "gs-wgan"},
    "bare": {"target": "sick"}, "bare, patients": {"target": "sick", "unit": "patient", "max_rows": 2},
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::medsynth.errors.MedsynthWarning")  # few rows, on purpose
@pytest.mark.nightly_for("patients", "lots", "lots of patients", "pairs", "shards", "bare")
@pytest.mark.parametrize("case", CASES)
def test_the_same_model_as_in_memory(case: str, tmp_path: Path, quick: None, monkeypatch: pytest.MonkeyPatch) -> None:
    ending = ".parquet" if case in ("default", "bare", "pairs") else ".csv"
    path = write(visits("codes" in case), tmp_path / f"visits{ending}")
    whole = fitted(path, **CASES[case])
    in_pieces(monkeypatch)
    same(whole, fitted(path, **CASES[case]))
    assert {found.name.split(".")[0] for found in tmp_path.iterdir()} == {"visits"}


@pytest.mark.parametrize("unit", [None, "patient"])
def test_a_wrong_cell_is_named_by_its_row_in_the_file(
    unit: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = visits()
    frame.loc[200, "patient" if unit else "ward"] = None if unit else "nowhere"
    path = write(frame, tmp_path / "visits.csv")
    in_pieces(monkeypatch)
    with pytest.raises(SchemaError, match="row 201"):
        fitted(path, schema=PATIENT if unit else ROW)
    assert [found.name for found in tmp_path.iterdir()] == ["visits.csv"]  # nothing was reserved, and nothing left


def test_codes_lie_in_a_file_without_a_name(tmp_path: Path) -> None:
    codes = StoredCodes([3, 300, 70_000], tmp_path)
    rows = np.array([[0, 299, 69_999], [2, 0, 1]], np.int32)
    codes.append(rows)
    codes.append(rows[:1])
    assert not list(tmp_path.iterdir())
    assert (codes.read(0, 2, None) == rows).all() and (codes.read(0, 2, np.array([False, True])) == rows[1:]).all()
    assert [part.count for part in codes.parts(("a", "b", "c"))] == [2, 1]
    assert [part.count for part in codes.parts(("a", "b", "c"), np.array([1, 2]))] == [1, 1]


def test_too_little_room_is_found_before_a_row_is_coded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(visits(), tmp_path / "visits.csv")
    in_pieces(monkeypatch)
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage(1000, 1, 1000))
    with pytest.raises(MedsynthError, match="too little free space"):
        private_rows.coded(reader.read_large(path), lambda data: pytest.fail("it was read"), [3] * 5, tmp_path)


def test_a_disk_that_is_full_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("this system has no /dev/full")
    monkeypatch.setattr("tempfile.TemporaryFile", lambda dir: full.open("w+b"))
    with pytest.raises(MedsynthError, match="cannot be stored on disk"):
        StoredCodes([3], tmp_path).append(np.zeros((70_000, 1), np.int32))


class Killed(BaseException):
    """Stands for the end of the process."""


def test_a_fit_in_pieces_that_was_killed_is_resumed(
    tmp_path: Path, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(visits(), tmp_path / "visits.csv")
    in_pieces(monkeypatch)
    store, drawn = Checkpoint.store, list[str]()

    def storing(self: Any, label: Any, arrays: Any, names: Any) -> None:
        store(self, label, arrays, names)
        drawn.append(label)
        if len(drawn) == 2:
            raise Killed

    monkeypatch.setattr(Checkpoint, "store", storing)
    with pytest.raises(Killed):
        fitted(path, schema=PATIENT, checkpoint=tmp_path / "c")
    model = fitted(path, schema=PATIENT, checkpoint=tmp_path / "c", resume=True)
    assert model.ledger.complete and Counter(drawn) == {label: n for label, (_, n) in model.ledger.allowance.items()}
    changed = visits()
    changed.loc[0, "dose"] = 1.5
    write(changed, path)
    with pytest.raises(MedsynthError):
        fitted(path, schema=PATIENT, checkpoint=tmp_path / "c", resume=True)


def test_a_hold_out_is_split_off_in_pieces_and_the_command_ends_as_ever(
    tmp_path: Path, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(visits(), tmp_path / "visits.csv")
    (tmp_path / "visits.schema.yaml").write_text(medsynth.Schema.from_dict(PATIENT).to_yaml())
    in_pieces(monkeypatch)
    monkeypatch.chdir(tmp_path)
    words = ["fit", "visits.csv", "--epsilon", "30", "--rows", "240", "--holdout", "0.3", "--json"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["rows"] <= 168
    train, held = (pd.read_csv(f"visits.{part}.csv") for part in ("train", "heldout"))
    assert len(train) + len(held) == 240 and not set(train["patient"]) & set(held["patient"])
