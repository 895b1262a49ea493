"""`medsynth fit`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from medsynth.errors import OutputExists, UsageError

from .console import guarded, notify, result, starting
from .flags import translated
from .options import (
    Delta,
    Encoding,
    Force,
    Inference,
    Json,
    MaxRows,
    Method,
    Microbatches,
    NaValues,
    OneRowAPatient,
    Output,
    Preset,
    Public,
    Quiet,
    Rows,
    Scheduler,
    SchemaFile,
    Settings,
    Target,
    Unit,
    parsed_settings,
)
from .tables import commands as tables
from .tables.dispatch import named_by_table

if TYPE_CHECKING:
    from medsynth.artifact import Model
    from medsynth.fitting.holdout import HoldOut
    from medsynth.io.large import LargeTable
    from medsynth.io.table import Table
    from medsynth.schema import Schema


@guarded
@named_by_table(tables.fit)
def fit(
    table: Annotated[Path, typer.Argument(help="CSV (any delimiter, packed or not), Parquet, or a folder of several.")],
    epsilon: Annotated[float | None, typer.Option(help="Privacy budget; 3.7 in the thyroid study.")] = None,
    delta: Delta = None,
    schema: SchemaFile = None,
    target: Target = None,
    method: Method = None,
    preset: Preset = None,
    microbatches: Microbatches = None,
    inference: Inference = None,
    set_: Settings = None,
    rows: Rows = None,
    encoding: Encoding = None,
    na_values: NaValues = None,
    one_row_a_patient: OneRowAPatient = False,
    unit: Unit = None,
    max_rows: MaxRows = None,
    public: Public = None,
    scheduler: Scheduler = None,
    holdout: Annotated[float | None, typer.Option(help="Keep each row out of training with this chance.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    seed: Annotated[int | None, typer.Option(help="Repeat initial weights and latent draws; never noise.")] = None,
    output: Output = None,
    no_dp: Annotated[bool, typer.Option("--no-dp", help="Add no noise: NOT PRIVATE, for comparison.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Continue a fit that was killed.")] = False,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Fit a generator to a table under differential privacy and write NAME.medsynth.

    Give one of --epsilon and --no-dp. What is taken as public is listed before anything is measured.

    Examples:

        medsynth fit patients.csv --epsilon 3.7 --inference "pulse ~ age + sex"

        medsynth fit visits.csv --epsilon 1 --rows 3772 --holdout 0.25 --unit patient_id --max-rows 3

        medsynth fit hospital.tables.yaml --epsilon 3.7 --resume

        medsynth fit patients.csv --epsilon 3.7 --method dp-gan --set groups=weight-bias
    """
    if no_dp == (epsilon is not None):
        raise UsageError("Give exactly one of --epsilon and --no-dp.")
    quiet = quiet or as_json
    with starting(show := sys.stderr.isatty() and not quiet):
        files = _files(table, output, holdout, (schema, public), force=force, resume=resume)
        from medsynth.fitting.pipeline import fit as run  # once the outputs can be written: it takes a second

    with _source(files, table, schema, encoding, holdout, unit, resume, quiet, scheduler) as (source, declared, number):
        model = _fitted(
            run, source, files, quiet, epsilon=epsilon, no_dp=no_dp, delta=delta, schema=declared, target=target,
            method=method, preset=preset, microbatches=microbatches, settings=parsed_settings(set_, inference),
            rows=_rows_to_train_on(rows, holdout), encoding=encoding, na_values=_codes(na_values),
            one_row_a_patient=one_row_a_patient, unit=unit, max_rows=max_rows, public=public, device=device, seed=seed,
            progress=show, resume=resume, budget_table=table, model_name=files.model.name, split_number=number,
        )  # fmt: skip
        _publish(model, files, force, quiet)
    publish_fit(model, files.model, as_json)


def _rows_to_train_on(rows: int | None, holdout: float | None) -> int | None:
    """The declared number of rows, less those that a hold-out is expected to take."""
    return rows if holdout is None else rows and max(2, round(rows * (1 - holdout)))


def _codes(words: list[str] | None) -> tuple[str, ...]:
    """The codes of missing values that were given, several in one option parted by commas."""
    return tuple(code for word in words or () for code in word.split(","))


class Files(NamedTuple):
    """What a fit writes: the model, its checkpoint until it stands, and the two parts of a table that is split."""

    model: Path
    checkpoint: Path
    split: HoldOut | None


def _files(
    table: Path, output: Path | None, holdout: float | None, read: Sequence[Path | None], *, force: bool, resume: bool
) -> Files:
    """The files of a fit, all of which can be written. What can be refused is refused before anything is measured."""
    from medsynth.budget import Budget
    from medsynth.io.atomic import check_outputs, refuse_existing
    from medsynth.io.formats import SUFFIXES, beside, name_of

    model = output or Path(f"{name_of(table)}.medsynth")
    refuse_existing(model, force=True)  # its name, before others are made of it
    if model.suffix.lower() in (*SUFFIXES, ".yaml"):
        raise UsageError(f"{model} is no name of a model: --output takes one that ends in .medsynth.")
    stem = model.name.removesuffix(".medsynth")
    checkpoint = model.with_name(f"{stem}.medsynth-checkpoint")
    split = None
    if holdout is not None:
        from medsynth.fitting.holdout import HoldOut
        from medsynth.io.split import check_fraction

        check_fraction(holdout)
        split = HoldOut.of(table, model, checkpoint)
    kept = [table, beside(table, ".schema.yaml"), Budget.of(table).path, *(path for path in read if path)]
    moves = split.moves if split else ()
    outputs = (model, *(final for _, final in moves))
    check_outputs(*outputs, inputs=tuple(kept), force=force)
    check_outputs(checkpoint, *(waiting for waiting, _ in moves), inputs=(*outputs, *kept), force=True)
    if not (resume or force) and checkpoint.exists():
        raise OutputExists(
            f"{checkpoint} holds what a fit that was interrupted has measured; it counts. --resume goes on with it, "
            "--force begins anew."
        )
    return Files(model, checkpoint, split)


@contextmanager
def _sole_writers(files: Files) -> Iterator[None]:
    """No other run writes the same model or the same parts of a table meanwhile."""
    from medsynth.io.atomic import sole_writer

    with ExitStack() as stack:
        for path in (files.model, *((files.split.heldout,) if files.split else ())):
            stack.enter_context(sole_writer(path))
        yield


@contextmanager
def _source(
    files: Files, table: Path, schema: Path | None, encoding: str | None, fraction: float | None, unit: str | None,
    resume: bool, quiet: bool, scheduler: str | None,
) -> Iterator[tuple[Path | Table | LargeTable, Path | Schema | None, str | None]]:  # fmt: skip
    """The table and its schema or, with hold-out, the training rows, the whole table's schema and the split's number.

    With a `scheduler` the table is that of a folder's files, while the cluster is connected. Otherwise the parts of a
    table wait beside the checkpoint. If a fit leaves no checkpoint, they are gone at the end. No other run writes the
    same files meanwhile.
    """
    with _sole_writers(files):
        if scheduler is not None:
            from medsynth.fitting.cluster import parts_of

            if fraction is not None:
                raise UsageError(
                    "`holdout` does not split a folder. To hold rows out, move some files elsewhere before the fit, so "
                    "that no patient is in both places."
                )
            with parts_of(table, scheduler, encoding) as parts:
                yield parts, schema, None
            return
        if files.split is None or fraction is None:
            yield table, schema, None
            return
        from medsynth.fitting.holdout import hold_out

        try:
            yield hold_out(
                table, files.split, fraction, schema, encoding, resume=resume and files.checkpoint.exists(),
                notice=lambda text: notify(text, quiet=quiet), unit=unit,
            )  # fmt: skip
        finally:
            if not files.checkpoint.exists():
                files.split.drop()


def _fitted(
    run: Callable[..., Model],
    source: Path | Table | LargeTable,
    files: Files,
    quiet: bool,
    *,
    resume: bool,
    **options: Any,
) -> Model:
    try:
        return run(
            source, **options, checkpoint=files.checkpoint, resume=resume,
            notice=lambda text: notify(text, quiet=quiet),
        )  # fmt: skip
    except KeyboardInterrupt:
        if files.checkpoint.exists():
            notify("What was measured is on file and counts. The same command with --resume goes on.", quiet=quiet)
        raise


def _publish(model: Model, files: Files, force: bool, quiet: bool) -> None:
    """Save the model, put the two parts of a table that was split where they belong, and drop the checkpoint."""
    model.save(files.model, force=force)
    if (split := files.split) is not None:
        split.publish()
        notify(f"PRIVATE, real rows: {split.train} (training) and {split.heldout} (held out). Do not share them.",
               quiet=quiet)  # fmt: skip
    files.checkpoint.unlink(missing_ok=True)


def publish_fit(model: Model, output: Path, as_json: bool) -> None:
    """Print what a fit has made."""
    from medsynth.artifact import claim
    from medsynth.schema.learned import LEARNED

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
    lines = [f"Wrote {output}, fitted on {model.device}.", translated(claim(model, brief=True))]
    if learned := [note.removeprefix(LEARNED) for note in model.ledger.notes if note.startswith(LEARNED)]:
        facts["learned"] = learned
        lines.append("\n  - ".join(["What was learned, from noisy counts alone:", *learned]))
    result(facts, "\n".join([*lines, "Next: medsynth sample -n 10000"]), as_json=as_json)
