"""Print the page of the documents that boards work by, from the report's own section.

    python tests/report/standards_page.py > docs/standards.md

A test compares the page with this output.
"""

from medsynth.report.sections import standards
from medsynth.report.sections.registry import SECTIONS
from medsynth.report.sections.standards import Document, Item

HEAD = """# Where a board finds each item

This page is for board members and data stewards. It lists documents that boards work by, and says for each item where
the [report](report.md) answers it, and what people still write. The report's last section says the same, with links.

Items come from what we could read of each document; the heading says in what form. We quote no clause. If you know a
document better, trust the document.
"""


def line(item: Item) -> str:
    """Return the table line of an item."""
    where = "; ".join(SECTIONS[name].title for name in item.sections)
    answer = ". ".join(part for part in (where, item.answer) if part)
    return f"| {item.item} | {answer} | {item.people} |"


def part(document: Document) -> list[str]:
    """Return the part of a document."""
    head = [f"## {document.name}", "", f"Read: {document.read.removeprefix('not read: ')}."]
    if not document.items:
        return [*head[:2], "Not read: no document was found."]
    return [*head, "", "| item | where in the report | for people |", "|---|---|---|", *map(line, document.items)]


if __name__ == "__main__":
    print(HEAD)
    print("\n\n".join("\n".join(part(document)) for document in standards.documents()))
