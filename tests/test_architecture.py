"""The architecture: which room imports which, lengths of files and functions, packages, public names, installs."""

import ast
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import medsynth

ROOT = Path(__file__).parent.parent
# Ground up. A module may import modules of lower floors, and siblings in its own folder.
FLOORS = [
    ["errors", "rng"],
    ["io"],
    ["transforms"],
    ["schema"],
    ["privacy"],
    ["methods"],
    ["artifact"],
    ["budget"],
    ["sampling"],
    ["fitting"],
    ["report"],
]
FLOOR = {room: level for level, rooms in enumerate(FLOORS) for room in rooms}
SOURCES = sorted((ROOT / "medsynth").rglob("*.py"))
COMMANDS = sorted((ROOT / "cli").glob("*.py"))
LATE = {"torch", "opacus", "dp_accounting"}


def imports(path: Any) -> Iterator[Any]:
    """(module parts below medsynth, whether at module level) of every import in a file."""
    package = path.relative_to(ROOT).with_suffix("").parts[1:]
    tree = ast.parse(path.read_text())
    top = set(map(id, tree.body))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) - node.level]
            parts = base + tuple((node.module or "").split(".") if node.module else ())
            names = [parts] if node.module else [(*base, alias.name) for alias in node.names]
            yield from ((name, id(node) in top) for name in names)
        elif isinstance(node, ast.Import):
            yield from ((("", alias.name.split(".")[0]), id(node) in top) for alias in node.names)


def modules() -> Any:
    return [path for path in SOURCES if path.name != "__init__.py"]


@pytest.mark.parametrize("path", modules(), ids=str)
def test_imports_point_down(path: Any) -> None:
    room = path.relative_to(ROOT / "medsynth").with_suffix("").parts[0]
    assert room in FLOOR, f"{room} stands on no floor"
    for parts, _ in imports(path):
        if parts[0] and parts[0] != room and parts[0] != "__version__":
            assert FLOOR[parts[0]] < FLOOR[room], (path, parts)


def test_no_circles() -> None:
    names = {path.relative_to(ROOT / "medsynth").with_suffix("").parts: path for path in modules()}
    graph = {name: {p for p, top in imports(path) if top and p in names} for name, path in names.items()}

    def visit(name: Any, trail: Any) -> None:
        assert name not in trail, f"a circle: {trail}"
        for other in graph[name]:
            visit(other, (*trail, name))

    for name in graph:
        visit(name, ())


@pytest.mark.parametrize("name", ["events", "ledger", "accountant", "calibration"])
def test_accounting_imports_no_torch(name: str) -> None:
    path = ROOT / "medsynth" / "privacy" / "accounting" / f"{name}.py"
    assert not {parts[1] for parts, top in imports(path) if top and not parts[0]} & LATE


def test_two_modules_read_tables() -> None:
    readers = {
        path.name
        for path in SOURCES + COMMANDS
        if "io_table.read(" in path.read_text() or "io.table import read" in path.read_text()
    }
    assert readers == {"private_table.py", "tables.py"}


@pytest.mark.parametrize("path", SOURCES + COMMANDS, ids=str)
def test_files_are_short(path: Any) -> None:
    lines = len(path.read_text().splitlines())
    assert lines <= (200 if "methods" in path.parts else 300)


@pytest.mark.parametrize("path", SOURCES + COMMANDS, ids=str)
def test_functions_are_short(path: Any) -> None:
    nodes = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.FunctionDef)]
    lengths = {n.name: (n.end_lineno or n.lineno) - n.lineno + 1 for n in nodes}
    assert not {name: length for name, length in lengths.items() if length > 60}


def test_folders_are_small() -> None:
    count = Counter(path.parent.relative_to(ROOT) for path in SOURCES + COMMANDS if path.stem[:2] != "__")
    assert not {folder: files for folder, files in count.items() if files > 12}


def test_the_pre_commit_configuration_is_valid() -> None:
    words = [sys.executable, "-m", "pre_commit", "validate-config", str(ROOT / ".pre-commit-config.yaml")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_package_is_on_the_list() -> None:
    setup = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    renamed = {folder: package for package, folder in setup["package-dir"].items()}
    found = {p.parent.relative_to(ROOT) for p in ROOT.glob("*/**/__init__.py") if p.parts[len(ROOT.parts)][0] != "."}
    found = {p for p in found if p.parts[0] not in ("tests", "build")}
    names = {".".join((renamed.get(p.parts[0], p.parts[0]), *p.parts[1:])) for p in found}
    assert names == set(setup["packages"])


def test_public_names_exist() -> None:
    for name in medsynth.__all__:
        assert getattr(medsynth, name)
    with pytest.raises(AttributeError):
        _ = medsynth.nothing
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == medsynth.__version__


def test_installs_are_constrained() -> None:
    for name in ("README.md", "Makefile", ".github/workflows/ci.yml"):
        for line in (ROOT / name).read_text().splitlines():
            if re.search(r"pip\"? install", line) and "torch==" not in line:
                assert "-c constraints.txt" in line, line


def test_the_constraints_pin_everything_declared() -> None:
    lines = (ROOT / "constraints.txt").read_text().replace("_", "-").splitlines()
    pins = {line.split("==")[0].lower() for line in lines if "==" in line}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = project["dependencies"] + [x for extra in project["optional-dependencies"].values() for x in extra]
    for need in wanted:
        assert re.split(r"[\[<>=]", need)[0].lower() in pins, need
