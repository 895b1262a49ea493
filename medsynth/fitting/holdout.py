"""Rows kept out of training: drawn before a fit; they replace those of an earlier fit once the model stands."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from ..errors import MedsynthError
from ..io.formats import is_parquet, name_of
from ..io.large import LargeTable
from ..io.split import check_fraction, expecting, split, split_large
from ..io.table import Table
from ..schema import Schema
from ..transforms.table_codec import encode
from .private_table import Notice, choose_schema, read_rows


@dataclass(frozen=True, kw_only=True)
class HoldOut:
    """The files of a split: `train` and `heldout`, and where both wait beside the checkpoint for the model."""

    train: Path
    heldout: Path
    waiting: tuple[Path, Path]

    @classmethod
    def of(cls, table: Path, checkpoint: Path) -> HoldOut:
        """The files of a split of `table` here, and in the checkpoint's folder while the fit runs."""
        ending = ".parquet" if table.is_file() and is_parquet(table) else ".csv"
        train, heldout = (Path(f"{name_of(table)}.{part}{ending}") for part in ("train", "heldout"))
        first, second = (checkpoint.with_name(f"{checkpoint.name}.{part}{ending}") for part in ("train", "heldout"))
        return cls(train=train, heldout=heldout, waiting=(first, second))

    def publish(self) -> None:
        """Move both files to where they belong: the model that was fitted on them stands."""
        for waiting, final in zip(self.waiting, (self.train, self.heldout), strict=True):
            try:
                os.replace(waiting, final)
            except OSError as error:
                raise MedsynthError(
                    f"{final} could not be written ({error.strerror}). The model stands; its rows are in {waiting}."
                ) from None

    def drop(self) -> None:
        """Remove both files where they wait: nothing was fitted on them."""
        for waiting in self.waiting:
            waiting.unlink(missing_ok=True)


def hold_out(
    path: Path, files: HoldOut, fraction: float, schema: Path | None, encoding: str | None, *, resume: bool,
    notice: Notice, unit: str | None = None,
) -> tuple[Table | LargeTable, Schema | None]:  # fmt: skip
    """Split the table at `path`, once all of its cells have met its schema; or, to `resume`, take the split that waits.

    Returns the training rows and the schema that the whole table has. How many rows the secret draws kept is no public
    number: the table that is returned states how many were expected. All rows of a patient stay together, where the
    schema or, without one, `unit` names their column. Raises UsageError, TableError or SchemaError.
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
    if resume and train.exists() and heldout.exists():
        return expecting(read_rows(train), read, 1 - fraction), declared  # a fit that is resumed keeps its split
    whose = declared.unit if declared else unit
    if isinstance(read, LargeTable):
        return split_large(read, fraction, train, heldout, force=True, unit=whose), declared
    return split(read, fraction, train, heldout, force=True, unit=whose)[0], declared
