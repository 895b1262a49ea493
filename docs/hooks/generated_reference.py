"""MkDocs hook: references of commands and settings are written from the code, so that they cannot differ from it."""

import re
from collections.abc import Callable
from typing import Any

import typer
from medsynth_cli.app import app
from typer.cli import get_docs_for_click

from medsynth.methods.registry import METHODS
from medsynth.methods.settings import MethodConfig, bounds


def commands() -> str:
    """Markdown of every command: usage, arguments, options, defaults, examples."""
    command = typer.main.get_command(app)
    text = str(get_docs_for_click(obj=command, ctx=typer.Context(command), name="medsynth"))
    return re.sub("^#", "##", text, flags=re.MULTILINE)  # the page has its own first heading


def settings() -> str:
    """Markdown of every method's and preset's settings."""
    parts = []
    for method in METHODS.values():
        parts += [f"## `{method.name}`", _sentence(method.summary), _table(method.load().Config)]
        for name, preset in method.presets.items():
            parts += [f"### preset `{name}`", _sentence(preset.summary), _table(method.load(name).Config)]
    return "\n\n".join(parts)


def _sentence(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}."


def _table(config: type[MethodConfig]) -> str:
    rows = ["| setting | default | allowed | what it is |", "|---|---|---|---|"]
    for name, field in config.model_fields.items():
        default = "none" if field.default is None else f"`{field.default}`"
        number = isinstance(field.default, int | float) and not isinstance(field.default, bool)
        rows.append(f"| `{name}` | {default} | {bounds(config, name) if number else ''} | {field.description or ''} |")
    return "\n".join(rows)


GENERATED: dict[str, tuple[str, Callable[[], str]]] = {
    "reference/cli.md": ("<!-- commands -->", commands),
    "reference/settings.md": ("<!-- settings -->", settings),
}


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Put what is generated where a page has its marker."""
    if page.file.src_uri not in GENERATED:
        return markdown
    marker, write = GENERATED[page.file.src_uri]
    if marker not in markdown:
        raise ValueError(f"{page.file.src_uri} has lost its marker {marker}.")
    return markdown.replace(marker, write())
