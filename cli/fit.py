"""`medsynth fit`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from medsynth.errors import OutputExists, UsageError
from medsynth.fitting.settings import FitSettings

from .console import guarded, notify, result, starting
from .flags import translated
from .options import Force, Json, Output, Quiet, Scheduler, with_settings

if TYPE_CHECKING:
    from medsynth.artifact import Model
    from medsynth.fitting.holdout import HoldOut
    from medsynth.fitting.opening import Source


@guarded
@with_settings()
def fit(
    table: Annotated[Path, typer.Argument(help="CSV (any delimiter, packed or not), Parquet, or a folder of several.")],
    settings: FitSettings,
    scheduler: Scheduler = None,
    holdout: Annotated[float | None, typer.Option(help="Keep each row out of training with this chance.")] = None,
    output: Output = None,
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
    quiet = quiet or as_json
    with starting(show := sys.stderr.isatty() and not quiet):
        files = _files(table, output, holdout, settings, scheduler, force=force, resume=resume)
        from medsynth.fitting.pipeline import fit as run  # once the outputs can be written: it takes a second

    def tell(text: str) -> None:
        notify(text, quiet=quiet)

    with _source(files, table, settings, holdout, scheduler, tell, resume=resume) as (source, used, number):
        options = vars(used) | {"budget_table": files.counted, "split_number": number}
        try:
            model = run(
                source, **options, checkpoint=files.checkpoint, resume=resume, model_name=files.model.name,
                notice=tell, progress=show,
            )  # fmt: skip
            model.save(files.model, force=force)
        except KeyboardInterrupt:
            if files.checkpoint.exists():
                tell("What was measured is on file and counts. The same command with --resume goes on.")
            raise
        _publish(files, tell)
    publish_fit(model, files.model, as_json)


class Files(NamedTuple):
    """What a fit writes: the model, its checkpoint until it stands, and the two parts of a table that is split.

    `counted`: the path by which the budget counts fits of the table, or tables.
    """

    model: Path
    checkpoint: Path
    split: HoldOut | None
    counted: Path


def _files(
    table: Path, output: Path | None, holdout: float | None, settings: FitSettings, scheduler: str | None, *,
    force: bool, resume: bool,
) -> Files:  # fmt: skip
    """The files of a fit, all of which can be written. What can be refused is refused before anything is measured."""
    from medsynth.budget import Budget
    from medsynth.fitting.source import find, is_linked
    from medsynth.io.atomic import check_outputs, refuse_existing
    from medsynth.io.formats import SUFFIXES, beside, name_of

    source = find(table) if is_linked(table) and scheduler is None else None
    counted = source.folder / source.name if source else table
    model = output or Path(f"{name_of(counted)}.medsynth")
    refuse_existing(model, force=True)  # its name, before others are made of it
    if model.suffix.lower() in (*SUFFIXES, ".yaml"):
        raise UsageError(f"{model} is no name of a model: --output takes one that ends in .medsynth.")
    checkpoint = model.with_name(f"{model.name.removesuffix('.medsynth')}.medsynth-checkpoint")
    split = None
    if holdout is not None:
        from medsynth.fitting.holdout import HoldOut
        from medsynth.io.split import check_fraction

        check_fraction(holdout)
        split = HoldOut.of(table, model, checkpoint, list(source.tables.tables) if source else ())
    read = [path for path in (settings.schema, settings.public) if isinstance(path, Path)]
    kept = (*(source.files if source else (table, beside(table, ".schema.yaml"))), Budget.of(counted).path, *read)
    moves = split.moves if split else ()
    finals, waiting = [final for _, final in moves], [first for first, _ in moves]
    in_folders = split is not None and bool(split.tables)  # which the fit makes itself
    check_outputs(model, *([] if in_folders else finals), inputs=kept, force=force)
    for final in finals if in_folders else ():
        refuse_existing(final, force=force)
    check_outputs(checkpoint, *([] if in_folders else waiting), inputs=(model, *finals, *kept), force=True)
    if not (resume or force) and checkpoint.exists():
        raise OutputExists(
            f"{checkpoint} holds what a fit that was interrupted has measured; it counts. --resume goes on with it, "
            "--force begins anew."
        )
    return Files(model, checkpoint, split, counted)


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
    files: Files, table: Path, settings: FitSettings, fraction: float | None, scheduler: str | None,
    tell: Callable[[str], None], *, resume: bool,
) -> Iterator[tuple[Source, FitSettings, str | None]]:  # fmt: skip
    """What is fitted, with which settings: the table or, with hold-out, its training part, and the split's number.

    With a `scheduler` the table is that of a folder's files, while the cluster is connected. Otherwise the parts of a
    table wait next to the checkpoint. If a fit leaves no checkpoint, they are gone at the end. No other run writes the
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
            with parts_of(table, scheduler, settings.encoding) as parts:
                yield parts, settings, None
            return
        if files.split is None or fraction is None:
            yield table, settings, None
            return
        from medsynth.fitting.holdout import training_part

        try:
            going_on = resume and files.checkpoint.exists()
            yield training_part(table, files.split, fraction, settings, resume=going_on, notice=tell)
        finally:
            if not files.checkpoint.exists():
                files.split.drop()


def _publish(files: Files, tell: Callable[[str], None]) -> None:
    """Put the two parts of a table that was split where they belong, and drop the checkpoint: the model stands."""
    if (split := files.split) is not None:
        split.publish()
        tell(f"PRIVATE, real rows: {split.train} (training) and {split.heldout} (held out). Do not share them.")
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
