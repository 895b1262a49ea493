"""`medsynth fit`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from medsynth.errors import UsageError

from .console import fit_progress, guarded, notify, result
from .flags import translated
from .options import (
    PUBLIC_ROWS,
    Delta,
    Encoding,
    Force,
    Json,
    Method,
    Microbatches,
    Preset,
    Quiet,
    Rows,
    SchemaFile,
    Settings,
    Target,
    parsed_settings,
)

if TYPE_CHECKING:
    from medsynth.artifact import Model
    from medsynth.io.table import Table
    from medsynth.schema import Schema


@guarded
def fit(
    table: Annotated[Path, typer.Argument(help="CSV (any delimiter, packed or not) or Parquet file.")],
    epsilon: Annotated[float | None, typer.Option(help="Privacy budget; 3.7 in the thyroid study.")] = None,
    delta: Delta = 1e-5,
    schema: SchemaFile = None,
    target: Target = None,
    method: Method = None,
    preset: Preset = None,
    microbatches: Microbatches = None,
    set_: Settings = None,
    rows: Rows = None,
    encoding: Encoding = None,
    public: Annotated[
        Path | None, typer.Option(help=f"A table of rows that you declare public, for {PUBLIC_ROWS}.")
    ] = None,
    holdout: Annotated[float | None, typer.Option(help="Keep each row out of training with this chance.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    seed: Annotated[int | None, typer.Option(help="Repeat initial weights and latent draws; never noise.")] = None,
    output: Annotated[Path | None, typer.Option(help="Model file [default: TABLE's name here].")] = None,
    no_dp: Annotated[bool, typer.Option("--no-dp", help="Add no noise: NOT PRIVATE, for comparison.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Continue a fit that was killed.")] = False,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Fit a generator to a table under differential privacy and write NAME.medsynth.

    Exactly one of --epsilon and --no-dp is given; a model fitted without noise says so wherever it is used. What is
    taken as public is listed before anything is measured.

    Examples:

        medsynth fit patients.csv --epsilon 3.7

        medsynth fit patients.csv --epsilon 1 --rows 3772 --holdout 0.25 --target diagnosis

        medsynth fit patients.csv --epsilon 3.7 --resume

        medsynth fit patients.csv --epsilon 3.7 --method dp-gan --set groups=weight-bias
    """
    if no_dp == (epsilon is not None):
        raise UsageError("Give exactly one of --epsilon and --no-dp.")
    output, quiet = _model_file(table, output, force), quiet or as_json
    again = resume and _checkpoint(output).exists()
    source: Path | Table = table
    declared: Path | Schema | None = schema
    if holdout is not None:
        source, declared = _hold_out(table, schema, encoding, holdout, force, quiet, again)
    if holdout is not None and rows is not None:
        rows = max(2, round(rows * (1 - holdout)))
    model = _fitted(
        source, output, quiet, epsilon=epsilon, no_dp=no_dp, delta=delta, schema=declared, target=target, method=method,
        preset=preset, microbatches=microbatches, settings=parsed_settings(set_), rows=rows,
        encoding=encoding, public=public, device=device, seed=seed, resume=resume, budget_table=table,
        model_name=output.name,
    )  # fmt: skip
    model.save(output, force=force)
    _checkpoint(output).unlink(missing_ok=True)
    _print(model, output, as_json)


def _model_file(table: Path, output: Path | None, force: bool) -> Path:
    from medsynth.io.atomic import refuse_existing
    from medsynth.io.formats import name_of

    output = output or Path(f"{name_of(table)}.medsynth")
    refuse_existing(output, force=force)
    return output


def _checkpoint(output: Path) -> Path:
    return output.with_suffix(".medsynth-checkpoint")


def _fitted(source: Path | Table, output: Path, quiet: bool, *, resume: bool, **options: Any) -> Model:
    from medsynth.fitting.pipeline import fit as run

    checkpoint = _checkpoint(output)
    show = sys.stderr.isatty() and not quiet
    try:
        with fit_progress(show) as advance:
            return run(
                source, **options, progress=advance, checkpoint=checkpoint, resume=resume,
                notice=lambda text: notify(text, quiet=quiet),
            )  # fmt: skip
    except KeyboardInterrupt:
        if checkpoint.exists():
            notify("What was measured is on file and counts. The same command with --resume goes on.", quiet=quiet)
        raise


def _print(model: Model, output: Path, as_json: bool) -> None:
    from medsynth.artifact import claim

    facts: dict[str, Any] = {
        "model": str(output),
        "method": model.method,
        "preset": model.preset,
        "claims": model.claims,
        "epsilon": model.epsilon,
        "epsilon_asked": model.epsilon_asked,
        "delta": model.ledger.delta,
        "accountant": model.ledger.accountant,
        "rows": model.rows,
        "schema": model.schema.name,
        "device": model.device,
    }
    lines = [f"Wrote {output}, fitted on {model.device}.", translated(claim(model))]
    result(facts, "\n".join([*lines, "Next: medsynth sample -n 10000"]), as_json=as_json)


def _hold_out(
    table: Path, schema: Path | None, encoding: str | None, fraction: float, force: bool, quiet: bool, again: bool
) -> tuple[Table, Schema | None]:
    """Split the table; returns the training rows and the schema that the whole table would have had.

    How many rows the secret draws kept is no public number: the table that is returned states how many were expected.
    """
    from medsynth.fitting.private_table import declared_schema, read_table
    from medsynth.io.formats import name_of
    from medsynth.io.split import check_fraction, expecting, split

    check_fraction(fraction)
    read = read_table(table, encoding)
    suffix = read.written.suffix if read.written else ".csv"
    train, heldout = (Path(f"{name_of(table)}.{part}{suffix}") for part in ("train", "heldout"))
    declared = declared_schema(table, schema)
    if again and train.exists() and heldout.exists():
        return expecting(read_table(train), read, 1 - fraction), declared  # a fit that is resumed keeps its split
    rows, _ = split(read, fraction, train, heldout, force=force, unit=declared.unit if declared else None)
    notify(f"PRIVATE, real rows: {train} (training) and {heldout} (held out). Do not share them.", quiet=quiet)
    return rows, declared
