"""Plant each fault of the lists, one at a time, and see that its guard fails; first that the guard passes without it.

    python tests/faults/run.py --processes 2
    python tests/faults/run.py --only "no noise on distances"
    python tests/faults/run.py --page

The sources are copied to a temporary folder, a copy for each process; the checkout is not touched. What was found is
kept in results/faults.jsonl, so that a run that was stopped goes on; it counts only while sources, guard and fault are
the same. Prints a line a fault, and ends with an error if one survived.
"""

from __future__ import annotations

import argparse
import compileall
import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from py_compile import PycInvalidationMode
from queue import Queue

from catalogue import ROOT, Fault, load, page
from trial import RENAMED, Outcome, attempt

RESULTS = ROOT / "results" / "faults.jsonl"
WATCHED = (
    "medsynth",
    "cli",
    "schemas",
    "sample_data",
    "pyproject.toml",
)  # what a result depends on, and its guard's file


@dataclass(frozen=True, kw_only=True)
class Trial:
    """Guards of one file: one with a fault planted, or all without, to see that they pass."""

    guards: tuple[str, ...]
    fault: Fault | None = None

    @property
    def name(self) -> str:
        """What the line says."""
        return self.fault.name if self.fault else f"without a fault ({len(self.guards)})"

    @property
    def file(self) -> str:
        """The guards' file."""
        return self.guards[0].split("::")[0]

    @property
    def guard(self) -> str:
        """What is run, in words."""
        return self.guards[0] if self.fault else self.file

    @property
    def digest(self) -> str:
        """What identifies it among results: fault, guard, and the guard's file as it is now."""
        own = self.fault.digest if self.fault else ""
        return hashlib.sha256("\0".join([own, *self.guards, (ROOT / self.file).read_text()]).encode()).hexdigest()

    def met(self, outcome: Outcome) -> bool:
        """Whether it went as it must: a guard holds without a fault, and fails with it for the right reason."""
        if self.fault is None:
            return outcome.holds(self.guards)
        return outcome.phase == "call" and outcome.error == self.fault.error

    @property
    def order(self) -> tuple[str, bool]:
        """Without a fault first, file by file."""
        return self.file, self.fault is not None


def sources() -> list[Path]:
    """The checkout's files that git knows or would add, as relative paths."""
    words = ["git", "ls-files", "-co", "--exclude-standard", "-z"]
    names = subprocess.run(words, cwd=ROOT, capture_output=True, check=True, text=True).stdout.split("\0")
    return [Path(name) for name in names if name and (ROOT / name).is_file()]


def digest_of(files: list[Path]) -> str:
    """A digest of the sources that every result depends on."""
    total = hashlib.sha256()
    for name in sorted(files):
        if name.parts[0] in WATCHED or name.name in ("conftest.py", "held.py"):
            total.update(str(name).encode() + b"\0" + (ROOT / name).read_bytes())
    return total.hexdigest()


def copied(files: list[Path], tree: Path) -> Path:
    """A copy of the checkout in `tree`, with the packages under the names that they are installed by."""
    for name in files:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, tree / name)
    (tree / "names").mkdir()
    for installed, folder in RENAMED.items():
        (tree / "names" / installed).symlink_to(tree / folder)
    for folder in ("medsynth", *RENAMED.values()):  # by content: a file with a fault in it may be as old and as long
        compileall.compile_dir(tree / folder, quiet=2, invalidation_mode=PycInvalidationMode.CHECKED_HASH)
    return tree


@contextmanager
def planted(tree: Path, fault: Fault | None) -> Iterator[None]:
    """The tree with the fault in it, for a while."""
    if fault is None:
        yield
        return
    path = tree / fault.file
    before = path.read_text()
    path.write_text(fault.planted(before))
    try:
        yield
    finally:
        path.write_text(before)


def run(trials: list[Trial], files: list[Path], processes: int, limit: float, done: Callable[..., None]) -> None:
    """Run the trials in so many processes, each in its own copy; `done` gets each with its outcome."""
    with tempfile.TemporaryDirectory() as folder:
        trees: Queue[Path] = Queue()
        for k in range(processes):
            trees.put(copied(files, Path(folder).resolve() / str(k)))

        def one(trial: Trial) -> None:
            tree = trees.get()
            try:
                with planted(tree, trial.fault):
                    done(trial, attempt(tree, trial.guards, limit))
            finally:
                trees.put(tree)

        with ThreadPoolExecutor(processes) as pool:
            list(pool.map(one, trials))


def known(path: Path, state: str) -> set[str]:
    """The digests of trials that went as they must, with these sources."""
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return {line["digest"] for line in lines if line["state"] == state and line["met"]}


def wanted(only: list[str]) -> list[Trial]:
    """The trials of all faults, or of those named, and of their guards without a fault."""
    faults = load()
    if unknown := set(only) - {fault.name for fault in faults}:
        raise SystemExit(f"There is no fault {', '.join(sorted(unknown))}.")
    chosen = [fault for fault in faults if not only or fault.name in only]
    files: dict[str, dict[str, None]] = {}
    for fault in chosen:
        files.setdefault(fault.guard.split("::")[0], {})[fault.guard] = None
    plain = [Trial(guards=tuple(guards)) for guards in files.values()]
    return sorted([*plain, *(Trial(guards=(f.guard,), fault=f) for f in chosen)], key=lambda trial: trial.order)


def arguments() -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="a fault; may be given again")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds that a guard may take")
    parser.add_argument("--fresh", action="store_true", help="run what earlier runs have found as well")
    parser.add_argument("--page", action="store_true", help="print a table of all faults and guards, and run none")
    return parser.parse_args()


def main() -> None:
    """Run all trials that are still to be run, and say what survived."""
    given = arguments()
    if given.page:
        print(page(load()))
        return
    files = sources()
    state, trials, wrong = digest_of(files), wanted(given.only), list[str]()
    RESULTS.parent.mkdir(exist_ok=True)
    past = set() if given.fresh or given.only else known(RESULTS, state)
    left = [trial for trial in trials if trial.digest not in past]
    faults = sum(trial.fault is not None for trial in trials)
    print(f"{faults} faults, guards in {len(trials) - faults} files; known from before: {len(trials) - len(left)}")

    def done(trial: Trial, outcome: Outcome) -> None:
        met = trial.met(outcome)
        words = {(True, True): "caught", (True, False): "SURVIVED", (False, True): "pass", (False, False): "BROKEN"}
        word = words[trial.fault is not None, met]
        because = outcome.detail if outcome.error in ("", "AssertionError") else f"{outcome.error}: {outcome.detail}"
        print(f"{word:<8} {outcome.seconds:>6.1f} s  {trial.name:<58} {trial.guard}  [{because}]", flush=True)
        line = {"digest": trial.digest, "state": state, "met": met, "name": trial.name, "guard": trial.guard,
                "seconds": outcome.seconds, "because": because}  # fmt: skip
        with RESULTS.open("a") as file:
            file.write(json.dumps(line) + "\n")
        if not met:
            wrong.append(trial.name if trial.fault else trial.guard)

    run(left, files, given.processes, given.limit, done)
    caught = faults - sum(name in {t.name for t in trials if t.fault} for name in wrong)
    print(f"{caught} of {faults} faults are caught." + (f" Not: {'; '.join(wrong)}." if wrong else ""))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
