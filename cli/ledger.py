"""`medsynth ledger` and `medsynth inspect`: what an artifact claims, and what is in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from medsynth.errors import MedsynthError, UsageError

from .console import find_model, guarded, result
from .flags import translated
from .options import Json, ModelArgument

if TYPE_CHECKING:
    from medsynth.artifact import Model


@guarded
def ledger(
    model: ModelArgument = None,
    table: Annotated[Path | None, typer.Option(help="Print the sum over all fits on this table instead.")] = None,
    verify: Annotated[bool, typer.Option("--verify", help="Recompute epsilon by an independent accountant.")] = False,
    as_json: Json = False,
) -> None:
    """Print every measurement of the private rows, with its mechanism, noise multiplier and sensitivity.

    Examples:

        medsynth ledger

        medsynth ledger patients.medsynth --verify

        medsynth ledger --table patients.csv
    """
    if table is not None:
        if model is not None or verify:
            raise UsageError("--table sums over models: leave the model and --verify out.")
        return _of_table(table, as_json)
    from medsynth.artifact import load

    fitted = load(find_model(model))
    content: dict[str, Any] = {"epsilon": fitted.epsilon, "claims": fitted.claims, **fitted.ledger.to_json()}
    lines = _lines(fitted)
    if verify:
        content["verify"] = _verify(fitted)
        lines += ["", "Verified by dp-accounting's PLD: {pld:.4f} (claimed {claimed:.4f}; by RDP {rdp:.4f}).".format(
            **content["verify"])]  # fmt: skip
    result(content, "\n".join(lines), as_json=as_json)


def _lines(fitted: Model) -> list[str]:
    """The claim, its notes, and a table with one line a measurement."""
    from medsynth.artifact import claim

    heading = (
        f"{'measurement':<28} {'mechanism':<20} {'times':>6} {'noise multiplier':>16} {'sampling rate':>13} "
        f"{'sensitivity':>11}"
    )
    lines = [
        claim(fitted),
        f"Random source: {fitted.ledger.random_source}.",
        *(f"Note: {note}" for note in fitted.ledger.notes),
        "",
        heading,
    ]
    for entry in fitted.ledger.entries:
        event = entry.event
        lines.append(
            f"{entry.label:<28} {type(event).__name__:<20} {entry.count:>6} {event.multiplier:>16.4f} "
            f"{getattr(event, 'rate', 1.0):>13.5f} {entry.sensitivity:>11.4f}"
        )
    return [translated(line) for line in lines]


def _of_table(table: Path, as_json: bool) -> None:
    from medsynth.budget import Budget
    from medsynth.privacy.accounting.accountant import rounded_up

    spent = Budget.of(table).spent()
    fits, row, patient = [fit.describe() for fit in spent.fits], spent.row(), spent.patient()
    pairs = zip(fits, spent.fits, strict=True)
    line = "{started}  {method:<14} epsilon {shown:<8} for one {unit:<24} {model}"
    lines = [line.format(**fit, shown=rounded_up(own.epsilon) if own.epsilon else "None") for fit, own in pairs]
    content = {"fits": fits, "epsilon": row.epsilon, "epsilon_patient": patient.epsilon, "delta": row.delta}
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
def inspect(model: ModelArgument = None, as_json: Json = False) -> None:
    """Print all that a model file holds: configuration, schema, ledger and the shapes of its tensors.

    Example:

        medsynth inspect patients.medsynth
    """
    from medsynth.artifact import claim, load

    fitted = load(find_model(model))
    tensors = {name: list(t.shape) for name, t in sorted(fitted.tensors.items())}
    content = {**fitted.describe(), "tensors": tensors}
    text = f"{translated(claim(fitted))}\n{json.dumps(content, indent=2)}"
    result(content, text, as_json=as_json)
