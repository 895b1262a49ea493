"""The command `medsynth audit`."""

from __future__ import annotations

import sys
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from medsynth.errors import MedsynthError, UsageError

from .console import audit_progress, check_page, guarded, result
from .options import Force, Json, Quiet

if TYPE_CHECKING:
    from medsynth.audit import Audit

WIDTH = 36  # characters for the name of a mechanism


@guarded
def audit(
    schema: Annotated[
        Path | None, typer.Option(help="YAML schema for the simulated tables [default: a small one].")
    ] = None,
    method: Annotated[
        str | None, typer.Option(help="Method whose fits are attacked [default: mixture, and canaries in the others].")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Run fewer trials, and fit the baseline method: five minutes.")
    ] = False,
    confidence: Annotated[float, typer.Option(help="Confidence of each lower bound.")] = 0.999,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="HTML page to write, with a JSON file next to it.")
    ] = None,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Attack the mechanisms on their worst cases, and compare what was proven with what is claimed.

    Each line gives lower bounds on mu and on epsilon. Mu measures, in units of the noise, how well the mechanism's
    output separates two neighbouring tables. A bound above the claim refutes the claim (exit code 1). A bound below it
    does not prove the claim. The audit opens no table and spends no budget.

    Examples:

        medsynth audit --quick

        medsynth audit --schema patients.schema.yaml --output audit.html

        medsynth audit --method dp-gan --json
    """
    if not 0.5 < confidence < 1:
        raise UsageError("--confidence must lie between 0.5 and 1.")
    from medsynth.methods.registry import METHODS, settle
    from medsynth.schema import Schema

    chosen = METHODS[settle(method)]
    declared = None if schema is None else Schema.load(schema).closed()
    if output:
        check_page(output, schema, force=force)
    from medsynth.audit import run, save  # imports torch and all methods: after the checks above

    with audit_progress(sys.stderr.isatty() and not (quiet or as_json)) as advance:
        found = run(declared, method=method, quick=quick, confidence=confidence, progress=advance)
    text = _table(found)
    if output:
        text += f"\nWrote {output} and {save(found, output, force=force)}."
    result(found.to_json(), text, as_json=as_json)
    published = method is not None and not chosen.makes_claim
    if refuted := [f.name for f in found.refuted if published or not f.published]:
        raise MedsynthError(f"Refuted: {', '.join(refuted)}. Do not rely on these claims.")


def _table(found: Audit) -> str:
    """Return one line per finding, and a summary of what odd cells changed."""
    lines = []
    for part, findings in groupby(found.findings, key=lambda finding: finding.part):
        lines += [
            "",
            f"{part:<{WIDTH}}{'claimed':>8}{'proven':>8}{'share':>7}{'epsilon':>9}{'proven':>8}{'trials':>8}"
            "  worst case",
        ]
        for f in findings:
            share = "" if f.share is None else f"{f.share:.0%}"
            refuted = " REFUTED" if f.refutes else ""
            claimed, proven, epsilon, proven_epsilon = f.shown
            lines.append(
                f"{f.name:<{WIDTH}}{claimed:>8}{proven:>8}{share:>7}{epsilon:>9}{proven_epsilon:>8}{f.trials:>8}"
                f"  {f.worst_case}{refuted}"
            )
    lines += ["", "input files: what one odd cell in one row changed outside that row"]
    for mode, (same, refused, differs), changes in found.inputs_by_mode():
        told = f" ({changes})" if changes else ""
        lines.append(f"schema {mode}: {same} identical, {refused} refused, {differs} differ{told}")
    first = found.findings[0]
    lines += [
        "",
        "claimed, proven: mu, or the probability of an outcome that one of the two tables cannot give. epsilon: at "
        f"delta {first.delta:g}.",
        f"Each proven figure is a lower bound at {first.confidence:.4g} confidence. It is evidence, not a certificate.",
    ]
    return "\n".join(lines[1:])
