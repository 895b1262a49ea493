"""Hold rows out of training before a fit; once the model is saved, they replace those of an earlier fit.

Also decide from the files whether rows were held out of a model's fit. A report gives no verdicts based on other rows.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from .. import rng
from ..artifact import Model
from ..budget import Budget
from ..errors import EARLIER, LEANS, SPLIT, MedsynthError, TableError, UsageError
from ..io.atomic import atomic_write
from ..io.formats import OWN, SUFFIXES_TRIED, SavedAs, TableFile, name_of
from ..io.split import check_fraction, expecting, file_beside, number_of, number_split, split, table_of
from ..io.table import LargeTable, Table
from ..io.writer import csv_text
from ..schema.codec import encode
from .declarations import schema_of_fit
from .opening import check_settings
from .private_rows import refuse_floats
from .private_table import read_rows
from .private_tables import PrivateTables, open_tables, private_tables
from .settings import FitSettings, Notice
from .source import Source, find

PRIVATE_FOLDER = 0o700
TRAIN, HELD_OUT = ".train", ".heldout"  # how the names of a table's two parts end


@dataclass(frozen=True, kw_only=True)
class HoldOut:
    """The two parts of a split, `train` and `heldout`: each a file, or a folder for several tables.

    Until the model is saved, both are `waiting` next to the checkpoint.
    """

    train: Path
    heldout: Path
    waiting: tuple[Path, Path]
    tables: tuple[str, ...] = ()

    @classmethod
    def of(cls, table: Path, model: Path, checkpoint: Path, tables: Sequence[str] = ()) -> HoldOut:
        """Return the parts of a split, named after the model; while they wait, named after the checkpoint.

        `tables`: the names of several tables; empty for a split of one table.
        """
        kind = TableFile.of(table).kind if table.is_file() else table.suffix.lower().removeprefix(".")
        ending = "" if tables else ".parquet" if kind == "parquet" else ".csv"
        train, heldout = (model.with_name(f"{model.stem}{part}{ending}") for part in (TRAIN, HELD_OUT))
        first, second = (checkpoint.with_name(f"{checkpoint.name}{part}{ending}") for part in (TRAIN, HELD_OUT))
        return cls(train=train, heldout=heldout, waiting=(first, second), tables=tuple(tables))

    @property
    def moves(self) -> tuple[tuple[Path, Path], ...]:
        """Where each file waits and where it belongs: both parts, and the file with the number of the split."""
        parts = list(zip(self.waiting, (self.train, self.heldout), strict=True))
        if self.tables:
            files = [f"{name}.csv" for name in self.tables]
            parts = [(waiting / file, final / file) for waiting, final in parts for file in files]
        return *parts, (file_beside(self.waiting[1]), file_beside(self.heldout))

    def check_waiting(self) -> None:
        """Raise UsageError unless both parts of the split of a fit that is resumed are there."""
        if not all(part.exists() for part in self.waiting):
            raise UsageError(
                f"The fit to resume was started without `holdout`, or its rows, {self.waiting[0]} and "
                f"{self.waiting[1]}, are gone. Fit with the options it was started with, or start again with `force` "
                "and without `resume`."
            )

    def publish(self) -> None:
        """Move the files to where they belong, after the model that was fitted on them is saved."""
        for waiting, final in self.moves:
            try:
                if self.tables:
                    final.parent.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
                os.replace(waiting, final)
            except OSError as error:
                raise MedsynthError(
                    f"{final} could not be written ({error.strerror}). The model is saved; its rows are in {waiting}."
                ) from None
        self.drop()

    def drop(self) -> None:
        """Remove the waiting files, after they were published or if no model was fitted on them."""
        for waiting, _ in self.moves:
            waiting.unlink(missing_ok=True)
        for folder in self.waiting if self.tables else ():
            shutil.rmtree(folder, ignore_errors=True)


def training_part(
    path: Path,
    files: HoldOut,
    fraction: float,
    settings: FitSettings,
    *,
    resume: bool,
    notice: Notice,
    counted: Path | None = None,
) -> tuple[Table | LargeTable | PrivateTables, FitSettings, str]:
    """Hold rows out of training, or patients of several tables, each with the probability `fraction`.

    All cells are checked against the schema first. With `resume`, the waiting split is used. All rows of a patient stay
    together if the schema or `unit` names the column of patients.

    Returns the training part, the settings of its fit with the declared schema, if there is one, and the split's
    number. The number of rows that the secret draws kept is private: the returned table states the expected number.
    Declared `rows` and `patients` become those of the training part. `counted`: the path under which the budget counts
    the table, if it is another. Raises UsageError, TableError or SchemaError.
    """
    counts = {name: own for name in ("rows", "patients") if (own := getattr(settings, name)) is not None}
    settings = replace(settings, **{name: max(2, round(own * (1 - fraction))) for name, own in counts.items()})
    if files.tables:
        check_settings(settings)  # before rows are split
        tables, number = hold_out_tables(find(path), files, fraction, settings.saved, resume=resume)
        return tables, settings, number
    check_fraction(fraction)
    read = read_rows(path, settings.saved)
    chosen = schema_of_fit(read, settings, path, notice)
    declared = chosen.schema
    refuse_floats(read, declared.columns, [declared.unit, declared.order])
    if not chosen.bare:
        for piece in read.chunks():
            encode(piece, declared.core)  # of both parts, so that messages count rows as the file does
    train, heldout = files.waiting
    settings = replace(settings, schema=chosen.given)
    if resume:  # a fit that is resumed keeps its split
        files.check_waiting()
        number = number_of(heldout) or number_split(heldout, counted or path)
        return expecting(read_rows(train, OWN), read, 1 - fraction), settings, number
    kept = split(read, fraction, train, heldout, force=True, unit=declared.unit)
    return kept, settings, number_split(heldout, counted or path)


def hold_out_tables(
    source: Source, files: HoldOut, fraction: float, saved: SavedAs, *, resume: bool
) -> tuple[PrivateTables, str]:
    """Keep patients out of training by secret coins; with `resume`, use the waiting split.

    All rows of a patient stay together, over all tables. Returns the training tables, with the expected number of
    patients, and the split's number. The number of patients that the draws kept is private. Raises UsageError,
    TableError or SchemaError.
    """
    check_fraction(fraction)
    read = open_tables(source, saved)
    expected = max(2, round(read.rows * (1 - fraction)))
    table, first = source.folder / source.name, source.tables.first
    if resume:  # a fit that is resumed keeps its split
        files.check_waiting()
        alone = {name: one.model_copy(update={"file": None}) for name, one in source.tables.tables.items()}
        waiting = source.tables.model_copy(update={"tables": alone})  # with the file names that their own names give
        kept = open_tables(Source(tables=waiting, folder=files.waiting[0], name=source.name), OWN)
        kept = replace(kept, tables=source.tables, data=replace(kept.cells[first], expected_rows=expected), place=table)
        return kept, number_of(files.waiting[1]) or number_split(files.waiting[1], table)
    out = rng.coins(rng.system_entropy(), read.data.rows, fraction)
    if (~out).sum() < 2:
        raise TableError("`holdout` leaves fewer than two patients to train on. Hold out a smaller share.")
    parts = [{name: table.cells[mask[read.whose[name]]] for name, table in read.cells.items()} for mask in (~out, out)]
    files.drop()
    for folder, cells in zip(files.waiting, parts, strict=True):
        folder.mkdir(mode=PRIVATE_FOLDER)
        for name, own in cells.items():
            text = csv_text(own, header=True).encode()
            atomic_write(folder / f"{name}.csv", text, force=True, private=True)
    kept_cells = {name: replace(read.cells[name], cells=own.reset_index(drop=True)) for name, own in parts[0].items()}
    kept_cells[first] = replace(kept_cells[first], expected_rows=expected)
    return replace(private_tables(source.tables, kept_cells), place=table), number_split(files.waiting[1], table)


def saved_as(rows: Path, declared: SavedAs) -> SavedAs:
    """Return how `rows`, a file or a folder, were saved: as `declared`, unless a fit has written them as its part."""
    ends = [end for end in (TRAIN, HELD_OUT) if name_of(rows).endswith(end)]
    held = [rows.with_name(rows.name.replace(end, HELD_OUT)) for end in ends]
    return OWN if any(number_of(path) is not None for path in held) else declared


def was_fitted(model: Model | None, path: Path | None, real: Path) -> bool:
    """Return whether `real`, a file or a folder, is known to contain rows that the model in file `path` was fitted to.

    True for the table that the model is named after, or one whose budget file lists it. True for the training part of
    such a table, and for rows held out by another split than the model notes. A model that leans on an earlier fit has
    learned of rows that this fit held out. Copies elsewhere are not recognised.
    """
    if model is None or path is None:
        return False
    own = _whose(real) == path.stem and real.resolve().parent == path.resolve().parent
    if not (own or any(lists(budget, path) for budget in budgets_of_rows(real))):
        return False
    leans = any(note.about.column == EARLIER for note in model.ledger.about(LEANS))
    if leans or not name_of(real).endswith(HELD_OUT):
        return True
    number = number_of(real)
    return number is not None and number not in [one.about.entry for one in model.ledger.about(SPLIT)]


def budget_of_model(path: Path, real: Path | None) -> Budget | None:
    """Return the budget file that lists the model in the file `path`: the one of the table that `real` rows belong to.

    Otherwise that of the table that the model is named after; None without one.
    """
    own = [budget for budget in (budgets_of_rows(real) if real else ()) if lists(budget, path)]
    return own[0] if own else Budget.on_file(path.with_name(path.stem))


def lists(budget: Budget, path: Path) -> bool:
    """Return whether a budget file lists the model in the file `path`."""
    return any(path.name in fit.models for fit in budget.spent().fits)


def budgets_of_rows(real: Path) -> list[Budget]:
    """Return the existing budget files of the table that `real` is, or that it was split from.

    The file of the split names that table. If the table has moved, look next to the rows for a table of its name, or
    for one that the rows are named after.
    """
    heldout = [real, *(real.with_name(_whose(real) + HELD_OUT + ending) for ending in ("", *SUFFIXES_TRIED))]
    split = [table for rows in heldout if (table := table_of(rows)) is not None]
    tables = [*split, *(real.with_name(table.name) for table in split), real.with_name(_whose(real))]
    found = [budget for table in tables if (budget := Budget.on_file(table)) is not None]
    return [*{budget.path.resolve(): budget for budget in found}.values()]


def budget_of_part(rows: Path) -> Budget | None:
    """Return the budget file of the table whose training or held-out part these rows are, by their name; else None."""
    named = name_of(rows).endswith((TRAIN, HELD_OUT))
    return next(iter(budgets_of_rows(rows)), None) if named else None


def _whose(real: Path) -> str:
    """Return the name that a table's file or folder starts with: `patients` for patients.heldout.csv."""
    return name_of(real).removesuffix(HELD_OUT).removesuffix(TRAIN)
