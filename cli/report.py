"""`medsynth report`: the page for data-sharing review."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from medsynth.errors import MedsynthError, UsageError
from medsynth.io.formats import name_of, named

from .console import check_page, guarded, newest_model, notify, report_progress, result, told_of_fitted_rows
from .options import Encoding, Force, Json, ModelOption, Quiet
from .tables import commands as tables
from .tables.dispatch import named_by_model

if TYPE_CHECKING:
    import pandas as pd

    from medsynth.artifact import Model
    from medsynth.budget import Spent
    from medsynth.io.table import Table
    from medsynth.report.data.verdict import Estimate, Verdict
    from medsynth.report.document import Report


Real = Annotated[
    Path | None, typer.Option(help="Real held-out rows [default: NAME.heldout.csv, else the fitted table].")
]
FailOn = Annotated[
    str | None,
    typer.Option(help="Exit with 5 on these verdicts: beyond, doubtful, undecided, any, or names, by commas."),
]
FAILED = 5  # exit status where --fail-on finds a verdict


class Inputs(NamedTuple):
    """The files that a report is made of: None where there is none, or where it may not be read."""

    folder: Path
    name: str  # of the model, which its tables share
    model: Path | None
    synthetic: Path | None
    real: Path | None
    train: Path | None
    fitted_rows: bool = False  # whether the model was fitted to the real rows

    @property
    def files(self) -> tuple[Path | None, ...]:
        """All of them."""
        return self.model, self.synthetic, self.real, self.train


@guarded
@named_by_model(tables.report)
def report(
    real: Real = None,
    train: Annotated[Path | None, typer.Option(help="Real rows fitted on [default: NAME.train.csv].")] = None,
    model: ModelOption = None,
    synthetic: Annotated[Path | None, typer.Option(help="Synthetic table [default: NAME.synthetic.csv].")] = None,
    target: Annotated[str | None, typer.Option(help="Column to predict [default: the model's, else the last].")] = None,
    subgroup: Annotated[list[str] | None, typer.Option(help="Column to report by; may be given again.")] = None,
    review: Annotated[Path | None, typer.Option(help="Purpose, roles and sign-off, YAML.")] = None,
    thresholds: Annotated[Path | None, typer.Option(help="Thresholds of the front page's verdicts, YAML.")] = None,
    output: Annotated[Path | None, typer.Option(help="HTML file [default: NAME.report.html].")] = None,
    encoding: Encoding = None,
    shareable: Annotated[bool, typer.Option("--shareable", help="Leave out every statistic of real rows.")] = False,
    fail_on: FailOn = None,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Write one HTML page, and its JSON twin, that a data-sharing board can read and sign.

    Examples:

        medsynth report

        medsynth report --real heldout.csv --train patients.csv --subgroup sex --review review.yaml

        medsynth report --synthetic from-another-tool.csv --real heldout.csv --target class

        medsynth report --shareable --output open.report.html

        medsynth report --fail-on beyond,attack_advantage
    """
    quiet = quiet or as_json
    wanted = wanted_of(fail_on)
    inputs = _with_real_rows(_inputs(model, synthetic, quiet), real, train, shareable)
    output = output or inputs.folder / f"{inputs.name}.report.html"
    check_page(output, *inputs.files, review, thresholds, force=force)

    from medsynth.report import build as page
    from medsynth.report.data.verdict import Review, Thresholds, failing, load

    brought, lines = load(review, Review), load(thresholds, Thresholds)
    with report_progress(sys.stderr.isatty() and not quiet) as step:
        step("reading")
        rows, spent = _model_and_rows(inputs, quiet), None if shareable else _spent(inputs)
        inputs = _without_seen_rows(inputs, rows.model)
        notes = rows.notes + ([f"{spent.sentence()} ({spent.path.name})"] if spent else [])
        made = page.build(
            synthetic=rows.table, real=_read(inputs.real, encoding), train=_read(inputs.train, encoding),
            model=rows.model, drawn_by_model=rows.drawn_by_model, disjoint=_is_split(inputs), target=target,
            fitted_rows=inputs.fitted_rows, fits=len(spent.fits) if spent else None, groups=subgroup, review=brought,
            thresholds=lines, title=inputs.name, commands=command_line(), notes=notes, step=step,
        )  # fmt: skip
        step("writing")
        page.save(made, output, force=force)
    if not made.shareable:
        notify(f"INTERNAL: {output} holds exact statistics of real patients. --shareable leaves them out.", quiet=quiet)
    _print(made, output, as_json, failed := failing(made.verdicts, wanted))
    if failed:
        raise typer.Exit(FAILED)


def _without_seen_rows(inputs: Inputs, model: Model | None) -> Inputs:
    """The inputs, without training rows where the real rows are themselves rows that the model was fitted to."""
    if inputs.real is None or not told_of_fitted_rows(model, inputs.model, inputs.real):
        return inputs
    return inputs._replace(train=None, fitted_rows=True)


def wanted_of(fail_on: str | None) -> list[str]:
    """The words of --fail-on. Raises UsageError for one that is not known."""
    if fail_on is None:
        return []
    from medsynth.report.data.verdict import Thresholds, check_failures

    words = [word.strip() for word in fail_on.split(",") if word.strip()]
    check_failures(words, list(Thresholds.model_fields))
    return words


def _is_split(inputs: Inputs) -> bool:
    """Whether real and training rows are the two files of a split, which hold different rows."""
    both = [named(inputs.folder, f"{inputs.name}.{part}") for part in ("heldout", "train")]
    return all(
        given is not None and usual is not None and given.resolve() == usual.resolve()
        for given, usual in zip((inputs.real, inputs.train), both, strict=True)
    )


def _inputs(model: Path | None, synthetic: Path | None, quiet: bool) -> Inputs:
    """The model and the synthetic table, by name or by where they usually stand."""
    # A table named by hand need not be the newest model's: then only a model named by hand, or its namesake, counts.
    path = model or (newest_model(quiet=quiet) if synthetic is None else _namesake(synthetic))
    name = path.stem if path else name_of(synthetic).removesuffix(".synthetic") if synthetic else "table"
    if path is None and synthetic is None:
        raise MedsynthError("There is no model in this folder. Fit and sample first, or name a table with --synthetic.")
    folder = path.parent if path else Path()
    return Inputs(folder, name, path, synthetic or named(folder, f"{name}.synthetic"), None, None)


def _with_real_rows(inputs: Inputs, real: Path | None, train: Path | None, shareable: bool) -> Inputs:
    """The held-out rows and the training rows; where none are held out, the rows that the model was fitted to.

    Raises where a shareable report names them, or another lacks them.
    """
    if shareable:
        if real or train:
            raise UsageError("--shareable reads no real rows: leave --real and --train out.")
        return inputs
    folder, name = inputs.folder, inputs.name
    held_out = folder / f"{name}.heldout.csv"
    real = real or named(folder, f"{name}.heldout") or (named(folder, name) if inputs.model else None) or held_out
    if not real.exists():
        raise MedsynthError(_cure(real))
    return inputs._replace(real=real, train=train or named(folder, f"{name}.train"))


class Rows(NamedTuple):
    """The model, the synthetic table, whether the model is proven to draw it, and what the page notes of it."""

    model: Model | None
    table: pd.DataFrame | Table
    drawn_by_model: bool
    notes: list[str]


def _model_and_rows(inputs: Inputs, quiet: bool) -> Rows:
    """The model and the synthetic table, drawn again to see whose it is; a fresh sample where there is none."""
    from medsynth.artifact import load
    from medsynth.report.data.tables import read
    from medsynth.sampling.pipeline import sample
    from medsynth.sampling.provenance import drawn_by

    fitted = None if inputs.model is None else load(inputs.model)
    if inputs.synthetic is not None:
        notify(f"Synthetic table: {inputs.synthetic}", quiet=quiet)
        own = fitted is not None and drawn_by(fitted, inputs.synthetic)
        if fitted is not None and fitted.claims and not own:
            notify(f"No claim can be made for {inputs.synthetic}: {inputs.model} is not proven to have drawn it.")
        return Rows(fitted, read(inputs.synthetic), own, [])
    assert fitted is not None
    usual = f"{inputs.name}.synthetic.csv"
    note = f"There was no {usual}: {fitted.rows} rows were sampled afresh from the model for this report."
    notify(note, quiet=quiet)
    return Rows(fitted, sample(fitted), True, [note])


def _read(path: Path | None, encoding: str | None) -> Table | None:
    """A table of real rows, in the encoding that was declared for them: synthetic rows are in UTF-8."""
    from medsynth.report.data.tables import read

    return None if path is None else read(path, encoding)


def _spent(inputs: Inputs) -> Spent | None:
    """All fits on the table that the model was fitted to, where they are on file."""
    from medsynth.fitting.holdout import budget_of_model

    budget = budget_of_model(inputs.model or inputs.folder / f"{inputs.name}.medsynth", inputs.real)
    return budget.spent() if budget else None


def command_line() -> list[str]:
    """The command as it was typed, for the page."""
    return [shlex.join(["medsynth", *sys.argv[1:]])] if len(sys.argv) > 1 else []


def _print(made: Report, output: Path, as_json: bool, failed: Sequence[Verdict]) -> None:
    verdicts, twin = made.verdicts, output.with_suffix(".json")
    lines = [line_of(verdict) for verdict in verdicts]
    facts = {
        "report": str(output),
        "json_twin": str(twin),
        "shareable": made.shareable,
        "verdicts": [v.model_dump() for v in verdicts],
        "failed": [v.key for v in failed],
    }
    lines.append(f"Wrote {output} and {twin}.")
    if failed:
        lines.append(f"Failed by --fail-on: {', '.join(v.key for v in failed)}.")
    result(facts, "\n".join(lines), as_json=as_json)


def line_of(verdict: Verdict) -> str:
    """A verdict in one line of a terminal."""
    figure = _shown(verdict.estimate)
    return f"{_marked(verdict):<13} {verdict.question:<52} {figure}, at most {verdict.limit:g}: {verdict.measure}"


def _marked(verdict: Verdict) -> str:
    """A verdict's outcome, in capitals where somebody has to look."""
    return verdict.outcome.upper() if verdict.outcome in ("beyond", "doubtful") else verdict.outcome


def _namesake(synthetic: Path) -> Path | None:
    stem = name_of(synthetic)
    path = synthetic.with_name(f"{stem.removesuffix('.synthetic')}.medsynth")
    return path if stem.endswith(".synthetic") and path.exists() else None


def _shown(figure: Estimate) -> str:
    """A figure with its interval: the end that counts against the table is what the threshold is compared with."""
    if figure.value is None:
        return "not measured"
    ends = "" if figure.low is None or figure.high is None else f" ({figure.low:.4g} to {figure.high:.4g})"
    return f"{figure.value:.4g}{ends}"


def _cure(real: Path) -> str:
    return (
        f"There are no real rows to compare with ({real}). `medsynth fit TABLE --epsilon E --holdout 0.25` keeps some "
        "aside. Or name a file that no fit has seen: medsynth report --real FILE. --shareable makes a page without any."
    )
