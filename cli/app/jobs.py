"""Run one command of `medsynth` at a time in a process of its own, and follow its progress."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

from medsynth.errors import UsageError
from medsynth.io.atomic import interrupt_writer, writer_of

from ..console import INTERRUPTED
from ..flags import IN_LINES

COMMAND = (sys.executable, "-P", "-m", "medsynth_cli")  # -P: no file of the folder is run, such as one named csv.py
MOST_KEPT = 200  # lines of messages that are kept, and shown
PATIENCE = 20.0  # seconds that a command has to end by itself
STOPPED = (INTERRUPTED, -signal.SIGINT, -signal.SIGKILL)  # exit codes of a command that was stopped


class Job:
    """A command that runs, or has ended. `step` is the screen that started it."""

    def __init__(self, step: str, words: list[str], folder: Path, as_json: bool) -> None:
        self.step = step
        self.words = words
        self.started = time.monotonic()
        self.progress: dict[str, Any] = {}
        self.messages: list[str] = []
        self.result: dict[str, Any] = {}
        self.text, self.seconds, self.stopped = "", 0.0, False
        self.code: int | None = None
        command = [*COMMAND, *words, *["--json"] * as_json]
        environment = os.environ | {IN_LINES: "lines", "NO_COLOR": "1", "COLUMNS": "100"}
        self._process = subprocess.Popen(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True,
        )  # fmt: skip
        self._readers = [threading.Thread(target=one, daemon=True) for one in (self._listen, self._read)]
        for reader in self._readers:
            reader.start()

    @property
    def running(self) -> bool:
        """Whether the command has not ended yet."""
        return self.code is None

    @property
    def failed(self) -> bool:
        """Whether the command ended with an error, and not because it was stopped."""
        return self.code not in (None, 0) and not self.stopped

    def facts(self) -> dict[str, Any]:
        """Return what the page shows while the command runs: phase, part done, seconds so far and left."""
        done, total = self.progress.get("done", 0), self.progress.get("total", 0)
        passed = time.monotonic() - self.started
        since = passed - self.progress.get("since", 0.0)
        left = since / done * (total - done) if done and total else None
        return {"running": self.running, "phase": self.progress.get("phase", ""), "done": done, "total": total,
                "seconds": round(passed), "left": None if left is None else round(left),
                "epsilon": self.progress.get("epsilon"), "releases": self.progress.get("releases", 0)}  # fmt: skip

    def stop(self, wait: bool = False) -> None:
        """Interrupt the command as Ctrl-C does, and kill it if it does not end by itself. `wait` for its end."""
        if self.running and not self.stopped:
            self.stopped = True
            self._process.send_signal(signal.SIGINT)
            threading.Thread(target=self._kill_later, daemon=True).start()
        if wait:
            for reader in self._readers:
                reader.join(2 * PATIENCE)

    def _kill_later(self) -> None:
        """Kill the command, and all processes that it started, if it is still running in a while."""
        self._readers[1].join(PATIENCE)
        with contextlib.suppress(ProcessLookupError):
            if self.running:
                os.killpg(self._process.pid, signal.SIGKILL)

    def _listen(self) -> None:
        """Sort the lines of standard error: progress, errors as JSON, and messages."""
        assert self._process.stderr
        with self._process.stderr as lines:
            for line in lines:
                content = _object(line)
                if isinstance(content.get("phase"), str):
                    first = content["phase"] != self.progress.get("phase")
                    since = time.monotonic() - self.started if first else self.progress["since"]
                    self.progress = {**content, "since": since}
                elif text := str(content.get("error", line)).rstrip():
                    self.messages = [*self.messages, text][-MOST_KEPT:]

    def _read(self) -> None:
        """Read standard output to its end. Then the command has ended."""
        assert self._process.stdout
        with self._process.stdout as output:
            self.text = output.read()
        self.result = _object(self.text)
        self._readers[0].join()
        code = self._process.wait()
        self.seconds = time.monotonic() - self.started
        self.stopped = self.stopped and code in STOPPED
        self.code = code


class Elsewhere(NamedTuple):
    """A fit that no command of this page runs, such as one of a page that was killed. Its lock shows it."""

    model: Path
    step: str = "fit"
    running: bool = True
    elsewhere: bool = True
    code: int | None = None

    def facts(self) -> dict[str, Any]:
        """Return what the page shows while the fit runs."""
        return {"running": True, "phase": "", "seconds": None}

    def stop(self, wait: bool = False) -> None:
        """Interrupt the fit as Ctrl-C does, unless its end is to be waited for: the page that stops leaves it alone."""
        if not wait:
            interrupt_writer(self.model)


def _object(text: str) -> dict[str, Any]:
    """Return a text's JSON object, or an empty one."""
    try:
        content = json.loads(text) if text.lstrip().startswith("{") else {}
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


class Jobs:
    """The command that runs now, or ran last, of each step. Only one runs at a time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._jobs = dict[str, Job]()
        self._lock = threading.Lock()
        self._model: Path | None = None

    def __getitem__(self, step: str) -> Job | Elsewhere | None:
        return job if (job := self.running) and job.step == step else self._jobs.get(step)

    @property
    def running(self) -> Job | Elsewhere | None:
        """The command that runs now, or the fit of the chosen table that another process runs."""
        elsewhere = Elsewhere(self._model) if self._model and writer_of(self._model) else None
        return next((job for job in self._jobs.values() if job.running), elsewhere)

    def start(self, step: str, words: list[str], as_json: bool = True) -> bool:
        """Start a command. Return False, and start nothing, if another one runs. Raise UsageError if none can run."""
        with self._lock:
            if self.running:
                return False
            try:
                job = Job(step, words, self._folder, as_json)
            except (OSError, ValueError) as error:  # a null character, too many words, no folder
                what = error.strerror if isinstance(error, OSError) else "a character that no command can have"
                raise UsageError(f"The command could not be started ({what}). Shorten what you typed.") from None
            self._jobs = {**self._jobs, step: job}  # not changed in place: other threads read it
            return True

    def forget(self, model: Path) -> None:
        """Forget all commands that have ended: another table, with another `model`, was chosen."""
        self._model = model
        self._jobs = {step: job for step, job in self._jobs.items() if job.running}

    def stop(self) -> None:
        """Interrupt the command that runs, and wait for its end."""
        if job := self.running:
            job.stop(wait=True)
