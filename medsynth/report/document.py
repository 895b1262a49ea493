"""The report as a document, with a head and a record per section: the JSON twin and the page's input."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import GetJsonSchemaHandler, SerializeAsAny, TypeAdapter, ValidationInfo, field_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from .. import __version__
from .data.verdict import Record, Verdict
from .sections.registry import SECTIONS, Section
from .sections.summary import Verdicts

FORMAT = 7


class _BySection:
    """Gives the twin's JSON schema one property per registered section."""

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        properties = dict[str, JsonSchemaValue]()
        for one in (section for section in SECTIONS.values() if section.compute):
            known = {"type": "object"} if one.record is None else handler(TypeAdapter(one.record).core_schema)
            properties[one.id] = {"title": one.title, "anyOf": [known, {"type": "null"}]}
        return {"type": "object", "properties": properties, "additionalProperties": False}


class Report(Record):
    """The JSON twin with every number of the page. `sections` has records by id, or null if there is nothing to report.

    `fitted_rows`: whether the real rows are those that the model was fitted to, so that no row is held out.
    """

    format: int = FORMAT
    medsynth: str = __version__
    title: str
    created: str
    shareable: bool
    fitted_rows: bool = False
    banner: str
    notes: list[str]
    sections: Annotated[dict[str, SerializeAsAny[Record] | None], _BySection]

    @field_validator("sections", mode="before")
    @classmethod
    def _typed(cls, value: Any, info: ValidationInfo) -> Any:
        """Parse each section's record as the type that its section declares."""
        if not isinstance(value, Mapping):
            return value
        return {name: _parsed(name, content) for name, content in value.items()}

    @property
    def real_rows(self) -> str:
        """Return the page's name for the real rows."""
        return "fitted rows" if self.fitted_rows else "held-out rows"

    @property
    def verdicts(self) -> list[Verdict]:
        """Return the answers of the summary."""
        return self.summary.lines if self.summary else []

    @property
    def status(self) -> str:
        """Return the summary's answer in a word."""
        return self.summary.status if self.summary else ""

    @property
    def proposal(self) -> list[str]:
        """Return the sentences of the summary's proposal."""
        return self.summary.proposal if self.summary else []

    @property
    def summary(self) -> Verdicts | None:
        """Return the summary's record."""
        found = self.sections.get("verdicts")
        return found if isinstance(found, Verdicts) else None

    @property
    def shown(self) -> list[Section]:
        """Return the sections on the page, in order."""
        return [s for s in SECTIONS.values() if s.appears(self.shareable, self.sections.get(s.id))]


def _parsed(name: str, content: Any) -> Any:
    if content is None or isinstance(content, Record):
        return content
    section = SECTIONS.get(name)
    if section is None:
        raise ValueError(f"there is no section {name!r}")
    return content if section.record is None else TypeAdapter(section.record).validate_python(content)
