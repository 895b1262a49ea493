"""The tables that a report of several compares: synthetic ones, and real ones held out and trained on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from medsynth.errors import MedsynthError, UsageError

from ..console import told_of_fitted_rows

if TYPE_CHECKING:
    from medsynth.artifact import Model
    from medsynth.linked.report import Sides


def sides_of(
    fitted: Model, model: Path, synthetic: Path, real: Path | None, train: Path | None, encoding: str | None, *,
    shareable: bool,
) -> Sides:  # fmt: skip
    """The tables of all sides; where none were held out, the real ones that the model was fitted to.

    Raises UsageError where a shareable report names real tables, MedsynthError where another finds none.
    """
    from medsynth.linked.report import Sides, read_folder

    assert (tables := fitted.tables) is not None
    if shareable:
        if real or train:
            raise UsageError("--shareable reads no real rows: leave --real and --train out.")
        return Sides(synthetic=read_folder(tables, synthetic))
    stem = model.with_name(model.stem)
    heldout, trained = (stem.with_name(f"{stem.name}.{part}") for part in ("heldout", "train"))
    real = real or next((folder for folder in (heldout, stem) if folder.is_dir()), heldout)
    if not real.is_dir():
        raise MedsynthError(
            f"There are no real tables to compare with ({real}). Fit with --holdout 0.25, or name a folder of tables "
            "that no fit has seen: medsynth report --real FOLDER."
        )
    seen = told_of_fitted_rows(fitted, model, real)
    train = None if seen else train or (trained if trained.is_dir() else None)
    return Sides(
        synthetic=read_folder(tables, synthetic),
        real=read_folder(tables, real, encoding),
        train=None if train is None else read_folder(tables, train, encoding),
        disjoint=(real, train) == (heldout, trained),
        fitted_rows=seen,
    )
