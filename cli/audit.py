"""`medsynth audit`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from medsynth.errors import MedsynthError, UsageError

from .console import audit_progress, guarded, result
from .options import Json, Quiet

if TYPE_CHECKING:
    from medsynth.audit import Audit


@guarded
def audit(
    schema: Annotated[
        Path | None, typer.Option(help="Schema YAML of the simulated table [default: a small one].")
    ] = None,
    method: Annotated[str | None, typer.Option(help="Method of the whole fits [default: the default method].")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer trials, and fits of the baseline: two minutes.")
    ] = False,
    confidence: Annotated[float, typer.Option(help="Of each lower bound.")] = 0.999,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Attack the mechanisms on their worst cases, and print what was proven beside what is claimed.

    Each line gives a lower bound on mu, the mechanism's separation of two neighbouring tables, in units of the noise. A
    bound above the claim refutes it: exit code 1. A bound below it proves nothing more than itself. No table is opened
    and no budget is spent.

    Examples:

        medsynth audit --quick

        medsynth audit --schema patients.schema.yaml

        medsynth audit --json
    """
    if not 0.5 < confidence < 1:
        raise UsageError("--confidence must lie between 0.5 and 1.")
    from medsynth.audit import run
    from medsynth.schema import Schema

    with audit_progress(sys.stderr.isatty() and not (quiet or as_json)) as advance:
        found = run(
            None if schema is None else Schema.load(schema), method=method, quick=quick, confidence=confidence,
            progress=advance,
        )  # fmt: skip
    result(found.to_json(), _table(found), as_json=as_json)
    if found.refuted:
        raise MedsynthError(f"Refuted: {', '.join(f.name for f in found.refuted)}. Do not rely on these claims.")


def _table(found: Audit) -> str:
    """One line a finding."""
    lines = [f"{'measurement':<30} {'claimed mu':>10} {'proven mu':>10} {'of it':>6} {'trials':>7}  worst case"]
    for f in found.findings:
        share = f"{f.proven_mu / f.claimed_mu:.0%}"
        lines.append(
            f"{f.name:<30} {f.claimed_mu:>10.3f} {f.proven_mu:>10.3f} {share:>6} {f.trials:>7}  {f.worst_case}"
        )
    confidence = found.findings[0].confidence
    lines.append(f"Each proven mu is a lower bound at {confidence:.1%} confidence. It is evidence, not a certificate.")
    return "\n".join(lines)
