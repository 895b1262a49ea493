"""`medsynth sample`, and `medsynth combine` for what is estimated from replicates."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from medsynth.errors import UsageError

from .console import find_model, guarded, notify, result, writing_to_standard_output
from .options import Force, Json, ModelOption, whole_number

if TYPE_CHECKING:
    from medsynth.artifact import Model
    from medsynth.combining import Combined
    from medsynth.sampling import Draw


Number = Annotated[
    int | None,
    typer.Option(
        "-n", "--rows", parser=whole_number, metavar="N", help="Rows to draw [default: the model's public row count]."
    ),
]
Patients = Annotated[
    int | None,
    typer.Option(parser=whole_number, metavar="N", help="In place of -n: patients to draw, each with all rows."),
]
Written = Annotated[
    str | None,
    typer.Option("--output", "-o", help="File, by its name .csv, .csv.gz or .parquet; or - for standard output."),
]
Conditions = Annotated[
    list[str] | None,
    typer.Option(help="Only rows with COLUMN=VALUE, COLUMN=VALUE,VALUE or COLUMN=LOW..HIGH; may be given again."),
]
AnyRow = Annotated[
    list[str] | None,
    typer.Option(help="Only patients of whom some row meets this, written as --where; given again, the same row."),
]
Balance = Annotated[bool, typer.Option("--balance", help="Give every class of the target the same share.")]
Replicates = Annotated[
    int | None,
    typer.Option(parser=whole_number, metavar="M", help="Draw as much of each of M plausible models, for intervals."),
]


@guarded
def sample(
    n: Number = None,
    patients: Patients = None,
    model: ModelOption = None,
    output: Written = None,
    where: Conditions = None,
    where_any: AnyRow = None,
    balance: Balance = False,
    replicates: Replicates = None,
    seed: Annotated[int | None, typer.Option(help="Repeat this draw.")] = None,
    parquet: Annotated[bool, typer.Option("--parquet", help="Several tables: write Parquet files, not CSV.")] = False,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Draw synthetic rows from a model and write NAME.synthetic.csv. Uses no privacy budget.

    Of patients with several rows -n counts rows, --patients whole patients. Where their rows have an order, --where is
    about first rows, --where-any about any row. Of several tables -n counts patients too, and a folder NAME.synthetic
    gets their rows (docs/several-tables.md).

    One table serves to predict: classifiers learn more from several times as many rows as were fitted
    (docs/results.md). To estimate, draw --replicates 20, run the analysis on each, and combine the estimates
    (`medsynth combine`): a first column `replicate` numbers the plausible models that drew the rows. With {replicate}
    in the name of --output each has a file of its own.

    Beside the rows stands NAME.synthetic.csv.provenance.json: with it a report draws the rows again, and shows the
    model's claim only where they are the same.

    Examples:

        medsynth sample -n 10000

        medsynth sample -n 5_000_000 --model patients.medsynth --output patients.synthetic.parquet

        medsynth sample -n 500 --where sex=F --where age=40..60 --balance

        medsynth sample -n 1e4 --where age=60.. --where ward=heart,kidney -o old.csv

        medsynth sample -n 5000 --replicates 20 -o replicates.csv

        medsynth sample -n 5000 --replicates 20 -o "replicate-{replicate}.csv"

        medsynth sample --patients 1000 --where sex=F --where-any flare=yes --where-any severity=severe
    """
    from medsynth.sampling.draw import Draw

    if output == "-" and as_json:
        raise UsageError("--json and --output - both claim standard output. Choose one.")
    draw = Draw(rows=n, patients=patients, seed=seed, where=where or (), where_any=where_any or (), balance=balance,
                replicates=replicates)  # fmt: skip
    from medsynth.artifact import load

    fitted = load(path := find_model(model))
    if fitted.tables is not None:
        return _to_folder(fitted, path, output, draw, parquet=parquet, force=force, as_json=as_json)
    if parquet:
        raise UsageError("--parquet is for several tables. Of one, --output NAME.parquet says it.")
    if output == "-":
        return _to_standard_output(fitted, draw)
    return _to_file(fitted, path, Path(output or f"{path.stem}.synthetic.csv"), draw, force=force, as_json=as_json)


def _to_standard_output(fitted: Model, draw: Draw) -> None:
    from medsynth.sampling import csv_chunks

    with writing_to_standard_output():
        for chunk in csv_chunks(fitted, draw):
            sys.stdout.buffer.write(chunk.encode())  # UTF-8, whatever the terminal's encoding is
        sys.stdout.buffer.flush()


def _to_file(fitted: Model, path: Path, target: Path, draw: Draw, *, force: bool, as_json: bool) -> None:
    """Write rows and their provenance, and print what was written."""
    from medsynth.artifact import claim
    from medsynth.sampling.formulas import formula_columns
    from medsynth.sampling.provenance import tables_of, write_sample

    for table in (tables := tables_of(target, draw)):
        _check_outputs(table, path, force)
    drawn = write_sample(fitted, path, target, draw, force=force).draw
    notify(claim(fitted, brief=True), quiet=as_json)
    if (odd := formula_columns(fitted.schema)) and target.suffix.lower() not in (".parquet", ".pq"):
        notify(f"CAUTION: spreadsheets run cells of {', '.join(odd[:5])} as formulas (they begin with =, +, - or @). "
               "Import the file as text.", quiet=as_json)  # fmt: skip
    facts = {"output": str(target), "outputs": [*map(str, tables)], "rows": drawn.rows, "patients": drawn.patients,
             "model": str(path), "claims": fitted.claims, "seed": drawn.seed,
             "replicates": drawn.replicates}  # fmt: skip
    counted = f"{drawn.patients} patients" if drawn.patients else f"{drawn.rows} rows"
    wrote = str(target) if len(tables) == 1 else f"{len(tables)} files, {tables[0]} to {tables[-1]}"
    result(facts, f"Wrote {wrote}, {counted}{' a replicate' * bool(drawn.replicates)}.", as_json=as_json)


def _to_folder(
    fitted: Model, path: Path, output: str | None, draw: Draw, *, parquet: bool, force: bool, as_json: bool
) -> None:
    """Draw patients with their rows in all tables, into a folder, and print what was written."""
    from medsynth.artifact import claim
    from medsynth.sampling.formulas import formula_columns
    from medsynth.sampling.table_files import outputs, write_tables

    assert fitted.tables is not None
    for name in ("where_any", "balance", "replicates"):
        if getattr(draw, name):
            raise UsageError(f"`{name}` is for one table. The file that names several says it of each.")
    if draw.rows is not None and draw.patients is not None:
        raise UsageError("-n and --patients both count patients here. Give one of them.")
    if output == "-":
        raise UsageError("Several tables cannot be written to standard output. Name a folder as `output`.")
    folder = Path(output or f"{path.stem}.synthetic")
    if folder.name.endswith((".train", ".heldout")) or folder.name == path.stem:
        raise UsageError(f"{folder} has the name of a folder of real tables. Choose another --output.")
    asked = draw.patients if draw.rows is None else draw.rows
    count = fitted.rows if asked is None else asked
    own = write_tables(fitted, path, folder, count, draw.seed, draw.where, parquet=parquet, force=force)
    notify(claim(fitted, brief=True), quiet=as_json)
    for name in fitted.tables.tables:
        if (odd := formula_columns(fitted.tables.alone(name))) and not parquet:
            notify(f"CAUTION: spreadsheets run cells of {', '.join(odd[:5])} in {name} as formulas.", quiet=as_json)
    written = [str(file) for file in outputs(fitted.tables, folder, ".parquet" if parquet else ".csv")]
    facts = {"output": str(folder), "files": written, "patients": count, "model": str(path), "claims": fitted.claims,
             "seed": own}  # fmt: skip
    result(facts, f"Wrote {folder}, {count} patients in {len(written)} tables.", as_json=as_json)


def _check_outputs(target: Path, model: Path, force: bool) -> None:
    """Raises unless the rows and their provenance can be written, over no table of real rows."""
    from medsynth.budget import Budget
    from medsynth.io.atomic import check_outputs, refuse_existing
    from medsynth.io.formats import name_of
    from medsynth.io.writer import check
    from medsynth.sampling.provenance import beside

    refuse_existing(target, force=True)  # its name, before others are made of it
    check(target)
    fitted = Budget.of(target).path.exists() or (target.exists() and name_of(target) == model.stem)
    if fitted or name_of(target).endswith((".train", ".heldout")):
        raise UsageError(f"{target} has the name of a table of real rows. Choose another --output.")
    check_outputs(target, beside(target), inputs=(model,), force=force)


@guarded
def combine(
    results: Annotated[
        Path, typer.Argument(help="CSV file with the columns term, replicate, estimate and perhaps std_error.")
    ],
    rule: Annotated[str, typer.Option(help="between, for replicates of medsynth; fully; or raab.")] = "between",
    level: Annotated[float, typer.Option(help="Of the intervals.")] = 0.95,
    rows_ratio: Annotated[
        float, typer.Option(help="Rows of one synthetic table over rows of the real one, for --rule raab and fully.")
    ] = 1.0,
    as_json: Json = False,
) -> None:
    """Combine the estimates of replicates into one estimate and interval a term. Uses no privacy budget.

    The file has a line for each term of each replicate, as an analysis of every replicate gives them. The rule between
    reads the estimates alone; fully and raab (docs/inference.md) need their standard errors too.

    Examples:

        medsynth combine results.csv

        medsynth combine results.csv --rule fully --json
    """
    from medsynth.combining import combine_file

    found = combine_file(results, rule=rule, level=level, rows_ratio=rows_ratio)
    if not found:
        raise UsageError(f"{results} has no line.")
    heading = f"{'term':<28} {'estimate':>12} {'std error':>11} {f'{level:.0%} interval':>27} {'p':>8}"
    lines = [heading, *(_line(term, one) for term, one in found.items())]
    if cured := [term for term, one in found.items() if one.cured]:
        lines.append(f"A negative variance was replaced: {', '.join(cured)}. More replicates or rows in each help.")
    content = {"rule": rule, "level": level, "terms": {term: _plain(one) for term, one in found.items()}}
    result(content, "\n".join(lines), as_json=as_json)


def _line(term: str, one: Combined) -> str:
    interval = f"{one.low:.5g} to {one.high:.5g}"
    return f"{term[:28]:<28} {one.estimate:>12.5g} {one.std_error:>11.4g} {interval:>27} {one.p_value:>8.2g}"


def _plain(one: Combined) -> dict[str, object]:
    """As JSON holds it, which knows no infinite number: the degrees of a normal interval are none."""
    return asdict(one) | {"degrees": one.degrees if one.degrees < float("inf") else None}
