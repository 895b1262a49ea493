"""What all fits on a table cost together: on file before anything is measured, by the command and the API alike."""

import contextlib
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from commands import run

import medsynth
from medsynth.artifact import Model, load
from medsynth.budget import Budget, Spent
from medsynth.errors import MedsynthError
from medsynth.privacy.release import Releases
from medsynth.schema import Schema
from tests.benchmarks import fits_at_once

pytestmark = pytest.mark.usefixtures("quick")


@pytest.fixture
def patients(patients_of_few_columns: Path) -> Path:
    return patients_of_few_columns


def spent(table: Path) -> Spent:
    return Budget.of(table).spent()


def epsilons(table: Path) -> list[float]:
    return [fit.epsilon or 0.0 for fit in spent(table).fits]


def test_fits_add_up_and_never_below_the_largest(patients: Path) -> None:
    for epsilon in ("1", "2", "0.5"):
        done = run("fit", "patients.csv", "--epsilon", epsilon, "--force", "--anyway", "--method", "independent")
        assert done.exit_code == 0
    assert "Fits on this table: 3" in done.stderr  # the running total is shown at each fit
    each, total = epsilons(patients), spent(patients).row()
    assert total.epsilon is not None and max(each) < total.epsilon <= sum(each) <= 3.5
    assert total.delta == pytest.approx(3e-5) and each[-1] == load("patients.medsynth").epsilon
    shown = run("ledger", "--table", "patients.csv")
    assert shown.exit_code == 0 and "Fits on this table: 3" in shown.stdout and "patients.medsynth" in shown.stdout
    facts = json.loads(run("ledger", "--table", "patients.csv", "--json").stdout)
    assert facts["epsilon"] == facts["epsilon_patient"] == total.epsilon  # one row a patient is declared
    assert Budget.of(patients).path.stat().st_mode & 0o077 == 0  # the owner's alone


@pytest.mark.nightly
def test_many_fits_are_composed_more_tightly_than_by_sums(patients: Path) -> None:
    for _ in range(6):
        run("fit", "patients.csv", "--epsilon", "0.5", "--force", "--method", "independent", "--anyway")
    total = spent(patients).row().epsilon
    assert total is not None and total < 0.8 * sum(epsilons(patients))


def test_a_fit_by_the_api_is_on_file(patients: Path, cohort: pd.DataFrame, clinic: Schema) -> None:
    medsynth.fit(patients, epsilon=1, method="independent")
    medsynth.fit(cohort, epsilon=1, method="independent", schema=clinic, budget_table=patients, model_name="frame")
    assert [fit.model for fit in spent(patients).fits] == ["in memory", "frame"]
    notices: list[str] = []
    medsynth.fit(cohort, epsilon=1, method="independent", schema=clinic, notice=notices.append)
    assert any("No budget file" in text for text in notices) and len(spent(patients).fits) == 2


def test_a_fit_with_rows_held_out_is_on_the_whole_tables_file(patients: Path) -> None:
    words = ["fit", "patients.csv", "--epsilon", "1", "--holdout", "0.3", "--anyway", "--method", "independent"]
    assert run(*words).exit_code == 0
    assert Budget.of(patients).path.exists() and not Budget.of(Path("patients.train.csv")).path.exists()
    assert len(spent(patients).fits) == 1
    for number, part in enumerate(("patients.train.csv", "patients.heldout.csv"), 2):
        done = run("fit", part, "--epsilon", "1", "--anyway", "--schema", "patients.schema.yaml")
        assert done.exit_code == 0 and f"Fits on this table: {number}" in done.stderr
        assert len(spent(patients).fits) == number


def test_the_plan_is_on_file_before_the_first_measurement(patients: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is measured, the file holds at least as much already."""
    seen: list[float] = []
    true = Releases.release

    def watched(self: Releases, *arguments: Any) -> Any:
        seen.append(sum(epsilons(patients)) if Budget.of(patients).path.exists() else 0.0)
        return true(self, *arguments)

    monkeypatch.setattr(Releases, "release", watched)
    with contextlib.suppress(MedsynthError):
        medsynth.fit(patients, epsilon=1, method="independent")
    assert seen and set(seen) == set(epsilons(patients)) and len(epsilons(patients)) == 1


def failing(monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """Let measurements fail once `after` were made."""
    true, made = Releases.release, [0]

    def release(self: Releases, *arguments: Any) -> Any:
        if made[0] == after:
            raise MedsynthError("the machine is out of order")
        made[0] += 1
        return true(self, *arguments)

    monkeypatch.setattr(Releases, "release", release)


def test_a_fit_that_ends_in_an_error_counts_by_what_was_charged(patients: Path) -> None:
    """Neither its whole plan nor less than what it measured, the measurement that failed among it."""
    with pytest.MonkeyPatch.context() as patch:
        failing(patch, 1)
        run("fit", "patients.csv", "--epsilon", "1", "--method", "independent")
    assert len(spent(patients).fits) == 1
    one = spent(patients).row().epsilon
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Releases, "_on_file", lambda *arguments: (_ for _ in ()).throw(MedsynthError("the disk is full")))
        run("fit", "patients.csv", "--epsilon", "1", "--method", "independent", "--force")
    assert one is not None and 0 < one < 0.9 and epsilons(patients) == pytest.approx([one, one])
    shown = run("ledger", "--table", "patients.csv").stdout
    assert "2 ended in an error, counted by what was measured" in shown and "unfinished" not in shown


def test_a_fit_that_dies_stays_and_resumed_it_is_counted_once(patients: Path) -> None:
    words = ["fit", "patients.csv", "--epsilon", "1", "--method", "independent"]
    with pytest.MonkeyPatch.context() as patch:
        failing(patch, 1)
        assert run(*words).exit_code == 1
    assert len(spent(patients).fits) == 1 and 0 < (spent(patients).row().epsilon or 0) < 0.9
    done = run(*words, "--resume")
    assert done.exit_code == 0 and "Resuming" in done.stderr
    assert [fit.model for fit in spent(patients).fits] == ["patients.medsynth"]
    assert run(*words, "--force").exit_code == 0 and len(spent(patients).fits) == 2


def test_a_resumed_fit_that_fails_at_once_still_counts(patients: Path) -> None:
    """What was measured before the kill stays on file, though the resumed fit itself has measured nothing yet."""
    words = ["fit", "patients.csv", "--epsilon", "1", "--method", "independent"]
    for after, more in ((1, []), (0, ["--resume"])):
        with pytest.MonkeyPatch.context() as patch:
            failing(patch, after)
            assert run(*words, *more).exit_code == 1
        assert len(spent(patients).fits) == 1
    # A resumed fit was reserved in full again, and its own ledger does not hold what was released before.
    assert spent(patients).row().epsilon == pytest.approx(1, rel=0.01)
    assert run(*words, "--resume").exit_code == 0 and len(spent(patients).fits) == 1


def test_a_resumed_fit_that_fails_late_stays_in_full(patients: Path) -> None:
    """Two releases before an error, one after the resumption: the last process charged one, and three are out."""
    words = ["fit", "patients.csv", "--epsilon", "1", "--method", "independent"]
    for after, more in ((2, []), (1, ["--resume"])):
        with pytest.MonkeyPatch.context() as patch:
            failing(patch, after)
            assert run(*words, *more).exit_code == 1
    assert spent(patients).unfinished == 1 and spent(patients).row().epsilon == pytest.approx(1, rel=0.01)


def test_a_fit_that_measured_nothing_costs_nothing(patients: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, 0)
    assert run("fit", "patients.csv", "--epsilon", "1", "--method", "independent").exit_code == 1
    assert spent(patients).fits == ()


def test_a_model_that_cannot_be_saved_was_fitted(patients: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["fit", "patients.csv", "--epsilon", "1", "--method", "independent"]
    with monkeypatch.context() as patch:
        patch.setattr(Model, "save", lambda *a, **k: (_ for _ in ()).throw(MedsynthError("no space")))
        assert run(*words).exit_code == 1
    assert len(spent(patients).fits) == 1
    assert run(*words, "--resume").exit_code == 0 and len(spent(patients).fits) == 1


def test_an_interrupted_fit_goes_on(patients: Path) -> None:
    """Ctrl-C keeps what was measured: it is on file, the message says so, and the fit can be resumed."""
    words = ["fit", "patients.csv", "--epsilon", "1", "--method", "independent"]
    with pytest.MonkeyPatch.context() as patch:
        true, made = Releases.release, [0]

        def release(self: Releases, *arguments: Any) -> Any:
            if made[0]:
                raise KeyboardInterrupt
            made[0] = 1
            return true(self, *arguments)

        patch.setattr(Releases, "release", release)
        stopped = run(*words)
    assert stopped.exit_code == 130 and "--resume" in stopped.stderr and "Nothing was released" not in stopped.stderr
    assert spent(patients).unfinished == 1
    assert run(*words, "--resume").exit_code == 0 and len(spent(patients).fits) == 1


def test_a_fit_without_noise_leaves_no_total(patients: Path) -> None:
    run("fit", "patients.csv", "--no-dp", "--method", "independent")
    assert "no total" in run("ledger", "--table", "patients.csv").stdout
    assert json.loads(run("ledger", "--table", "patients.csv", "--json").stdout)["epsilon"] is None


@pytest.mark.parametrize("content", ["{\n", '{"model": 1}\n', "\udcff\n"])
def test_a_broken_file_is_one_error_before_anything_is_measured(patients: Path, content: str) -> None:
    path = Budget.of(patients).path
    path.write_bytes(content.encode("utf-8", "surrogateescape"))
    for words in (["ledger", "--table", "patients.csv"], ["fit", "patients.csv", "--epsilon", "1", "--anyway"]):
        done = run(*words)
        assert done.exit_code == 1 and "Restore" in done.stderr and "Traceback" not in done.stderr
    assert path.read_bytes() == content.encode("utf-8", "surrogateescape") and not Path("patients.medsynth").exists()


def test_a_file_of_another_version_is_one_error_and_is_kept(patients: Path) -> None:
    path = Budget.of(patients).path
    path.write_text('{"model": "m", "epsilon": 1.0, "ledger": {}}\n')
    done = run("ledger", "--table", "patients.csv")
    assert done.exit_code == 1 and "another version" in done.stderr and "Restore" not in done.stderr
    assert path.read_text().startswith('{"model"')


def test_no_fit_and_mixed_options(patients: Path) -> None:
    assert "no fit" in run("ledger", "--table", "patients.csv").stderr
    assert run("ledger", "--table", "patients.csv", "--verify").exit_code == 2


@pytest.mark.nightly
@pytest.mark.usefixtures("few_trees")
def test_the_report_names_the_total(patients: Path) -> None:
    run("fit", "patients.csv", "--epsilon", "1", "--holdout", "0.3", "--anyway")
    run("sample", "-n", "200")
    assert run("report").exit_code == 0
    assert "Fits on this table: 1" in (patients.parent / "patients.report.html").read_text()


@pytest.mark.nightly
def test_fits_at_once_by_command_and_api_are_all_on_file(tmp_path: Path) -> None:
    """Eight processes at once: eight fits on file, each settled, and the sum is that of all. The benchmark: fifty."""
    fits_at_once.fit_at_once(tmp_path, fits=8, commands=1)
    assert fits_at_once.checked(tmp_path, fits=8, commands=1)
