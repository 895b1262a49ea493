"""The planted faults, read from the lists next to this file, and the table that lists them.

A fault is one change of one file that a plausible mistake would make, and the guard that must fail for it: a test, by
its pytest node. Each list (NAME.toml) holds the faults of one class.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
LISTS = Path(__file__).parent
HEAD = """\
# Guards and the faults that they catch

Each line is a mistake that somebody could make in the code, and the test that fails once it is made. The faults are
lists in tests/faults: a file, its text, and the wrong text in its place. `make faults` puts each of them into a copy of
the sources, one at a time, runs its guard there, and ends in an error for any fault that no guard finds. A guard counts
only if it passes without the fault, and fails with it by an assertion about the property: a fault that ends in a crash
does not count as found. It runs every night. An ordinary test run checks that all lists still match the sources.
"""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A fault: in `file`, `old` (which stands there once) becomes `new`, and `guard` fails. `why`: what is at stake.

    `error` is the exception by which the guard fails, where that is no assertion.
    """

    kind: str
    name: str
    why: str
    guard: str
    file: str
    old: str
    new: str
    error: str = "AssertionError"

    def planted(self, text: str) -> str:
        """The file's text with the fault in it. Raises ValueError unless the old text stands there exactly once."""
        if (times := text.count(self.old)) != 1:
            raise ValueError(f"{self.name}: its old text stands {times} times in {self.file}")
        return text.replace(self.old, self.new)

    @property
    def digest(self) -> str:
        """A digest of the fault as listed."""
        return hashlib.sha256(json.dumps(asdict(self)).encode()).hexdigest()


def load() -> list[Fault]:
    """All faults, list by list. Raises ValueError for a name that comes twice."""
    found: list[Fault] = []
    for path in sorted(LISTS.glob("*.toml")):
        content = tomllib.loads(path.read_text())
        found += [Fault(kind=content["class"], **entry) for entry in content["fault"]]
    if twice := [name for name, times in Counter(fault.name for fault in found).items() if times > 1]:
        raise ValueError(f"two faults have one name: {', '.join(twice)}")
    return found


def page(faults: list[Fault]) -> str:
    """The page of all guards, in markdown."""
    guards = len({fault.guard for fault in faults})
    parts = [HEAD, f"{len(faults)} faults, {guards} guards.\n"]
    for kind in dict.fromkeys(fault.kind for fault in faults):
        own = [fault for fault in faults if fault.kind == kind]
        lines = [f"| {_cell(f.name)} | {_cell(f.why)} | `{_cell(f.file)}` | `{_cell(f.guard)}` |" for f in own]
        parts += [f"## {kind}\n", "| fault | why it matters | in | guard |\n|---|---|---|---|"]
        parts += ["\n".join(lines) + "\n"]
    return "\n".join(parts)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
