"""`medsynth fit`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from medsynth.errors import UsageError

from .console import given_up, guarded, progress_bar, result, say, settings


@guarded
def fit(
    table: Annotated[Path, typer.Argument(help="CSV (any delimiter, packed or not) or Parquet file.")],
    epsilon: Annotated[float | None, typer.Option(help="Privacy budget; 3.7 in the thyroid study.")] = None,
    delta: Annotated[float, typer.Option(help="Chance of a worse loss; below 1/(10 rows).")] = 1e-5,
    schema: Annotated[Path | None, typer.Option(help="Schema YAML [default: TABLE's .schema.yaml].")] = None,
    target: Annotated[str | None, typer.Option(help="Column to predict [default: the schema's, else last].")] = None,
    method: Annotated[
        str | None, typer.Option(help="warm-dp-cgan (default), dp-cgan, independent, gs-wgan, dp-gan or loss-noise.")
    ] = None,
    preset: Annotated[str | None, typer.Option(help="thyroid-study, of dp-cgan, or public-order, of gs-wgan.")] = None,
    microbatches: Annotated[int | None, typer.Option(help="dp-cgan: clip so many group means a lot, not rows.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="NAME=VALUE: a setting of the method; may be given again.")
    ] = None,
    rows: Annotated[int | None, typer.Option(help="Declare the public row count.")] = None,
    public: Annotated[Path | None, typer.Option(help="A table of rows declared public by you, for dp-gan.")] = None,
    holdout: Annotated[float | None, typer.Option(help="Keep each row out of training with this chance.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    seed: Annotated[int | None, typer.Option(help="Repeat initial weights and latent draws; never noise.")] = None,
    output: Annotated[Path | None, typer.Option(help="Model file [default: TABLE's name here].")] = None,
    no_dp: Annotated[bool, typer.Option("--no-dp", help="Add no noise: NOT PRIVATE, for comparison.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a fit that was killed.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace files that exist.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No messages.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")] = False,
) -> None:
    """Fit a generator to a table under differential privacy and write NAME.medsynth.

    Exactly one of --epsilon and --no-dp is given; a model fitted without noise says so wherever it is used.

    Examples:

        medsynth fit patients.csv --epsilon 3.7

        medsynth fit patients.csv --epsilon 1 --rows 3772 --holdout 0.25 --target diagnosis

        medsynth fit patients.csv --epsilon 3.7 --resume

        medsynth fit patients.csv --epsilon 3.7 --method dp-gan --set groups=weight-bias
    """
    from medsynth.io.atomic import refuse_existing
    from medsynth.io.formats import name_of

    if no_dp == (epsilon is not None):
        raise UsageError("Give exactly one of --epsilon and --no-dp.")
    output = output or Path(f"{name_of(table)}.medsynth")
    refuse_existing(output, force=force)
    quiet = quiet or as_json
    checkpoint = output.with_suffix(".medsynth-checkpoint")
    again = resume and checkpoint.exists()
    source, schema = (table, schema) if holdout is None else _hold_out(table, schema, holdout, force, quiet, again)
    if holdout is not None and rows is not None:
        rows = max(2, round(rows * (1 - holdout)))

    from medsynth.fitting.pipeline import fit as run

    with given_up(None if resume else checkpoint), progress_bar(sys.stderr.isatty() and not quiet) as advance:
        model = run(
            source, epsilon=epsilon, no_dp=no_dp, delta=delta, schema=schema, target=target, method=method,
            preset=preset, microbatches=microbatches, settings=settings(set_), rows=rows, public=public,
            device=device, seed=seed, progress=advance, checkpoint=checkpoint, resume=resume,
            notice=lambda text: say(text, quiet=quiet),
        )  # fmt: skip
    from medsynth.artifact import claim
    from medsynth.budget import record

    record(table, model, output)
    model.save(output, force=force)
    checkpoint.unlink(missing_ok=True)
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
        "seconds": model.seconds,
    }
    text = f"Wrote {output} in {model.seconds:.1f} s on {model.device}.\n{claim(model)}\nNext: medsynth sample -n 10000"
    result(facts, text, as_json=as_json)


def _hold_out(
    table: Path, schema: Path | None, fraction: float, force: bool, quiet: bool, again: bool
) -> tuple[Path, Path | None]:
    """Split the table; returns the training file and the schema that the whole table would have had."""
    from medsynth.fitting.private_table import check_table
    from medsynth.io.formats import beside, is_parquet, name_of
    from medsynth.io.split import check, split
    from medsynth.schema import Schema

    check(fraction)
    check_table(table)
    kind = ".parquet" if is_parquet(table) else ".csv"
    train, heldout = (Path(f"{name_of(table)}.{part}{kind}") for part in ("train", "heldout"))
    sibling = beside(table, ".schema.yaml")
    told = schema or (sibling if sibling.exists() else None)
    if again and train.exists() and heldout.exists():
        return train, told  # a fit that is resumed keeps its split
    split(table, fraction, train, heldout, force=force, unit=Schema.load(told).unit if told else None)
    say(f"PRIVATE, real rows: {train} (training) and {heldout} (held out). Do not share them.", quiet=quiet)
    return train, told
