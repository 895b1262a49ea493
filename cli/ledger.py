"""The commands `medsynth ledger` and `medsynth inspect`: what a model claims, and what it contains."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from medsynth.errors import PUBLIC, UsageError
from medsynth.row_count import COUNTED_ROWS

from .console import find_model, guarded, result
from .flags import translated
from .options import Force, Json, ModelArgument

if TYPE_CHECKING:
    from medsynth.artifact import Model


@guarded
def ledger(
    model: ModelArgument = None,
    table: Annotated[
        Path | None,
        typer.Option(help="Print the total of all fits on this data: a table, a folder, a tables file or a model."),
    ] = None,
    verify: Annotated[bool, typer.Option("--verify", help="Recompute epsilon with an independent accountant.")] = False,
    as_json: Json = False,
) -> None:
    """Print every measurement of the private rows, with its mechanism, noise multiplier and sensitivity.

    Examples:

        medsynth ledger

        medsynth ledger patients.medsynth --verify

        medsynth ledger --table patients.csv

        medsynth ledger --table hospital
    """
    if table is not None:
        if model is not None or verify:
            raise UsageError("--table adds up all fits on a table. Leave the model and --verify out.")
        return _of_table(table, as_json)
    from medsynth.artifact import load
    from medsynth.artifact import verify as verify_model

    fitted = load(find_model(model))
    content: dict[str, Any] = {"epsilon": fitted.epsilon, "claims": fitted.claims, **fitted.ledger.to_json()}
    lines = _lines(fitted)
    if verify:
        content["verify"] = verify_model(fitted)
        lines += ["", "Verified by dp-accounting (PLD): {pld:.4f}. Claimed: {claimed:.4f}. By RDP: {rdp:.4f}.".format(
            **content["verify"])]  # fmt: skip
    result(content, "\n".join(lines), as_json=as_json)


def _lines(fitted: Model) -> list[str]:
    """Return the claim, its notes, and a table with one line per measurement."""
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
    from medsynth.fitting.budgets import spent_on
    from medsynth.privacy.accounting.accountant import rounded_up

    spent = spent_on(table)
    fits = [fit.describe() for fit in spent.fits]
    row = spent.row()
    patient = spent.patient()
    pairs = zip(fits, spent.fits, strict=True)
    line = "{started}  {method:<14} epsilon {shown:<8} for one {unit:<24} {model}"
    lines = [line.format(**fit, shown=rounded_up(own.epsilon) if own.epsilon else "None") for fit, own in pairs]
    content = {"fits": fits, "epsilon": row.epsilon, "epsilon_patient": patient.epsilon, "delta": row.delta}
    result(content, "\n".join([spent.sentence(), *lines]), as_json=as_json)


@guarded
def withdraw(
    path: Annotated[Path, typer.Argument(help="Synthetic table, a folder of them, or a model.")],
    reason: Annotated[str, typer.Option(help="Why: one line.")],
    replaced_by: Annotated[str | None, typer.Option(help="Name or address of what replaces it.")] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write a file next to rows or a model which says that they are withdrawn. `inspect` then warns.

    Pass the file to everybody who has the rows.

    Examples:

        medsynth withdraw patients.synthetic.csv --reason "A column named patients."

        medsynth withdraw patients.medsynth --reason "Fitted to wrong rows." --replaced-by patients-2.medsynth
    """
    from medsynth.sidecars import withdrawal

    written = withdrawal.withdraw(path, reason, replaced_by, force=force)
    result({"output": str(written)}, f"Wrote {written}.", as_json=as_json)


@guarded
def inspect(model: ModelArgument = None, as_json: Json = False) -> None:
    """Print what a model file contains: its claim, columns, settings, versions and tensors. --json prints all of it.

    For synthetic rows, print how they were drawn. The first line names a withdrawal of rows or model.

    Examples:

        medsynth inspect

        medsynth inspect patients.medsynth --json

        medsynth inspect patients.synthetic.csv
    """
    from medsynth.artifact import claim, load, quality
    from medsynth.sampling import provenance
    from medsynth.sidecars.withdrawal import withdrawn

    found = withdrawn(path := find_model(model))
    heads = [found.sentence] if found else []
    facts = {"withdrawn": found.model_dump() if found else None}
    if path.suffix != ".medsynth" and (drawn := provenance.load(path)):
        listed = asdict(drawn)  # how synthetic rows were drawn
        lines = [f"{name:<14} {value}" for name, value in listed.items() if value not in (None, "", [], {})]
        return result(facts | listed, "\n".join([*heads, *lines]), as_json=as_json)
    fitted = load(path)
    from medsynth.sampling.replicates import released, why_not

    tensors = {name: list(t.shape) for name, t in sorted(fitted.tensors.items())}
    content = {
        **fitted.describe(),
        "tensors": tensors,
        "released": released(fitted),
        "replicable": why_not(fitted) is None,
        "quality": fitted.quality,
        "warning": _doubt(fitted),
        **facts,
    }
    heads += [translated(claim(fitted)), *(text for text in [quality(fitted), _doubt(fitted)] if text)]
    result(content, "\n".join([*heads, *_contents(fitted)]), as_json=as_json)


def _doubt(fitted: Model) -> str:
    """Return a warning about a model whose columns may be named after a patient's cells; else an empty text."""
    from medsynth.artifact import printable
    from medsynth.schema.value_like import doubtful_names

    found = ", ".join(map(printable, doubtful_names(list(fitted.schema.columns))))
    if not found or any(note.about.entry for note in fitted.ledger.about(PUBLIC)):  # the header was declared
        return ""
    return (
        f"WARNING: these names of columns may be the cells of a patient's row: {found}. If they are, do not share the "
        "model, and withdraw it and its rows (docs/vulnerabilities.md)."
    )


def _contents(fitted: Model) -> list[str]:
    """Return the lines that describe a model: one per fact, per column and per tensor."""
    lines = [
        "",
        f"{'method':<10} {fitted.method}{f', preset {fitted.preset}' if fitted.preset else ''}, on {fitted.device}",
        f"{'rows':<10} {_rows(fitted)}",
        f"{'settings':<10} {_listed(fitted.config)}",
        f"{'replicates':<10} {_replicable(fitted)}",
        f"{'versions':<10} {_listed(fitted.versions)}",
        "",
        f"{'column':<28} {'kind':<12} values",
    ]
    for name, column in fitted.schema.columns.items():
        mark = " (target)" if name == fitted.schema.target else ""
        domain, missing, precision = column.describe()
        words = "; ".join(word for word in (domain, missing, precision) if word)
        lines.append(f"{name + mark:<28} {column.kind:<12} {words}")
    from medsynth.sampling.replicates import RELEASED

    lines += ["", f"{'tensor':<40} shape"]
    return lines + [f"{name:<40} {'x'.join(map(str, t.shape))}" for name, t in sorted(fitted.tensors.items())
                    if not name.startswith(RELEASED)]  # fmt: skip


def _rows(fitted: Model) -> str:
    """Return the public number of rows that were read, and the released number of those that count."""
    declared = "declared" if fitted.rows_declared else "the table's own"
    if fitted.tables is not None:
        return f"{fitted.rows} patients, {declared if fitted.rows_declared else 'the rows of the first table'}"
    if (most := fitted.ledger.max_rows) is not None:
        read = "" if fitted.rows_read is None else f"{fitted.rows_read} read, {declared}; "
        return f"{read}about {fitted.rows} count, by noisy counts: at most {most} of each patient"
    counted = fitted.tensors.get(COUNTED_ROWS)
    about = "" if counted is None else f" (about {float(counted[0]):.0f} by noisy counts)"
    return f"{fitted.rows} read, {declared}; all of them count{about}"


def _replicable(fitted: Model) -> str:
    """Return what the model keeps for replicates, or why it cannot make any."""
    from medsynth.sampling.replicates import released, why_not

    found = released(fitted)
    if (reason := why_not(fitted)) is not None:
        return translated(reason)
    numbers = sum(one["numbers"] for one in found)
    return f"yes: {len(found)} released measurements ({numbers} numbers) are in the file; replicates cost no privacy"


def _listed(facts: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in facts.items() if value is not None)
