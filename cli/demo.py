"""`medsynth demo`: the main job on a simulated cohort."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from .console import guarded, progress_bar, result, say


@guarded
def demo(
    output: Annotated[Path, typer.Option(help="Folder to write to.")] = Path("medsynth-demo"),
    seed: Annotated[int | None, typer.Option(help="Repeat the public random draws.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace what an earlier demo wrote.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")] = False,
) -> None:
    """Simulate a clinic, fit at epsilon 3.7, sample 10,000 rows. No real patient is involved.

    Example:
        medsynth demo
    """
    from medsynth_sample_data import simulate

    from medsynth.files import atomic_write, refuse_existing

    names = ("clinic.csv", "clinic.schema.yaml", "clinic.medsynth", "clinic.synthetic.csv")
    table, schema, artifact, synthetic = (output / name for name in names)
    output.mkdir(parents=True, exist_ok=True)
    for path in (table, schema, artifact, synthetic):
        refuse_existing(path, force=force)
    rows, cohort_seed = simulate.COMMITTED["clinic.csv"]
    cohort = simulate.cohort(rows, cohort_seed).to_csv(index=False, lineterminator="\n")
    atomic_write(table, lambda file: file.write(cohort.encode()), force=force)
    text = simulate.schema_text()
    atomic_write(schema, lambda file: file.write(text.encode()), force=force)
    say(f"Simulated {rows} patients of a thyroid clinic (no real ones): {table}", quiet=as_json)

    from medsynth.artifact import claim
    from medsynth.fitting import fit
    from medsynth.sampling import sample_csv

    with progress_bar(sys.stderr.isatty() and not as_json) as advance:
        model = fit(table, epsilon=3.7, rows=rows, seed=seed, progress=advance)
    model.save(artifact, force=force)
    drawn = sample_csv(model, 10_000, seed)
    atomic_write(synthetic, lambda file: file.write(drawn.encode()), force=force)
    lines = [
        f"Fitted in {model.seconds:.1f} s on {model.device}: {artifact}",
        claim(model),
        f"Sampled 10,000 synthetic patients: {synthetic}",
        "",
        *drawn.splitlines()[:6],
        "",
        f"Next: medsynth ledger {artifact} --verify",
    ]
    facts = {"table": str(table), "model": str(artifact), "synthetic": str(synthetic), "epsilon": model.epsilon}
    result(facts, "\n".join(lines), as_json=as_json)
