"""The commands `medsynth sample`, and `medsynth combine` for estimates from replicates."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from medsynth.errors import UsageError
from medsynth.io.formats import STATISTICAL

from .console import find_model, guarded, notify, one_of, result, writing_to_standard_output
from .options import DatabaseFile, Force, Json, ModelArgument, ModelOption, TableName, whole_number

if TYPE_CHECKING:
    from medsynth.artifact import Model
    from medsynth.sampling import Draw


Number = Annotated[
    int | None,
    typer.Option(
        "-n", "--rows", parser=whole_number, metavar="N", help="Rows to draw [default: the model's public row count]."
    ),
]
Patients = Annotated[
    int | None,
    typer.Option(parser=whole_number, metavar="N", help="Patients to draw, each with all their rows; in place of -n."),
]
Written = Annotated[
    str | None,
    typer.Option(
        "--output",
        "-o",
        help="File to write: .csv, .csv.gz, .parquet, .sav, .dta or .xpt; or - for standard output "
        "[default: NAME.synthetic with the ending of the fitted table].",
    ),
]
Conditions = Annotated[
    list[str] | None,
    typer.Option(help="Only rows with COLUMN=VALUE, COLUMN=VALUE,VALUE or COLUMN=LOW..HIGH. Repeat for more."),
]
AnyRow = Annotated[
    list[str] | None,
    typer.Option(help="Only patients with a row that meets this condition. If repeated, one row meets them all."),
]
Balance = Annotated[bool, typer.Option("--balance", help="Draw every class of the target equally often.")]
FromSchema = Annotated[
    Path | None,
    typer.Option(metavar="SCHEMA", help="Draw from a schema, a file of tables or a bundled schema, without any table."),
]
Replicates = Annotated[
    int | None,
    typer.Option(parser=whole_number, metavar="M", help="Draw from each of M plausible models, for intervals."),
]


@guarded
def sample(
    model_file: ModelArgument = None,
    n: Number = None,
    patients: Patients = None,
    model: ModelOption = None,
    output: Written = None,
    where: Conditions = None,
    where_any: AnyRow = None,
    balance: Balance = False,
    replicates: Replicates = None,
    schema: FromSchema = None,
    table_name: TableName = None,
    database: DatabaseFile = None,
    seed: Annotated[int | None, typer.Option(help="Make the draw repeatable.")] = None,
    parquet: Annotated[bool, typer.Option("--parquet", help="For several tables: write Parquet, not CSV.")] = False,
    mark: Annotated[bool, typer.Option("--mark", help="Add a last column `synthetic` that is always yes.")] = False,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Draw synthetic rows from a model and write NAME.synthetic, in the fitted table's form. Uses no privacy budget.

    If patients have several rows, -n counts rows and --patients counts patients. If those rows have an order, --where
    applies to each patient's first row and --where-any to any row. For several tables, -n counts patients, and the
    rows go to a folder NAME.synthetic (docs/several-tables.md).

    To train a classifier, draw several times as many rows as were fitted (docs/results.md). To estimate with
    intervals, draw --replicates 20, run your analysis on each, and combine the results with `medsynth combine`. A
    first column gives the number of the replicate. If --output contains {replicate}, each replicate gets its own file.

    With --schema, rows of NAME.structure.csv follow from a schema alone, and no table is read (docs/layers.md).

    After a fit of a .sav, .dta, .xpt or Parquet file the default is such a file, else .csv. Text has the delimiter,
    encoding and byte-order mark of the fitted file. By the file .provenance.json the report proves the rows' origin.

    Examples:

        medsynth sample -n 10000

        medsynth sample -n 500 --where sex=F --where age=40..60 --balance

        medsynth sample -n 5000 --replicates 20 -o "replicate-{replicate}.csv"

        medsynth sample --patients 1000 --where sex=F --where-any flare=yes --where-any severity=severe
    """
    from medsynth.sampling.draw import Draw

    if output == "-" and as_json:
        raise UsageError("--json and --output - both write to standard output. Choose one.")
    draw = Draw(rows=n, patients=patients, seed=seed, where=where or (), where_any=where_any or (), balance=balance,
                replicates=replicates, mark=mark)  # fmt: skip
    fitted, path = _source(one_of(model_file, model), schema)
    draw = draw.of(fitted)
    _check_parquet(fitted, parquet)
    if output == "-":
        return _to_standard_output(fitted, draw)
    usual = "" if fitted.tables else ".parquet" if table_name else fitted.form.ending
    target = Path(output or f"{_name_of(path)}{'.structure' if schema else '.synthetic'}{usual}")
    copy = _copier(fitted, target, draw, table_name, database)
    _to_files(fitted, path, target, draw, ".parquet" if parquet else ".csv", force=force, as_json=as_json)
    copy()


def _check_parquet(fitted: Model, parquet: bool) -> None:
    if parquet and fitted.tables is None:
        raise UsageError("--parquet is for several tables. For one table, use --output NAME.parquet.")


def _copier(fitted: Model, target: Path, draw: Draw, name: str | None, database: Path | None) -> Callable[[], None]:
    """Return what copies the written rows into a new table of a database, if one is named."""
    if name is None:
        return lambda: None
    from medsynth.artifact import claim
    from medsynth.io.database import DatabaseTable

    found = DatabaseTable.of(name, database)
    if target.suffix != ".parquet" or fitted.tables or draw.replicates:
        raise UsageError("--table writes the rows of one .parquet file. Leave --replicates out, or name such a file.")
    found.check_new()
    return lambda: found.create(target, f"SYNTHETIC: drawn by medsynth. {claim(fitted, brief=True)}")


def _name_of(path: Path) -> str:
    """Return the name of the table of a model's or a schema's file."""
    name = path.name
    for ending in (".medsynth", ".yaml", ".yml", ".tables", ".schema"):
        name = name.removesuffix(ending)
    return name


def _source(model: Path | None, schema: Path | None) -> tuple[Model, Path]:
    """Return the model to draw from and its file, or the schema's."""
    if schema is None:
        from medsynth.artifact import load

        return load(path := find_model(model)), path
    if model is not None:
        raise UsageError("Rows follow from a model or from a schema. Leave one of them out.")
    from medsynth.sampling.structure import declared_in, structure_model

    declared, path = declared_in(schema)
    return structure_model(declared), path


def _to_standard_output(fitted: Model, draw: Draw) -> None:
    from medsynth.sampling import RowCounts, pipeline

    if fitted.tables is not None:
        raise UsageError("Several tables cannot be written to standard output. Name a folder as `output`.")
    counts = RowCounts()
    parts = pipeline.drawn_parts(fitted, draw, counts)
    with writing_to_standard_output():
        for part in pipeline.as_bytes(parts, fitted, draw, fitted.form):  # whatever the terminal's encoding
            sys.stdout.buffer.writelines(part.values())
        sys.stdout.buffer.flush()
    for text in counts.sentences:
        notify(text)


def _to_files(
    fitted: Model, path: Path, target: Path, draw: Draw, ending: str, *, force: bool, as_json: bool
) -> None:  # fmt: skip
    """Write rows and their provenance, and print the result. Several tables are files of the folder `target`."""
    from medsynth.artifact import claim
    from medsynth.sampling.pipeline import formula_columns
    from medsynth.sampling.provenance import files_of, tables_of, write_sample
    from medsynth.sampling.replicates import misleads

    several = fitted.tables is not None
    places = tables_of(target, draw)
    for place in places:
        _check_outputs(place, path, force, folder=several)
    provenance = write_sample(fitted, path, target, draw, ending=ending, force=force)
    draw = provenance.draw
    for text in (claim(fitted, brief=True), *provenance.cut_short):
        notify(text, quiet=as_json)
    for name, file in files_of(fitted, target, ending).items():
        odd = formula_columns(fitted.written[name])
        if odd and file.suffix.lower() not in (".parquet", ".pq", *STATISTICAL):
            where = f"{', '.join(odd[:5])}{f' in {name}' * several}"
            notify(f"CAUTION: spreadsheets run cells of {where} as formulas (they start with =, +, - or @). Import the "
                   "file as text.", quiet=as_json)  # fmt: skip
    written = [str(file) for place in places for file in files_of(fitted, place, ending).values()]
    if draw.replicates is None and misleads(fitted):
        apart = target.with_name(f"{target.stem.removesuffix('.synthetic')}.replicates.csv")
        command = f"medsynth sample {path} -n {fitted.rows} --replicates 20 -o {apart}"
        notify("P-values of these rows are wrong, since they ignore the noise. For tests and intervals use `medsynth "
               f"estimate`, or draw replicates: {command}", quiet=as_json)  # fmt: skip
    facts = {"output": str(target), "outputs": written, "rows": draw.rows, "patients": draw.patients,
             "model": str(path), "claims": fitted.claims, "seed": draw.seed, "replicates": draw.replicates,
             "counts": provenance.counts}  # fmt: skip
    counted = f"{draw.patients} patients" if draw.patients else f"{draw.rows} rows"
    if several:
        facts["files"] = written
        wrote = str(target)
        counted = f"{counted} in {len(written)} tables"
    else:
        wrote = str(target) if len(written) == 1 else f"{len(written)} files, {written[0]} to {written[-1]}"
    result(facts, f"Wrote {wrote}, {counted}{' per replicate' * bool(draw.replicates)}.", as_json=as_json)


def _check_outputs(target: Path, model: Path, force: bool, *, folder: bool) -> None:
    """Raise unless the rows and their provenance can be written without replacing a table of real rows."""
    from medsynth.budget import Budget
    from medsynth.io.atomic import check_outputs, refuse_existing
    from medsynth.io.formats import name_of
    from medsynth.io.writer import check
    from medsynth.sampling.provenance import beside

    if not folder:
        refuse_existing(target, force=True)  # checks the name before other names are derived from it
        check(target)
    own = (folder or target.exists()) and name_of(target) == _name_of(model)
    fitted = own or Budget.of(target).path.exists()
    if fitted or name_of(target).endswith((".train", ".heldout")):
        what = "folder of real tables" if folder else "table of real rows"
        raise UsageError(f"{target} is the name of a {what}. Choose another --output.")
    if not folder:
        check_outputs(target, beside(target), inputs=(model,), force=force)


@guarded
def combine(
    results: Annotated[
        Path, typer.Argument(help="CSV file with the columns term, replicate, estimate and, optionally, std_error.")
    ],
    rule: Annotated[str, typer.Option(help="between (for replicates of medsynth), fully or raab.")] = "between",
    level: Annotated[float, typer.Option(help="Confidence level of the intervals.")] = 0.95,
    rows_ratio: Annotated[
        float, typer.Option(help="Rows of a synthetic table divided by rows of the real one (rules raab and fully).")
    ] = 1.0,
    as_json: Json = False,
) -> None:
    """Combine the estimates of replicates into one estimate and interval per term. Uses no privacy budget.

    The file has one line per term and replicate. The rule `between` reads only the estimates. The rules `fully` and
    `raab` (docs/inference.md) also need their standard errors.

    Examples:

        medsynth combine results.csv

        medsynth combine results.csv --rule fully --json
    """
    from medsynth.combining import combine_file

    found = combine_file(results, rule=rule, level=level, rows_ratio=rows_ratio)
    if not found:
        raise UsageError(f"{results} has no rows.")
    heading = f"{'term':<28} {'estimate':>12} {'std error':>11} {f'{level:.0%} interval':>27} {'p':>8}"
    lines = [heading]
    for term, one in found.items():
        interval = f"{one.low:.5g} to {one.high:.5g}"
        lines.append(f"{term[:28]:<28} {one.estimate:>12.5g} {one.std_error:>11.4g} {interval:>27} {one.p_value:>8.2g}")
    if cured := [term for term, one in found.items() if one.cured]:
        lines.append(f"A negative variance was replaced: {', '.join(cured)}. Draw more replicates or more rows.")
    # JSON has no infinity, so degrees of a normal interval are null.
    degrees = {term: one.degrees if one.degrees < float("inf") else None for term, one in found.items()}
    terms = {term: asdict(one) | {"degrees": degrees[term]} for term, one in found.items()}
    result({"rule": rule, "level": level, "terms": terms}, "\n".join(lines), as_json=as_json)
