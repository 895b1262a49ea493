"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from medsynth.errors import UsageError
from medsynth.methods.registry import DEFAULT, METHODS

_METHODS = "; ".join(
    f"{name}{' (default)' if name == DEFAULT else ''}: {method.summary}" for name, method in METHODS.items()
)
_PRESETS = "; ".join(
    f"{name} (of {method.name}): {preset.summary}"
    for method in METHODS.values()
    for name, preset in method.presets.items()
)
_MICROBATCHES = " or ".join(name for name, method in METHODS.items() if method.microbatches)
PUBLIC_ROWS = " or ".join(name for name, method in METHODS.items() if method.public_rows)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")]
Force = Annotated[bool, typer.Option("--force", help="Replace files that exist.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print no messages.")]
Delta = Annotated[float, typer.Option(help="Delta of the guarantee; keep it below 1/(10 rows).")]
SchemaFile = Annotated[Path | None, typer.Option(help="Schema YAML [default: TABLE's .schema.yaml].")]
Target = Annotated[str | None, typer.Option(help="Column to predict [default: the schema's, else the last].")]
Method = Annotated[str | None, typer.Option(help=f"{_METHODS}.")]
Preset = Annotated[str | None, typer.Option(help=f"{_PRESETS}.")]
Microbatches = Annotated[
    int | None, typer.Option(help=f"{_MICROBATCHES}: clip mean gradients of this many groups of rows, not each row's.")
]
Settings = Annotated[
    list[str] | None, typer.Option("--set", help="NAME=VALUE: a setting of the method; may be given again.")
]
Encoding = Annotated[
    str | None, typer.Option(help="Encoding of a text table, such as cp1252 [default: UTF-8, or UTF-16 by its mark].")
]
Rows = Annotated[int | None, typer.Option(help="Declare the public row count [default: the table's own].")]
ModelArgument = Annotated[Path | None, typer.Argument(help="Model file [default: the newest here].")]
ModelOption = Annotated[Path | None, typer.Option(help="Model file [default: the newest here].")]


def parsed_settings(words: list[str] | None) -> dict[str, str]:
    """The settings given by --set, by name. Raises UsageError for a word that is not NAME=VALUE."""
    for word in words or ():
        if "=" not in word:
            raise UsageError(f"--set takes NAME=VALUE, such as --set lots=800; {word!r} has no equals sign.")
    return dict(word.split("=", 1) for word in words or ())
