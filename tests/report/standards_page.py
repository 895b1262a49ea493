"""Print the page of the documents that boards work by, from the report's own section.

    python tests/report/standards_page.py > docs/standards.md

A test compares the page with this output.
"""

from medsynth.report.sections import standards
from medsynth.report.sections.registry import SECTIONS
from medsynth.report.sections.standards import Document, Item

HEAD = """# Where a board finds each item

For board members and data stewards: documents that boards work by, and where the [report](report.md) answers each
item. The report's last section adds what it states to each item. Where a * is, people write something as well, or
alone, and that section says what.

Items come from what we could read of each document, which is named first. We quote no clause. If you know a document
better, trust the document.
"""


def line(item: Item) -> str:
    """Return the table line of an item."""
    titles = "; ".join(SECTIONS[name].title for name in item.sections)
    where = titles or ("the last section" if item.answer else "")
    return f"| {item.item} | {where}{' *' * bool(item.people)} |"


def part(document: Document) -> list[str]:
    """Return the part of a document."""
    head = [f"## {document.name}", "", f"Read: {document.read.removeprefix('not read: ')}."]
    if not document.items:
        return [*head[:2], "Not read: no document was found."]
    return [*head, "", "| item | where |", "|---|---|", *map(line, document.items)]


if __name__ == "__main__":
    print(HEAD)
    print("\n\n".join("\n".join(part(document)) for document in standards.documents()))
