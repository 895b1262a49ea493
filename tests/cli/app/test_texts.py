"""The texts of the page: each that is used exists, and each that exists is used, in every language."""

import re
from pathlib import Path
from string import Formatter

import pytest
import yaml
from medsynth_cli.app import choices, columns, server
from medsynth_cli.app.server import STEPS
from medsynth_cli.app.session import Session, languages

HERE = Path(server.__file__).parent
USED = {
    *(f"{start}_{step}" for start in ("nav", "title") for step in STEPS), *(f"kind_{kind}" for kind in columns.KEYS),
    *(f"format{ending}" for ending in choices.FORMATS), *(f"error_{code}" for code in (400, 404, 405, 409, 413, 500)),
}  # fmt: skip


def texts(language: str) -> dict[str, str]:
    found = dict(yaml.safe_load((HERE / "texts" / f"{language}.yaml").read_text("utf-8")))
    return {name: text for name, text in found.items() if name != "messages"}


def used() -> set[str]:
    """All texts that a template or a file of Python names as a whole."""
    found = set(USED)
    for path in HERE.glob("templates/*.html"):
        found |= set(re.findall(r"\bt\.(\w+)", path.read_text("utf-8")))
        for line in re.findall(r"\bt\[\{(.*?)\}", path.read_text("utf-8")):
            found |= set(re.findall(r': "(\w+)"', line))
    for path in HERE.glob("*.py"):
        content = path.read_text("utf-8")
        found |= set(re.findall(r'"(refused_\w+)"', content))
        found |= set(re.findall(r'\btexts\["(\w+)"\]', content))
        for line in re.findall(r"\bsay\((.*)\)", content):
            found |= set(re.findall(r'"(\w+)"', line))
        for block in re.findall(r"\brefuse\((.*?)\)\n", content, re.DOTALL):
            found |= set(re.findall(r"(\w+)=(?!=)", block))
    return found


def beginnings() -> tuple[str, ...]:
    """What names of texts begin with that templates and Python put together."""
    content = "".join(path.read_text("utf-8") for path in [*HERE.glob("templates/*.html"), *HERE.glob("*.py")])
    return tuple(re.findall(r'\bt\["(\w+)" ~', content) + re.findall(r'texts\.get\(f"(\w+_){', content))


def test_all_texts_exist_and_are_used() -> None:
    english = set(texts("en"))
    assert used() <= english, used() - english
    unused = {name for name in english - used() if not name.startswith(beginnings())}
    assert not unused


@pytest.mark.parametrize("language", languages())
def test_a_language_has_the_same_texts(language: str, tmp_path: Path) -> None:
    """With the same places for names and numbers. What it lacks is shown in English."""
    here, english = texts(language), texts("en")
    assert set(here) <= set(english)
    for name, text in here.items():
        places = [
            sorted(str(field) for _, field, _, _ in Formatter().parse(one) if field is not None)
            for one in (text, english[name])
        ]
        assert (text.strip() or name == "english") and places[0] == places[1], name
    assert Session(tmp_path, language=language).texts.keys() == {*english, "messages"}


@pytest.mark.parametrize("language", languages())
def test_texts_are_plain(language: str) -> None:
    """They are shown as text: a tag in one would be shown to the person."""
    assert not [name for name, text in texts(language).items() if re.search("<[a-z/!]|&[a-z]+;", text)]
