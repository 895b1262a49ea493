"""`medsynth sample`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from medsynth.errors import UsageError

from .console import find_model, guarded, notify, result
from .options import Force, Json, ModelOption


@guarded
def sample(
    n: Annotated[int | None, typer.Option("-n", help="Rows to draw [default: the model's public row count].")] = None,
    model: ModelOption = None,
    output: Annotated[
        str | None, typer.Option(help="File, by its name .csv, .csv.gz or .parquet; or - for standard output.")
    ] = None,
    where: Annotated[
        list[str] | None, typer.Option(help="Only rows with COLUMN=VALUE or COLUMN=LOW..HIGH; may be given again.")
    ] = None,
    balance: Annotated[bool, typer.Option("--balance", help="Give every class of the target the same share.")] = False,
    seed: Annotated[int | None, typer.Option(help="Repeat this draw.")] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Draw synthetic rows from a model and write NAME.synthetic.csv. Uses no privacy budget.

    Beside the rows stands NAME.synthetic.csv.provenance.json: with it a report draws the rows again, and shows the
    model's claim only where they are the same.

    Examples:

        medsynth sample -n 10000

        medsynth sample -n 500 --model patients.medsynth --output -

        medsynth sample -n 5000000 --output patients.synthetic.parquet

        medsynth sample -n 500 --where sex=F --where age=40..60 --balance
    """
    if n is not None and n < 1:
        raise UsageError("-n must be one or more.")
    if output == "-" and as_json:
        raise UsageError("--json and --output - both claim standard output. Choose one.")
    path = find_model(model)
    target = Path(output or f"{path.stem}.synthetic.csv")
    if output != "-":
        _check_outputs(target, force)

    from medsynth.artifact import claim, load
    from medsynth.sampling import csv_chunks
    from medsynth.sampling.provenance import write_sample

    fitted = load(path)
    if output == "-":
        for chunk in csv_chunks(fitted, n, seed, where or (), balance):
            print(chunk, end="")
        return
    rows = fitted.rows if n is None else n
    own = write_sample(fitted, path, target, rows, seed, where or (), balance, force=force)
    notify(claim(fitted), quiet=as_json)
    result(
        {"output": str(target), "rows": rows, "model": str(path), "claims": fitted.claims, "seed": own},
        f"Wrote {target}, {rows} rows.",
        as_json=as_json,
    )


def _check_outputs(target: Path, force: bool) -> None:
    from medsynth.io.atomic import refuse_existing
    from medsynth.io.writer import check
    from medsynth.sampling.provenance import beside

    check(target)
    for path in (target, beside(target)):
        refuse_existing(path, force=force)
