"""`ledger --table` finds the budget of data by every name of it, and adds up what several files list."""

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest
from commands import good
from medsynth_cli.main import app
from typer.testing import CliRunner

from .conftest import write

FIT = ("--epsilon", "20", "--method", "independent", "--rows", "300", "--quiet")
ALONE = """
name: alone
target: sex
columns:
  patient: {kind: identifier}
  born: {kind: date, bounds: [1930-01-01, 2000-12-31]}
  sex: {kind: binary, levels: [F, M]}
  height: {kind: continuous, bounds: [140, 200], decimals: 0, missing: true}
"""


def fits_on(name: str) -> int:
    return len(json.loads(good("ledger", "--table", name, "--json").stdout)["fits"])


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of tables, fitted with rows held out and by its file; one of its tables, fitted alone; and one table."""
    from medsynth.patients import training

    from .conftest import simulated

    place = tmp_path_factory.mktemp("budgets")
    write(frames := simulated(300, 0), place / "ward")
    for name in ("alone.csv", "other.csv"):
        frames["patients"].to_csv(place / name, index=False, date_format="%Y-%m-%d")
    for schema in (place / "alone.schema.yaml", place / "ward" / "patients.schema.yaml"):
        schema.write_text(ALONE)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        patch.setattr(training, "SIMULATED", 1000)
        good("fit", "ward", *FIT, "--holdout", "0.3")
        good("fit", "ward/ward.tables.yaml", *FIT, "--output", "again.medsynth")
        good("fit", "alone.csv", *FIT, "--holdout", "0.3", "--output", "first.medsynth")
    for link, name in (("link.csv", "alone.csv"), ("linked", "ward"), ("linked.medsynth", "ward.medsynth")):
        (place / link).symlink_to(name)
    return place


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("ward", 2),
        ("ward/", 2),
        ("./ward", 2),
        ("ward/ward.tables.yaml", 2),
        ("ward/stays.csv", 2),
        ("ward/patients.csv", 2),
        ("ward.train", 2),
        ("ward.heldout", 2),
        ("ward.train/stays.csv", 2),
        ("ward.heldout/tests.csv", 2),
        ("ward.medsynth", 2),
        ("again.medsynth", 2),
        ("alone.csv", 1),
        ("alone.train.csv", 1),
        ("first.train.csv", 1),
        ("first.heldout.csv", 1),
        ("first.medsynth", 1),
        ("alone.medsynth-ledger", 1),
        ("ward/ward.medsynth-ledger", 2),
        ("link.csv", 1),
        ("linked", 2),
        ("linked/stays.csv", 2),
        ("linked.medsynth", 2),
    ],
)
def test_every_name_of_the_data_finds_its_budget(
    name: str, count: int, fitted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(fitted)
    assert fits_on(name) == count
    monkeypatch.chdir(fitted / "ward")
    assert fits_on(f"../{name}") == count


@pytest.mark.nightly
def test_the_folder_itself_and_fits_of_single_tables_count(
    fitted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(fitted, place := tmp_path / "copy")
    monkeypatch.chdir(place / "ward")
    assert fits_on(".") == 2
    good("fit", "patients.csv", *FIT)
    for name in (".", "ward.tables.yaml", "patients.csv", "../ward.medsynth", "patients.medsynth"):
        assert fits_on(name) == 3, name
    assert fits_on("stays.csv") == 2  # that fit read no row of it


@pytest.mark.nightly
def test_a_folder_has_one_budget_with_the_bundled_tables_and_with_a_copy_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy's own name differs from the folder's and from its file's."""
    from medsynth_sample_data import omop

    from medsynth.fitting.source import bundled_text, find

    monkeypatch.chdir(tmp_path)
    omop.main(["--patients", "20", "--output", "cdm"])
    before = find(Path("cdm"))
    Path("cdm/cdm.tables.yaml").write_text(bundled_text("omop"))
    assert find(Path("cdm")).name == find(Path("cdm/cdm.tables.yaml")).name == before.name == "cdm"


def test_a_name_without_a_fit_or_without_data_says_which(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({"a": [1, 2]}).to_csv("new.csv", index=False)
    done = CliRunner().invoke(app, ["ledger", "--table", "new.csv"])
    assert done.exit_code == 1 and "no fit on it is on file" in done.stderr and "new.medsynth-ledger" in done.stderr
    done = CliRunner().invoke(app, ["ledger", "--table", "nwe.csv"])
    assert done.exit_code == 1 and "There is no nwe.csv" in done.stderr
