"""The commands `medsynth schema draft`, `import`, `template`, `check`, `list` and `show`."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from medsynth.errors import MOST_WORDS, SchemaError, TableError, UsageError, did_you_mean, some
from medsynth.io.atomic import atomic_write, check_outputs
from medsynth.io.formats import SUFFIXES, SavedAs, beside, name_of

from .console import guarded, result
from .flags import translated
from .looking import AtTerminal, Looking
from .options import Force, with_saved

app = typer.Typer(no_args_is_help=True, help="Write and check a schema: the public facts about a table's columns.")
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")]
Yes = Annotated[bool, typer.Option("--yes", help="Ask nothing: only the header and the catalogue decide.")]
AcceptLooks = Annotated[
    bool,
    typer.Option("--accept-looks", help="Ask nothing, and take all forms and rules that cells show. Each is marked."),
]
Drafted = Annotated[Path, typer.Argument(metavar="TABLE", help="Table, or the folder of several tables.")]


@app.command()
@guarded
@with_saved
def draft(
    saved: SavedAs,
    table: Drafted,
    yes: Yes = False,
    accept_looks: AcceptLooks = False,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    as_json: Json = False,
) -> None:
    """Write TABLE's .schema.yaml from its header and the catalogue of clinical columns. It contains no value.

    In a terminal it shows what the cells of other columns look like, and asks what of it to declare: kinds, forms, and
    rules that nearly all rows obey, marked `seen: true`. A fit learns what stays TODO. For a folder, write a
    .tables.yaml file that names all tables in it.

    Examples:

        medsynth schema draft patients.csv

        medsynth schema draft patients.csv --yes

        medsynth schema draft hospital
    """
    from medsynth.fitting.declarations import doubts
    from medsynth.fitting.looking import table_to_look_at
    from medsynth.fitting.source import is_folder
    from medsynth.schema import drafts
    from medsynth.schema.declared import ENDING

    if several := is_folder(table):
        read = [path for path in sorted(table.iterdir()) if path.suffix.lower() in SUFFIXES]
        if len(read) < 2:
            raise TableError(f"{table} contains fewer than two tables. Name the folder that contains all of them.")
        name = table.resolve().name
        checked = output = table / f"{name}{ENDING}"
    else:
        name = name_of(table)
        read = [table]
        checked = table
        output = beside(table, ".schema.yaml")
    check_outputs(output, inputs=tuple(read), force=force)
    if yes and accept_looks:
        raise UsageError("Set one of --yes and --accept-looks.")
    tables = {name_of(path): table_to_look_at(path, saved) for path in read}
    headers = {one: table.header for one, table in tables.items()}
    ask = not (yes or accept_looks or as_json) and sys.stdin.isatty() and sys.stderr.isatty()
    takes = AtTerminal() if ask else lambda _: True
    looking = Looking(tables if ask or accept_looks else {}, takes)
    taken = looking.taken
    one = partial(drafts.draft, name, headers.get(name, ()), taken.get(name), looking.rules, comma=looking.comma)
    text = drafts.draft_tables(name, headers, taken) if several else one()
    atomic_write(output, text.encode(), force=force)
    lines = list[str]()
    for path, names in zip(read, headers.values(), strict=True):
        lines += [f"The header of {path}: {some(names, MOST_WORDS, '')}.", *doubts(names, saved)]
    if accept_looks:
        lines.append(f"{looking.count} entries are declared after a look at the table. The claim takes them as given.")
    todo = "Fill in each TODO that you know: a fit learns the others."
    lines.append(f"Wrote {output}. {todo} Then: medsynth schema check {checked}")
    result({"tables" if several else "schema": str(output)}, "\n".join(lines), as_json=as_json)


Dictionaries = Annotated[
    list[Path],
    typer.Argument(
        metavar="DICTIONARY",
        help="Data dictionary. For REDCap also the project's XML file, event mapping and repeating forms, for SAS the "
        "catalogue of formats.",
    ),
]
HeaderOf = Annotated[
    Path | None,
    typer.Option("--table", metavar="TABLE", help="Table that the schema is for. Only its header line is read."),
]
OF_HELP = "Table in the dictionary, if it describes several [default: the one named as TABLE]."


@app.command("import")
@guarded
@with_saved
def import_(
    saved: SavedAs,
    dictionary: Dictionaries,
    header_of: HeaderOf = None,
    of: Annotated[str | None, typer.Option(metavar="NAME", help=OF_HELP)] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Schema to write [default: TABLE's or DICTIONARY's .schema.yaml]."),
    ] = None,
    labels_are_public: Annotated[
        bool,
        typer.Option(
            "--labels-are-public", help="The labels of an SPSS, Stata or SAS file were not made from its rows."
        ),
    ] = False,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write a schema from a data dictionary: REDCap, Frictionless, CSVW, Croissant, OMOP, or a codebook.

    No row is read. The command prints what was guessed and what is still to do, and the schema explains each TODO.
    White Rabbit scan reports, and codebooks with statistics, give names and types, but no levels and no bounds.

    Examples:

        medsynth schema import dictionary.csv --table patients.csv

        medsynth schema import dictionary.csv project.REDCap.xml events.csv --table patients.csv

        medsynth schema import datapackage.json --of visits -o visits.schema.yaml

        medsynth schema import patients.sav --labels-are-public

        medsynth schema import patients.sas7bdat formats.sas7bcat --labels-are-public
    """
    from medsynth.dictionaries.importing import import_schema
    from medsynth.fitting.private_table import table_header

    first = dictionary[0]
    usual = beside(header_of, ".schema.yaml") if header_of else first.parent / f"{first.stem}.schema.yaml"
    target = output or usual
    read = (header_of,) if header_of else ()
    check_outputs(target, inputs=(*read, *dictionary), force=force)
    header = table_header(header_of, saved) if header_of else None
    found = import_schema(dictionary, header, name_of(header_of) if header_of else "", of, saved.encoding,
                          labels_are_public=labels_are_public)  # fmt: skip
    atomic_write(target, found.text.encode(), force=force)
    entries = {
        name: {"fate": one.fate, "guesses": one.guesses, "open": one.open} for name, one in found.outcomes.items()
    }
    table = header_of or (first if found.has_rows else "TABLE")
    then = f"medsynth schema check {table}" + (f" --schema {target}" if output else "")
    todo = "Fill in each TODO that you know: a fit learns the others" if found.unfinished else "Confirm each guess"
    told = f"Wrote {target}. {todo}. Then: {then}"
    content = {"schema": str(target), "form": found.form, "entries": entries, "remarks": found.remarks}
    result(content, f"{found.message}\n{told}", as_json=as_json)


@app.command()
@guarded
@with_saved
def template(
    saved: SavedAs,
    header_of: HeaderOf = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Codebook to write.")] = Path("codebook.csv"),
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write a codebook to fill in, with a line per column of TABLE, or with examples. Import it as a dictionary.

    Examples:

        medsynth schema template

        medsynth schema template --table patients.csv -o codebook.csv
    """
    from medsynth.dictionaries.codebook import template as make
    from medsynth.fitting.private_table import table_header

    check_outputs(output, inputs=(header_of,) if header_of else (), force=force)
    text = make(table_header(header_of, saved) if header_of else ())
    atomic_write(output, text.encode(), force=force)
    of_table = f" --table {header_of}" if header_of else ""
    told = f"Wrote {output}. Fill it in from public knowledge, then: medsynth schema import {output}{of_table}"
    result({"codebook": str(output)}, told, as_json=as_json)


@app.command()
@guarded
@with_saved
def check(
    saved: SavedAs,
    table: Drafted,
    schema: Annotated[Path | None, typer.Option(help="Schema YAML [default: TABLE's .schema.yaml].")] = None,
    epsilon: Annotated[float, typer.Option(help="State what a fit of open columns loses at this budget.")] = 3.7,
    as_json: Json = False,
) -> None:
    """Compare TABLE with its schema. Print all problems (exit code 4), and what a fit would change or lose.

    The output contains exact counts of rows. It is PRIVATE: show it only to those who may see the table.

    For a folder or a .tables.yaml file, compare all tables, their keys, and rules that read two tables.

    Examples:

        medsynth schema check patients.csv

        medsynth schema check hospital
    """
    from medsynth.fitting.schema_check import check_schema

    found = check_schema(table, schema, saved, epsilon)
    meets, name = not found.problems, found.name
    remarks = ["PRIVATE: exact counts of rows. Do not share them. A fit goes on despite these remarks:", *found.remarks]
    lines = [f"{table} meets the schema {name!r}."] * meets + ["\n  - ".join(remarks)] * bool(found.remarks)
    content = {"schema": name, "meets": meets, "problems": list(found.problems), "private": list(found.remarks)}
    if lines or as_json:
        result(content, translated("\n".join(lines)), as_json=as_json)
    if not meets:
        raise SchemaError("\n  - ".join([f"{table} does not meet the schema {name!r}:", *found.problems]))


@app.command("list")
@guarded
def list_(as_json: Json = False) -> None:
    """List the bundled schemas.

    Example:

        medsynth schema list
    """
    from medsynth.fitting.source import BUNDLED
    from medsynth.schema import bundled

    names = [*bundled(), *BUNDLED.values()]
    result({"schemas": names}, "\n".join(names), as_json=as_json)


@app.command()
@guarded
def show(
    name: Annotated[str, typer.Argument(help="Name of a bundled schema, or a YAML file.")], as_json: Json = False
) -> None:
    """Print a schema, or a file that describes several tables.

    Examples:

        medsynth schema show thyroid

        medsynth schema show omop
    """
    from medsynth.fitting.source import BUNDLED, bundled_text
    from medsynth.schema import Schema, bundled

    if name in BUNDLED.values():
        text = bundled_text(name)
        return result({"tables": name, "text": text}, text.rstrip(), as_json=as_json)
    known = bundled()
    if name not in known and not os.path.exists(name):
        raise UsageError(f"There is no bundled schema and no file {name[:80]!r}.{did_you_mean(name[:80], known)}")
    found = known.get(name) or Schema.load(name)
    result(found.to_dict(), found.to_yaml().rstrip(), as_json=as_json)
