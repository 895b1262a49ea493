"""The command `medsynth fit`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from medsynth.errors import DROPPED_TARGET, LEARNED, OutputExists, UsageError, brief, did_you_mean
from medsynth.fitting.settings import NO_TARGET, FitSettings
from medsynth.io.formats import SUFFIXES, beside, name_of

from .console import fit_progress, guarded, notify, result, starting
from .flags import translated
from .options import ADVANCED, DECIMAL, DatabaseFile, Force, Json, Output, Quiet, Scheduler, TableName, with_settings

ANSWERS = {"yes": True, "y": True, "no": False, "n": False, "?": None}  # whether rows can share a patient
FIND_OUT = (
    "Nothing was measured. Find out whether a patient can have several rows: ask whoever made the table whether a row "
    "is a patient, a visit or a stay, or read the description of the export. Then fit again with `unit` or "
    "`one_row_a_patient`. If the table has a column of patients, `unit` is right in both cases."
)
TableArgument = Annotated[
    Path | None, typer.Argument(help="CSV (also packed), Parquet, SPSS, Stata or SAS file, or a folder of tables.")
]
BudgetName = Annotated[
    Path | None,
    typer.Option(help="With --table: name of the budget file [default: by the database].", rich_help_panel=ADVANCED),
]
ApprovedFile = Annotated[
    Path | None,
    typer.Option(help="JSON file of an approved plan, which the fit may not exceed.", rich_help_panel=ADVANCED),
]

if TYPE_CHECKING:
    from medsynth.artifact import Model
    from medsynth.fitting.holdout import HoldOut
    from medsynth.fitting.opening import Fittable
    from medsynth.io.database import DatabaseTable

HoldOutShare = Annotated[float | None, typer.Option(help="Probability of holding out a row (or patient).", **DECIMAL)]


@guarded
@with_settings()
def fit(
    settings: FitSettings,
    table: TableArgument = None,
    scheduler: Scheduler = None,
    holdout: HoldOutShare = None,
    table_name: TableName = None,
    database: DatabaseFile = None,
    budget_name: BudgetName = None,
    plan: ApprovedFile = None,
    output: Output = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue an interrupted fit.")] = False,
    force: Force = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Print every message in full.")] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Fit a generator to a table under differential privacy and write NAME.medsynth.

    Give either --epsilon or --no-dp. Before it measures anything, the command lists what it treats as public.

    Examples:

        medsynth fit patients.csv --epsilon 3.7 --holdout 0.25

        medsynth fit visits.csv --epsilon 1 --inference "pulse ~ age + sex" --unit patient_id --max-rows 1

        medsynth fit hospital.tables.yaml --epsilon 3.7 --resume

        medsynth fit --table visits --database clinic.duckdb --epsilon 3.7

        medsynth fit patients.csv --epsilon 3.7 --method dp-gan --set groups=weight-bias --plan plan.json
    """
    quiet = quiet or as_json
    with starting(show := sys.stderr.isatty() and not quiet):
        table, rows = _named(table, table_name, database)
        files = _files(table, output, holdout, settings, scheduler, plan, force=force, resume=resume).of(
            rows, budget_name
        )
        from medsynth.fitting.pipeline import fit as run  # after the checks above, because the import takes a second
    told = set[str]()  # the fit of a training part repeats notices about the whole table

    def tell(text: str) -> None:
        if (text := text if verbose else brief(text)) and text not in told:
            told.add(text)
            notify(text, quiet=quiet)

    if show and sys.stdin.isatty() and scheduler is None and rows is None and not resume:
        settings = _with_answers(table, settings)
    with _source(files, table, settings, holdout, scheduler, tell, resume=resume) as (source, used, number):
        options = vars(used) | {"budget_table": files.counted, "split_number": number, "plan": plan}
        options |= {"checkpoint": files.checkpoint, "model_name": files.model.name}
        try:
            model = run(source, **options, resume=resume, notice=tell, **fit_progress(show))
            model.save(files.model, force=force)
        except KeyboardInterrupt:
            if files.checkpoint.exists():
                tell("The measurements so far are saved, and count. To continue, add --resume to the same command.")
            raise
        _publish(files, tell)
    publish_fit(model, files.model, as_json, quiet=quiet)


def _with_answers(table: Path, settings: FitSettings) -> FitSettings:
    """Ask who a row is, then for the target, if nothing declares them. Only the header is read."""
    from medsynth.fitting.private_table import possible_patients, possible_targets

    names, likely = possible_patients(table, settings)
    if names and not settings.no_dp:
        settings = _with_patients(names, likely, settings)
    return _with_target(possible_targets(table, settings), settings)


def _with_patients(names: Sequence[str], likely: str | None, settings: FitSettings) -> FitSettings:
    """Ask whether rows can share a patient, and which column names the patient. `likely`: the one that it offers."""
    notify(
        "PATIENTS: can one patient have several rows, such as visits or stays? The claim is then for one patient. "
        "Type yes, no, or ? if you do not know."
    )
    while (answer := typer.prompt("Several rows", err=True).strip().lower()) not in ANSWERS:
        notify(f"{answer!r} is not an answer. Type yes, no or ?.")
    if (several := ANSWERS[answer]) is None:
        raise UsageError(FIND_OUT)
    if not several:
        return replace(settings, one_row_a_patient=True)
    while (name := typer.prompt("Column of patients", default=likely, err=True).strip()) not in names:
        notify(f"{name!r} is not a column.{did_you_mean(name, names)}")
    return replace(settings, unit=name)


def _with_target(names: Sequence[str], settings: FitSettings) -> FitSettings:
    """Ask for the target among these columns, of which the last is the default."""
    if len(names) < 2:
        return settings
    notify(
        f"TARGET: {names[-1]!r}, the last column. The fit relates all columns to it, and the report predicts it. "
        "Press Enter to keep it, or type another column, or none."
    )
    while (name := typer.prompt("Target", default=names[-1], err=True).strip()) not in (*names, NO_TARGET):
        notify(f"{name!r} cannot be the target.{did_you_mean(name, names)}")
    return replace(settings, target=name)


def _named(table: Path | None, name: str | None, database: Path | None) -> tuple[Path, DatabaseTable | None]:
    """Return the table's file. For a table of a database, return the name of a file that is made, and the table."""
    if (table is None) == (name is None):
        raise UsageError("Name one table: a file as the argument TABLE, or a table of a database by --table.")
    if table is not None:
        return table, None
    from medsynth.io.database import DatabaseTable

    found = DatabaseTable.of(name or "", database)
    return Path(f"{found.name}.parquet"), found


class FitFiles(NamedTuple):
    """The files that a fit writes: the model, a checkpoint until the model is complete, and the parts of a split table.

    `counted`: the path under which the budget counts fits of the table, or tables. `rows`: a table of a database.
    """

    model: Path
    checkpoint: Path
    split: HoldOut | None
    counted: Path
    rows: DatabaseTable | None = None

    def of(self, rows: DatabaseTable | None, budget: Path | None) -> FitFiles:
        """Return the files of a fit of a table of a database, if there is one, which the file `budget` counts."""
        return self if rows is None else self._replace(rows=rows, counted=budget or Path(rows.budget_name))


def _files(
    table: Path, output: Path | None, holdout: float | None, settings: FitSettings, scheduler: str | None,
    plan: Path | None, *, force: bool, resume: bool,
) -> FitFiles:  # fmt: skip
    """Return the files of a fit. Raise if one of them cannot be written, before anything is measured."""
    from medsynth.budget import Budget
    from medsynth.fitting.source import find, is_linked
    from medsynth.io.atomic import check_outputs, refuse_existing

    source = find(table) if is_linked(table) and scheduler is None else None
    counted = source.folder / source.name if source else table
    model = output or Path(f"{name_of(counted)}.medsynth")
    refuse_existing(model, force=True)  # checks the name before other names are derived from it
    if model.suffix.lower() in (*SUFFIXES, ".yaml"):
        raise UsageError(f"{model} is not the name of a model. Give --output a name that ends in .medsynth.")
    checkpoint = model.with_name(f"{model.name.removesuffix('.medsynth')}.medsynth-checkpoint")
    split = None
    if holdout is not None:
        from medsynth.fitting.holdout import HoldOut
        from medsynth.io.split import check_fraction

        check_fraction(holdout)
        split = HoldOut.of(table, model, checkpoint, list(source.tables.tables) if source else ())
    read = [path for path in (settings.schema, settings.public, plan) if isinstance(path, Path)]
    kept = (*(source.files if source else (table, beside(table, ".schema.yaml"))), Budget.of(counted).path, *read)
    moves = split.moves if split else ()
    finals, waiting = [final for _, final in moves], [first for first, _ in moves]
    in_folders = split is not None and bool(split.tables)  # the fit creates these folders itself
    check_outputs(model, *([] if in_folders else finals), inputs=kept, force=force)
    for final in finals if in_folders else ():
        refuse_existing(final, force=force)
    check_outputs(checkpoint, *([] if in_folders else waiting), inputs=(model, *finals, *kept), force=True)
    if not (resume or force) and checkpoint.exists():
        raise OutputExists(
            f"{checkpoint} contains the measurements of an interrupted fit, and they count. Add --resume to continue "
            "that fit, or --force to start a new one."
        )
    return FitFiles(model, checkpoint, split, counted)


@contextmanager
def _source(
    files: FitFiles, table: Path, settings: FitSettings, fraction: float | None, scheduler: str | None,
    tell: Callable[[str], None], *, resume: bool,
) -> Iterator[tuple[Fittable, FitSettings, str | None]]:  # fmt: skip
    """Yield what is fitted, its settings and the split's number: the table or, with hold-out, its training part.

    With a `scheduler`, the source is a folder's files on a connected cluster. Otherwise the parts of a split table wait
    next to the checkpoint; if the fit leaves no checkpoint, they are deleted at the end. No other run writes the same
    files meanwhile.
    """
    from medsynth.io.atomic import sole_writer

    with (
        sole_writer(files.model),
        sole_writer(files.split.heldout) if files.split else nullcontext(),
        files.rows.snapshot(files.checkpoint) if files.rows else nullcontext(table) as table,
    ):
        if files.rows and settings.schema is None and (own := Path(f"{files.rows.name}.schema.yaml")).exists():
            settings = replace(settings, schema=own)
        if scheduler is not None:
            from medsynth.fitting.cluster import parts_of

            if fraction is not None:
                raise UsageError(
                    "`holdout` does not split a folder. To hold rows out, move some files elsewhere before the fit, so "
                    "that no patient is in both places."
                )
            with parts_of(table, scheduler, settings.saved) as parts:
                yield parts, settings, None
            return
        if files.split is None or fraction is None:
            yield table, settings, None
            return
        from medsynth.fitting.holdout import training_part

        try:
            going_on = resume and files.checkpoint.exists()
            counted = files.counted if files.rows else None
            yield training_part(table, files.split, fraction, settings, resume=going_on, notice=tell, counted=counted)
        finally:
            if not files.checkpoint.exists():
                files.split.drop()


def _publish(files: FitFiles, tell: Callable[[str], None]) -> None:
    """Move the parts of a split table to their final names, and delete the checkpoint: the model is complete."""
    if (split := files.split) is not None:
        split.publish()
        tell(f"PRIVATE, real rows: {split.train} (training) and {split.heldout} (held out). Do not share them.")
    files.checkpoint.unlink(missing_ok=True)


def publish_fit(model: Model, output: Path, as_json: bool, *, quiet: bool = False) -> None:
    """Print the result of a fit. It begins with what the claim is for if a `quiet` fit has not said it."""
    from medsynth.artifact import claim, quality

    facts: dict[str, Any] = {
        "model": str(output),
        "method": model.method,
        "preset": model.preset,
        "claims": model.claims,
        "protects": model.ledger.protects if model.claims else None,
        "epsilon": model.epsilon,
        "epsilon_asked": model.epsilon_asked,
        "delta": model.ledger.delta,
        "accountant": model.ledger.accountant,
        "rows": model.rows,
        "schema": model.schema.name,
        "target": model.schema.target,
        "device": model.device,
        "quality": model.quality,
    }
    dropped, learned = model.ledger.about(DROPPED_TARGET), model.ledger.about(LEARNED)
    unsaid = quiet and model.claims and not model.ledger.unit.declared
    unit = [f"The claim is for {model.ledger.protects}."] if unsaid else []
    lines = [*unit, *dropped, f"Wrote {output}, fitted on {model.device}.", claim(model, brief=True)]
    lines = [*map(translated, lines), *filter(None, [quality(model)])]
    if learned:
        facts["learned"] = [note.sentence for note in learned]
    if dropped:
        facts["no_target"] = dropped[0]
    replicates = " --replicates 20" if model.config.get("inference") else ""
    result(facts, "\n".join([*lines, f"Next: medsynth sample -n 10000{replicates}"]), as_json=as_json)
