"""Options that several commands share."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from medsynth.errors import UsageError
from medsynth.fitting.settings import FitSettings
from medsynth.io.formats import COUNTS_OF_LINES, SavedAs

WHOLE = re.compile(r"[+-]?[0-9]+(_[0-9]+)*([eE]\+?[0-9]{1,2})?")
MOST_DIGITS = 18


def whole_number(text: str) -> int:
    """Return a whole number as people write it: 10000, 10_000 or 1e4. Raise BadParameter for other text."""
    number = Decimal(text.strip()) if WHOLE.fullmatch(text.strip()) else None
    if number is None:
        raise typer.BadParameter(f"{text[:40]!r} is not a whole number. Write it as 10000, 10_000 or 1e4.")
    if abs(number) >= 10**MOST_DIGITS:
        raise typer.BadParameter(f"Numbers with more than {MOST_DIGITS} digits are not supported.")
    return int(number)


def number(text: str) -> float:
    """Return a number. Raise BadParameter for other text, with the cure for decimal commas and percent signs."""
    with suppress(ValueError):
        return float(text)
    plain = text.strip().replace(",", ".")
    if re.fullmatch(r"[+-]?[0-9]*\.?[0-9]+", plain):
        raise typer.BadParameter(f"{text!r} has a decimal comma. Write {plain}.")
    if re.fullmatch(r"[0-9]{1,2}(\.[0-9]+)?\s*%", plain):
        share = Decimal(plain.rstrip("% ")).scaleb(-2)
        raise typer.BadParameter(f"{text!r} is a percentage. Write it as a number: {share.normalize():f}.")
    raise typer.BadParameter(f"{text[:40]!r} is not a number. Write it as 0.5, 3.7 or 1e-6.")


Shape = dict[str, Any]
# How a field of FitSettings is typed on the command line, if its Python type does not determine that.
SHAPES: dict[str, tuple[Any, Shape]] = {
    "schema": (Path | None, {}),
    "public": (Path | None, {}),
    "inference": (list[str] | None, {"metavar": "FORMULA"}),
    "settings": (list[str] | None, {"names": ["--set"]}),
    "na_values": (list[str] | None, {}),
    "drop": (list[str] | None, {"metavar": "COLUMN"}),
    **dict.fromkeys(
        ("rows", "patients", "header_lines", *COUNTS_OF_LINES), (int | None, {"parser": whole_number, "metavar": "N"})
    ),
    "max_rows": (int | None, {"parser": whole_number, "metavar": "K"}),
    "unit": (str | None, {"metavar": "COLUMN"}),
    "method": (str | None, {"metavar": "NAME", "more": "`medsynth methods` lists them."}),
    "preset": (str | None, {"metavar": "NAME", "more": "`medsynth methods` lists them."}),
}
DECIMAL: Shape = {"parser": number, "metavar": "NUMBER"}
TYPES = {"float | None": float | None, "int | None": int | None, "str | None": str | None, "bool": bool, "str": str}


def flag_of(name: str) -> str:
    """Return the flag of a field of FitSettings."""
    _, shape = SHAPES.get(name, (None, {}))
    return str(shape.get("names", [f"--{name.replace('_', '-')}"])[0])


ADVANCED = "Advanced options"  # the second group in the help
Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON object on standard output.", rich_help_panel=ADVANCED)
]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="Model to write [default: NAME.medsynth here].")]
Force = Annotated[bool, typer.Option("--force", help="Replace files that exist.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print no messages.", rich_help_panel=ADVANCED)]
Scheduler = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        rich_help_panel=ADVANCED,
        help="Dask scheduler, tcp://host:8786. TABLE is a folder with one table's files.",
    ),
]
TableName = Annotated[
    str | None, typer.Option("--table", help="Name of a table of a database.", rich_help_panel=ADVANCED)
]
DatabaseFile = Annotated[
    Path | None,
    typer.Option(
        rich_help_panel=ADVANCED,
        help="With --table: a DuckDB file, or a file with an address [default: the variable MEDSYNTH_DATABASE].",
    ),
]
ModelArgument = Annotated[Path | None, typer.Argument(help="Model file [default: the newest in this folder].")]
ModelOption = Annotated[
    Path | None, typer.Option(help="Model file [default: the newest in this folder].", rich_help_panel=ADVANCED)
]


def with_saved(command: Callable[..., None]) -> Callable[..., None]:
    """Replace a command's parameter `saved` by one option for each field of SavedAs."""
    names = [field.name for field in dataclasses.fields(SavedAs)]

    @wraps(command)
    def run(**given: Any) -> None:
        command(saved=SavedAs(**{name: given.pop(name) for name in names}), **given)

    return _with_options(run, command, "saved", [_option(name, False) for name in names])


FIRST = ("epsilon", "delta")  # the first options in the help; the others follow in the order of the fields


def with_settings(
    *left_out: str, required: tuple[str, ...] = ()
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Replace a command's parameter `settings` by one option for each field of FitSettings, except `left_out`.

    Types, help and defaults come from the fields. The command receives the checked FitSettings.
    """
    fields = [field.name for field in dataclasses.fields(FitSettings) if field.name not in (*FIRST, *left_out)]
    names = (*FIRST, *fields)

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def run(**given: Any) -> None:
            typed = {name: given.pop(name) for name in names}
            if "inference" in typed:
                typed["inference"] = tuple(typed["inference"] or ())
            for name in {"na_values", "drop"}.intersection(typed):
                typed[name] = tuple(one.strip() for word in typed[name] or () for one in word.split(","))
            typed["settings"] = parsed_settings(typed["settings"])
            command(settings=FitSettings(**typed), **given)

        return _with_options(run, command, "settings", [_option(name, name in required) for name in names])

    return decorate


def _with_options(
    run: Callable[..., None], command: Callable[..., None], replaced: str, options: list[inspect.Parameter]
) -> Callable[..., None]:
    """Return `run` with the parameters of a command, in which `options` replace one."""
    parameters = list[inspect.Parameter]()
    for one in inspect.signature(command, eval_str=True).parameters.values():
        own = options if one.name == replaced else [one]
        parameters += [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _option(name: str, required: bool) -> inspect.Parameter:
    """Return the option for a field of FitSettings, as a parameter of a command."""
    field = FitSettings.__dataclass_fields__[name]
    kind, shape = SHAPES.get(name) or (TYPES[str(field.type)], DECIMAL if "float" in str(field.type) else {})
    shape = {"names": [flag_of(name)], **shape}
    panel = None if field.metadata["common"] else ADVANCED
    doc = re.sub(r"`(\w+)`", lambda match: flag_of(match[1]), field.metadata["doc"])
    text = f"{doc} {shape.pop('more', '')}".strip()
    option = typer.Option(*shape.pop("names"), help=text, rich_help_panel=panel, **shape)
    default = inspect.Parameter.empty if required else None if field.default == () else field.default
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, option])


def parsed_settings(words: list[str] | None) -> dict[str, object] | None:
    """Return the settings given by --set, by name. Raise UsageError for a word that is not NAME=VALUE."""
    for word in words or ():
        if "=" not in word:
            raise UsageError(f"--set needs NAME=VALUE, such as --set lots=800. {word!r} has no equals sign.")
    return {word.split("=", 1)[0]: word.split("=", 1)[1] for word in words or ()} or None
