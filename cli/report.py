"""The command `medsynth report`: the page for a data-sharing review."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from medsynth.errors import MedsynthError, TableError, UsageError
from medsynth.io.formats import OWN, SavedAs, name_of, named, readable

from .console import (
    check_page,
    find_synthetic,
    guarded,
    newest_model,
    notify,
    one_of,
    report_progress,
    result,
    starting,
)
from .options import ADVANCED, Force, Json, ModelArgument, ModelOption, Quiet, with_saved

if TYPE_CHECKING:
    import pandas as pd

    from medsynth.artifact import Model
    from medsynth.budget import Spent
    from medsynth.report.data.verdict import Estimate, Verdict
    from medsynth.report.document import Report


Real = Annotated[
    Path | None, typer.Option(help="Held-out real rows [default: NAME.heldout.csv, else the fitted table].")
]
Target = Annotated[str | None, typer.Option(help="Column to predict, or none [default: the model's, else the last].")]
Train = Annotated[
    Path | None,
    typer.Option(help="Real training rows [default: NAME.train.csv, else the fitted table].", rich_help_panel=ADVANCED),
]
ReviewFile = Annotated[
    Path | None,
    typer.Option(
        help="YAML file with purpose, roles and sign-off. `draft` writes one to fill in.", rich_help_panel=ADVANCED
    ),
]
ThresholdsFile = Annotated[
    Path | None, typer.Option(help="YAML file with thresholds for the verdicts.", rich_help_panel=ADVANCED)
]
PlanFile = Annotated[
    Path | None, typer.Option(help="Approved plan, to show next to what came of it.", rich_help_panel=ADVANCED)
]
FailOn = Annotated[
    str | None,
    typer.Option(
        help="Exit with 5 on these verdicts, comma-separated: beyond, undecided, any, or names.",
        rich_help_panel=ADVANCED,
    ),
]
DRAFT, DRAFTED = Path("draft"), Path("review.yaml")
FAILED = 5  # exit code if --fail-on matches a verdict
NO_REAL_ROWS = (
    "There are no real rows to compare with ({}). To hold rows out, fit with `medsynth fit TABLE --epsilon E --holdout "
    "0.25`. Or name a {} that no fit has seen: medsynth report --real NAME. For a page without real rows, use "
    "--shareable."
)
Common = dict[str, Any]  # arguments of `build` by name


class Inputs(NamedTuple):
    """The files that a report reads. None: there is no such file, or the report may not read it."""

    folder: Path
    name: str  # of the model, which its tables share
    model: Path | None
    synthetic: Path | None
    real: Path | None = None
    train: Path | None = None
    fitted_rows: bool = False  # whether the model was fitted to the real rows


@guarded
@with_saved
def report(
    saved: SavedAs,
    model_file: ModelArgument = None,
    real: Real = None,
    train: Train = None,
    model: ModelOption = None,
    synthetic: Annotated[Path | None, typer.Option(help="Synthetic table [default: NAME.synthetic].")] = None,
    target: Target = None,
    subgroup: Annotated[list[str] | None, typer.Option(help="Column to report by. Repeat for more.")] = None,
    review: ReviewFile = None,
    thresholds: ThresholdsFile = None,
    plan: PlanFile = None,
    output: Annotated[Path | None, typer.Option(help="HTML file to write [default: NAME.report.html].")] = None,
    shareable: Annotated[bool, typer.Option("--shareable", help="Leave out every statistic of real rows.")] = False,
    pdf: Annotated[bool, typer.Option("--pdf", help="Print each page to a PDF, too, by an installed browser.")] = False,
    fail_on: FailOn = None,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Write an HTML page that a data-sharing board can read and sign, and a JSON file with the same content.

    Examples:

        medsynth report

        medsynth report --synthetic from-another-tool.csv --real heldout.csv --target class --subgroup sex

        medsynth report other.medsynth --shareable --pdf --output open.report.html

        medsynth report --review draft

        medsynth report --fail-on beyond,attack_advantage
    """
    quiet = quiet or as_json
    if review == DRAFT and not review.exists():
        return _draft_review(force, quiet, as_json)
    with starting(show := sys.stderr.isatty() and not quiet):
        from medsynth.report.data.verdict import failing

        wanted = _wanted(fail_on)
        inputs, fitted = _inputs(one_of(model_file, model), synthetic, quiet)
        several = fitted is not None and fitted.tables is not None
        if several and (target or subgroup):
            raise UsageError(f"`{'target' if target else 'groups'}` works for one table only. Leave it out.")
        inputs = _with_real_rows(inputs, real, train, shareable, several)
        pages = _pages(fitted, output or inputs.folder / f"{inputs.name}.report.html")
        _check(pages, inputs, (review, thresholds, plan), pdf, force)

    spent = None if shareable else _spent(inputs)
    common = _common(review, thresholds, plan, spent) | ({} if several else {"target": target, "groups": subgroup})
    with report_progress(show, len(pages)) as step:
        step("reading")
        made = _made(inputs, fitted, saved, pages, spent, quiet, common, step)
        step("writing")
        _save(made, pages, pdf, force)
    failed = [verdict.key for one in made.values() for verdict in failing(one.verdicts, wanted)]
    _print(made, pages, several, quiet, as_json, failed)
    if failed:
        raise typer.Exit(FAILED)


def _draft_review(force: bool, quiet: bool, as_json: bool) -> None:
    """Write a review file to fill in."""
    from medsynth.io.atomic import atomic_write
    from medsynth.report.data.verdict import draft_review

    atomic_write(DRAFTED, draft_review().encode(), force=force)
    notify(f"Fill it in, then: medsynth report --review {DRAFTED}", quiet=quiet)
    result({"review": str(DRAFTED)}, f"Wrote {DRAFTED}.", as_json=as_json)


def _check(pages: dict[str, Path], inputs: Inputs, others: Sequence[Path | None], pdf: bool, force: bool) -> None:
    """Raise unless all outputs can be written, and a PDF printed."""
    from medsynth.io.atomic import check_outputs
    from medsynth.report.page.pdf import browser

    read = (inputs.model, inputs.synthetic, inputs.real, inputs.train, *others)
    for file in pages.values():
        check_page(file, *read, force=force)
    if pdf:
        check_outputs(*(file.with_suffix(".pdf") for file in pages.values()), force=force)
        browser()


def _save(made: dict[str, Report], pages: dict[str, Path], pdf: bool, force: bool) -> None:
    """Write each page, its JSON file and, if wanted, its PDF."""
    from medsynth.report.build import save
    from medsynth.report.page.pdf import print_page

    for table, one in made.items():
        save(one, pages[table], force=force)
        if pdf:
            print_page(pages[table], pages[table].with_suffix(".pdf"), force=force, private=not one.shareable)


def _pages(fitted: Model | None, output: Path) -> dict[str, Path]:
    """Return the page of the model, and that of each table that has an order, by name: next to hospital.report.html it
    is hospital.visits.report.html for visits.
    """
    stem = output.name.removesuffix(".html").removesuffix(".report")
    tables = fitted.tables if fitted else None
    in_order = [name for name in tables.others if tables.tables[name].order] if tables else []
    return {"": output} | {name: output.with_name(f"{stem}.{name}.report.html") for name in in_order}


def _common(review: Path | None, thresholds: Path | None, plan: Path | None, spent: Spent | None) -> Common:
    """Return the arguments of `build` that follow from files and from the command."""
    from medsynth.fitting.approval import ApprovedPlan
    from medsynth.report.data.verdict import Review, Thresholds, load

    limits = load(thresholds, Thresholds) if thresholds else None
    commands = [shlex.join(["medsynth", *sys.argv[1:]])] if len(sys.argv) > 1 else []
    return {"thresholds": limits, "review": load(review, Review), "fits": len(spent.fits) if spent else None,
            "plan": None if plan is None else ApprovedPlan.load(plan), "commands": commands}  # fmt: skip


def _made(
    inputs: Inputs, fitted: Model | None, saved: SavedAs, pages: dict[str, Path], spent: Spent | None,
    quiet: bool, common: Common, step: Callable[[str], None],
) -> dict[str, Report]:  # fmt: skip
    """Return the report of each page."""
    from medsynth.fitting.holdout import saved_as
    from medsynth.report.build import build
    from medsynth.report.several_tables import read_tables, reports

    tables = fitted.tables if fitted else None
    synthetic, own, notes = _synthetic(inputs, fitted, quiet, step)
    if spent and tables is None:
        notes.append(f"{spent.sentence()} ({spent.path.name})")
    inputs = _without_seen_rows(inputs, fitted)
    sides = (inputs.real, inputs.train)
    real, train = (None if path is None else read_tables(tables, path, saved_as(path, saved)) for path in sides)
    make = partial(build, drawn_by_model=own, disjoint=_is_split(inputs), fitted_rows=inputs.fitted_rows, **common)
    return reports(
        fitted, synthetic, real, train, make=make, title=inputs.name, notes=notes, step=step,
        page_of=lambda table: pages[table].name,
    )  # fmt: skip


def _synthetic(
    inputs: Inputs, fitted: Model | None, quiet: bool, step: Callable[[str], None]
) -> tuple[dict[str, pd.DataFrame], bool, list[str]]:
    """Return the synthetic tables, whether the model provably drew them, and notes. A lacking single one is sampled."""
    import pandas as pd

    from medsynth.report.data.columns import cells_of
    from medsynth.report.several_tables import read_tables
    from medsynth.sampling import Draw, RowCounts, frames, provenance

    tables = fitted.tables if fitted else None
    path = inputs.synthetic
    if tables and not (path := path or inputs.folder / f"{inputs.name}.synthetic").is_dir():
        raise TableError(f"There is no folder {path} of synthetic tables. Draw them: medsynth sample -n 10000.")
    if path is None:
        assert fitted is not None
        usual = f"{inputs.name}.synthetic{fitted.form.ending}"
        note = f"There was no {usual}, so {fitted.rows} rows were sampled from the model for this report."
        notify(note, quiet=quiet)
        counts = RowCounts()
        rows = pd.concat([part[fitted.name] for part in frames(fitted, Draw(), counts)], ignore_index=True)
        return {"": cells_of(rows, "synthetic")}, True, [note, *counts.sentences]
    if tables is None:
        notify(f"Synthetic table: {path}", quiet=quiet)
    step("proof of origin")
    own = fitted is not None and provenance.drawn_by(fitted, path)
    if fitted is not None and fitted.claims and not own:
        notify(f"No claim can be made for {path}: nothing proves that {inputs.model} drew it.")
    encoding = fitted.form.encoding if fitted and own and not tables else None
    drawn = provenance.load(path) if own else None
    return read_tables(tables, path, replace(OWN, encoding=encoding)), own, drawn.cut_short if drawn else []


def _without_seen_rows(inputs: Inputs, model: Model | None) -> Inputs:
    """Return the inputs. If the model was fitted to the real rows themselves, warn and drop the training rows."""
    from medsynth.fitting.holdout import was_fitted

    if inputs.real is None or not was_fitted(model, inputs.model, inputs.real):
        return inputs
    notify(
        f"NOTHING HELD OUT: the model was fitted to rows of {inputs.real}. The page rates no comparison with them as "
        "'within', and runs no attack. For a full report, fit with --holdout 0.25."
    )
    return inputs._replace(train=None, fitted_rows=True)


def _wanted(fail_on: str | None) -> list[str]:
    """Return the words of --fail-on. Raise UsageError for an unknown word."""
    if fail_on is None:
        return []
    from medsynth.report.data.verdict import check_failures
    from medsynth.report.sections.registry import questions

    words = [word.strip() for word in fail_on.split(",") if word.strip()]
    check_failures(words, questions())
    return words


def _is_split(inputs: Inputs) -> bool:
    """Return whether the real and the training rows are the two parts of a split: no row is in both."""

    def usual(part: str) -> Path | None:
        name = f"{inputs.name}.{part}"
        return _folder(inputs.folder, name) or named(inputs.folder, name)

    both = ((inputs.real, usual("heldout")), (inputs.train, usual("train")))
    return all(given and there and given.resolve() == there.resolve() for given, there in both)


def _check_names(*given: Path | None) -> None:
    """Raise TableError, with the nearest name, for a given file or folder that does not exist."""
    for path in filter(None, given):
        with readable(path):
            path.stat()


def _inputs(model: Path | None, synthetic: Path | None, quiet: bool) -> tuple[Inputs, Model | None]:
    """Find the model and the synthetic table, by the given names or in their usual places. Return the model, too."""
    from medsynth.artifact import load

    _check_names(synthetic)
    # A table given by name may not come from the newest model. Then use only a given model, or one of the same name.
    path = model or (newest_model(quiet=quiet) if synthetic is None else _namesake(synthetic))
    name = path.stem if path else name_of(synthetic).removesuffix(".synthetic") if synthetic else "table"
    if path is None and synthetic is None:
        raise MedsynthError("There is no model in this folder. Fit and sample first, or name a table with --synthetic.")
    if path is None:
        return Inputs(Path(), name, None, synthetic), None
    fitted = load(path)
    return Inputs(path.parent, name, path, synthetic or find_synthetic(path.parent, name, fitted)), fitted


def _with_real_rows(inputs: Inputs, real: Path | None, train: Path | None, shareable: bool, several: bool) -> Inputs:
    """Add the held-out rows and the training rows. If no rows are held out, the rows that were fitted take their place.

    Each is a file or, for `several` tables, a folder. Raise if a shareable report names them, or another lacks them.
    """
    if shareable:
        if real or train:
            raise UsageError("--shareable reads no real rows. Leave --real and --train out.")
        return inputs
    _check_names(real, train)
    folder, name = inputs.folder, inputs.name
    found = _folder if several else named
    held_out = folder / f"{name}.heldout{'' if several else '.csv'}"
    fitted = found(folder, name) if inputs.model else None
    real = real or found(folder, f"{name}.heldout") or fitted or held_out
    if not real.exists():
        raise MedsynthError(NO_REAL_ROWS.format(real, "folder of tables" if several else "file"))
    fitted = None if fitted and real.resolve() == fitted.resolve() else fitted
    return inputs._replace(real=real, train=train or found(folder, f"{name}.train") or fitted)


def _folder(folder: Path, name: str) -> Path | None:
    """Return the folder of that name, or None."""
    return folder / name if (folder / name).is_dir() else None


def _spent(inputs: Inputs) -> Spent | None:
    """Return all fits on the model's table, if its budget file is found."""
    from medsynth.fitting.holdout import budget_of_model

    budget = budget_of_model(inputs.model or inputs.folder / f"{inputs.name}.medsynth", inputs.real)
    return budget.spent() if budget else None


def _print(
    made: dict[str, Report], pages: dict[str, Path], several: bool, quiet: bool, as_json: bool, failed: Sequence[str]
) -> None:
    """Print the verdicts of each page, and the files written."""
    shareable = all(one.shareable for one in made.values())
    if not shareable:
        listed = ", ".join(map(str, pages.values()))
        verb = "contain" if several else "contains"
        notify(f"INTERNAL: {listed} {verb} exact statistics of real patients. To leave them out, use --shareable.",
               quiet=quiet)  # fmt: skip
    lines, facts = list[str](), list[dict[str, Any]]()
    for table, one in made.items():
        lines += [f"{table or 'patients'}:"] * several
        lines += ["  " * several + line_of(verdict) for verdict in one.verdicts]
        lines += ["", f"Proposal: {one.status}", *(f"  {sentence}" for sentence in one.proposal), ""]
        facts.append({
            "table": table or None, "report": str(pages[table]), "json_twin": str(pages[table].with_suffix(".json")),
            "verdicts": [v.model_dump() for v in one.verdicts], "status": one.status, "proposal": one.proposal,
        })  # fmt: skip
    wrote = ", ".join(str(pages[table]) for table in made)
    lines.append(
        f"Wrote {wrote}, and a JSON file for each." if several else f"Wrote {wrote} and {facts[0]['json_twin']}."
    )
    if failed:
        lines.append(f"Failed by --fail-on: {', '.join(failed)}.")
    content = {"pages": facts} if several else {name: fact for name, fact in facts[0].items() if name != "table"}
    result({**content, "shareable": shareable, "failed": list(failed)}, "\n".join(lines), as_json=as_json)


def line_of(verdict: Verdict) -> str:
    """Return a verdict as one line of text."""
    figure = "none" if verdict.outcome == "no guarantee" else _shown(verdict.estimate)
    outcome = verdict.outcome.upper() if verdict.outcome in ("beyond", "no guarantee") else verdict.outcome
    return f"{outcome:<13} {verdict.question:<52} {figure}, at most {verdict.limit:g}: {verdict.measure}"


def _namesake(synthetic: Path) -> Path | None:
    stem = name_of(synthetic)
    path = synthetic.with_name(f"{stem.removesuffix('.synthetic')}.medsynth")
    return path if stem.endswith(".synthetic") and path.exists() else None


def _shown(figure: Estimate) -> str:
    """Return a figure with its interval. Its worse end is compared with the threshold."""
    if figure.value is None:
        return "not measured"
    ends = "" if figure.low is None or figure.high is None else f" ({figure.low:.4g} to {figure.high:.4g})"
    return f"{figure.value:.4g}{ends}"
