"""The lists of planted faults meet the sources: each fault can be planted, each guard is there, the page is theirs.

That the guards do fail is for `make faults` to show.
"""

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest
from catalogue import ROOT, load, page

FAULTS = load()


@cache
def starts(text: str) -> list[int]:
    """The line of a file at which each of its statements starts, from 0."""
    nodes = ast.parse(text).body
    return [min(part.lineno for part in (node, *getattr(node, "decorator_list", ()))) - 1 for node in nodes]


def changed(before: str, after: str) -> tuple[str, str]:
    """The statements of a file that a change touches, before and after it: syntax trees, comments and layout aside."""
    old, new = before.splitlines(), after.splitlines()
    shorter = min(len(old), len(new))
    top = next((k for k in range(shorter) if old[k] != new[k]), shorter)
    below = next((k for k in range(shorter - top) if old[-1 - k] != new[-1 - k]), shorter - top)
    first = max((line for line in starts(before) if line <= top), default=0)
    rest = len(old) - min((line for line in starts(before) if line >= len(old) - below), default=len(old))
    parts = ["\n".join(lines[first : len(lines) - rest]) for lines in (old, new)]
    return ast.dump(ast.parse(parts[0])), ast.dump(ast.parse(parts[1]))


@cache
def functions(name: str) -> frozenset[str]:
    """The test functions of a file."""
    tree = ast.parse((ROOT / name).read_text())
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name[:5] == "test_")


def test_there_are_as_many_as_were_asked_for() -> None:
    assert len(FAULTS) >= 80 and len({fault.kind for fault in FAULTS}) >= 8


def test_every_fault_can_be_planted() -> None:
    """Its text is in its file exactly once, and the list says what is at stake."""
    for fault in FAULTS:
        before = (ROOT / fault.file).read_text()
        assert fault.planted(before) != before, fault.name
        assert len(fault.why) > 20 and fault.file.split("/")[0] in ("medsynth", "cli"), fault.name


@pytest.mark.nightly
def test_a_planted_fault_is_other_python() -> None:
    for fault in FAULTS:
        before = (ROOT / fault.file).read_text()
        one, other = changed(before, fault.planted(before))
        assert one != other, fault.name


@pytest.mark.nightly
def test_every_guard_is_there(collected: dict[str, bool]) -> None:
    """Its file and function; and the very case, if the whole file was collected."""
    known = defaultdict[str, set[str]](set)
    for node in collected:
        name, _, test = node.partition("::")
        known[name].add(test.split("[")[0])
    for fault in FAULTS:
        name, _, test = fault.guard.partition("::")
        assert (ROOT / name).exists(), fault.name
        assert test.split("[")[0] in functions(name), fault.name
        if functions(name) <= known[name]:
            assert any(fault.guard in (node, node.split("[")[0]) for node in collected), fault.name


def test_the_table_lists_every_fault() -> None:
    text = page(FAULTS)
    assert all(fault.guard in text for fault in FAULTS) and text.count("\n| ") > len(FAULTS)


def test_the_lists_name_no_machine() -> None:
    """No text in them begins an absolute path, and none contains the folder of this checkout."""
    absolute = re.compile(r"(?:^|[\s\"'=(:])/(?:tmp\b|[\w.-]+/)", re.MULTILINE)
    for path in Path(__file__).parent.glob("*.toml"):
        text = path.read_text()
        assert "/tmp" not in text and f"{ROOT.parent}/" not in text and not absolute.search(text), path.name
