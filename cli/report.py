"""`medsynth report`: the page for data-sharing review."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from medsynth.errors import MedsynthError, UsageError
from medsynth.io.formats import name_of, named

from .console import guarded, newest_model, result, say, steps

if TYPE_CHECKING:
    from medsynth.artifact import Model


@guarded
def report(
    real: Annotated[Path | None, typer.Option(help="Real held-out rows [default: NAME.heldout.csv].")] = None,
    train: Annotated[Path | None, typer.Option(help="Real rows fitted on [default: NAME.train.csv].")] = None,
    model: Annotated[Path | None, typer.Option(help="Model file [default: the newest here].")] = None,
    synthetic: Annotated[Path | None, typer.Option(help="Synthetic table [default: NAME.synthetic.csv].")] = None,
    target: Annotated[str | None, typer.Option(help="Column to predict [default: the model's, else last].")] = None,
    subgroup: Annotated[list[str] | None, typer.Option(help="Column to report by; may be given again.")] = None,
    review: Annotated[Path | None, typer.Option(help="Purpose, roles and sign-off, YAML.")] = None,
    thresholds: Annotated[Path | None, typer.Option(help="Lines of the front page, YAML.")] = None,
    output: Annotated[Path | None, typer.Option(help="HTML file [default: NAME.report.html].")] = None,
    shareable: Annotated[bool, typer.Option("--shareable", help="Leave out all that real rows would tell.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace files that exist.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No messages.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")] = False,
) -> None:
    """Write one HTML page, and its JSON twin, that a data-sharing board can read and sign.

    Examples:

        medsynth report

        medsynth report --real heldout.csv --train patients.csv --subgroup sex --review review.yaml

        medsynth report --synthetic from-another-tool.csv --real heldout.csv --target class

        medsynth report --shareable --output open.report.html
    """
    from medsynth.io.atomic import refuse_existing

    quiet = quiet or as_json
    # A table named by hand need not be the newest model's: then only a model named by hand, or its namesake, counts.
    path = model or (newest_model(quiet=quiet) if synthetic is None else _namesake(synthetic))
    name = path.stem if path else name_of(synthetic).removesuffix(".synthetic") if synthetic else "table"
    folder = path.parent if path else Path()
    if path is None and synthetic is None:
        raise MedsynthError("There is no model here and no --synthetic. Fit and sample first, or name a table.")
    output = output or folder / f"{name}.report.html"
    for file in (output, output.with_suffix(".json")):
        refuse_existing(file, force=force)
    if not shareable:
        real = real or named(folder, f"{name}.heldout") or folder / f"{name}.heldout.csv"
        if not real.exists():
            raise MedsynthError(_cure(real, name))
        train = train or named(folder, f"{name}.train")
    elif real or train:
        raise UsageError("--shareable reads no real rows: leave --real and --train out.")

    from medsynth.budget import place
    from medsynth.budget import read as read_spent
    from medsynth.report import build as page
    from medsynth.report.data.review import Review, Thresholds, load
    from medsynth.report.data.tables import read

    brought, lines = load(review, Review), load(thresholds, Thresholds)
    with steps(sys.stderr.isatty() and not quiet) as step:
        step("reading")
        fitted = _fitted(path)
        usual = named(folder, f"{name}.synthetic")
        table, notes = _synthetic(synthetic or usual, f"{name}.synthetic.csv", fitted, quiet)
        if (total := place(folder / f"{name}.csv")).exists() and not shareable:
            notes.append(read_spent(folder / f"{name}.csv").sentence() + f" ({total.name})")
        made = page.build(
            synthetic=table,
            real=None if shareable or real is None else read(real),
            train=None if shareable or train is None else read(train),
            model=fitted,
            target=target,
            groups=subgroup,
            review=brought,
            thresholds=lines,
            title=name,
            commands=[shlex.join(["medsynth", *sys.argv[1:]])] if len(sys.argv) > 1 else [],
            notes=notes,
            step=step,
        )
        step("writing")
        page.save(made, output, force=force)
    if not shareable:
        say(f"INTERNAL: {output} holds exact statistics of real patients. --shareable makes one that may be passed on.",
            quiet=quiet)  # fmt: skip
    lines_text = [f"{'-' if v.met is None else 'ok' if v.met else 'NO':<3} {v.question:<50} {_shown(v.estimate.value)}"
                  for v in made.verdicts]  # fmt: skip
    facts = {
        "report": str(output),
        "json_twin": str(output.with_suffix(".json")),
        "shareable": shareable,
        "verdicts": [v.model_dump() for v in made.verdicts],
    }
    result(facts, "\n".join([*lines_text, f"Wrote {output} and {output.with_suffix('.json')}."]), as_json=as_json)


def _namesake(synthetic: Path) -> Path | None:
    stem = name_of(synthetic)
    path = synthetic.with_name(f"{stem.removesuffix('.synthetic')}.medsynth")
    return path if stem.endswith(".synthetic") and path.exists() else None


def _shown(value: float | None) -> str:
    return "not measured" if value is None else f"{value:.4g}"


def _fitted(path: Path | None) -> Model | None:
    from medsynth.artifact import load

    return None if path is None else load(path)


def _synthetic(path: Path | None, usual: str, fitted: Model | None, quiet: bool):  # type: ignore[no-untyped-def]
    """The synthetic table in that file, else a fresh sample; and what to say of it. `usual`: the file's usual name."""
    from medsynth.report.data.tables import read

    if path is not None:
        say(f"Synthetic table: {path}", quiet=quiet)
        return read(path), []
    assert fitted is not None
    from medsynth.sampling.pipeline import sample

    note = f"There was no {usual}: {fitted.rows} rows were sampled afresh from the model for this report."
    say(note, quiet=quiet)
    return sample(fitted), [note]


def _cure(real: Path, name: str) -> str:
    return (
        f"There are no held-out real rows ({real}), and rows that the model was fitted to would flatter it. The cure:\n"
        f"  medsynth fit {name}.csv --epsilon 3.7 --holdout 0.25 --force\n"
        f"  medsynth sample -n 10000 --force\n"
        "or name a file of real rows that no fit has seen: medsynth report --real FILE."
    )
