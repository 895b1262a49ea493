"""`tests/english.py` finds the sentences that its list forbids, and `make lint` runs it over the whole tree."""

from pathlib import Path

import pytest

from tests import english

ROOT = Path(__file__).parents[1]
FORBIDDEN = {
    "beside": "The count lies beside the others.",
    "so many": "A table has so many columns.",
    "told": "A spike is told from noise.",
    "is no": "The name is no column.",
    "is none": "A level that is none gets another code.",
    "per": "The table has three rows a patient.",
    "stand": "The figures stand in the table.",
    "said of": "Nothing is said of the rows.",
    "long": " ".join(["word"] * 31) + ".",
}
ALLOWED = [
    "There is no such column.",
    "It is no longer used.",
    "The result is None.",
    "N stands for a number.",
    "Besides, rows are counted.",
    " ".join(["word"] * 30) + ". " + " ".join(["word"] * 30) + ".",
]


def found(text: str, ending: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, str]]:
    monkeypatch.setattr(english, "ROOT", folder)
    (folder / f"a.{ending}").write_text(text)
    return sorted(english.findings(folder / f"a.{ending}"))


@pytest.mark.parametrize("name", FORBIDDEN)
@pytest.mark.parametrize(
    ("ending", "form"),
    [
        ("md", "{}\n"),
        ("py", '"""{}"""\n'),
        ("py", "x = f'{{y}} {}'\n"),
        ("py", "x = 1  # {}\n"),
        ("html", "<p>{}</p>\n"),
    ],
)
def test_a_forbidden_sentence_is_found(
    name: str, ending: str, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert found(form.format(FORBIDDEN[name]), ending, tmp_path, monkeypatch)


@pytest.mark.parametrize("text", ALLOWED)
def test_a_plain_sentence_is_not(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not found(f'"""{text}"""\n', "py", tmp_path, monkeypatch)


def test_code_tables_and_links_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = "# A page\n\n```\nbeside\n```\n\n| a | beside |\n\n    beside = 1\n\nSee `beside` and [this](beside.md).\n"
    assert not found(page, "md", tmp_path, monkeypatch)


def test_a_long_line_of_a_page_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert found("word " * 25 + "\n", "md", tmp_path, monkeypatch)


def test_lint_reads_the_tree() -> None:
    assert "python tests/english.py" in (ROOT / "Makefile").read_text()
    read = {path.relative_to(ROOT).as_posix() for path in english.files()}
    assert {"README.md", "docs/faq.md", "cli/fit.py", "medsynth/budget.py"} <= read
    assert any(name.endswith(".html") for name in read)
