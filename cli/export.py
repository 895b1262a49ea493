"""The commands `medsynth export`: synthetic tables in the form of another standard."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .console import find_model, guarded, notify, one_of, result
from .options import Force, Json, ModelArgument, ModelOption

app = typer.Typer(no_args_is_help=True, help="Write synthetic OMOP tables in the form of another standard.")
MOST_NAMES = 12  # that a notice lists

Tables = Annotated[Path | None, typer.Option(help="Folder of synthetic tables [default: NAME.synthetic].")]
Concepts = Annotated[
    Path | None, typer.Option(help="CONCEPT.csv from Athena with the codes of your concepts [default: their ids].")
]
Folder = Annotated[Path | None, typer.Option("--output", "-o", help="Folder to write [default: NAME.fhir].")]


@app.callback()
def _export() -> None:
    """Write synthetic OMOP tables in the form of another standard."""


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
    from medsynth.artifact import claim, load
    from medsynth.sidecars.fhir import write_fhir

    fitted = load(path := find_model(one_of(model_file, model)))
    folder = output or Path(f"{path.stem}.fhir")
    tables = synthetic or path.with_name(f"{path.stem}.synthetic")
    made = write_fhir(fitted, path, tables, concepts, folder, force=force)
    notify(claim(fitted, brief=True), quiet=as_json)
    if made.left_out:
        notify(f"Columns that no resource has: {_listed(made.left_out)}.", quiet=as_json)
    if made.uncoded:
        cure = "CONCEPT.csv lacks them, or FHIR has no address of their vocabulary" if concepts else (
            "To write their codes, pass `concepts`")  # fmt: skip
        notify(f"Concepts written as their ids: {_listed(made.uncoded)}. {cure}.", quiet=as_json)
    counted = ", ".join(f"{count} {name}" for name, count in made.resources.items())
    content = {"output": str(folder), "files": [*map(str, made.files)], "resources": made.resources,
               "claims": fitted.claims, "left_out": made.left_out, "uncoded": made.uncoded}  # fmt: skip
    result(content, f"Wrote {folder}: {counted}.", as_json=as_json)


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return f"{', '.join(names[:MOST_NAMES])}{more}"
