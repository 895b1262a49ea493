"""The command `medsynth export`: synthetic OMOP tables, completed, or as FHIR resources."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from medsynth.errors import UsageError, some

from .console import find_model, guarded, notify, result
from .options import Force, Json, ModelArgument

MOST_NAMES = 12  # that a notice lists
Form = Annotated[Literal["fhir", "omop"], typer.Argument(help="fhir or omop.", metavar="FORM")]
Tables = Annotated[Path | None, typer.Option(help="Folder of synthetic tables [default: NAME.synthetic].")]
Concepts = Annotated[
    Path | None, typer.Option(help="For FHIR: CONCEPT.csv from Athena with your concepts' codes [default: their ids].")
]
Folder = Annotated[Path | None, typer.Option("--output", "-o", help="Folder to write [default: NAME.FORM].")]


@guarded
def export(
    form: Form,
    model_file: ModelArgument = None,
    synthetic: Tables = None,
    concepts: Concepts = None,
    output: Folder = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write synthetic OMOP tables as FHIR R4 resources, or completed to the Common Data Model 5.4.

    fhir: a file .ndjson of each type, Patient, Encounter, Condition, Observation and MedicationStatement, and one with
    the Provenance. Each resource is labelled as synthetic.

    omop: CSV files with all required columns, and with observation periods and eras, which follow from the synthetic
    events.

    A death before a patient's last event is moved to that day, and nothing ends after it. The command reads no private
    row, and refuses tables that the model did not draw. Uses no privacy budget.

    Examples:

        medsynth export fhir

        medsynth export fhir cdm.medsynth --concepts CONCEPT.csv -o handover

        medsynth export omop
    """
    from medsynth.artifact import claim, load
    from medsynth.sidecars import fhir, omop

    if concepts and form != "fhir":
        raise UsageError("Only FHIR resources have codes. Leave `concepts` out.")
    fitted = load(path := find_model(model_file))
    folder, tables = output or Path(f"{path.stem}.{form}"), synthetic or path.with_name(f"{path.stem}.synthetic")
    if form == "fhir":
        made = fhir.write_fhir(fitted, path, tables, concepts, folder, force=force)
    else:
        made = omop.write_omop(fitted, path, tables, folder, force=force)
    notices = [made.repairs.sentence, claim(fitted, brief=True)]
    if made.left_out:
        notices.append(f"Columns that no resource has: {some(made.left_out, MOST_NAMES, '')}.")
    if made.uncoded:
        cure = "CONCEPT.csv lacks them, or FHIR has no address of their vocabulary."
        cure = cure if concepts else "To write their codes, pass `concepts`."
        notices.append(f"Concepts written as their ids: {some(made.uncoded, MOST_NAMES, '')}. {cure}")
    for text in filter(None, notices):
        notify(text, quiet=as_json)
    content = {"output": str(folder), "files": [*map(str, made.files)], "counts": made.counts, "claims": fitted.claims,
               "moved": vars(made.repairs), "left_out": made.left_out, "uncoded": made.uncoded}  # fmt: skip
    counted = ", ".join(f"{count} {name}" for name, count in made.counts.items())
    result(content, f"Wrote {folder}: {counted}.", as_json=as_json)
