"""A fit that outlives its page: the next page finds it by its lock, shows it and stops it, and stops nothing else."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from local_page import Page, fake
from medsynth_cli.app.session import languages
from test_jobs import until

from medsynth.artifact import load
from medsynth.io.atomic import LOCK, _beside, interrupt_writer, writer_of

HOLD = """
import pathlib, signal, sys, time
from medsynth.io.atomic import sole_writer
signal.signal(signal.SIGINT, signal.default_int_handler)
with sole_writer(pathlib.Path(sys.argv[1])):
    print("locked", flush=True)
    time.sleep(600)
"""
PAGE = """
import pathlib, signal, sys, time
from medsynth_cli.app.jobs import Jobs
signal.signal(signal.SIGINT, signal.default_int_handler)
jobs = Jobs(pathlib.Path.cwd())
jobs.start("fit", sys.argv[1:], as_json=False)
print(jobs["fit"]._process.pid, flush=True)
time.sleep(600)
"""


@contextmanager
def process(script: str, folder: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A process that has printed its first line. It is killed at the end."""
    with speaking(script, folder, *words) as (made, _):
        yield made


@contextmanager
def speaking(script: str, folder: Path, *words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A process and the first line that it has printed. It is killed at the end."""
    command = [sys.executable, "-c", script, *words]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True, start_new_session=True) as made:
        try:
            assert made.stdout and (line := made.stdout.readline())
            yield made, line
        finally:
            made.kill()


@contextmanager
def page_that_is_killed(folder: Path, *words: str) -> Iterator[None]:
    """A page starts a fit and is killed once its checkpoint exists. The fit goes on, and is killed at the end."""
    with speaking(PAGE, folder, *words) as (page, number):
        try:
            until((folder / "ward.medsynth-checkpoint").exists)
            page.kill()
            yield
        finally:
            with suppress(ProcessLookupError):
                os.killpg(int(number), signal.SIGKILL)


@pytest.mark.parametrize("language", languages())
def test_a_fit_of_a_page_that_is_gone_is_shown_and_stopped(folder: Path, language: str) -> None:
    model = folder / "ward.medsynth"
    (folder / "ward.medsynth-checkpoint").write_text("")
    page = Page(folder, "ward.csv", language).enter()
    with process(HOLD, folder, str(model)) as fit:
        assert writer_of(model) == fit.pid
        text, t = page.get("fit").get_data(as_text=True), page.session.texts
        assert t["fit_elsewhere"] in text and t["cancel"] in text and 'name="resume"' not in text
        told = page.client.get(f"{page.session.door.path}/job?step=fit", base_url="http://127.0.0.1:8123").json
        assert told is not None and told["running"]
        page.post("fit", {"resume": "1"})
        assert t["still_running"] in page.said("fit") and page.session.jobs._jobs.get("fit") is None
        page.post("cancel")
        assert fit.wait(60) not in (0, -signal.SIGKILL)
    assert 'name="resume"' in page.get("fit").get_data(as_text=True) and not model.with_name(LOCK).exists()


def test_only_the_process_that_wrote_the_lock_is_stopped(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A killed fit leaves its lock, and another process may get its number; a lock may also contain anything."""
    fake(monkeypatch)
    model = folder / "ward.medsynth"
    lock = _beside(model, LOCK)
    with process(HOLD, folder, str(model)) as fit, process("print(); import time; time.sleep(600)", folder) as other:
        own = lock.read_text()
        fit.kill()
        fit.wait()
        assert lock.exists() and writer_of(model) is None
        birth = own.partition(" ")[2]
        for content in (
            own,
            f"{other.pid} {birth}",
            f"{other.pid}",
            f"{other.pid} ",
            "",
            "1 1",
            "-1 x",
            "\0" * 300,
            "²",
        ):
            lock.write_text(content)
            assert writer_of(model) is None and not interrupt_writer(model), content
        page = Page(folder, "ward.csv").enter()
        assert page.session.texts["fit_elsewhere"] not in page.get("fit").get_data(as_text=True)
        page.post("cancel")
        lock.unlink()
        lock.symlink_to(os.devnull)
        assert writer_of(model) is None and other.poll() is None


def declared_table(folder: Path) -> None:
    """Write a table of 400 rows, and its schema."""
    lines = ["a,b,y", *(f"{k % 7},{k % 5},{k % 2}" for k in range(400))]
    (folder / "ward.csv").write_text("\n".join(lines))
    levels = {"a": list(range(7)), "b": list(range(5)), "y": [0, 1]}
    columns = "".join(f"  {name}: {{kind: categorical, levels: {own}}}\n" for name, own in levels.items())
    (folder / "ward.schema.yaml").write_text(f"name: ward\ntarget: y\ncolumns:\n{columns}")


@pytest.mark.nightly
def test_a_real_fit_keeps_to_the_plan_that_was_approved(folder: Path) -> None:
    """The page writes the files of `plan --page`. With more budget than approved the fit spends nothing."""
    declared_table(folder)
    page = Page(folder, "ward.csv").enter()
    for form, answers in (("budget", {"epsilon": "2"}), ("approval", {"purpose": "teaching"})):
        page.post(form, answers)
        page.wait(300)
    assert b"teaching" in page.get("approval").data and 'name="approved"' in page.get("fit").get_data(as_text=True)
    page.session.change(epsilon=3.0)
    page.post("fit", {"agreed": "on", "approved": "on"})
    page.wait(300)
    assert "ward.plan.json approves epsilon 2" in page.get("fit").get_data(as_text=True)
    assert not [path for path in folder.iterdir() if "ledger" in path.name or path.name == "ward.medsynth"]
    page.session.change(epsilon=2.0)
    page.post("fit", {"agreed": "on", "approved": "on"})
    page.wait(300)
    assert "kept to the plan" in " ".join(load(folder / "ward.medsynth").ledger.notes)


@pytest.mark.nightly
def test_a_real_fit_goes_on_after_its_page_was_killed_and_can_be_resumed(folder: Path) -> None:
    declared_table(folder)
    model, checkpoint = folder / "ward.medsynth", folder / "ward.medsynth-checkpoint"
    words = ["fit", "ward.csv", "--epsilon", "3.7", "--method", "dp-gan", "--set", "lots=20000"]
    with page_that_is_killed(folder, *words):
        page = Page(folder, "ward.csv").enter()
        before = checkpoint.stat().st_size
        until(lambda: checkpoint.stat().st_size > before)
        assert page.session.texts["fit_elsewhere"] in page.get("fit").get_data(as_text=True)
        page.post("cancel")
        until(lambda: page.session.jobs.running is None)
    assert checkpoint.exists() and not model.exists()
    assert 'name="resume"' in page.get("fit").get_data(as_text=True)
