"""Rows kept out of training: drawn before a fit; they replace those of an earlier fit once the model stands.

And whether rows were kept out of a model's fit, by what is on file: by rows that were not, a report judges nothing.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from ..artifact import Model
from ..budget import Budget
from ..errors import MedsynthError, UsageError
from ..io.formats import SUFFIXES_TRIED, is_parquet, name_of
from ..io.split import (
    check_fraction,
    expecting,
    file_beside,
    noted,
    number_kept,
    number_of,
    number_split,
    split,
    table_of,
)
from ..io.table import LargeTable, Table
from ..schema import Schema
from ..schema.columns.table_codec import encode
from .private_table import Notice, choose_schema, read_rows

TRAIN, HELD_OUT = ".train", ".heldout"  # what the names of both parts of a table end in


@dataclass(frozen=True, kw_only=True)
class HoldOut:
    """The files of a split: `train` and `heldout`, and where both wait beside the checkpoint for the model."""

    train: Path
    heldout: Path
    waiting: tuple[Path, Path]

    @property
    def moves(self) -> tuple[tuple[Path, Path], ...]:
        """Where each file waits and where it belongs: both parts, and the number of the split."""
        number = file_beside(self.waiting[1]), file_beside(self.heldout)
        return (self.waiting[0], self.train), (self.waiting[1], self.heldout), number

    @classmethod
    def of(cls, table: Path, model: Path, checkpoint: Path) -> HoldOut:
        """Return the files of a split: next to the model and named after it, and after the checkpoint until then."""
        ending = ".parquet" if table.is_file() and is_parquet(table) else ".csv"
        train, heldout = (model.with_name(f"{model.stem}{part}{ending}") for part in (TRAIN, HELD_OUT))
        first, second = (checkpoint.with_name(f"{checkpoint.name}{part}{ending}") for part in (TRAIN, HELD_OUT))
        return cls(train=train, heldout=heldout, waiting=(first, second))

    def publish(self) -> None:
        """Move the files to where they belong: the model that was fitted on them stands."""
        for waiting, final in self.moves:
            try:
                os.replace(waiting, final)
            except OSError as error:
                raise MedsynthError(
                    f"{final} could not be written ({error.strerror}). The model stands; its rows are in {waiting}."
                ) from None

    def drop(self) -> None:
        """Remove the files where they wait: nothing was fitted on them."""
        for waiting, _ in self.moves:
            waiting.unlink(missing_ok=True)


def hold_out(
    path: Path, files: HoldOut, fraction: float, schema: Path | None, encoding: str | None, *, resume: bool,
    notice: Notice, unit: str | None = None,
) -> tuple[Table | LargeTable, Schema | None, str]:  # fmt: skip
    """Split the table at `path`, once all of its cells have met its schema; or, to `resume`, take the split that waits.

    Returns the training rows, the schema that the whole table has and the split's number. How many rows the secret
    draws kept is no public number: the table that is returned states how many were expected. All rows of a patient
    stay together, where the schema or, without one, `unit` names their column. Raises UsageError, TableError or
    SchemaError.
    """
    check_fraction(fraction)
    read = read_rows(path, encoding)
    if read.form:
        notice(f"{read.where} is read as a table {read.form}.")
    declared = choose_schema(read, schema, path, notice)
    if declared is not None:
        for piece in read.chunks():
            encode(piece, declared.core)  # of both parts, with the numbers of the rows as they stand in the file
    train, heldout = files.waiting
    if resume:  # a fit that is resumed keeps its split
        if not (train.exists() and heldout.exists()):
            raise UsageError(
                f"The fit that is resumed was begun without `holdout`, or its rows, {train} and {heldout}, are gone. "
                "Fit as it was begun, or start anew with `force` and without `resume`."
            )
        return expecting(read_rows(train), read, 1 - fraction), declared, number_kept(heldout, path)
    whose = declared.unit if declared else unit
    kept = split(read, fraction, train, heldout, force=True, unit=whose)
    return kept, declared, number_split(heldout, path)


def was_fitted(model: Model | None, path: Path | None, real: Path) -> bool:
    """Whether `real`, a file or a folder, is known to hold rows that the model in the file `path` was fitted to.

    It is the table that the model is named after, or a table among whose fits the model is on file, or the part of such
    a table that was trained on; or rows that were held out of it by another split than the model notes. Of rows that
    were copied elsewhere nothing is known.
    """
    if model is None or path is None:
        return False
    own = _whose(real) == path.stem and real.resolve().parent == path.resolve().parent
    if not (own or any(_lists(budget, path) for budget in _budgets_of(real))):
        return False
    if not name_of(real).endswith(HELD_OUT):
        return True
    number = number_of(real)
    return number is not None and number != noted(model.ledger.notes)


def budget_of_model(path: Path, real: Path | None) -> Budget | None:
    """The budget file that lists the model in the file `path`: of the table that `real` rows are of.

    Else that of the table that the model is named after; None where there is none.
    """
    own = [budget for budget in (_budgets_of(real) if real else ()) if _lists(budget, path)]
    return own[0] if own else Budget.on_file(path.with_name(path.stem))


def _lists(budget: Budget, path: Path) -> bool:
    """Whether a budget file lists the model in the file `path`."""
    return any(path.name in fit.models for fit in budget.spent().fits)


def _budgets_of(real: Path) -> list[Budget]:
    """The budget files, of those that are there, of the table that `real` is or that it was split from.

    That table is named by the file of the split. Where it has moved, a table of its name next to the rows is taken, or
    one that the rows are named after.
    """
    heldout = [real, *(real.with_name(_whose(real) + HELD_OUT + ending) for ending in ("", *SUFFIXES_TRIED))]
    split = [table for rows in heldout if (table := table_of(rows)) is not None]
    tables = [*split, *(real.with_name(table.name) for table in split), real.with_name(_whose(real))]
    found = [budget for table in tables if (budget := Budget.on_file(table)) is not None]
    return [*{budget.path.resolve(): budget for budget in found}.values()]


def _whose(real: Path) -> str:
    """What a table's file or folder is named after: patients.heldout.csv after patients, a table or a model."""
    return name_of(real).removesuffix(HELD_OUT).removesuffix(TRAIN)
