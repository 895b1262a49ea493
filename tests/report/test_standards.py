"""The crosswalk: its sections exist, the page in the documentation is the section's, and nothing is left unanswered."""

import runpy
from pathlib import Path

import pytest

from medsynth.report.sections.registry import SECTIONS
from medsynth.report.sections.standards import documents

PAGE = Path(__file__).parent / "standards_page.py"


def test_each_item_has_a_place_an_answer_or_people() -> None:
    for document in documents():
        for item in document.items:
            assert set(item.sections) <= set(SECTIONS), (document.name, item.item)
            assert item.sections or item.answer or item.people, (document.name, item.item)


def test_documentation_lists_every_item(capsys: pytest.CaptureFixture[str]) -> None:
    page = PAGE.parents[2] / "docs" / "standards.md"
    runpy.run_path(str(PAGE), run_name="__main__")
    assert page.read_text() == capsys.readouterr().out, "python tests/report/standards_page.py > docs/standards.md"
