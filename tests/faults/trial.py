"""Guards, run by pytest in a process of its own on a copy of the sources; and what came of them."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

# Imported once, by the process that all trials are forked from; nothing of medsynth, which each trial imports anew.
PRELOADED = (
    "trial", "opacus", "opacus.accountants", "pandas", "pydantic", "scipy.stats", "sklearn.ensemble",
    "sklearn.linear_model", "torch", "torch.func", "typer.testing",
)  # fmt: skip
# Packages that are installed under other names than their folders have.
RENAMED = {"medsynth_cli": "cli", "medsynth_sample_data": "sample_data", "medsynth_schemas": "schemas"}
OUTPUT = "trial-output.txt"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What the guards did: the nodes that passed, and the first failure, if any, with its kind, place and message."""

    passed: tuple[str, ...] = ()
    error: str = ""
    phase: str = ""
    detail: str = ""
    seconds: float = 0.0

    def holds(self, guards: Sequence[str]) -> bool:
        """Whether each guard ran, in one case at least, and nothing failed."""
        ran = all(any(node == guard or node.startswith(guard + "[") for node in self.passed) for guard in guards)
        return ran and not self.error


class _Watch:
    """A pytest plugin that keeps the first failure."""

    def __init__(self) -> None:
        self.passed, self.failure = list[str](), dict[str, str]()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.passed += [report.nodeid] if report.when == "call" and report.passed else []

    def pytest_exception_interact(self, node: Any, call: pytest.CallInfo[Any], report: Any) -> None:
        if self.failure or call.excinfo is None:
            return
        kind = call.excinfo.type
        asserted = issubclass(kind, AssertionError | pytest.fail.Exception)
        entries = [e for e in call.excinfo.traceback if "tests" in str(e.path)] or list(call.excinfo.traceback)
        place = f"{Path(entries[-1].path).name}:{entries[-1].lineno + 1}"
        line = str(entries[-1].statement).strip().split("\n")[0]
        self.failure = {
            "error": "AssertionError" if asserted else kind.__name__,
            "phase": call.when,
            "detail": f"{place}: {line}"[:200],
        }


def _run(tree: Path, guards: Sequence[str], answer: Connection) -> None:
    os.setsid()
    os.chdir(tree)
    names = [str(tree), str(tree / "names")]
    os.environ |= {"PYTHONPATH": os.pathsep.join(names), "OMP_NUM_THREADS": "1"}
    sys.path[:] = names + [place for place in sys.path if place != str(Path(__file__).parent)]
    with open(OUTPUT, "w") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    watch = _Watch()
    options = ["-q", "-x", "-p", "no:cacheprovider", "--tb=short", "--hypothesis-profile=night"]
    pytest.main([*options, *guards], plugins=[watch])
    found: dict[str, Any] = {"passed": tuple(watch.passed), **watch.failure}
    own = getattr(sys.modules.get("medsynth"), "__file__", None) or ""
    if not own.startswith(str(tree)):
        found |= {"error": "WrongSources", "phase": "setup", "detail": own or "medsynth was not imported"}
    answer.send(found)


def attempt(tree: Path, guards: Sequence[str], limit: float) -> Outcome:
    """Run guards of one file in the tree, up to the first that fails.

    What still runs after `limit` seconds is killed and counts as an error.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(PRELOADED))
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(tree, tuple(guards), there))
    begun = time.monotonic()
    process.start()
    there.close()
    found: dict[str, Any] = {"error": "Ended", "phase": "process", "detail": "the process ended without an answer"}
    try:
        if here.poll(limit):
            found = here.recv()
        else:
            found |= {"error": "Timeout", "detail": f"more than {limit:.0f} s"}
    except EOFError:
        pass
    if process.pid is not None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.join()
    return Outcome(**found, seconds=round(time.monotonic() - begun, 1))
