"""The architecture: which room imports which, lengths of functions, packages, public names, installs."""

import ast
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import medsynth

ROOT = Path(__file__).parent.parent
# Ground up. A module may import modules of lower floors, and siblings in its own folder.
FLOORS = [
    ["arrays"],
    ["cores", "errors", "rng", "row_count", "similarity"],
    ["io", "combining"],
    ["schema"],
    ["dictionaries", "privacy"],
    ["methods"],
    ["mixture"],
    ["patients"],
    ["artifact"],
    ["budget"],
    ["sampling"],
    ["fitting", "answers"],
    ["synthesizer", "report", "audit", "federated"],
    ["sidecars"],
]
FLOOR = {room: level for level, rooms in enumerate(FLOORS) for room in rooms}
SOURCES = sorted((ROOT / "medsynth").rglob("*.py"))
COMMANDS = sorted((ROOT / "cli").rglob("*.py"))
LATE = {"torch", "opacus", "dp_accounting"}
ACCELERATOR = ("cuda-", "nvidia-", "triton")  # what a build of torch for a graphics card needs: it pins them itself


def relative(path: Path) -> str:
    """A file's name in the project, wherever the checkout stands."""
    return path.relative_to(ROOT).as_posix()


Name = tuple[str, ...]


def below(path: Path) -> Name:
    """A module's name below medsynth: ("io", "table"); a package's for its `__init__.py`: ("io",)."""
    parts = path.relative_to(ROOT / "medsynth").with_suffix("").parts
    return parts[:-1] if parts[-1] == "__init__" else parts


MODULES = {below(path): path for path in SOURCES}


FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef


def below_it(node: ast.AST, late: bool = False) -> Iterator[tuple[ast.AST, bool]]:
    """The statements below a node, and whether each is in a function. Expressions, most of a file, are left out."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            yield child, late
            yield from below_it(child, late or isinstance(child, FUNCTIONS))


@cache
def statements(path: Path) -> list[tuple[ast.AST, bool]]:
    """The statements of a file, and whether each is in a function."""
    return [*below_it(ast.parse(path.read_text()))]


def imports(path: Path, root: Path = ROOT) -> Iterator[tuple[Name, bool]]:
    """What a file of medsynth imports, and whether as it is imported itself; names of other packages begin with "".

    Imports under TYPE_CHECKING count as any others. A name imported from a package is a module's where there is one.
    """
    package = path.relative_to(root).parent.parts
    for node, late in statements(path):
        if isinstance(node, ast.Import):
            names = [tuple(alias.name.split(".")) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else ()
            base += tuple(node.module.split(".")) if node.module else ()
            names = [(*base, alias.name) if (*base[1:], alias.name) in MODULES else base for alias in node.names]
        else:
            continue
        yield from ((name[1:] if name[0] == "medsynth" else ("", *name), not late) for name in names)


SAMPLE = """
from typing import TYPE_CHECKING
from . import document
from ..rng import Stream
from ..io import table
from medsynth.errors import UsageError
if TYPE_CHECKING:
    import torch
    from .data.context import Context

def late():
    import scipy.stats
"""


def test_imports_are_all_found(tmp_path: Path) -> None:
    """Relative and absolute ones, of modules and of names in them, late ones and those for types alone."""
    path = tmp_path / "medsynth" / "report" / "build.py"
    path.parent.mkdir(parents=True)
    path.write_text(SAMPLE)
    assert set(imports(path, tmp_path)) == {
        (("", "typing"), True), (("rng",), True), (("io", "table"), True), (("errors",), True), (("", "torch"), True),
        (("report", "data", "context"), True), (("report", "document"), True), (("", "scipy", "stats"), False),
    }  # fmt: skip


def test_imports_point_down() -> None:
    for path in SOURCES:
        room = (below(path) or ("",))[0]
        if not room:  # medsynth/__init__.py is above all floors, and only the version is imported from it
            continue
        assert room in FLOOR, f"{path}: {room} has no floor"
        for name, _ in imports(path):
            assert name[:2] not in [("", "medsynth_cli"), ("", "cli")], f"{path}: the library imports its command line"
            if name and name[0] not in ("", room):
                assert FLOOR[name[0]] < FLOOR[room], (path, name)


ROOF = ("artifact",)  # its model's verbs (sample, replicates, report) call the package itself, which knows all of them
MOST_LINES_OF_PAGE = 1_814
MOST_LATE, MOST_LATE_OF_COMMANDS = 31, 132  # what there is: a new one must save start-up time, as PyTorch in fits


def everything() -> dict[Name, set[tuple[Name, bool]]]:
    """What each module of the library and of the command line imports of these, and whether at once."""
    found: dict[Name, set[tuple[Name, bool]]] = {
        name: {(other, at_once) for other, at_once in imports(path) if other in MODULES and (other or name != ROOF)}
        for name, path in MODULES.items() if name
    }  # fmt: skip
    for path in COMMANDS:
        own = path.relative_to(ROOT).with_suffix("").parts
        found[own] = set()
        for node, _ in statements(path):
            if isinstance(node, ast.ImportFrom) and node.level:
                base = (*own[: -node.level], *(node.module or "").split("."))
                names = [tuple(filter(None, name)) for name in [base, *((*base, alias.name) for alias in node.names)]]
                found[own] |= {(name, True) for name in names if (ROOT / Path(*name)).with_suffix(".py").exists()}
    return found


def test_no_circles() -> None:
    """None, late imports and those for types alone included, in the library and in the command line."""
    graph = {name: {other for other, _ in of if other} for name, of in everything().items()}
    done: set[Name] = set()

    def visit(name: Name, trail: tuple[Name, ...]) -> None:
        assert name not in trail, f"a circle: {trail}"
        if name not in done:
            for other in graph[name]:
                visit(other, (*trail, name))
            done.add(name)

    for name in graph:
        visit(name, ())


def test_the_page_is_above_the_commands_it_runs() -> None:
    """It starts them as processes, and imports only what they share, and its translations. Only `main` imports it."""
    graph = {name: {other for other, _ in of if other[:1] == ("cli",)} for name, of in everything().items()}
    page = {name for name in graph if name[:2] == ("cli", "app")}
    assert {other for name in page for other in graph[name]} - page == {
        ("cli", "console"),
        ("cli", "flags"),
        ("cli", "looking"),
        ("cli", "options"),
        ("cli", "spoken"),
    }
    assert [name for name in graph if name not in page and graph[name] & page] == [("cli", "main")]


def test_the_page_is_small() -> None:
    lines = {relative(path): path.read_text().count("\n") for path in COMMANDS if path.parent.name == "app"}
    assert sum(lines.values()) <= MOST_LINES_OF_PAGE, lines


def test_late_imports_are_few() -> None:
    """In functions: of modules of our own. A command imports what it needs when it runs, so that help comes at once."""
    late = [(path, name) for path in SOURCES for name, at_once in imports(path) if not at_once and name[:1] != ("",)]
    of_commands = [
        node
        for path in COMMANDS
        for node, is_late in statements(path)
        if is_late and isinstance(node, ast.ImportFrom) and (node.module or "").startswith("medsynth.")
    ]
    assert len(late) <= MOST_LATE, (len(late), late)
    assert len(of_commands) <= MOST_LATE_OF_COMMANDS, len(of_commands)


@pytest.mark.parametrize("name", ["events", "ledger", "accountant", "calibration"])
def test_accounting_imports_no_torch(name: str) -> None:
    path = ROOT / "medsynth" / "privacy" / "accounting" / f"{name}.py"
    assert not {name[1] for name, at_once in imports(path) if at_once and name[:1] == ("",)} & LATE


def test_four_modules_read_tables() -> None:
    readers = {
        relative(path) for path in SOURCES + COMMANDS if any(name == ("io", "reader") for name, _ in imports(path))
    }
    assert readers == {
        "medsynth/fitting/private_table.py", "medsynth/fitting/cluster.py", "medsynth/report/data/tables.py",
        "medsynth/io/split.py",
    }  # fmt: skip


def test_functions_are_short() -> None:
    long: dict[str, int] = {}
    for path in SOURCES + COMMANDS:
        nodes = [node for node, _ in statements(path) if isinstance(node, FUNCTIONS)]
        lengths = {f"{relative(path)}:{node.name}": (node.end_lineno or 0) - node.lineno + 1 for node in nodes}
        long |= {name: length for name, length in lengths.items() if length > 60}
    assert not long


def test_a_class_name_means_one_thing() -> None:
    """But for `Config`, which each method has."""
    found = [
        (node.name, relative(path))
        for path in SOURCES + COMMANDS
        for node, _ in statements(path)
        if isinstance(node, ast.ClassDef) and not node.name.endswith("Config")
    ]
    counts = Counter(name for name, _ in found)
    assert not [both for both in found if counts[both[0]] > 1]


def test_no_line_is_left_out_of_coverage() -> None:
    """But for imports for types alone and bodies of `...`, by configuration; "pragma: no cover" has no effect."""
    report = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["coverage"]["report"]
    assert report["exclude_lines"] == ["if TYPE_CHECKING:", r"^\s*\.\.\.$"] and "exclude_also" not in report
    assert not [relative(path) for path in SOURCES + COMMANDS if "no cover" in path.read_text()]


TOP = {
    "cli", "docs", "medsynth", "sample_data", "schemas", "tests", ".github", ".gitignore", ".pre-commit-config.yaml",
    "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "LICENSE", "Makefile", "README.md", "constraints.txt",
    "mkdocs.yml", "pyproject.toml",
}  # fmt: skip


def test_no_stray_file_at_the_top() -> None:
    """What git tracks there is on this list. `.ci` belongs to the machinery that runs the tests."""
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("a copy of the sources without git")
    assert {name.partition("/")[0] for name in done.stdout.split("\0") if name} <= TOP | {".ci"}


def test_actions_are_pinned_to_major_versions() -> None:
    text = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    assert all(re.fullmatch(r"\S+@v\d+", action) for action in re.findall(r"uses: *(.*)", text))
    assert "secrets" not in text and "://" not in text


def test_the_pre_commit_configuration_is_valid() -> None:
    words = [sys.executable, "-m", "pre_commit", "validate-config", str(ROOT / ".pre-commit-config.yaml")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_package_is_on_the_list() -> None:
    setup = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    renamed = {folder: package for package, folder in setup["package-dir"].items()}
    found = {path.relative_to(ROOT).parent for path in ROOT.glob("[!.]*/**/__init__.py")}
    found = {
        path
        for path in found
        if path.parts[0] not in ("tests", "build") and not (ROOT / path.parts[0] / "pyvenv.cfg").exists()
    }
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
    for name in ("README.md", "CONTRIBUTING.md", "Makefile", ".github/workflows/ci.yml"):
        for line in (ROOT / name).read_text().splitlines():
            if re.search(r"pip\"? install", line):
                assert "-c constraints.txt" in line, f"{name}: {line}"


def canonical(name: str) -> str:
    """A distribution's name as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def test_the_constraints_pin_everything_declared() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = [canonical(line.split("==")[0]) for line in lines if not line.startswith("#")]
    assert all("==" in line for line in lines if not line.startswith("#")) and len(pins) == len(set(pins))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = project["dependencies"] + [x for extra in project["optional-dependencies"].values() for x in extra]
    assert {canonical(re.split(r"[\[<>=]", need)[0]) for need in wanted} <= set(pins)


def test_the_constraints_pin_everything_installed() -> None:
    """Whatever the declared packages need in turn has a pin as well, extras and markers of this machine counted."""
    pins = {canonical(line.split("==")[0]) for line in (ROOT / "constraints.txt").read_text().splitlines()}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [x for extra in project["optional-dependencies"].values() for x in extra]
    waiting = [Requirement(need) for need in project["dependencies"] + extras]
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        need = waiting.pop()
        job = canonical(need.name), frozenset(need.extras)
        if job in seen:
            continue
        seen.add(job)
        try:
            inner = metadata.requires(need.name) or []
        except metadata.PackageNotFoundError:  # of an extra that is not installed here
            continue
        for each in map(Requirement, inner):
            if each.marker is None or any(each.marker.evaluate({"extra": e}) for e in ("", *need.extras)):
                waiting.append(each)
    lacking = {name for name, _ in seen} - pins
    assert not {name for name in lacking if not name.startswith(ACCELERATOR)}
