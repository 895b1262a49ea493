"""The command `medsynth demo`: fit, sample and report on a simulated cohort."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from medsynth.errors import MedsynthError

from .console import guarded, notify, report_progress, result
from .options import Json

if TYPE_CHECKING:
    from medsynth.artifact import Model

EPSILON = 3.7  # the thyroid study's
SAMPLED_ROWS = 10_000


class DemoFiles(NamedTuple):
    """The files that the demo writes."""

    table: Path
    heldout: Path
    schema: Path
    model: Path
    synthetic: Path
    report: Path


@guarded
def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to write to.")] = Path("medsynth-demo"),
    seed: Annotated[int | None, typer.Option(help="Make the public random draws repeatable; never the noise.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the files of an earlier demo.")] = False,
    as_json: Json = False,
) -> None:
    """Simulate a clinic, fit at epsilon 3.7, sample 10,000 rows and write a report. No real patient is involved.

    Example:

        medsynth demo
    """
    from medsynth.io.atomic import check_outputs

    ends = ("csv", "heldout.csv", "schema.yaml", "medsynth", "synthetic.csv", "report.html")
    files = DemoFiles(*(output / f"clinic.{end}" for end in ends))
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MedsynthError(f"Cannot create the folder {output} ({error.strerror}). Choose another `output`.") from None
    check_outputs(*files, files.report.with_suffix(".json"), force=force)
    show = sys.stderr.isatty() and not as_json
    rows = _simulate(files, force)
    notify(f"Simulated {rows} patients of a thyroid clinic: {files.table}", quiet=as_json)
    model, drawn = _fit_and_sample(files, rows, seed, force, show)
    notify(f"Fitted on {model.device}. The report takes about twenty seconds.", quiet=as_json)
    _report(files, model, force, show)
    facts = {"table": str(files.table), "model": str(files.model), "synthetic": str(files.synthetic),
             "report": str(files.report), "epsilon": model.epsilon}  # fmt: skip
    result(facts, "\n".join(_lines(files, model, drawn)), as_json=as_json)


def _simulate(files: DemoFiles, force: bool) -> int:
    """Write a simulated table, held-out rows and their schema. Return the table's row count."""
    from medsynth_sample_data import simulate

    from medsynth.io.atomic import atomic_write

    rows, _ = simulate.COMMITTED["clinic.csv"]
    train, heldout = (simulate.cohort(*simulate.COMMITTED[name]) for name in ("clinic.csv", "clinic_heldout.csv"))
    texts = (train.to_csv(index=False), heldout.to_csv(index=False), simulate.schema_text())
    for path, text in zip((files.table, files.heldout, files.schema), texts, strict=True):
        atomic_write(path, text.encode(), force=force)
    return int(rows)


def _fit_and_sample(files: DemoFiles, rows: int, seed: int | None, force: bool, show: bool) -> tuple[Model, str]:
    """Write the model and the synthetic table. Return the model and the table's text."""
    from medsynth.fitting.pipeline import fit
    from medsynth.sampling import Draw, provenance

    model = fit(files.table, epsilon=EPSILON, rows=rows, seed=seed, progress=show)
    model.save(files.model, force=force)
    provenance.write_sample(model, files.model, files.synthetic, Draw(rows=SAMPLED_ROWS, seed=seed), force=force)
    return model, files.synthetic.read_text("utf-8")


def _report(files: DemoFiles, model: Model, force: bool, show: bool) -> None:
    from medsynth.budget import Budget
    from medsynth.report.build import build, save
    from medsynth.report.data.tables import read
    from medsynth.sampling.provenance import drawn_by

    with report_progress(show) as step:
        step("reading")
        made = build(
            synthetic=read(files.synthetic), real=read(files.heldout), train=read(files.table), model=model,
            drawn_by_model=drawn_by(model, files.synthetic), disjoint=True, title="Simulated thyroid clinic",
            commands=["medsynth demo"], fits=len(Budget.of(files.table).spent().fits), step=step,
        )  # fmt: skip
        save(made, files.report, force=force)


def _program() -> str:
    """Return how this shell calls medsynth: by its name if it finds it, else as it was called now."""
    if shutil.which("medsynth"):
        return "medsynth"
    called = Path(sys.argv[0])
    return str(called) if called.stem == "medsynth" else f"{sys.executable} -m medsynth_cli"


def _lines(files: DemoFiles, model: Model, drawn: str) -> list[str]:
    from medsynth.artifact import claim

    return [
        f"Fitted on {model.device}: {files.model}",
        claim(model, brief=True),
        f"Sampled {SAMPLED_ROWS:,} synthetic patients: {files.synthetic}",
        "",
        *drawn.splitlines()[:6],
        "",
        f"Report for the review: {files.report}. Open it in a browser.",
        f"Next: {_program()} ledger {files.model} --verify",
    ]
