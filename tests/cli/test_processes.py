"""Files and processes: what a fit replaces and when, who may read it, two runs at once, streams closed or full."""

import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from commands import run
from medsynth_cli.console import OWN_FAULT
from typer.testing import Result

from medsynth.errors import MedsynthError
from medsynth.io.atomic import atomic_write, check_outputs, sole_writer
from medsynth.privacy.release import Releases

pytestmark = pytest.mark.usefixtures("quick")
FIT = ("fit", "patients.csv", "--epsilon", "1", "--method", "independent", "--rows", "300")
HELD = (*FIT, "--holdout", "0.3", "--anyway")
ENDS = (".train.csv", ".heldout.csv", ".heldout.csv.split")
SPLIT = tuple(f"patients{end}" for end in ENDS)


@pytest.fixture
def patients(patients_of_few_columns: Path) -> Path:
    return patients_of_few_columns


def content(*names: str) -> list[bytes]:
    return [Path(name).read_bytes() for name in names]


def stopped(monkeypatch: pytest.MonkeyPatch, error: BaseException, after: int, *words: str) -> Result:
    """A command in which measurements end in `error` once `after` were made."""
    true, made = Releases.release, [0]

    def release(self: Releases, *arguments: Any) -> Any:
        if made[0] == after:
            raise error
        made[0] += 1
        return true(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Releases, "release", release)
        return run(*words)


@pytest.mark.nightly
def test_a_split_is_replaced_once_the_model_stands(patients: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither an error before the first measurement nor one after it touches model or split; a fit replaces both."""
    first = run(*HELD)
    assert first.exit_code == 0 and "PRIVATE" in first.stderr
    files = ("patients.medsynth", *SPLIT)
    before, names = content(*files), set(os.listdir())
    assert run(*HELD).exit_code == 1
    for after in (0, 1):
        failed = stopped(monkeypatch, MedsynthError("out of order"), after, *HELD, "--force")
        assert failed.exit_code == 1 and content(*files) == before
        waiting = {f"patients.medsynth-checkpoint{end}" for end in ("", *ENDS)}
        assert set(os.listdir()) - names == (waiting if after else set())
    assert run(*HELD, "--force").exit_code == 0
    assert all(new != old for new, old in zip(content(*files), before, strict=True)) and set(os.listdir()) == names
    assert all(stat.S_IMODE(os.stat(name).st_mode) == 0o600 for name in SPLIT)


@pytest.mark.parametrize("words", [FIT, HELD], ids=["whole", "hold-out"])
def test_an_interrupted_fit_goes_on_with_its_own_rows(
    patients: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    ended = stopped(monkeypatch, KeyboardInterrupt(), 1, *words)
    assert ended.exit_code == 130 and "add --resume to the same command" in ended.stderr
    assert not Path("patients.medsynth").exists() and not Path(SPLIT[0]).exists()
    waiting = [path for end in ENDS if (path := Path(f"patients.medsynth-checkpoint{end}")).exists()]
    rows = [path.read_bytes() for path in waiting]
    refused = run(*words)
    assert refused.exit_code == 1 and "Add --resume to continue" in refused.stderr and "--force" in refused.stderr
    done = run(*words, "--resume")
    assert done.exit_code == 0 and "Resuming" in done.stderr
    assert not list(Path().glob("*checkpoint*"))
    if words is HELD:
        assert len(rows) == 3 and rows == content(*SPLIT)


def test_another_table_is_not_resumed(patients: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped(monkeypatch, KeyboardInterrupt(), 1, *FIT)
    refused = run(*HELD, "--resume")
    assert refused.exit_code == 2 and "without --holdout" in refused.stderr
    lines = Path("patients.csv").read_text().splitlines(keepends=True)
    Path("patients.csv").write_text("".join([*lines, lines[-1]]))
    refused = run(*FIT, "--resume")
    assert refused.exit_code == 2 and "another fit" in refused.stderr and Path("patients.medsynth-checkpoint").exists()


def test_records_of_another_shape_are_one_error(patients: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A crafted checkpoint whose numbers fit nothing."""
    import numpy as np

    from medsynth.privacy.checkpoint import Checkpoint

    stopped(monkeypatch, KeyboardInterrupt(), 1, *FIT)
    true = Checkpoint.replay
    monkeypatch.setattr(Checkpoint, "replay", lambda self, label: true(self, label) and ([np.zeros((2, 2, 2))], []))
    done = run(*FIT, "--resume")
    assert done.exit_code == 1 and "do not fit" in done.stderr and OWN_FAULT not in done.stderr


@pytest.mark.parametrize(("at", "told"), [(0, "do not fit"), (1, OWN_FAULT)])
def test_a_fault_of_a_resumed_fit_is_the_records_only_where_they_are_used(
    at: int, told: str, patients: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A TypeError right after a record was used, or after a measurement that was drawn anew."""
    stopped(monkeypatch, KeyboardInterrupt(), 1, *FIT)
    true, calls = Releases.release, list[str]()

    def release(self: Releases, *arguments: Any) -> Any:
        found = true(self, *arguments)
        calls.append("")
        if len(calls) > at:
            raise TypeError("17 patients")
        return found

    monkeypatch.setattr(Releases, "release", release)
    done = run(*FIT, "--resume")
    assert done.exit_code != 0 and told in done.stderr and "17 patients" not in done.stderr


def test_two_runs_on_one_output_are_one_error(patients: Path) -> None:
    with sole_writer(Path("patients.medsynth")):
        second = run(*FIT)
        assert second.exit_code == 1 and "Another run" in second.stderr
    with sole_writer(Path(SPLIT[1])):
        assert "Another run" in run(*HELD).stderr
    assert set(os.listdir()) == {"patients.csv", "patients.schema.yaml"}
    assert run(*FIT).exit_code == 0


def test_what_a_killed_run_left_is_removed(tmp_path: Path) -> None:
    """The part and the lock of a run that is gone are in nobody's way; those of a run that lives are."""
    target = tmp_path / "model"
    script = (
        "import os, pathlib; from medsynth.io.atomic import atomic_write, sole_writer\n"
        f"path = pathlib.Path({str(target)!r})\n"
        "with sole_writer(path):\n"
        "    atomic_write(path, lambda file: (file.write(b'half'), file.flush(), os._exit(9)))"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 9
    left = sorted(path.suffix for path in tmp_path.iterdir())
    assert left == [".lock", ".part"]
    with sole_writer(target):
        atomic_write(target, lambda file: file.write(b"whole"))
    assert os.listdir(tmp_path) == ["model"] and target.read_bytes() == b"whole"
    with pytest.raises(MedsynthError, match="Another run"):
        atomic_write(target, lambda _: atomic_write(target, lambda file: None, force=True), force=True)
    assert os.listdir(tmp_path) == ["model"] and target.read_bytes() == b"whole"


@pytest.mark.parametrize(("before", "private", "after"), [
    (None, False, 0o644), (None, True, 0o600), (0o600, False, 0o600), (0o640, False, 0o640), (0o666, False, 0o644),
    (0o400, True, 0o400),
])  # fmt: skip
def test_permissions_never_widen(tmp_path: Path, before: int | None, private: bool, after: int) -> None:
    path = tmp_path / "rows.csv"
    if before is not None:
        path.write_bytes(b"before")
        path.chmod(before)
    atomic_write(path, lambda file: file.write(b"1"), private=private, force=True)
    assert stat.S_IMODE(path.stat().st_mode) == after


def test_outputs_are_checked_against_one_another(tmp_path: Path) -> None:
    one, other = tmp_path / "a", tmp_path / "b"
    one.write_bytes(b"1")
    os.link(one, other)
    with pytest.raises(MedsynthError, match="would overwrite it"):
        check_outputs(other, inputs=(one,), force=True)
    with pytest.raises(MedsynthError, match="twice"):
        check_outputs(tmp_path / "c", tmp_path / "." / "c", force=False)


def test_checkpoints_are_of_one_model_alone(patients: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("fit.1", "fit.2"):
        stopped(monkeypatch, KeyboardInterrupt(), 1, *FIT, "-o", name)
    assert len(list(Path().glob("fit.*.medsynth-checkpoint"))) == 2


MEDSYNTH = (sys.executable, "-m", "medsynth_cli")
UMLAUT = "import sys; from medsynth_cli.console import open_streams, notify, result; open_streams(); "


@pytest.mark.parametrize(("redirection", "code", "said"), [
    (">/dev/full", 1, "Cannot write to standard output (No space left on device)"),
    ("2>/dev/full", 0, ""),
    ("2>&-", 0, ""),
    (">&-", 0, ""),
    ("| head -c 1 >&2", 0, "t"),
])  # fmt: skip
@pytest.mark.matrix
def test_streams_that_are_full_or_closed(redirection: str, code: int, said: str) -> None:
    line = f"{' '.join(MEDSYNTH)} schema list {redirection}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
    assert done.returncode == code and said in done.stderr and "Traceback" not in done.stderr
    assert "Exception" not in done.stderr


@pytest.mark.nightly
def test_an_error_with_closed_streams_has_its_exit_code() -> None:
    line = f"{' '.join(MEDSYNTH)} schema show nothing >&- 2>&-"
    assert subprocess.run(["bash", "-c", line], check=False).returncode == 2


def test_a_terminal_that_lacks_a_character_shows_it_escaped() -> None:
    script = UMLAUT + "notify('Größe'); result({'a': 'ü'}, 'Größe', as_json=False)"
    words = [sys.executable, "-c", script]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=environment)
    assert done.stdout == done.stderr == "Gr\\xf6\\xdfe\n"


def test_a_closed_stream_gets_no_files_number() -> None:
    """A file opened while standard error is closed would get its number, and its messages."""
    script = UMLAUT + "file = open('/dev/null'); sys.exit(file.fileno())"
    done = subprocess.run(["bash", "-c", f'{sys.executable} -c "{script}" 2>&-'], check=False)
    assert done.returncode > 2


def test_a_fault_of_medsynth_shows_no_words_of_its_own(patients: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The words of an unexpected error may quote a cell; its place does not."""
    from medsynth.methods import registry

    def broken(*arguments: Any) -> Any:
        raise ValueError("invalid literal for int(): '7431'")

    monkeypatch.setattr(registry, "configured", broken)
    done = run(*FIT)
    assert done.exit_code == 1 and OWN_FAULT in done.stderr and "planning.py" in done.stderr
    assert "7431" not in done.stderr and "Traceback" not in done.stderr
