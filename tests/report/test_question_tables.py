"""The tables of docs/report.md are those of the registered questions. A failure prints the table for the page."""

from pathlib import Path

from medsynth.report.data.proposal import PASSING_ON, deciding, uses_of
from medsynth.report.sections.registry import questions

PAGE = Path(__file__).parents[2] / "docs" / "report.md"


def check(*rows: tuple[str, ...]) -> None:
    """Check that the page has a table with exactly these rows."""
    head, *lines = (f"| {' | '.join(row)} |" for row in rows)
    table = "\n".join([head, "|---" * len(rows[0]) + "|", *lines])
    assert f"\n\n{table}\n\n" in PAGE.read_text(encoding="utf-8"), table


def test_the_page_lists_every_question() -> None:
    lines = [(f"`{key}`", asked.measure, f"{asked.limit:g}") for key, asked in questions().items()]
    check(("key", "figure", "default limit"), *lines)


def test_the_page_says_what_decides_each_use() -> None:
    uses = [PASSING_ON, *uses_of(questions())]
    deciders = {use: ", ".join(f"`{key}`" for key in deciding(use, questions())) for use in uses}
    lines = [(use.format(target="the target"), keys) for use, keys in deciders.items()]
    check(("use", "decided by"), *lines, ("estimating effects", 'the section "Fit for what?"'))
