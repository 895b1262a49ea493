"""The folder that is handed over: synthetic tables, their provenance, and five descriptions of the same facts."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from scipy.stats import norm

from ..answers.noisy import example_of
from ..artifact import Model
from ..errors import MedsynthError
from ..io.atomic import atomic_write, check_outputs, whole_folder
from ..report.data.verdict import Review, load
from .croissant import croissant
from .datapackage import datapackage
from .dictionary import dictionary
from .facts import Facts, gather
from .healthdcat import healthdcat, unfilled
from .rocrate import rocrate

CRATE = "ro-crate-metadata.json"
README = "README.md"
DESCRIPTIONS = {
    README: "What to know before a test on these rows",
    "croissant.json": "Croissant, for libraries of machine learning",
    "datapackage.json": "Frictionless data package with table schemas",
    "healthdcat-ap.jsonld": "HealthDCAT-AP, for health data catalogues",
    "data-dictionary.csv": "Data dictionary with a summary of each synthetic column",
}
Writer = Callable[[BinaryIO], object]


@dataclass(frozen=True, kw_only=True)
class HandedOver:
    """The files of a folder, the number of its synthetic rows, and the entries that the review file lacks."""

    files: list[Path]
    rows: int
    unfilled: list[str]


def hand_over(
    model: Model, model_path: Path, synthetic: Path, review: Path | None, folder: Path, *, force: bool = False
) -> HandedOver:
    """Describe the table in the file `synthetic`, or the tables in that folder, in a folder together with a copy.

    Raises as `gather` and `write_folder` do, and UsageError for a wrong review file.
    """
    facts = gather(model, model_path, synthetic, load(review, Review))
    files = write_folder(facts, folder, readme(model, facts), force=force)
    return HandedOver(files=files, rows=sum(table.rows for table in facts.tables), unfilled=unfilled(facts))


def write_folder(facts: Facts, folder: Path, text: str, *, force: bool = False) -> list[Path]:
    """Write the folder with the readme `text`, and return its files. A file of another origin never gets into it.

    Raises MedsynthError if the folder contains other files, which its description would include, or cannot be made;
    OutputExists unless `force`.
    """
    writers = _writers(facts, text)
    files = [folder / name for name in writers]
    with whole_folder(folder, writers):
        inputs = tuple(table.path for table in facts.tables)
        check_outputs(*files, inputs=inputs, force=force)
        for path, write in zip(files, writers.values(), strict=True):
            atomic_write(path, write, force=force)
    return files


def _writers(facts: Facts, text: str) -> dict[str, Writer]:
    """Return what fills each file of the folder, by its name."""
    copies = [*(table.path for table in facts.tables), facts.provenance]
    others = {facts.provenance.name: "The request that draws the same rows again", **DESCRIPTIONS}
    readable = facts.for_croissant
    if not readable:
        del others["croissant.json"]
    texts = {
        README: text.encode(),
        **({"croissant.json": _json(croissant(facts))} if readable else {}),
        "datapackage.json": _json(datapackage(facts)),
        "healthdcat-ap.jsonld": _json(healthdcat(facts)),
        "data-dictionary.csv": dictionary(facts).encode(),
        CRATE: _json(rocrate(facts, others)),
    }
    if taken := [path.name for path in copies if path.name in texts]:
        raise MedsynthError(f"A table's file has the name of a description, {taken[0]}. Give it another name.")
    return {
        **{path.name: partial(_copy, path) for path in copies},
        **{name: partial(_write, content) for name, content in texts.items()},
    }


def readme(model: Model, facts: Facts) -> str:
    """Return what a reader must know first: tests on these rows mislead. Add an example of this table, if possible.

    If two groups are equal, rows differ by the sampling error and the noise, but a test knows only the former.
    """
    example = ""
    if (found := example_of(model)) is not None:
        rows = sum(table.rows for table in facts.tables)
        tested, real = (sum(p * (1 - p) / (size * total) for p, size in found.shares) for total in (rows, model.rows))
        wrong = 2 * norm.sf(1.96 * math.sqrt(tested / (real + found.noise_std**2)))
        example = (
            f" Example of this table: compare the share of {found.level} between {' and '.join(found.groups)} by a "
            "test at the 5 % level. If the groups were equal, noise of this size would yield p < .05 in up to about "
            f"{wrong:.0%} of such tables.\n\nAsk whoever has the model for estimates: their intervals know the noise."
        )
    return (
        f"# {facts.title}\n\n**P-values and intervals that take these rows as patients are wrong.**{example}\n\n"
        f"The rows are synthetic. {facts.claim}\n"
    )


def _copy(path: Path, file: BinaryIO) -> None:
    with path.open("rb") as source:
        shutil.copyfileobj(source, file)


def _write(content: bytes, file: BinaryIO) -> None:
    file.write(content)


def _json(content: dict[str, Any]) -> bytes:
    return (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode()
