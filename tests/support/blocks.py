"""Run the blocks of a page in a clean folder, in order, and compare what they print with what the page shows.

The language of a block states what it is:

sh       commands. They must succeed. What they print is not shown.
console  commands, each after `$ `, with what they print. A line `...` stands for any lines.
python   code, run in one module for the whole page; with a title, a file that the reader writes.
r        code, run as one script after the other blocks of the page. Without R, or a package that it uses, the page is
         skipped.
yaml     content of a file; with a title, the file is written.
text     anything else.

A comment before a block changes what happens with it. The reader of the site does not see it.

<!-- not run: REASON -->   the block is not run, such as one that installs something or takes hours
<!-- run: COMMAND -->      what the reader does by hand here, such as filling in a draft
<!-- data: PATH -->        a public file of the folder MEDSYNTH_DATA. If it is not there, the page is skipped

Printed and shown lines are compared without differences in spaces. Whole numbers must be equal; numbers with decimals
and percents may differ by a quarter, because noise is drawn anew; seconds, minutes and dates may differ in any way.

Commands whose output a page does not show are quick: reports have few trees, and networks are trained for few steps.

A FLARE server of a page listens at a free port and not at the page's, which another run on this machine may use.

    python tests/support/blocks.py PAGE FOLDER     # runs a page, and prints what fails
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
LANGUAGES = ("sh", "console", "python", "r", "yaml", "text", "data")
PART = re.compile(
    r'^<!-- (?P<what>not run|run|data): (?P<text>.+?) -->$|^```(?P<language>\w*)(?: title="(?P<title>[^"]+)")?\n'
    r"(?P<body>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
MEASUREMENT = (
    "python -m tests.benchmarks "  # these take hours; `tests/docs/test_results.py` checks their options, and runs each
)
R_PACKAGE = re.compile(r"(\w+)::|library\((\w+)\)")
VARIES = re.compile(r"\d+(?:\.\d+)? (?:s|min|seconds|minutes)\b|\d{4}-\d\d-\d\d(?:T[\d:+]+)?")
NUMBER = re.compile(r"(?<![\w.])-?\d+(?:[.]\d+)?(?:e[-+]?\d+)?(?![\w])")
PERCENT = re.compile(r"(?<![\w.])(\d+)(?= ?%)")
NEAR = 0.25  # relative difference of two numbers with decimals that still match
PORT = re.compile(r"(?<=fed_learn_port: )\d+")
QUICK = os.pathsep.join(str(Path(__file__).parent / name) for name in ("of_pages", ""))
SHARED_FACTS = {"COLUMNS": "120", "NO_COLOR": "1", "TERM": "dumb", "OMP_NUM_THREADS": "1"}
MARK = "end-of-command"
MODULE = f"""
import json, sys
sys.path.insert(0, "")
names = {{"__name__": "page"}}
for line in sys.stdin:
    exec(compile(json.loads(line), "page", "exec"), names)
    print("{MARK}", flush=True)
"""


@dataclass(frozen=True)
class Block:
    """A block of a page. `why_not`: the reason if it is not run. `line`: where it begins."""

    language: str
    body: str
    line: int
    title: str | None = None
    why_not: str | None = None


def blocks(text: str) -> Iterator[Block]:
    """Yield the blocks of a page. A `run` comment is a block of commands, a `data` comment names a file."""
    reason = None
    for found in PART.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        if found["what"] == "not run":
            reason = found["text"]
        elif found["what"] == "run":
            yield Block("sh", found["text"], line)
        elif found["what"] == "data":
            yield Block("data", found["text"], line)
        else:
            yield Block(found["language"], found["body"], line, found["title"], reason)
            reason = None


class Differs(Exception):
    """A block failed, or printed something else than its page shows."""


class Lacks(Exception):
    """A page needs a public file, or R, and this machine does not have it."""


class Reader:
    """Somebody who follows a page in an empty folder. All processes that were started end with it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._module: subprocess.Popen[str] | None = None
        self._groups: list[int] = []
        tools = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self._environment = {**os.environ, **SHARED_FACTS, "PATH": tools, "HOME": str(folder)}

    def follow(self, text: str) -> None:
        """Run the blocks of a page. Raise Differs at the first one that fails, Lacks without what the page needs."""
        try:
            run = [block for block in blocks(text) if block.why_not is None]
            for block in run:
                self._run(block)
            if of_r := [block for block in run if block.language == "r"]:
                self._script_of_r(of_r)
        finally:
            for group in self._groups:
                try:
                    os.killpg(group, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            if self._module is not None:
                self._module.communicate()

    def _run(self, block: Block) -> None:
        if block.language == "yaml":
            yaml.safe_load(block.body)
        if block.title:
            (self.folder / block.title).write_text(PORT.sub(lambda _: str(free_port()), block.body))
        elif block.language == "data":
            self._data(block)
        elif block.language == "python":
            self._python(block)
        elif block.language == "sh":
            self._script(block, block.body)
        elif block.language == "console":
            self._console(block)

    def _data(self, block: Block) -> None:
        """Put a public file into the folder."""
        public = self._environment.get("MEDSYNTH_DATA") or ROOT.parent / "shared" / "data"  # as for benchmarks
        source = Path(public, block.body)
        if not source.is_file():
            raise Lacks(f"It needs {block.body} in the folder of public files: set MEDSYNTH_DATA.")
        (self.folder / source.name).symlink_to(source.resolve())

    def _python(self, block: Block) -> None:
        """Run a block in the page's module, which one process keeps."""
        if self._module is None:
            self._module = subprocess.Popen(
                [sys.executable, "-c", MODULE], cwd=self.folder, env=self._environment, stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
            )  # fmt: skip
            self._groups.append(self._module.pid)
        assert self._module.stdin and self._module.stdout
        self._module.stdin.write(json.dumps(block.body) + "\n")
        self._module.stdin.flush()
        lines = [self._module.stdout.readline()]
        while lines[-1] not in ("", f"{MARK}\n"):
            lines.append(self._module.stdout.readline())
        if lines[-1:] != [f"{MARK}\n"]:
            code, printed = self._module.wait(), "".join(lines)
            raise Differs(f"line {block.line}: exit code {code}\n{block.body}\nprinted:\n{printed}")

    def _script_of_r(self, parts: list[Block]) -> None:
        """Run all blocks in R as one script."""
        script = "\n".join(f'#line {part.line + 1} "page"\n{part.body}' for part in parts)
        packages = sorted({one or other for one, other in R_PACKAGE.findall(script)})
        if shutil.which("Rscript") is None:
            raise Lacks("It needs R: install r-base-core.")
        words = ["Rscript", "-e", "cat(setdiff(commandArgs(TRUE), rownames(installed.packages())))", *packages]
        if missing := subprocess.run(words, capture_output=True, text=True, check=True).stdout:
            raise Lacks(f"It needs packages of R: {missing}.")
        path = self.folder.parent / f"{self.folder.name}.R"
        path.write_text(script)
        self._script(parts[0], f"Rscript --vanilla '{path}'")

    def _console(self, block: Block) -> None:
        """Run commands, and compare what each prints with the lines below it."""
        shown = list[tuple[str, list[str]]]()
        for line in block.body.splitlines():
            if line.startswith("$ "):
                shown.append((line[2:], []))
            else:
                shown[-1][1].append(line)
        script = "\n".join(f"{command}\necho {MARK}" for command, _ in shown)
        printed = self._script(block, script).split(f"{MARK}\n")
        for (command, lines), output in zip(shown, printed, strict=False):
            if lines and (lost := first_difference(lines, output.splitlines())) is not None:
                raise Differs(f"line {block.line}: {command}\nshown and not printed there: {lost}\nprinted:\n{output}")

    def _script(self, block: Block, script: str) -> str:
        """Return what a script prints. It ends at the first command that fails. Background processes go on."""
        path = self.folder.parent / f"{self.folder.name}.printed"
        shows = block.language != "sh" and any(not line.startswith("$ ") for line in block.body.splitlines())
        environment = self._environment if shows else {**self._environment, "PYTHONPATH": QUICK}
        with path.open("w+") as file:
            process = subprocess.Popen(
                ["bash", "-e", "-o", "pipefail", "-c", script], cwd=self.folder, env=environment, stdout=file,
                stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
            self._groups.append(process.pid)
            code = process.wait()
        printed = path.read_text()
        if code:
            raise Differs(f"line {block.line}: exit code {code}\n{block.body}\nprinted:\n{printed}")
        return printed


def free_port() -> int:
    """Return a port of this machine at which nobody listens."""
    with socket.socket() as one:
        one.bind(("localhost", 0))
        return int(one.getsockname()[1])


def first_difference(shown: list[str], printed: list[str]) -> str | None:
    """Return the first shown line that is not printed in its place, or None.

    >>> first_difference(["a  0.5", "...", "took 3 s"], ["a 0.55", "b", "c", "took 20 s"])
    >>> first_difference(["a 7"], ["a 8"])
    'a 7'
    >>> first_difference(["a"], ["a", "b"])
    'the end'
    """
    place, skips = 0, False
    for line in shown:
        if line.strip() == "...":
            skips = True
            continue
        while place < len(printed) and skips and not _alike(line, printed[place]):
            place += 1
        if place == len(printed) or not _alike(line, printed[place]):
            return line
        place, skips = place + 1, False
    rest = [line for line in printed[place:] if line.strip()]
    return "the end" if rest and not skips else None


def _alike(shown: str, printed: str) -> bool:
    """Return whether a printed line is what the page shows, as this module's docstring defines it."""
    one, other = (PERCENT.sub(r"\1.0", VARIES.sub("#", " ".join(line.split()))) for line in (shown, printed))
    if NUMBER.sub("#", one) != NUMBER.sub("#", other):
        return False
    return all(map(_near, NUMBER.findall(one), NUMBER.findall(other)))


def _near(one: str, other: str) -> bool:
    if "." not in one:
        return one == other
    return abs(float(one) - float(other)) <= NEAR * abs(float(one))


if __name__ == "__main__":
    where = Path(sys.argv[2])
    where.mkdir(parents=True, exist_ok=True)
    try:
        Reader(where.resolve()).follow(Path(sys.argv[1]).read_text())
    except (Differs, Lacks) as failure:
        sys.exit(f"{sys.argv[1]}, {failure}")
