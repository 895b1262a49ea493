"""The command `medsynth metadata`: a folder with synthetic tables and their descriptions, to hand over."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .console import find_model, find_synthetic, guarded, notify, one_of, result
from .options import Force, Json, ModelArgument, ModelOption

Synthetic = Annotated[
    Path | None, typer.Option(help="Synthetic table, or a folder of several [default: NAME.synthetic].")
]
ReviewedFacts = Annotated[
    Path | None, typer.Option(help="YAML file with purpose, recipient, licence, contact and catalogue.")
]
NO_CROISSANT = (
    "The folder lacks croissant.json: its readers know text with commas or tabs in UTF-8 only. For them, draw the rows "
    "with `sample -o NAME.parquet`."
)
Folder = Annotated[Path | None, typer.Option("--output", "-o", help="Folder to write [default: NAME.package].")]


@guarded
def metadata(
    model_file: ModelArgument = None,
    synthetic: Synthetic = None,
    model: ModelOption = None,
    review: ReviewedFacts = None,
    output: Folder = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write a folder to hand over: the synthetic table and its descriptions for people, libraries and catalogues.

    The descriptions are a data dictionary (CSV), a Frictionless data package, Croissant, RO-Crate and HealthDCAT-AP.
    Each states that the rows are synthetic, the method and the claim. The command reads no private row, and refuses a
    table that the model did not draw. Uses no privacy budget.

    Examples:

        medsynth metadata

        medsynth metadata --review review.yaml

        medsynth metadata hospital.medsynth --synthetic hospital.synthetic -o handover
    """
    from medsynth.artifact import claim, load
    from medsynth.sidecars.folder import hand_over

    fitted = load(path := find_model(one_of(model_file, model)))
    usual = path.with_name(f"{path.stem}.synthetic")
    one_file = find_synthetic(path.parent, path.stem, fitted)
    usual = usual if fitted.tables else one_file or usual.with_name(f"{usual.name}{fitted.form.ending}")
    table, folder = synthetic or usual, output or Path(f"{path.stem}.package")
    handed = hand_over(fitted, path, table, review, folder, force=force)
    notify(claim(fitted, brief=True), quiet=as_json)
    if not any(path.name == "croissant.json" for path in handed.files):
        notify(NO_CROISSANT, quiet=as_json)
    if handed.unfilled:
        listed = "".join(f"\n  {entry}" for entry in handed.unfilled)
        notify(f"HealthDCAT-AP needs what only people know. Write it into the file of `review`:{listed}", quiet=as_json)
    content = {"output": str(folder), "files": [*map(str, handed.files)], "rows": handed.rows, "claims": fitted.claims,
               "unfilled": handed.unfilled}  # fmt: skip
    result(content, f"Wrote {folder}, {len(handed.files)} files.", as_json=as_json)
