"""Fits without a schema: no cell is invented, codes and types come back, what cannot work is said before it costs."""

import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from medsynth_cli.main import app
from open_tables import queries as bare_queries
from open_tables import raw_vault
from typer.testing import CliRunner

import medsynth
from medsynth.artifact import load
from medsynth.errors import BudgetError, MedsynthError, SchemaError, TargetError, UsageError
from medsynth.fitting.declarations import with_other_columns
from medsynth.fitting.planning import plan_fit
from medsynth.fitting.settings import FitSettings, TableSettings
from medsynth.io.reader import read
from medsynth.io.table import Table
from medsynth.privacy.accounting.calibration import make_plan
from medsynth.privacy.release import Releases
from medsynth.rng import SeededEntropy
from medsynth.schema import Schema, header
from medsynth.schema.codec import csv_cells, decode, encode
from medsynth.schema.header import normalised, person_keys
from medsynth.schema.learned import Learned

N = 3000


def learn(table: Table, target: str, **learning: Any) -> Learned:
    """The table's schema, at a budget under which noise is small; the seed is fixed."""
    plan = make_plan(bare_queries(), epsilon=20.0, delta=1e-5, rows=len(table.cells))
    releases = Releases(plan.ledger("t"), SeededEntropy(3))
    return raw_vault(table, len(table.cells), releases, target, **learning).measure_schema()


def written(frame: pd.DataFrame, folder: Path) -> Table:
    frame.to_csv(folder / "t.csv", index=False)
    return read(folder / "t.csv")


@pytest.fixture
def frame() -> pd.DataFrame:
    draw = np.random.default_rng(3)
    age = np.where(draw.random(N) < 0.1, np.round(draw.integers(1, 24, N) / 12, 2), draw.integers(2, 95, N))
    pick = draw.random((8, N))
    births = draw.integers([1, 1, 40], [28, 12, 99], (N, 3))
    return pd.DataFrame({
        "age": age,
        "years": np.where(pick[0] < 0.1, 999, draw.integers(0, 41, N)),
        "income": np.where(pick[1] < 0.1, -9, draw.integers(800, 5000, N)),
        "dose": np.where(pick[2] < 0.1, "?", np.round(draw.uniform(0, 9, N), 3).astype(str)),
        "viral_load": np.where(pick[3] < 0.2, "<50", draw.integers(50, 9000, N).astype(str)),
        "finding": draw.choice(["None", "mild", "?"], N, p=[0.8, 0.15, 0.05]),
        "holes": np.where(pick[4] < 0.2, "", draw.integers(40, 44, N).astype(str)),
        "step": draw.choice([0.5, 1.0, 1.5], N),
        "acuity": draw.choice([1.0, 2.0, 3.0], N),
        "seen": pd.Timestamp("2020-01-01") + pd.to_timedelta(draw.integers(0, 500_000, N), unit="min"),
        "born": [f"{day:02}.{month:02}.19{year}" for day, month, year in births],
        "flag": draw.random(N) < 0.3,
        "label": draw.integers(0, 2, N),
    })  # fmt: skip


@pytest.mark.statistical
def test_cells_come_back_as_they_were_written(frame: pd.DataFrame, tmp_path: Path) -> None:
    """The seed is fixed: it cannot fail by chance. Codes drawn evenly from the learned schema stand for a sample."""
    table = written(frame, tmp_path)
    schema = learn(table, "label").schema
    gaps = {name: column.missing for name, column in schema.columns.items() if isinstance(column.missing, tuple)}
    # What is not read becomes an empty cell, so a learned number may be empty.
    codes_of = {"years": (999, ""), "income": (-9, ""), "dose": ("?", ""), "viral_load": ("<50", "")}
    assert gaps == codes_of | {"finding": ("?",)}
    assert schema.columns["finding"].levels == ("None", "mild")  # the commonest value is a level
    again = csv_cells(encode(table, schema), schema)
    for name in (
        "years",
        "income",
        "dose",
        "viral_load",
        "finding",
        "holes",
        "acuity",
        "seen",
        "born",
        "flag",
        "label",
    ):
        text = again[name].str.replace(r"\.?0+$", "", regex=True) if name == "dose" else again[name]
        real = table.cells[name].str.replace(r"\.?0+$", "", regex=True) if name == "dose" else table.cells[name]
        assert (text == real).mean() > 0.99, name
    read_again = pd.read_csv(io.StringIO(again.to_csv(index=False)))
    assert read_again.dtypes.to_dict() == pd.read_csv(tmp_path / "t.csv").dtypes.to_dict()
    draw = np.random.default_rng(0)
    codes = np.column_stack([draw.integers(0, c.size, 500) for c in schema.columns.values()]).astype(np.int32)
    drawn = csv_cells(codes, schema)
    assert set(drawn["step"]) == {"0.5", "1.0", "1.5"} and set(drawn["holes"]) == {"40", "41", "42", "43"}
    ages = drawn["age"].astype(float)
    assert ((ages < 2) | (ages == ages.round())).all() and (drawn == "").sum().sum() == 0


@pytest.mark.statistical
def test_frames_come_back_in_their_types(frame: pd.DataFrame, tmp_path: Path) -> None:
    """Timestamps and booleans of a Parquet file. The seed is fixed."""
    frame[["seen", "flag", "label", "years", "income"]].to_parquet(tmp_path / "t.parquet")
    table = read(tmp_path / "t.parquet")
    schema = learn(table, "label").schema
    again = decode(encode(table, schema), schema)
    types = {"seen": "datetime64[ns]", "years": "Int64", "income": "Int64"}  # a learned number may be empty
    assert again.dtypes.to_dict() == frame[list(again)].astype(types).dtypes.to_dict()
    assert (again["seen"] == frame["seen"]).all() and (again["years"] == frame["years"]).mean() > 0.99


@pytest.mark.statistical
def test_codes_that_lie_among_the_values_are_values(tmp_path: Path) -> None:
    """Degrees below zero and ages of 99 are no codes. The seed is fixed."""
    draw = np.random.default_rng(4)
    frame = pd.DataFrame({
        "degrees": np.where(draw.random(N) < 0.1, -9, draw.integers(-40, 40, N)),
        "age": np.where(draw.random(N) < 0.1, 99, draw.integers(60, 110, N)), "label": draw.integers(0, 2, N),
    })  # fmt: skip
    found = learn(written(frame, tmp_path), "label").schema
    assert not any(isinstance(column.missing, tuple) for column in found.columns.values())
    added = learn(written(frame.assign(age=["n.d."] * 600 + [50] * 2400), tmp_path), "label", na_values=("n.d.",))
    assert added.schema.columns["age"].missing == ("n.d.", "")


@pytest.mark.statistical
def test_a_summary_says_what_was_learned_merged_and_lost(frame: pd.DataFrame, tmp_path: Path) -> None:
    """The seed is fixed."""
    draw = np.random.default_rng(5)
    rare = np.where(draw.random(N) < 0.2, [f"w{k % 500}" for k in range(N)], "common")
    more = frame.assign(ward=rare, nickname=[f"n{k}" for k in range(N)])
    text = "\n".join(learn(written(more, tmp_path), "label").summary())
    for part in ("15 columns", "The target 'label': 2 classes", "years (999 1", "ward (about 2",
                 "LOST: nickname"):  # fmt: skip
        assert part in text, text


@pytest.mark.statistical
def test_a_column_of_one_value_is_not_lost(tmp_path: Path) -> None:
    """On the old code a column of zeros read "LOST: ... like keys or free text". The seed is fixed."""
    frame = pd.DataFrame({
        "zero": [0] * N, "nearly": ["here"] * (N - 2) + ["there"] * 2, "none": ["None"] * N,
        "tag": [f"k{k}" for k in range(N)], "label": [0, 1] * (N // 2),
    })  # fmt: skip
    text = "\n".join(learn(written(frame, tmp_path), "label").summary())
    assert "Only one value survived the noise in zero (0, about 100%), nearly (here, about 100%), none (N" in text
    assert "LOST: tag. Hardly any value" in text


def test_a_target_of_one_class_has_another_for_the_rest(tmp_path: Path) -> None:
    frame = pd.DataFrame({"x": range(300), "label": [0] * 200 + list(range(1, 101))})
    assert learn(written(frame, tmp_path), "label").schema.columns["label"].levels == ("0", "other")


@pytest.mark.parametrize("value", ["1", "x", "0.5", ""])
def test_a_target_of_one_value_is_refused(value: str, tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="one class"):
        learn(written(pd.DataFrame({"x": range(300), "label": value}), tmp_path), "label")


@pytest.mark.filterwarnings("ignore::medsynth.errors.MedsynthWarning")
def test_a_table_too_small_is_refused_before_anything_is_spent(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": range(10), "b": [0, 1] * 5})
    frame.to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(MedsynthError) as error:
        medsynth.fit(tmp_path / "t.csv", epsilon=3.7)
    assert isinstance(error.value, BudgetError) and "10 rows are too few" in str(error.value)
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]
    small = pd.DataFrame({"a": range(200), "b": [0] * 172 + [1] * 28})
    small.to_csv(tmp_path / "t.csv", index=False)
    notes = "\n".join(plan_fit(tmp_path / "t.csv", FitSettings(epsilon=3.7, method="independent"))[1])
    assert "FEW ROWS: the model may lose classes of 'b' below" in notes


@pytest.mark.usefixtures("quick")
def test_keys_are_warned_of_and_never_measured(tmp_path: Path) -> None:
    frame = pd.DataFrame({"patient_nbr": range(900, 1500), "x": [1, 2, 3] * 200, "y": ["a", "b"] * 300})
    frame.to_csv(tmp_path / "t.csv", index=False)
    told: dict[bool, list[str]] = {False: [], True: []}
    for declared, notices in told.items():
        model = medsynth.fit(
            tmp_path / "t.csv", epsilon=20, method="independent", one_row_a_patient=declared, notice=notices.append
        )
        assert not model.schema.columns["patient_nbr"].modelled
        drawn = medsynth.sample(model, 50, seed=0)["patient_nbr"]
        assert not set(drawn.astype(int)) & set(frame["patient_nbr"])
    assert any(text.startswith("WARNING: The column 'patient_nbr'") for text in told[False])
    assert not any("WARNING" in text for text in told[True])
    assert any("no two rows share a patient" in text for text in told[True])


def test_free_text_is_refused_with_the_cure(tmp_path: Path) -> None:
    frame = pd.DataFrame({"Remarks": ["x"] * 20, "y": [0, 1] * 10})
    with pytest.raises(SchemaError, match="'Remarks' reads like free text.*drop"):
        medsynth.fit(frame, epsilon=3.7)
    rows = frame.assign(a=[0, 1, 2, 3] * 5)
    usual: Any = {"epsilon": 20, "method": "independent", "anyway": True, "notice": lambda text: None}
    declared = {"name": "t", "columns": {
        "Remarks": {"kind": "categorical", "levels": ["x"]}, "a": {"kind": "count", "bounds": [0, 3]},
        "y": {"kind": "binary", "levels": [0, 1]},
    }}  # fmt: skip
    for schema in (None, declared):
        model = medsynth.fit(rows, drop=["Remarks"], schema=schema, target="a", **usual)
        assert list(medsynth.sample(model, 5, seed=0)) == ["y", "a"]
    with pytest.raises(SchemaError, match="`drop` names 'remarks', which is not a column. Did you mean 'Remarks'?"):
        medsynth.fit(rows, drop=["remarks"], **usual)
    with pytest.raises(SchemaError, match="the target 'Remarks' cannot be"):
        medsynth.fit(rows, drop=["Remarks"], target="Remarks", **usual)
    with pytest.raises(UsageError, match="`na_values`"):
        declared = Schema.from_yaml(
            "name: t\ncolumns:\n  a: {kind: count, bounds: [0, 9]}\n  y: {kind: count, bounds: [0, 9]}"
        )
        medsynth.fit(pd.DataFrame({"a": [1, 2], "y": [1, 2]}), epsilon=3.7, schema=declared, na_values=["x"])


def test_a_doubtful_name_of_few_numbers_is_no_key(tmp_path: Path) -> None:
    """On the old code PID, a party of 0 to 6, was taken for a key where its rarer levels were lost in the noise."""
    draw, n = np.random.default_rng(0), 60
    party = np.where(draw.random(n) < 0.6, 0, draw.integers(1, 7, n))
    frame = pd.DataFrame({"pid": party, "record": draw.permutation(n), "vote": draw.choice(["a", "b"], n)})
    columns = learn(written(frame, tmp_path), "vote").schema.columns
    assert columns["pid"].kind == "count" and columns["record"].kind == "identifier"
    assert learn(written(frame.assign(pid=range(n)), tmp_path), "vote").schema.columns["pid"].kind == "identifier"


def test_names_of_keys() -> None:
    assert normalised("Patient-Nr.") == "patientnr"
    assert person_keys(["MRN", "subject_id", "age", "Patient ID"]) == ["MRN", "subject_id", "Patient ID"]


@pytest.mark.usefixtures("quick")
def test_the_terminal_ends_with_the_summary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({"x": ["n.d.", "7", "7"] * 200, "y": ["a", "b", "b"] * 200}).to_csv("t.csv", index=False)
    words = ["fit", "t.csv", "--epsilon", "20", "--method", "independent", "--na-values", "n.d.,-5", "--force"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.stderr
    assert "Learned from noisy counts:" in done.stderr
    assert re.search(r"x \(n\.d\. 3\d%\)", done.stderr)  # a third, by a noisy count


def test_names_are_read_once_however_many_columns_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of thousands of columns, each name against all others took a third of a fit."""
    names_read, true = list[str](), header.normalised

    def counting(name: str) -> str:
        names_read.append(name)
        return true(name)

    monkeypatch.setattr(header, "normalised", counting)
    names = ["patient_nbr", *(f"assay_{k}" for k in range(300)), "y"]
    found = with_other_columns(None, names, TableSettings(target="y"))
    assert [name for name, column in found.schema.columns.items() if not column.modelled] == ["patient_nbr"]
    assert len(names_read) < 5 * len(names)


def test_zeros_before_a_number_are_kept_and_keys_of_many_digits_lost(tmp_path: Path) -> None:
    draw = np.random.default_rng(5)
    frame = pd.DataFrame({
        "hour": [f"{hour:02d}" for hour in draw.integers(0, 24, N)],
        "barcode": draw.integers(10**15, 10**16, N),
        "unused": "",
        "age": draw.integers(18, 95, N),
        "died": draw.integers(0, 2, N),
    })  # fmt: skip
    learned = learn(written(frame, tmp_path), "died")
    assert learned.schema.columns["hour"].levels == tuple(f"{hour:02d}" for hour in range(24))
    assert not learned.schema.columns["age"].categorical
    lost = [text for text in learned.summary() if text.startswith("LOST: ")]
    assert len(lost) == 1 and lost[0].startswith("LOST: barcode.")
    assert "Empty cells, and hardly any others, in" in " ".join(learned.summary())


@pytest.mark.statistical
def test_rare_words_are_missing_and_noise_makes_no_missing_cell() -> None:
    """2 % of one column are words, and none of the others. By chance it fails once in ten thousand runs."""
    draw = np.random.default_rng(6)
    frame = pd.DataFrame({f"x{k}": draw.normal(50, 9, N).round(1).astype(str) for k in range(8)})
    frame["lab"] = np.where(draw.random(N) < 0.02, [f"note {k}" for k in range(N)], frame["x0"])
    frame["label"] = draw.choice(["ill", "well"], N)
    model = medsynth.fit(frame, epsilon=10, target="label", notice=lambda text: None)
    drawn = medsynth.sample(model, N, seed=1)
    missing = drawn.isna().mean()
    assert (missing.drop("lab") > 0).sum() <= 1
    assert 0.01 < missing["lab"] < 0.03
    assert abs((drawn["lab"].round() == 50).mean() - (drawn["x0"].round() == 50).mean()) < 0.02


@pytest.mark.usefixtures("quick")
def test_the_model_of_a_table_with_a_lost_column_can_be_loaded(tmp_path: Path) -> None:
    """The notice about it has several lines, and a ledger's notes have one."""
    rng = np.random.default_rng(0)
    notes = [f"patient {k} came in with a cough and some fever since {k} days" for k in range(900)]
    frame = pd.DataFrame({"age": rng.integers(0, 90, 900), "told": notes, "y": rng.choice(["a", "b"], 900)})
    model = medsynth.fit(frame, epsilon=20, method="independent", notice=lambda text: None)
    assert any("LOST: " in note for note in model.ledger.notes) and not any("\n" in note for note in model.ledger.notes)
    assert load(model.save(tmp_path / "t.medsynth")).ledger.notes == model.ledger.notes
