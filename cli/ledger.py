"""`medsynth ledger` and `medsynth inspect`: what an artifact claims, and what is in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from medsynth.errors import MedsynthError, UsageError

from .console import find_model, guarded, result

if TYPE_CHECKING:
    from medsynth.artifact import Model

Where = Annotated[Path | None, typer.Argument(help="Model file [default: the newest here].")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")]


@guarded
def ledger(
    model: Where = None,
    table: Annotated[Path | None, typer.Option(help="Sum over all fits on this table instead.")] = None,
    verify: Annotated[bool, typer.Option("--verify", help="Recompute epsilon by an independent accountant.")] = False,
    as_json: Json = False,
) -> None:
    """Print every answer that the private rows gave, with its noise and its cost.

    Examples:

        medsynth ledger

        medsynth ledger patients.medsynth --verify

        medsynth ledger --table patients.csv
    """
    if table is not None:
        if model is not None or verify:
            raise UsageError("--table sums over models: leave the model and --verify out.")
        return _of_table(table, as_json)
    from medsynth.artifact import claim, load

    fitted = load(find_model(model))
    content: dict[str, Any] = {"epsilon": fitted.epsilon, "claims": fitted.claims, **fitted.ledger.to_json()}
    lines = [claim(fitted), f"Random source: {fitted.ledger.random_source}.", *fitted.ledger.notes, ""]
    lines.append(f"{'answer':<22} {'mechanism':<20} {'times':>6} {'multiplier':>11} {'rate':>8} {'sensitivity':>12}")
    for entry in fitted.ledger.entries:
        event = entry.event
        lines.append(
            f"{entry.label:<22} {type(event).__name__:<20} {entry.count:>6} {event.multiplier:>11.4f} "
            f"{getattr(event, 'rate', 1.0):>8.5f} {entry.sensitivity:>12.4f}"
        )
    if verify:
        content["verify"] = _verify(fitted)
        lines += ["", "Verified by dp-accounting's PLD: {pld:.4f} (claimed {claimed:.4f}; by RDP {rdp:.4f}).".format(
            **content["verify"])]  # fmt: skip
    result(content, "\n".join(lines), as_json=as_json)


def _of_table(table: Path, as_json: bool) -> None:
    from medsynth.budget import read

    spent = read(table)
    line = "{fitted}  {method:<14} epsilon {epsilon!s:<8.6}  {model}"
    lines = [line.format(**fit) for fit in spent.fits]
    content = {"fits": spent.fits, "epsilon": None if spent.unprotected else spent.epsilon, "delta": spent.delta}
    result(content, "\n".join([spent.sentence(), *lines]), as_json=as_json)


def _verify(fitted: Model) -> dict[str, float]:
    """Epsilon three ways. Raises MedsynthError if the claim is too small or there is none."""
    from medsynth.privacy.accounting import accountant

    if fitted.epsilon is None or not fitted.claims:
        raise MedsynthError("This model makes no privacy claim, so there is nothing to verify.")
    events, delta = fitted.ledger.composition(), fitted.ledger.delta
    try:
        pld = accountant.cross_check(events, delta)
    except ImportError:
        raise MedsynthError("--verify needs dp-accounting: pip install 'medsynth[verify]'.") from None
    if pld > fitted.epsilon + max(0.005, 0.005 * fitted.epsilon):
        raise MedsynthError(
            f"The claim does not hold: {fitted.epsilon:.4f} is claimed, {pld:.4f} is due. Do not share this model."
        )
    return {"pld": pld, "claimed": fitted.epsilon, "rdp": accountant.epsilon(events, delta, "rdp")}


@guarded
def inspect(model: Where = None, as_json: Json = False) -> None:
    """List all that a model file holds: there is nothing else in it.

    Example:

        medsynth inspect patients.medsynth
    """
    from medsynth.artifact import claim, load

    fitted = load(find_model(model))
    tensors = {name: list(t.shape) for name, t in sorted(fitted.tensors.items())}
    content = {**fitted.describe(), "tensors": tensors}
    text = f"{claim(fitted)}\n{json.dumps(content, indent=2)}"
    result(content, text, as_json=as_json)
