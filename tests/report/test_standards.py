"""The crosswalk: its sections exist, the page in the documentation is the section's, and nothing is left unanswered."""

import subprocess
import sys
from pathlib import Path

from medsynth.report.sections.registry import SECTIONS
from medsynth.report.sections.standards import documents

PAGE = Path(__file__).parent / "standards_page.py"


def test_each_item_has_a_place_an_answer_or_people() -> None:
    for document in documents():
        for item in document.items:
            assert set(item.sections) <= set(SECTIONS), (document.name, item.item)
            assert item.sections or item.answer or item.people, (document.name, item.item)


def test_documentation_lists_every_item() -> None:
    page = PAGE.parents[2] / "docs" / "standards.md"
    made = subprocess.run([sys.executable, str(PAGE)], capture_output=True, text=True, check=True).stdout
    assert page.read_text() == made, "python tests/report/standards_page.py > docs/standards.md"
