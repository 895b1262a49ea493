"""The page on the architecture agrees with the code: floors, files that are named, functions that are named in them."""

import ast
import importlib.util
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGE = (DOCS / "architecture.md").read_text()
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
PATH = re.compile(r"(?<![\w/.-])(?:\w+/)+(?:\w+\.py|(?=`))(?!\w)")
STEP = re.compile(r"`([\w/.]+)`(?: \(((?:`\w+`(?:, )?)+)\))?")
MOST_FILES = 4


def section(title: str) -> str:
    """The text under a heading."""
    return PAGE.split(f"## {title}", 1)[1].split("\n## ", 1)[0]


def rows(text: str) -> list[list[str]]:
    """The cells of a table's rows, without the two lines of its head."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def defined(path: Path) -> set[str]:
    """The functions, methods and classes of a file."""
    kinds = (ast.FunctionDef, ast.ClassDef)
    return {node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, kinds)}


def exists(name: str) -> bool:
    """Whether a file or folder is there, seen from the root or from inside medsynth/."""
    return any((folder / name).exists() for folder in (ROOT, ROOT / "medsynth"))


def test_the_floors_are_those_that_the_imports_are_checked_by() -> None:
    found = importlib.util.spec_from_file_location("architecture", ROOT / "tests" / "test_architecture.py")
    assert found and found.loader
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    shown = [re.findall(r"`([\w/]+)`", row[1]) for row in rows(section("Rooms and floors"))]
    named = [[name.rstrip("/") for name in floor if name.count("/") < 2 and name != "medsynth_cli"] for floor in shown]
    assert named == [*module.FLOORS, ["cli"]]


def test_files_and_folders_that_are_named_from_inside_medsynth_exist() -> None:
    rooms = {path.name for path in (ROOT / "medsynth").iterdir()} | {"medsynth", "cli", "tests"}
    for page in PAGES:
        named = [name for name in PATH.findall(page.read_text()) if name.split("/")[0] in rooms]
        assert not [name for name in named if not exists(name)], page


def test_every_place_that_sees_private_rows_exists() -> None:
    places = [name for row in rows(section("Who may see private rows")) for name in re.findall(r"`([\w/.]+)`", row[0])]
    assert len(places) > 10
    assert not [name for name in places if not exists(name)]


def test_a_question_leads_to_its_line_in_few_files() -> None:
    for question, answer in rows(section("Five questions")):
        steps = STEP.findall(answer)
        assert 1 < len(steps) <= MOST_FILES, question
        for file, names in steps:
            assert (ROOT / file).is_file(), file
            missing = set(re.findall(r"\w+", names)) - (defined(ROOT / file) if file.endswith(".py") else set())
            assert not missing, (file, missing)
