"""What a REDCap project adds to its data dictionary: missing-data codes, events and repeating forms.

They come from the project's XML file, its event mapping and its list of repeating forms. The XML file may contain the
patients' data after its description of the forms: reading stops before the first of them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat

from ..errors import SchemaError
from ..schema.declared import MAX_BYTES
from ..schema.header import normalised
from .files import MAX_CHARACTERS, Sheet

MAPPING = {"armnum", "uniqueeventname", "form"}
REPEATING = {"eventname", "formname", "customformlabel"}
MOST_EVENTS = 1000  # of a project, and forms that repeat
CHUNK = 1 << 16  # bytes of an XML file that are parsed at once
DATA = "ClinicalData"  # the element of the patients' data


@dataclass(frozen=True)
class Project:
    """The facts about a project. `events` by name, each with its arm; `repeats`: a form or an event may repeat."""

    missing: Mapping[str, str] = field(default_factory=dict)  # labels by code
    arms: tuple[tuple[str, str], ...] = ()
    repeating_forms: tuple[str, ...] = ()
    repeats: bool = False

    @property
    def events(self) -> tuple[str, ...]:
        """The names of the events."""
        return tuple(dict.fromkeys(event for event, _ in self.arms))

    @property
    def several_rows(self) -> bool:
        """Whether a record may have several rows."""
        return len(self.events) > 1 or self.repeats

    @property
    def max_rows(self) -> int | None:
        """The most rows of a record, which passes through the events of one arm; None if there is no limit."""
        return None if self.repeats else max(Counter(arm for _, arm in dict.fromkeys(self.arms)).values(), default=1)

    def joined(self, other: Project) -> Project:
        """Return the facts of both."""
        return Project(
            missing={**self.missing, **other.missing},
            arms=tuple(dict.fromkeys((*self.arms, *other.arms))),
            repeating_forms=tuple(dict.fromkeys((*self.repeating_forms, *other.repeating_forms))),
            repeats=self.repeats or other.repeats,
        )


def is_project(header: Iterable[str]) -> bool:
    """Return whether a header is that of an event mapping or of a list of repeating forms."""
    words = {normalised(title) for title in header}
    return words >= MAPPING or words >= REPEATING


def project_lists(sheet: Sheet) -> Project:
    """Return what an event mapping, or a list of repeating forms, says about the project."""
    lines = [{normalised(title): text for title, text in cells.items()} for _, cells in sheet.lines]
    if lines[0].keys() >= MAPPING:
        return Project(arms=tuple((line["uniqueeventname"], line["armnum"]) for line in lines))
    return Project(repeating_forms=tuple(line["formname"] for line in lines if line["formname"]), repeats=True)


class _Enough(Exception):
    """All that is needed was read."""


class _Reader:
    """What an expat parser calls: it collects the facts, and stops before the patients' data."""

    def __init__(self) -> None:
        self.facts = Project()
        self.known = False
        self.codes = ""
        self.open = False

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        name = tag.rpartition(":")[2]
        own = {key.rpartition(":")[2]: value for key, value in attributes.items()}
        if name == DATA:
            raise _Enough
        self.known = self.known or name == "ODM"
        self.open = name == "MissingDataCodes"
        more = Project()
        if name == "RepeatingInstrument":
            more = Project(repeating_forms=(own.get("RepeatInstrument", ""),), repeats=True)
        elif name == "RepeatingEvent":
            more = Project(repeats=True)
        elif name == "StudyEventDef" and "UniqueEventName" in own:
            more = Project(arms=((own["UniqueEventName"], own.get("ArmNum", "1")),))
        self.facts = self.facts.joined(more) if more != Project() else self.facts
        if max(len(self.facts.arms), len(self.facts.repeating_forms)) > MOST_EVENTS:
            raise SchemaError(f"more than {MOST_EVENTS} events or repeating forms.")

    def end(self, tag: str) -> None:
        self.open = False
        if tag == "MetaDataVersion":
            raise _Enough

    def characters(self, text: str) -> None:
        if self.open and len(self.codes) < MAX_CHARACTERS:
            self.codes += text

    def refuse(self, *_: object) -> None:
        raise SchemaError("it declares a document type or entities, as no project does.")


def _codes(text: str) -> dict[str, str]:
    r"""Return the codes in lines such as `-999, Not asked`; REDCap also writes \n or | between them."""
    parts = [re.split("[,=]", f"{line},", maxsplit=1) for line in re.split(r"\n|\\n|\|", text)]
    return {code.strip(): label.strip(" ,") for code, label in parts if code.strip()}


def project_xml(path: Path) -> Project:
    """Return what a project's XML file says before the patients' data. Raise SchemaError for another file.

    Document types, and so entities, are refused. No address is followed.
    """
    reader = _Reader()
    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = reader.refuse
    parser.StartElementHandler, parser.EndElementHandler = reader.start, reader.end
    parser.CharacterDataHandler = reader.characters
    try:
        with path.open("rb") as file, suppress(_Enough):
            for _ in range(MAX_BYTES // CHUNK):
                chunk = file.read(CHUNK)
                parser.Parse(chunk, not chunk)
                if not chunk:
                    break
            else:
                raise SchemaError(f"its description of the forms has more than {MAX_BYTES >> 20} MB.")
    except expat.ExpatError as error:
        raise SchemaError(f"{path}, line {error.lineno}: not valid XML. Export the project again.") from None
    except SchemaError as error:
        raise SchemaError(f"{path}, line {parser.CurrentLineNumber}: {error} Export the project again.") from None
    if not reader.known:
        raise SchemaError(f"{path} is XML, but not the XML file of a REDCap project. Export the project again.")
    return reader.facts.joined(Project(missing=_codes(reader.codes)))
