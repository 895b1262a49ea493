"""`medsynth demo`: the main job on a simulated cohort."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from .console import guarded, progress_bar, result, say, steps

ENDS = ("csv", "heldout.csv", "schema.yaml", "medsynth", "synthetic.csv", "report.html")


@guarded
def demo(
    output: Annotated[Path, typer.Option(help="Folder to write to.")] = Path("medsynth-demo"),
    seed: Annotated[int | None, typer.Option(help="Repeat the public random draws.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace what an earlier demo wrote.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")] = False,
) -> None:
    """Simulate a clinic, fit at epsilon 3.7, sample 10,000 rows, report. No real patient is involved.

    Example:

        medsynth demo
    """
    from medsynth_sample_data import simulate

    from medsynth.io.atomic import atomic_write, refuse_existing

    table, heldout, schema, artifact, synthetic, page = (output / f"clinic.{end}" for end in ENDS)
    output.mkdir(parents=True, exist_ok=True)
    for path in (table, heldout, schema, artifact, synthetic, page, page.with_suffix(".json")):
        refuse_existing(path, force=force)
    rows, _ = simulate.COMMITTED["clinic.csv"]
    train, real = (simulate.cohort(*simulate.COMMITTED[name]) for name in ("clinic.csv", "clinic_heldout.csv"))
    texts = (train.to_csv(index=False), real.to_csv(index=False), simulate.schema_text())
    for path, text in zip((table, heldout, schema), texts, strict=True):
        atomic_write(path, lambda file, text=text: file.write(text.encode()), force=force)  # type: ignore[misc]
    say(f"Simulated {rows} patients of a thyroid clinic (no real ones): {table}", quiet=as_json)

    from medsynth.artifact import claim
    from medsynth.fitting.pipeline import fit
    from medsynth.sampling.pipeline import sample_csv

    with progress_bar(sys.stderr.isatty() and not as_json) as advance:
        model = fit(table, epsilon=3.7, rows=rows, seed=seed, progress=advance)
    model.save(artifact, force=force)
    drawn = sample_csv(model, 10_000, seed)
    atomic_write(synthetic, lambda file: file.write(drawn.encode()), force=force)
    say(f"Fitted in {model.seconds:.1f} s on {model.device}. Now the report: some twenty seconds.", quiet=as_json)

    from medsynth.report.build import build, save
    from medsynth.report.data.tables import read

    with steps(sys.stderr.isatty() and not as_json) as step:
        step("reading")
        made = build(
            synthetic=read(synthetic), real=read(heldout), train=read(table), model=model,
            title="Simulated thyroid clinic", commands=["medsynth demo"], step=step,
        )  # fmt: skip
        save(made, page, force=force)
    lines = [
        f"Fitted in {model.seconds:.1f} s on {model.device}: {artifact}",
        claim(model),
        f"Sampled 10,000 synthetic patients: {synthetic}",
        "",
        *drawn.splitlines()[:6],
        "",
        f"The report for review: {page}. Open it in a browser.",
        f"Next: medsynth ledger {artifact} --verify",
    ]
    facts = {"table": str(table), "model": str(artifact), "synthetic": str(synthetic), "report": str(page),
             "epsilon": model.epsilon}  # fmt: skip
    result(facts, "\n".join(lines), as_json=as_json)
