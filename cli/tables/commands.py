"""What `fit`, `sample` and `report` do where there are several tables: of one folder, under one claim."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from medsynth.errors import OutputExists, TableError, UsageError

from ..console import check_page, notify, report_progress, result
from ..options import parsed_settings
from .dispatch import refuse
from .sides import sides_of

if TYPE_CHECKING:
    from medsynth.artifact import Model
    from medsynth.linked.files import TablesHoldOut
    from medsynth.linked.private_tables import PrivateTables
    from medsynth.linked.report import Page
    from medsynth.linked.source import Source


def draft(folder: Path, encoding: str | None, *, force: bool, as_json: bool) -> None:
    """Write a file that names the tables in a folder, with TODOs for a person and no data value."""
    from medsynth.fitting.private_table import table_kinds
    from medsynth.io.atomic import atomic_write, check_outputs
    from medsynth.io.formats import SUFFIXES, name_of
    from medsynth.schema.header import draft_tables
    from medsynth.schema.linked import ENDING

    found = [path for path in sorted(folder.iterdir()) if path.suffix.lower() in SUFFIXES]
    if len(found) < 2:
        raise TableError(f"{folder} holds fewer than two tables. Name the folder that holds them all.")
    name = folder.resolve().name
    output = folder / f"{name}{ENDING}"
    check_outputs(output, inputs=tuple(found), force=force)
    text = draft_tables(name, {name_of(path): table_kinds(path, encoding) for path in found})
    atomic_write(output, lambda file: file.write(text.encode()), force=force)
    told = f"Wrote {output}. Fill in every TODO, then: medsynth plan {output} --epsilon 3.7"
    result({"tables": str(output)}, told, as_json=as_json)


class Outputs(NamedTuple):
    """What a fit writes: the model, its checkpoint until it stands, and the two folders of a split."""

    model: Path
    checkpoint: Path
    split: TablesHoldOut | None


def fit(
    *, table: Path, epsilon: float | None, no_dp: bool, delta: float | None, method: str | None, preset: str | None,
    set_: list[str] | None, rows: int | None, encoding: str | None, holdout: float | None, device: str,
    seed: int | None, output: Path | None, resume: bool, force: bool, quiet: bool, as_json: bool, **others: Any,
) -> None:  # fmt: skip
    """Fit several tables, and write one model."""
    from medsynth.fitting.options import progress_bar
    from medsynth.io.atomic import sole_writer
    from medsynth.linked.source import find

    from ..fit import publish_fit

    refuse(others)
    if no_dp == (epsilon is not None):
        raise UsageError("Give exactly one of --epsilon and --no-dp.")
    quiet = quiet or as_json

    def tell(text: str) -> None:
        notify(text, quiet=quiet)

    source = find(table, tell)
    files = _outputs(source, output, holdout, force=force, resume=resume)
    from medsynth.linked.fitting import fit_tables

    with ExitStack() as stack:
        stack.enter_context(sole_writer(files.model))
        progress, phase = stack.enter_context(progress_bar(sys.stderr.isatty() and not quiet))
        private, number = _split(source, files, holdout, encoding, resume=resume)
        declared = rows
        if rows is not None and holdout is not None:
            declared = max(2, round(rows * (1 - holdout)))
        try:
            model = fit_tables(
                source, rows=declared, encoding=encoding, private=private, checkpoint=files.checkpoint, resume=resume,
                model_name=files.model.name, split_number=number, notice=tell, progress=progress, phase=phase,
                epsilon=epsilon, no_dp=no_dp, delta=delta, method=method, preset=preset, settings=parsed_settings(set_),
                device=device, seed=seed,
            )  # fmt: skip
            model.save(files.model, force=force)
        except BaseException as error:
            if files.checkpoint.exists() and isinstance(error, KeyboardInterrupt):
                tell("What was measured is on file and counts. The same command with --resume goes on.")
            if files.split and not files.checkpoint.exists():
                files.split.drop()
            raise
        if files.split:
            files.split.publish()
            tell(f"PRIVATE, real rows: {files.split.train} (training) and {files.split.heldout} (held out). Do not "
                 "share them.")  # fmt: skip
        files.checkpoint.unlink(missing_ok=True)
    publish_fit(model, files.model, as_json)


def plan(
    *, table: str, epsilon: float, delta: float | None, method: str | None, preset: str | None,
    set_: list[str] | None, rows: int | None, encoding: str | None, as_json: bool, **others: Any,
) -> None:  # fmt: skip
    """Show what a fit of several tables would measure. Their patients are counted, and nothing is measured."""
    from medsynth.linked.fitting import plan_of

    from ..plan import show

    refuse(others)
    made, facts = plan_of(
        Path(table), epsilon=epsilon, delta=delta, method=method, preset=preset, settings=parsed_settings(set_),
        rows=rows, encoding=encoding,
    )  # fmt: skip
    show(made, [f"Public by declaration: {'; '.join(facts)}."], epsilon, method, preset, as_json=as_json)


def _outputs(source: Source, output: Path | None, holdout: float | None, *, force: bool, resume: bool) -> Outputs:
    """The files of a fit, all of which can be written: refused before anything is measured."""
    from medsynth.io.atomic import check_outputs
    from medsynth.linked.files import TablesHoldOut

    model = output or Path(f"{source.name}.medsynth")
    check_outputs(model, inputs=source.files, force=force)
    checkpoint = model.with_name(f"{model.name.removesuffix('.medsynth')}.medsynth-checkpoint")
    split = None if holdout is None else TablesHoldOut.of(str(model.with_name(model.stem)), checkpoint)
    if split:
        split.check(source.tables, force=force)
    if not (resume or force) and checkpoint.exists():
        raise OutputExists(
            f"{checkpoint} holds what a fit that was interrupted has measured; it counts. --resume goes on with it, "
            "--force begins anew."
        )
    return Outputs(model, checkpoint, split)


def _split(
    source: Source, files: Outputs, holdout: float | None, encoding: str | None, *, resume: bool
) -> tuple[PrivateTables | None, str | None]:
    """The tables to train on where some patients are held out, and the split's number; else None."""
    if files.split is None or holdout is None:
        return None, None
    from medsynth.linked.files import hold_out_tables

    going_on = resume and files.checkpoint.exists()
    return hold_out_tables(source, files.split, holdout, encoding, resume=going_on)


def sample(
    *, fitted: Model, model: Path, n: int | None, patients: int | None, output: str | None, where: list[str] | None,
    seed: int | None, parquet: bool, force: bool, as_json: bool, **others: Any,
) -> None:  # fmt: skip
    """Draw patients with their rows in all tables, into a folder."""
    from medsynth.artifact import claim
    from medsynth.linked.files import outputs, write_tables
    from medsynth.sampling.formulas import formula_columns

    refuse(others)
    if n is not None and patients is not None:
        raise UsageError("-n and --patients both count patients here. Give one of them.")
    n = patients if n is None else n
    if output == "-":
        raise UsageError("Several tables cannot be written to standard output. Name a folder as `output`.")
    folder, count = Path(output or f"{model.stem}.synthetic"), fitted.rows if n is None else n
    _refuse_real(folder, model)
    own = write_tables(fitted, model, folder, count, seed, where or (), parquet=parquet, force=force)
    notify(claim(fitted, brief=True), quiet=as_json)
    assert fitted.tables is not None
    for name in fitted.tables.tables:
        if (odd := formula_columns(fitted.tables.alone(name))) and not parquet:
            notify(f"CAUTION: spreadsheets run cells of {', '.join(odd[:5])} in {name} as formulas.", quiet=as_json)
    written = [str(file) for file in outputs(fitted.tables, folder, ".parquet" if parquet else ".csv")]
    facts = {"output": str(folder), "files": written, "patients": count, "model": str(model), "claims": fitted.claims,
             "seed": own}  # fmt: skip
    result(facts, f"Wrote {folder}, {count} patients in {len(written)} tables.", as_json=as_json)


def _refuse_real(folder: Path, model: Path) -> None:
    """Raises UsageError for a folder that has the name of one of real tables."""
    if folder.name.endswith((".train", ".heldout")) or folder.name == model.stem:
        raise UsageError(f"{folder} has the name of a folder of real tables. Choose another --output.")


def report(
    *, fitted: Model, model: Path, synthetic: Path | None, real: Path | None, train: Path | None, review: Path | None,
    thresholds: Path | None, output: Path | None, encoding: str | None, shareable: bool, fail_on: str | None,
    force: bool, quiet: bool, as_json: bool, **others: Any,
) -> None:  # fmt: skip
    """Write a page on patients and one on the rows of each table that has an order, each with its twin."""
    from medsynth.report.build import save
    from medsynth.report.data.review import Review, Thresholds, load
    from medsynth.report.data.verdict import failing

    from ..report import FAILED, command_line, wanted_of

    refuse(others)
    quiet, wanted = quiet or as_json, wanted_of(fail_on)
    assert fitted.tables is not None
    name, folder = model.stem, model.parent
    output = output or folder / f"{name}.report.html"
    in_order = [table for table in fitted.tables.others if fitted.tables.tables[table].order]
    pages = {"": output, **{table: output.with_name(_page(output, table)) for table in in_order}}
    for file in pages.values():
        check_page(file, model, review, thresholds, force=force)
    made_in = synthetic or folder / f"{name}.synthetic"
    if not made_in.is_dir():
        raise TableError(f"There is no folder of synthetic tables {made_in}. Draw them: medsynth sample -n 10000.")
    brought, lines = load(review, Review), load(thresholds, Thresholds)
    with report_progress(sys.stderr.isatty() and not quiet) as step:
        from medsynth.linked.files import drawn_by
        from medsynth.linked.report import report_tables

        sides = sides_of(fitted, model, made_in, real, train, encoding, shareable=shareable)
        own = drawn_by(fitted, made_in)
        if fitted.claims and not own:
            notify(f"No claim can be made for {made_in}: {model} is not proven to have drawn it.")
        made = report_tables(
            fitted, sides, drawn_by_model=own, title=name, review=brought, thresholds=lines,
            page_of=lambda table: _page(output, table), fits=None if shareable else _fits(model, real),
            commands=command_line(), step=step,
        )  # fmt: skip
        step("writing")
        for page in made:
            save(page.report, pages[page.table], force=force)
    shareable = all(page.report.shareable for page in made)
    if not shareable:
        notify(f"INTERNAL: {', '.join(map(str, pages.values()))} hold exact statistics of real patients.", quiet=quiet)
    failed = [one for page in made for one in failing(page.report.verdicts, wanted)]
    _print(made, pages, as_json, shareable, [one.key for one in failed])
    if failed:
        raise typer.Exit(FAILED)


def _page(output: Path, table: str) -> str:
    """The name of a table's page: hospital.report.html and visits give hospital.visits.report.html."""
    stem = output.name.removesuffix(".html").removesuffix(".report")
    return f"{stem}.{table}.report.html"


def _fits(model: Path, real: Path | None) -> int | None:
    """How many fits of the model's tables are on file: in their folder, or next to the model."""
    from medsynth.fitting.holdout import budget_of_model

    budget = budget_of_model(model, real or model.with_name(f"{model.stem}.heldout"))
    return len(budget.spent().fits) if budget else None


def _print(made: list[Page], pages: dict[str, Path], as_json: bool, shareable: bool, failed: list[str]) -> None:
    """Each page's verdicts."""
    from ..report import line_of

    lines, facts = list[str](), list[dict[str, Any]]()
    for page in made:
        lines.append(f"{page.table or 'patients'}:")
        lines += [f"  {line_of(verdict)}" for verdict in page.report.verdicts]
        facts.append({
            "table": page.table or None, "report": str(pages[page.table]),
            "verdicts": [v.model_dump() for v in page.report.verdicts],
        })  # fmt: skip
    lines.append(f"Wrote {', '.join(map(str, pages.values()))}, and the JSON twin of each.")
    if failed:
        lines.append(f"Failed by --fail-on: {', '.join(failed)}.")
    result({"pages": facts, "shareable": shareable, "failed": failed}, "\n".join(lines), as_json=as_json)
