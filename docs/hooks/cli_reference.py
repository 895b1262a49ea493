"""MkDocs hook: the command reference is written from the commands themselves, so that it cannot differ from them."""

import re
from typing import Any

import typer
from medsynth_cli.main import app
from typer.cli import get_docs_for_click

PAGE, MARKER = "reference/cli.md", "<!-- commands -->"


def commands() -> str:
    """Markdown of every command: usage, arguments, options, defaults, examples."""
    command = typer.main.get_command(app)
    text = str(get_docs_for_click(obj=command, ctx=typer.Context(command), name="medsynth"))
    return re.sub("^#", "##", text, flags=re.MULTILINE)  # the page has its own first heading


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Put the commands where the page has its marker."""
    if page.file.src_uri != PAGE:
        return markdown
    if MARKER not in markdown:
        raise ValueError(f"{PAGE} has lost its marker {MARKER}.")
    return markdown.replace(MARKER, commands())
