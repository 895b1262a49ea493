"""Where a board finds each item of the documents that it works by, and what is still for people to write.

Items come from what was read of each document, in the form that `read` states. No clause is quoted.
"""

from __future__ import annotations

from functools import cache
from importlib import resources

from pydantic import TypeAdapter

from ...schema.declared import bundled_yaml
from ..data.verdict import Record
from .registry import Section


class Item(Record):
    """One item of a document. `sections`: ids of sections that answer it. `people`: what people add, if anything."""

    item: str
    sections: tuple[str, ...] = ()
    answer: str = ""
    people: str = ""


class Document(Record):
    """A document that boards work by. `read`: in what form its items were read here."""

    name: str
    read: str
    items: tuple[Item, ...]


class Crosswalk(Record):
    """All documents. The page names no section that it leaves out, such as attacks without held-out rows."""

    documents: tuple[Document, ...]


@cache
def documents() -> tuple[Document, ...]:
    """Return the documents that standards.yaml lists."""
    text = (resources.files("medsynth.report.page") / "templates" / "standards.yaml").read_text(encoding="utf-8")
    return TypeAdapter(tuple[Document, ...]).validate_python(bundled_yaml(text, "standards.yaml"))


STANDARDS = Section(
    "standards", "Where a board finds each item", lambda context: Crosswalk(documents=documents()), Crosswalk
)
