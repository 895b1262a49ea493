"""The lists of planted faults meet the sources: each fault can be planted, each guard is there, the page is theirs.

That the guards do fail is for `make faults` to show.
"""

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest
from catalogue import PAGE, ROOT, Fault, load, page

FAULTS = load()


@cache
def functions(name: str) -> frozenset[str]:
    """The test functions of a file."""
    tree = ast.parse((ROOT / name).read_text())
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name[:5] == "test_")


def test_there_are_as_many_as_were_asked_for() -> None:
    assert len(FAULTS) >= 80 and len({fault.kind for fault in FAULTS}) >= 8


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_can_be_planted(fault: Fault) -> None:
    """Its text stands in its file exactly once, what it makes of it is Python, and it says what is at stake."""
    before = (ROOT / fault.file).read_text()
    after = fault.planted(before)
    assert ast.dump(ast.parse(after)) != ast.dump(ast.parse(before))
    assert len(fault.why) > 20 and fault.file.split("/")[0] in ("medsynth", "cli")


def test_every_guard_runs_on_each_push(collected: dict[str, bool]) -> None:
    """Its file and function; and where the file was collected whole, the very case, which is not left to the night."""
    known = defaultdict[str, set[str]](set)
    for node in collected:
        name, _, test = node.partition("::")
        known[name].add(test.split("[")[0])
    for fault in FAULTS:
        name, _, test = fault.guard.partition("::")
        function = test.split("[")[0]
        assert (ROOT / name).exists(), fault.name
        assert function in functions(name), fault.name
        if functions(name) <= known[name]:
            cases = [node for node in collected if fault.guard in (node, node.split("[")[0])]
            assert not all(collected[node] for node in cases), fault.name


def test_the_page_is_made_from_the_lists() -> None:
    assert PAGE.read_text() == page(FAULTS), "write it anew: python tests/faults/run.py --page"


def test_the_lists_name_no_machine() -> None:
    for path in Path(__file__).parent.glob("*.toml"):
        assert "/tmp" not in path.read_text() and "/work/" not in path.read_text()
