"""Commands that run: one at a time, followed to their end, whatever they print and however they end."""

import json
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from local_page import fake
from medsynth_cli.app import jobs
from medsynth_cli.app.jobs import Job, Jobs

from medsynth.errors import UsageError

PATIENT = 60.0  # seconds, on a busy machine


def ended(script: str, folder: Path, monkeypatch: pytest.MonkeyPatch, as_json: bool = True) -> Job:
    fake(monkeypatch, script)
    job = Job("step", ["word", "--option"], folder, as_json)
    for reader in job._readers:
        reader.join(PATIENT)
    assert not job.running
    return job


def until(true: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENT
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_result_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = "import json, os; print(json.dumps({'words': sys.argv[1:], 'folder': os.getcwd()}))"
    job = ended(script, tmp_path, monkeypatch)
    assert job.result == {"words": ["word", "--option", "--json"], "folder": str(tmp_path.resolve())}
    assert job.code == 0 and not job.failed and not job.stopped
    assert ended("print('text')", tmp_path, monkeypatch, as_json=False).text == "text\n"


def test_a_module_in_the_folder_is_not_run(tmp_path: Path) -> None:
    """The folder comes from somebody else, with a file that is called as a module is."""
    for name in ("medsynth_cli", "typer", "json", "sitecustomize", "runpy"):
        (tmp_path / f"{name}.py").write_text("open('run', 'w')")
    job = Job("step", ["--version"], tmp_path, as_json=False)
    for reader in job._readers:
        reader.join(PATIENT)
    assert job.code == 0 and job.text.startswith("medsynth") and not (tmp_path / "run").exists()


def test_messages_progress_and_errors_are_sorted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [json.dumps({"phase": "fitting", "done": 2, "total": 8}), "A notice.", json.dumps({"error": "No."}),
             '{"phase": 7}', "{", '{"a": ' * 5000]  # fmt: skip
    job = ended(f"sys.stderr.write({chr(10).join(lines)!r}); sys.exit(3)", tmp_path, monkeypatch)
    assert job.code == 3 and job.failed and job.progress["phase"] == "fitting"
    assert job.messages[:2] == ["A notice.", "No."]
    assert job.facts()["done"] == 2 and job.facts()["left"] is not None and not job.facts()["running"]


def test_pipes_do_not_fill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe takes 64 kB. Reading goes on after bytes that are not text."""
    script = "sys.stderr.buffer.write(b'\\xff line\\n' * 20_000); sys.stderr.flush(); print('x' * 1_000_000)"
    job = ended(script, tmp_path, monkeypatch)
    assert job.code == 0 and len(job.text) == 1_000_001 and len(job.messages) == jobs.MOST_KEPT


def test_one_command_runs_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of eight threads that start one at once, one does."""
    fake(monkeypatch, "sys.stdin.close(); import time; time.sleep(600)")
    running, started = Jobs(tmp_path), list[bool]()
    threads = [threading.Thread(target=lambda k=k: started.append(running.start(f"{k}", []))) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert started.count(True) == 1 and running.running
    running.stop()
    assert running.running is None


@pytest.mark.parametrize("obeys", [True, False])
def test_a_command_is_stopped(obeys: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that ignores it, with the processes that it started, which hold its output open until they end."""
    monkeypatch.setattr(jobs, "PATIENCE", 0.2 if not obeys else PATIENT)
    handler = "default_int_handler); " if obeys else "SIG_IGN); os.fork(); "  # whatever the test itself has inherited
    ignore = f"import signal, os; signal.signal(signal.SIGINT, signal.{handler}"
    fake(monkeypatch, f"{ignore}import time; print('here', file=sys.stderr, flush=True); time.sleep(600)")
    job = Job("step", [], tmp_path, as_json=False)
    until(lambda: job.messages)
    job.stop()
    job.stop()  # a second click
    until(lambda: not job.running)
    assert job.stopped and not job.failed and job.code == (-signal.SIGKILL if not obeys else -signal.SIGINT)


def test_a_command_that_ended_before_it_was_stopped_was_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = ended("pass", tmp_path, monkeypatch)
    job.stop(wait=True)
    assert not job.stopped and job.code == 0
    fake(monkeypatch, "import signal, time; signal.signal(signal.SIGINT, lambda *_: sys.exit(0));"
                      "print('here', file=sys.stderr, flush=True); time.sleep(600)")  # fmt: skip
    job = Job("step", [], tmp_path, as_json=False)
    until(lambda: job.messages)
    job.stop(wait=True)
    assert job.code == 0 and not job.stopped  # its output is there, so the page may not say otherwise


@pytest.mark.parametrize("word", ["a\0b", "x" * 4_000_000, "\ud800"], ids=["null", "long", "surrogate"])
def test_words_that_no_command_can_have(word: str, tmp_path: Path) -> None:
    running = Jobs(tmp_path)
    with pytest.raises(UsageError, match="could not be started"):
        running.start("step", [word])
    assert running.running is None and running["step"] is None
    with pytest.raises(UsageError, match="could not be started"):
        Jobs(tmp_path / "gone").start("step", [])


def test_ended_commands_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(monkeypatch)
    running = Jobs(tmp_path)
    assert running.start("budget", [])
    until(lambda: not running.running)
    running.forget(tmp_path / "a.medsynth")
    assert running["budget"] is None
