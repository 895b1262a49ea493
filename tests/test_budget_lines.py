"""The budget file: reserved before, settled after, under one lock; totals for rows and patients; nothing believed."""

import functools
import json
import math
import multiprocessing
import stat
from pathlib import Path

import pytest
from filelock import FileLock

from medsynth.budget import Budget
from medsynth.errors import ArtifactError, MedsynthError
from medsynth.privacy.accounting import accountant
from medsynth.privacy.accounting.calibration import Charge, Plan, make_plan


@functools.cache
def planned(epsilon: float = 1.0, patient: int | None = None) -> Plan:
    return make_plan([Charge(label="m", weight=1.0)], epsilon=epsilon, delta=1e-5, rows=1000, max_rows=patient)


@pytest.fixture
def budget(tmp_path: Path) -> Budget:
    return Budget.of(tmp_path / "patients.csv")


def test_a_reservation_stands_before_anything_is_measured(budget: Budget) -> None:
    number = budget.reserve(planned(), method="independent", noise=True)
    found = budget.spent()
    assert [fit.number for fit in found.fits] == [number] and found.unfinished == 1
    assert found.row().epsilon == found.fits[0].epsilon == pytest.approx(planned().epsilon)
    assert "1 (1 unfinished, counted in full)" in found.sentence() and "1 (this one included)." in found.sentence(
        number
    )
    budget.settle(number, "patients.medsynth")
    assert budget.spent().unfinished == 0 and budget.spent().row() == found.row()
    assert stat.S_IMODE(budget.path.stat().st_mode) == 0o600


def test_a_resumed_fit_is_counted_once(budget: Budget) -> None:
    number = budget.reserve(planned(), method="independent", noise=True)
    assert budget.reserve(planned(), method="independent", noise=True, number=number) == number
    assert len(budget.spent().fits) == 1
    budget.settle(number, "a")
    assert budget.reserve(planned(), method="independent", noise=True, number=number) == number  # a save that failed
    budget.settle(number, "b")
    assert [fit.model for fit in budget.spent().fits] == ["b"]


def test_a_cancelled_reservation_costs_nothing(budget: Budget) -> None:
    budget.cancel(budget.reserve(planned(), method="independent", noise=True))
    assert budget.spent().fits == ()
    kept = budget.reserve(planned(), method="independent", noise=True)
    budget.settle(kept, "m")
    with pytest.raises(ArtifactError):  # a settled fit cannot be taken back
        budget.cancel(kept)
    assert len(budget.spent().fits) == 1


def test_an_ended_fit_counts_by_its_charges_until_it_is_resumed(budget: Budget) -> None:
    plan = make_plan([Charge(label="m", weight=1.0, times=4)], epsilon=1.0, delta=1e-5, rows=1000)
    ((event, times),) = plan.events.values()
    number = budget.reserve(plan, method="independent", noise=True)
    whole = budget.spent().row().epsilon
    budget.end(number, [(event, times - 2), (event, 1)])
    part, sentence = budget.spent().row().epsilon, budget.spent().sentence()
    assert part is not None and whole is not None and part < whole and budget.spent().unfinished == 0
    assert part == pytest.approx(accountant.epsilon([(event, times - 1)], 1e-5, plan.accountant))
    assert "1 ended in an error" in sentence and "unfinished" not in sentence
    for call in (budget.cancel, lambda n: budget.settle(n, "m"), lambda n: budget.end(n, [(event, 1)])):
        with pytest.raises(ArtifactError):
            call(number)
    assert budget.reserve(plan, method="independent", noise=True, number=number) == number
    assert budget.spent().row().epsilon == whole and len(budget.spent().fits) == 1
    for charged in ([], [(event, times + 1)]):  # nothing, or more than was planned
        with pytest.raises(ArtifactError):
            budget.end(number, charged)
    budget.settle(number, "m")
    with pytest.raises(ArtifactError):
        budget.end(number, [(event, 1)])
    assert [fit.model for fit in budget.spent().fits] == ["m"]


def test_which_checkpoint_goes_on_with_a_fit(budget: Budget) -> None:
    """One with the latest attempt that lacks no record, and whose fit has no model unless nothing is to be drawn."""
    budget.reserve(planned(), method="independent", noise=True, number="a")

    def resumed(*attempts: str, records: int = 2, complete: bool = False) -> tuple[str, bool, bool]:
        assert budget.current(attempts, records) in (None, *(fit.number for fit in budget.spent().fits))
        found = budget.resume(
            planned(), method="independent", noise=True, attempts=attempts, records=records, complete=complete
        )
        return found.number, found.anew, found.closed

    assert resumed("a", "b") == ("a", False, False)
    assert resumed("a", "c") == ("c", True, False)  # a copy from before that resume, with as many records
    assert resumed("a", "b", "d", "e") == ("a", False, False)  # `d` was cut off before the budget file had it
    budget.reach(3)
    assert [fit.reached for fit in budget.spent().fits] == [3, 2] and budget.spent().fits[0].attempt == "e"
    assert resumed("a", "b", "d", "e", "f") == ("f", True, False)  # a copy from before the third record
    assert resumed("a", "b", "d", "e", "g", records=3) == ("a", False, False)
    assert resumed("a", "c", "h") == ("c", False, False)
    budget.settle("a", "m")
    for complete, expected in ((True, ("a", False, True)), (False, ("i", True, False))):
        assert resumed("a", "b", "d", "e", "g", "i", records=3, complete=complete) == expected
    assert resumed("x", "y") == ("y", True, False)  # of another file, or of one that was lost
    ((event, _),) = planned().events.values()
    budget.end("c", [(event, 1)], stopped=True)
    lines = budget.path.read_bytes()
    assert resumed("a", "c", "h", "j") == ("c", False, True) and budget.path.read_bytes() == lines
    assert [fit.number for fit in budget.spent().fits] == ["a", "c", "f", "i", "y"]
    with pytest.raises(ArtifactError, match="altered"):
        budget.path.write_bytes(lines[1:] + lines[:1])
        budget.reach(4)


def test_a_fit_that_ends_counts_by_its_charges_only_if_all_are_plain_gaussian(budget: Budget) -> None:
    queries = [Charge(label="m", weight=1.0), Charge(label="names", weight=1.0, thresholded=True)]
    plan = make_plan(queries, epsilon=1.0, delta=1e-5, rows=1000)
    plain, names = (event for event, _ in plan.events.values())
    whole = sum(times for _, times in plan.events.values())
    for charged, left in (([(plain, 1)], 1), ([(plain, 1), (names, 1)], whole), ([(names, 1)], whole)):
        number = budget.reserve(plan, method="independent", noise=True)
        budget.end(number, charged)
        assert sum(times for _, times in budget.spent().fits[-1].events) == left
        assert budget.spent().fits[-1].ended == (left == 1)


def test_totals_add_up_and_many_fits_compose_more_tightly(budget: Budget) -> None:
    for _ in range(12):
        budget.settle(budget.reserve(planned(0.5), method="independent", noise=True), "m")
    total = budget.spent().row()
    each = planned(0.5).epsilon
    assert total.epsilon is not None and each < total.epsilon < 0.8 * 12 * each
    assert total.delta == pytest.approx(12e-5)
    events = [pair for fit in budget.spent().fits for pair in fit.events]
    assert total.epsilon >= accountant.epsilon(events, total.delta, "prv")


def test_rows_and_patients_are_never_one_number(budget: Budget) -> None:
    """A fit that protects rows bounds nothing for a patient; one that protects patients bounds both."""
    budget.reserve(planned(1.0, patient=5), method="independent", noise=True)
    assert budget.spent().patient() == budget.spent().row()
    assert "one patient with all of their rows." in budget.spent().sentence()
    budget.reserve(planned(2.0), method="independent", noise=True)
    spent = budget.spent()
    assert spent.patient().epsilon is None and spent.row().epsilon is not None
    assert "No total can be claimed for one patient" in spent.sentence()


def test_a_fit_without_noise_leaves_no_total(budget: Budget) -> None:
    budget.reserve(planned(), method="independent", noise=False)
    spent = budget.spent()
    assert spent.row().epsilon is None and spent.patient().epsilon is None and spent.fits[0].epsilon is None
    assert "no total can be claimed" in spent.sentence()
    budget.reserve(planned(), method="independent", noise=True)  # nor does another fit with noise make it one
    both = budget.spent()
    assert both.row().epsilon is None and both.patient().epsilon is None and both.unprotected == 1


def edited(budget: Budget, **fields: object) -> None:
    budget.reserve(planned(), method="independent", noise=True)
    line = json.loads(budget.path.read_text()) | fields
    budget.path.write_text(json.dumps(line) + "\n")


@pytest.mark.parametrize(
    "fields",
    [
        {"events": [[{"mechanism": "Gaussian", "multiplier": -9.0}, 1]]},
        {"events": [[{"mechanism": "Gaussian", "multiplier": math.inf}, 1]]},
        {"events": [[{"mechanism": "Gaussian", "multiplier": math.nan}, 1]]},
        {"events": [[{"mechanism": "Nothing", "multiplier": 1.0}, 1]]},
        {"events": [[{"mechanism": "Gaussian", "multiplier": 1.0}, -1]]},
        {"events": []},
        {"delta": 2.0},
        {"accountant": "mine"},
        {"noise": "yes"},
        {"max_rows": -1},
        {"state": "gone"},
    ],
    ids=str,
)
def test_what_was_edited_by_hand_is_refused(budget: Budget, fields: dict[str, object]) -> None:
    edited(budget, **fields)
    with pytest.raises(ArtifactError, match="altered"):
        budget.spent()
    with pytest.raises(ArtifactError, match="altered"):
        budget.reserve(planned(), method="independent", noise=True, number="x")  # and nothing is added to it


def test_an_epsilon_written_into_the_file_is_not_read(budget: Budget) -> None:
    edited(budget, epsilon=-9)
    assert budget.spent().row().epsilon == pytest.approx(planned().epsilon)


@pytest.mark.parametrize("content", [b"{\n", b'{"model": 1}\n', b"\xff\n"])
def test_a_damaged_file_is_one_error_and_is_kept(budget: Budget, content: bytes) -> None:
    budget.path.write_bytes(content)
    with pytest.raises(ArtifactError, match="Restore"):
        budget.spent()
    assert budget.path.read_bytes() == content


def test_a_line_that_a_crash_cut_off_is_replaced(budget: Budget) -> None:
    kept = budget.reserve(planned(), method="independent", noise=True)
    with budget.path.open("ab") as file:
        file.write(b'{"fit": "a", "state": "reser')
    assert [fit.number for fit in budget.spent().fits] == [kept]
    added = budget.reserve(planned(), method="independent", noise=True)
    assert [fit.number for fit in budget.spent().fits] == [kept, added]


def test_no_fit_on_file_and_no_folder(budget: Budget, tmp_path: Path) -> None:
    with pytest.raises(MedsynthError, match="no fit"):
        budget.spent()
    with pytest.raises(MedsynthError, match="cannot be written"):
        Budget.of(tmp_path / "none" / "patients.csv").reserve(planned(), method="independent", noise=True)


def test_a_file_that_another_fit_holds_is_waited_for(budget: Budget, monkeypatch: pytest.MonkeyPatch) -> None:
    """And not written to: lines of fits at once would be lost."""
    kept = budget.reserve(planned(), method="independent", noise=True)
    monkeypatch.setattr("medsynth.budget.LOCK_SECONDS", 0.2)
    with FileLock(f"{budget.path}.lock"), pytest.raises(MedsynthError, match="locked by another fit"):
        budget.reserve(planned(), method="independent", noise=True)
    assert [fit.number for fit in budget.spent().fits] == [kept]


def test_a_reservation_is_on_the_disk_before_anything_is_measured(
    budget: Budget, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(MedsynthError, match="No space left"):
        budget.reserve(planned(), method="independent", noise=True)


def one_fit(table: Path) -> None:
    budget = Budget.of(table)
    budget.settle(budget.reserve(planned(), method="independent", noise=True), "m")


@pytest.mark.nightly
def test_fits_at_once_are_all_on_file(budget: Budget, tmp_path: Path) -> None:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, "opacus.accountants"])
    with context.Pool(3) as pool:
        pool.map(one_fit, [tmp_path / "patients.csv"] * 50, chunksize=1)
    spent = budget.spent()
    assert len(spent.fits) == len({fit.number for fit in spent.fits}) == 50 and spent.unfinished == 0
    assert len(budget.path.read_text().splitlines()) == 100


def test_at_a_site_the_latest_process_alone_answers(budget: Budget) -> None:
    """And with a checkpoint that holds all that has left: else a measurement would be drawn twice for one charge."""
    number = budget.reserve(planned(), method="independent", noise=True, study="digest")
    budget.reserve(planned(), method="independent", noise=True, study="another")
    budget.opened(number, "a", 0)
    budget.answered(number, "a", 1)
    budget.opened(number, "b", 1)
    with pytest.raises(MedsynthError, match="copy of the checkpoint"):  # opened by another since
        budget.answered(number, "a", 2)
    with pytest.raises(MedsynthError, match="copy of the checkpoint"):  # an old copy
        budget.opened(number, "c", 0)
    with pytest.raises(MedsynthError, match="copy of the checkpoint"):
        budget.answered(number, "b", 0)
    budget.answered(number, "b", 2)
    (fit,) = budget.spent().of_study("digest")
    assert (fit.answers, fit.process, fit.number) == (2, "b", number)
    budget.end(number, list(planned().events.values()))
    with pytest.raises(ArtifactError):
        budget.answered(number, "b", 3)
    budget.reserve(planned(), method="independent", noise=True, number=number, study="digest")
    with pytest.raises(MedsynthError, match="copy of the checkpoint"):  # reserved anew, with as many that have left
        budget.opened(number, "d", 1)
    budget.opened(number, "d", 2)
    for line in ('"opened", "process": "e", "answers": "3"', '"answered", "answers": 3'):
        before = budget.path.read_text()
        budget.path.write_text(f'{before}{{"fit": "{number}", "state": {line}}}\n')
        with pytest.raises(ArtifactError):
            budget.spent()
        budget.path.write_text(before)


def test_a_fit_whose_copy_was_resumed_stops_by_whatever_name_its_file_was_opened(budget: Budget) -> None:
    """A fit that was suspended meanwhile, and a copy of its checkpoint in a folder with links to table and budget."""
    for link in (Path.symlink_to, Path.hardlink_to):
        number = budget.reserve(planned(), method="independent", noise=True)
        budget.reach(1)
        other = budget.path.parent / link.__name__
        other.mkdir()
        link(other / budget.path.name, budget.path)
        copy = Budget(other / budget.path.name)
        attempts = (number, f"copy {link.__name__}")
        found = copy.resume(planned(), method="independent", noise=True, attempts=attempts, records=1, complete=False)
        assert found.number == number and not found.anew
        with pytest.raises(MedsynthError, match="has the charge now"):
            budget.reach(2)
        with pytest.raises(MedsynthError, match="has the charge now"):
            budget.settle(number, "first.medsynth")
        before = budget.path.read_bytes()
        budget.cancel(number)
        budget.end(number, [(event, times) for event, times in planned().events.values()])
        assert budget.path.read_bytes() == before  # the copy's fit is still charged in full
        copy.reach(2)
        copy.settle(number, "second.medsynth")
        assert budget.spent().fits[-1].models == ("second.medsynth",)


def test_the_ledger_of_a_folder_of_tables_is_found(tmp_path: Path) -> None:
    from medsynth_cli.main import app
    from typer.testing import CliRunner

    folder = tmp_path / "hosp"
    folder.mkdir()
    Budget.of(folder / "hosp").reserve(planned(), method="independent", noise=True)
    done = CliRunner().invoke(app, ["ledger", "--table", str(folder)])
    assert done.exit_code == 0 and "Fits on this table: 1" in done.stdout
