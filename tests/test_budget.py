"""The sum over all fits on a table: written before the model, bounded both ways, no cell in it."""

import json
from pathlib import Path
from typing import Any

import pytest
from medsynth_cli.app import app
from typer.testing import CliRunner

from medsynth import load
from medsynth.budget import place, read

pytestmark = pytest.mark.usefixtures("quick")


def run(*words: Any) -> Any:
    return CliRunner().invoke(app, list(words))


def test_fits_add_up_and_never_below_the_largest(patients: Path) -> None:
    for epsilon in ("1", "2", "0.5"):
        assert run("fit", "patients.csv", "--epsilon", epsilon, "--force").exit_code == 0
    spent = read(patients)
    each = [float(str(f["epsilon"])) for f in spent.fits]
    assert max(each) < spent.epsilon <= sum(each) <= 3.5 and spent.delta == pytest.approx(3e-5)
    assert each[-1] == load("patients.medsynth").epsilon
    told = run("ledger", "--table", "patients.csv")
    assert told.exit_code == 0 and "so far: 3" in told.stdout
    assert json.loads(run("ledger", "--table", "patients.csv", "--json").stdout)["epsilon"] == spent.epsilon
    assert place(patients).stat().st_mode & 0o077 == 0  # the owner's alone


def test_many_fits_are_composed_more_tightly_than_by_sums(patients: Path) -> None:
    for _ in range(12):
        run("fit", "patients.csv", "--epsilon", "0.5", "--force", "--method", "independent")
    spent = read(patients)
    assert spent.epsilon < 0.8 * sum(float(str(f["epsilon"])) for f in spent.fits)


def test_it_stands_before_the_model_does(patients: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from medsynth.artifact import Model

    def full(*args: Any, **options: Any) -> None:
        raise OSError("no space")

    monkeypatch.setattr(Model, "save", full)
    assert run("fit", "patients.csv", "--epsilon", "1").exit_code != 0
    assert len(read(patients).fits) == 1


def test_a_fit_without_noise_leaves_no_total(patients: Path) -> None:
    run("fit", "patients.csv", "--no-dp")
    assert "no total" in run("ledger", "--table", "patients.csv").stdout
    assert json.loads(run("ledger", "--table", "patients.csv", "--json").stdout)["epsilon"] is None


@pytest.mark.parametrize("content", ["{", '{"model": 1}', "\udcff"])
def test_a_broken_file_is_one_error_and_is_kept(patients: Path, content: str) -> None:
    place(patients).write_bytes(content.encode("utf-8", "surrogateescape"))
    done = run("ledger", "--table", "patients.csv")
    assert done.exit_code == 1 and "Restore" in done.stderr and "Traceback" not in done.stderr


def test_a_file_of_another_version_is_one_error_and_is_kept(patients: Path) -> None:
    assert run("fit", "patients.csv", "--epsilon", "1").exit_code == 0
    line = json.loads(place(patients).read_text())
    del line["format"]  # as before there was one
    place(patients).write_text(json.dumps(line))
    done = run("ledger", "--table", "patients.csv")
    assert done.exit_code == 1 and "another version" in done.stderr and "Restore" not in done.stderr
    assert json.loads(place(patients).read_text()) == line


def test_no_fit_and_mixed_options(patients: Path) -> None:
    assert "no fit" in run("ledger", "--table", "patients.csv").stderr
    assert run("ledger", "--table", "patients.csv", "--verify").exit_code == 2


def test_the_report_names_the_total(patients: Path) -> None:
    run("fit", "patients.csv", "--epsilon", "1", "--holdout", "0.3")
    run("sample", "-n", "200")
    assert run("report").exit_code == 0
    assert "so far: 1" in (patients.parent / "patients.report.html").read_text()
