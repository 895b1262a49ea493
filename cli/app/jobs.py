"""Run one command of `medsynth` at a time in a process of its own, and follow its progress."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from ..console import IN_LINES, INTERRUPTED

MOST_KEPT = 200  # lines of messages that are kept, and shown
PATIENCE = 20.0  # seconds that a command has to end by itself


class Job:
    """A command that runs, or has ended. `step` is the screen that started it."""

    def __init__(self, step: str, words: list[str], folder: Path, as_json: bool) -> None:
        self.step, self.words, self.started = step, words, time.monotonic()
        self.progress: dict[str, Any] = {}
        self.messages: list[str] = []
        self.result: dict[str, Any] = {}
        self.text, self.seconds, self.stopped = "", 0.0, False
        self.code: int | None = None
        command = [sys.executable, "-P", "-m", "medsynth_cli", *words, *["--json"] * as_json]
        environment = os.environ | {IN_LINES: "lines", "NO_COLOR": "1", "COLUMNS": "100"}
        self._process = subprocess.Popen(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True,
        )  # fmt: skip
        self._readers = [threading.Thread(target=self._listen), threading.Thread(target=self._read)]
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
        """Interrupt the command as Ctrl-C does. With `wait`, kill it if it does not end by itself."""
        if self.running:
            self.stopped = True
            self._process.send_signal(signal.SIGINT)
        if wait:
            try:
                self._process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self._process.kill()
            for reader in self._readers:
                reader.join(PATIENCE)

    def _listen(self) -> None:
        """Sort the lines of standard error: progress, errors as JSON, and messages."""
        assert self._process.stderr
        for line in self._process.stderr:
            content = _object(line)
            if "phase" in content:
                first = content["phase"] != self.progress.get("phase")
                since = time.monotonic() - self.started if first else self.progress["since"]
                self.progress = {**content, "since": since}
            elif text := str(content.get("error", line)).removeprefix("Error: ").rstrip():
                self.messages = [*self.messages, text][-MOST_KEPT:]

    def _read(self) -> None:
        """Read standard output to its end. Then the command has ended."""
        assert self._process.stdout
        self.text = self._process.stdout.read()
        self.result = _object(self.text)
        self._readers[0].join()
        code, self.seconds = self._process.wait(), time.monotonic() - self.started
        self.stopped = self.stopped and code == INTERRUPTED
        self.code = code


def _object(text: str) -> dict[str, Any]:
    """Return a text's JSON object, or an empty one."""
    try:
        content = json.loads(text) if text.lstrip().startswith("{") else {}
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}


class Jobs:
    """The command that runs now, or ran last, of each step. Only one runs at a time."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._jobs, self._lock = folder, dict[str, Job](), threading.Lock()

    def __getitem__(self, step: str) -> Job | None:
        return self._jobs.get(step)

    @property
    def running(self) -> Job | None:
        """The command that runs now."""
        return next((job for job in self._jobs.values() if job.running), None)

    def start(self, step: str, words: list[str], as_json: bool = True) -> bool:
        """Start a command. Return False, and start nothing, if another one runs."""
        with self._lock:
            if self.running:
                return False
            self._jobs[step] = Job(step, words, self._folder, as_json)
            return True

    def forget(self) -> None:
        """Forget all commands that have ended: another table was chosen."""
        self._jobs = {step: job for step, job in self._jobs.items() if job.running}

    def stop(self) -> None:
        """Interrupt the command that runs, and wait for its end."""
        if job := self.running:
            job.stop(wait=True)
