"""Options that several commands share."""

from __future__ import annotations

import re
from decimal import Decimal
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
WHOLE = re.compile(r"[+-]?[0-9]+(_[0-9]+)*([eE]\+?[0-9]{1,2})?")
MOST_DIGITS = 18


def whole_number(text: str) -> int:
    """A whole number as people write it: 10000, 10_000 or 1e4. Raises BadParameter for another text."""
    number = Decimal(text.strip()) if WHOLE.fullmatch(text.strip()) else None
    if number is None:
        raise typer.BadParameter(f"{text[:40]!r} is no whole number, such as 10000, 10_000 or 1e4.")
    if abs(number) >= 10**MOST_DIGITS:
        raise typer.BadParameter(f"a number of more than {MOST_DIGITS} digits is none that can be meant.")
    return int(number)


Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="Model file [default: TABLE's name here].")]
Force = Annotated[bool, typer.Option("--force", help="Replace files that exist.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print no messages.")]
Delta = Annotated[
    float | None, typer.Option(help="Delta of the guarantee [default: 1e-5, less for more than 10,000 declared rows].")
]
SchemaFile = Annotated[Path | None, typer.Option(help="Schema YAML [default: TABLE's .schema.yaml].")]
Target = Annotated[str | None, typer.Option(help="Column to predict [default: the schema's, else the last].")]
Method = Annotated[str | None, typer.Option(help=f"{_METHODS}.")]
Preset = Annotated[str | None, typer.Option(help=f"{_PRESETS}.")]
Microbatches = Annotated[
    int | None, typer.Option(help=f"{_MICROBATCHES}: clip mean gradients of this many groups of rows, not each row's.")
]
Inference = Annotated[
    list[str] | None,
    typer.Option(metavar="FORMULA", help="A regression that matters: 'y ~ a + b', 'y ~ a * b'; may be given again."),
]
Settings = Annotated[
    list[str] | None, typer.Option("--set", help="NAME=VALUE: a setting of the method; may be given again.")
]
Encoding = Annotated[
    str | None, typer.Option(help="Encoding of a text table, such as cp1252 [default: UTF-8, or UTF-16 by its mark].")
]
Public = Annotated[Path | None, typer.Option(help=f"A table of rows that you declare public: {PUBLIC_ROWS}.")]
OneRowAPatient = Annotated[bool, typer.Option("--one-row-a-patient", help="Declare that no two rows share a person.")]
Unit = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="The column that names the patient of each row: the claim is for one patient."),
]
MaxRows = Annotated[
    int | None,
    typer.Option(parser=whole_number, metavar="K", help="With --unit: rows that a patient counts with [default: 1]."),
]
NaValues = Annotated[
    list[str] | None,
    typer.Option("--na-values", help="Codes of missing values beside the usual ones, such as n.d.,-5; for no schema."),
]
Rows = Annotated[
    int | None,
    typer.Option(
        parser=whole_number,
        metavar="N",
        help="Declare the public row count, rounded if you like [default: the table's own].",
    ),
]
Scheduler = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="A Dask scheduler, tcp://host:8786: TABLE is a folder of one table's files."),
]
ModelArgument = Annotated[Path | None, typer.Argument(help="Model file [default: the newest here].")]
ModelOption = Annotated[Path | None, typer.Option(help="Model file [default: the newest here].")]


def parsed_settings(words: list[str] | None, inference: list[str] | None = None) -> dict[str, object]:
    """The settings given by --set, by name, and the regressions given by --inference.

    Raises UsageError for a word that is not NAME=VALUE.
    """
    for word in words or ():
        if "=" not in word:
            raise UsageError(f"--set takes NAME=VALUE, such as --set lots=800; {word!r} has no equals sign.")
    found: dict[str, object] = {word.split("=", 1)[0]: word.split("=", 1)[1] for word in words or ()}
    return {**found, "inference": tuple(inference)} if inference else found
