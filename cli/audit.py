"""`medsynth audit`."""

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

WIDTH = 36  # of the names of what is attacked


@guarded
def audit(
    schema: Annotated[
        Path | None, typer.Option(help="Schema YAML of the simulated tables [default: a small one].")
    ] = None,
    method: Annotated[
        str | None, typer.Option(help="Method of the fits [default: the default method, and canaries in the others].")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer trials, and fits of the baseline: two minutes.")
    ] = False,
    confidence: Annotated[float, typer.Option(help="Of each lower bound.")] = 0.999,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="HTML page to write, with its JSON next to it.")
    ] = None,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Attack the mechanisms on their worst cases, and print what was proven and what is claimed.

    Each line gives a lower bound on mu, the mechanism's separation of two neighbouring tables, in units of the noise,
    and on epsilon. A bound above the claim refutes it: exit code 1. A bound below it proves nothing more than itself.
    No table is opened and no budget is spent.

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
    declared = None if schema is None else Schema.load(schema)
    if output:
        check_page(output, schema, force=force)
    from medsynth.audit import run, save  # torch and all methods, once nothing is left to be refused

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
    """One line a finding, and what odd cells changed."""
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
    lines += ["", "input files: one odd cell in one row, what it changed outside that row"]
    for mode, (same, refused, differs), changes in found.inputs_by_mode():
        told = f" ({changes})" if changes else ""
        lines.append(f"schema {mode}: {same} identical, {refused} refused, {differs} differ{told}")
    first = found.findings[0]
    lines += [
        "",
        "claimed and proven: mu, or the chance of an outcome that one table cannot give. epsilon: at delta "
        f"{first.delta:g}.",
        f"Each proven figure is a lower bound at {first.confidence:.4g} confidence. It is evidence, not a certificate.",
    ]
    return "\n".join(lines[1:])
