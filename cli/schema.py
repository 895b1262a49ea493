"""`medsynth schema`: draft, check, list and show."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from medsynth.errors import UsageError

from .console import guarded, result

app = typer.Typer(no_args_is_help=True, help="What is public about a table: its columns, bounds, levels and target.")
Json = Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")]
Csv = Annotated[Path, typer.Argument(help="CSV or Parquet file.")]


@app.command()
@guarded
def draft(
    table: Csv, force: Annotated[bool, typer.Option("--force", help="Replace a draft.")] = False, as_json: Json = False
) -> None:
    """Write TABLE's .schema.yaml from its header and column types, with TODOs for a person and no data value.

    Example:

        medsynth schema draft patients.csv
    """
    from medsynth.fitting.private_table import table_kinds
    from medsynth.io.atomic import atomic_write, refuse_existing
    from medsynth.io.formats import beside, name_of
    from medsynth.schema.template import draft as make

    output = beside(table, ".schema.yaml")
    refuse_existing(output, force=force)
    text = make(name_of(table), table_kinds(table))
    atomic_write(output, lambda file: file.write(text.encode()), force=force)
    result(
        {"schema": str(output)},
        f"Wrote {output}. Fill in every TODO, then: medsynth schema check {table}",
        as_json=as_json,
    )


@app.command()
@guarded
def check(
    table: Csv,
    schema: Annotated[Path | None, typer.Option(help="Schema YAML [default: TABLE's .schema.yaml].")] = None,
    as_json: Json = False,
) -> None:
    """Say whether TABLE meets its schema; exit 4 and the first place where it does not.

    Example:

        medsynth schema check patients.csv
    """
    from medsynth.fitting.private_table import check_schema

    found = check_schema(table, schema)
    result({"schema": found.name, "meets": True}, f"{table} meets the schema {found.name!r}.", as_json=as_json)


@app.command("list")
@guarded
def list_(as_json: Json = False) -> None:
    """List the bundled schemas.

    Example:

        medsynth schema list
    """
    from medsynth.schema import bundled

    names = list(bundled())
    result({"schemas": names}, "\n".join(names), as_json=as_json)


@app.command()
@guarded
def show(
    name: Annotated[str, typer.Argument(help="A bundled schema's name, or a YAML file.")], as_json: Json = False
) -> None:
    """Print a schema.

    Example:

        medsynth schema show thyroid
    """
    from medsynth.schema import Schema, bundled

    known = bundled()
    if name not in known and not Path(name).exists():
        raise UsageError(f"There is no schema {name!r}. Bundled: {', '.join(known)}.")
    found = known.get(name) or Schema.load(name)
    result(found.to_dict(), found.to_yaml().rstrip(), as_json=as_json)
