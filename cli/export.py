"""The commands `medsynth export`: synthetic tables in the form of another standard."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .console import find_model, guarded, notify, one_of, result
from .options import Force, Json, ModelArgument, ModelOption

if TYPE_CHECKING:
    from medsynth.artifact import Model
    from medsynth.sidecars.omop import Repairs

app = typer.Typer(no_args_is_help=True, help="Write synthetic OMOP tables in the form of another standard.")
MOST_NAMES = 12  # that a notice lists

Tables = Annotated[Path | None, typer.Option(help="Folder of synthetic tables [default: NAME.synthetic].")]
Concepts = Annotated[
    Path | None, typer.Option(help="CONCEPT.csv from Athena with the codes of your concepts [default: their ids].")
]
Folder = Annotated[Path | None, typer.Option("--output", "-o", help="Folder to write [default: NAME.fhir or .omop].")]


@app.command()
@guarded
def fhir(
    model_file: ModelArgument = None,
    synthetic: Tables = None,
    concepts: Concepts = None,
    model: ModelOption = None,
    output: Folder = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write synthetic OMOP tables as FHIR R4 resources: a file .ndjson of each type, and one with the Provenance.

    The types are Patient, Encounter, Condition, Observation and MedicationStatement. Each resource is labelled as
    synthetic. The command reads no private row, and refuses tables that the model did not draw. Uses no privacy budget.

    Examples:

        medsynth export fhir

        medsynth export fhir cdm.medsynth --concepts CONCEPT.csv -o handover
    """
    from medsynth.sidecars.fhir import write_fhir

    fitted, path, tables, folder = _places(one_of(model_file, model), synthetic, output, ".fhir")
    made = write_fhir(fitted, path, tables, concepts, folder, force=force)
    if made.left_out:
        notify(f"Columns that no resource has: {_listed(made.left_out)}.", quiet=as_json)
    if made.uncoded:
        cure = "CONCEPT.csv lacks them, or FHIR has no address of their vocabulary" if concepts else (
            "To write their codes, pass `concepts`")  # fmt: skip
        notify(f"Concepts written as their ids: {_listed(made.uncoded)}. {cure}.", quiet=as_json)
    more = {"resources": made.resources, "left_out": made.left_out, "uncoded": made.uncoded}
    _print(fitted, folder, made.files, made.resources, more, made.repairs, as_json)


@app.command()
@guarded
def omop(
    model_file: ModelArgument = None,
    synthetic: Tables = None,
    model: ModelOption = None,
    output: Folder = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write synthetic OMOP tables completed to the Common Data Model 5.4: required columns, periods and eras.

    Observation periods and eras are computed from the synthetic events. A death before a patient's last event is moved
    to that day, and nothing ends after it. The command reads no private row, and refuses tables that the model did not
    draw. Uses no privacy budget.

    Example:

        medsynth export omop
    """
    from medsynth.sidecars.omop import write_omop

    fitted, path, tables, folder = _places(one_of(model_file, model), synthetic, output, ".omop")
    made = write_omop(fitted, path, tables, folder, force=force)
    _print(fitted, folder, made.files, made.rows, {"rows": made.rows}, made.repairs, as_json)


def _places(model: Path | None, synthetic: Path | None, output: Path | None, ending: str) -> tuple[
    Model, Path, Path, Path
]:  # fmt: skip
    """Return the model, its file, the folder of tables that it drew, and the folder to write."""
    from medsynth.artifact import load

    path = find_model(model)
    return load(path), path, synthetic or path.with_name(f"{path.stem}.synthetic"), output or Path(path.stem + ending)


def _print(
    fitted: Model,
    folder: Path,
    files: list[Path],
    counts: dict[str, int],
    more: dict[str, object],
    repairs: Repairs,
    as_json: bool,
) -> None:
    from medsynth.artifact import claim

    for text in filter(None, (repairs.sentence, claim(fitted, brief=True))):
        notify(text, quiet=as_json)
    content = {"output": str(folder), "files": [*map(str, files)], "claims": fitted.claims, **vars(repairs), **more}
    counted = ", ".join(f"{count} {name}" for name, count in counts.items())
    result(content, f"Wrote {folder}: {counted}.", as_json=as_json)


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return f"{', '.join(names[:MOST_NAMES])}{more}"
