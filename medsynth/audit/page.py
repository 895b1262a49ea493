"""The audit on one self-contained page without network or script. The JSON next to it has every number."""

from __future__ import annotations

import json
from importlib import resources
from itertools import groupby
from pathlib import Path

from ..io.atomic import write_page
from .pipeline import Audit


def page(audit: Audit) -> str:
    """Return the audit as HTML."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    parts = [(part, list(group)) for part, group in groupby(audit.findings, key=lambda finding: finding.part)]
    text = (resources.files(__package__) / "templates" / "audit.html").read_text(encoding="utf-8")
    template = environment.from_string(text)
    return str(template.render(audit=audit, parts=parts, first=audit.findings[0], inputs=audit.inputs_by_mode()))


def save(audit: Audit, output: Path, *, force: bool = False) -> Path:
    """Write the page and its JSON twin next to it. Returns the twin's path. Raises MedsynthError for existing files."""
    return write_page(output, page(audit), json.dumps(audit.to_json(), indent=1), force=force)
