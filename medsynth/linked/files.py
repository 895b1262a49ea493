"""Several tables as files of one folder: synthetic ones with their provenance, and real ones held out of a fit."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from .. import rng
from ..artifact import Model
from ..errors import MedsynthError, OutputExists, TableError, UsageError
from ..io.atomic import atomic_write, refuse_existing
from ..io.formats import is_parquet, named
from ..io.split import check_fraction, file_beside, number_kept, number_split
from ..io.writer import ParquetParts, csv_text
from ..sampling.draw import Draw
from ..sampling.provenance import SEED_BITS, load, of
from ..sampling.provenance import beside as provenance_of
from ..schema.columns.conditions import Where
from ..schema.columns.table_codec import csv_cells, decode
from ..schema.linked.definition import LinkedTables
from .private_tables import PrivateTables, open_tables, private_tables
from .sampling import own_columns, table_codes, tables_of, written
from .source import Source

CSV, PARQUET = ".csv", ".parquet"
PRIVATE_FOLDER = 0o700


def outputs(tables: LinkedTables, folder: Path, ending: str = CSV) -> list[Path]:
    """The files of synthetic tables in a folder."""
    return [folder / (name + ending) for name in tables.tables]


def check_folder(tables: LinkedTables, folder: Path, ending: str, *, force: bool) -> None:
    """Raises OutputExists where one of the files is there, unless `force`, MedsynthError where none can be written."""
    if folder.exists() and not folder.is_dir():
        raise MedsynthError(f"{folder} is a file. Several tables are written into a folder: choose another `output`.")
    if not folder.absolute().parent.is_dir():
        raise MedsynthError(f"{folder} cannot be made: there is no folder {folder.parent}. Make it first.")
    other = PARQUET if ending == CSV else CSV
    if folder.is_dir() and any((folder / (name + other)).exists() for name in tables.tables):
        raise OutputExists(f"{folder} holds these tables in another form. Choose another `output`.")
    for path in (*outputs(tables, folder, ending), provenance_of(folder)):
        refuse_existing(path, force=force)


def write_tables(
    model: Model, path: Path, folder: Path, patients: int, seed: int | None = None, where: Where = (), *,
    parquet: bool = False, force: bool = False,
) -> int:  # fmt: skip
    """Draw tables of the model in the file `path` into a folder, and write their provenance beside it.

    All files appear once all are drawn. Returns the seed, a fresh one where none is given. Raises OutputExists unless
    `force`, UsageError as `sample_tables` does.
    """
    tables, ending = tables_of(model), PARQUET if parquet else CSV
    check_folder(tables, folder, ending, force=force)
    seed = secrets.randbits(SEED_BITS) if seed is None else seed
    with _drawn(model, folder.absolute().parent, patients, seed, where, ending) as made:
        folder.mkdir(exist_ok=True)
        for file in outputs(tables, folder, ending):
            os.replace(made / file.name, file)
    of(model, path, Draw(patients=patients, seed=seed, where=where)).save(folder, force=True)
    return seed


@contextmanager
def _drawn(model: Model, beside: Path, patients: int, seed: int, where: Where, ending: str) -> Iterator[Path]:
    """A folder, gone afterwards, with the files of drawn tables: any number of rows in constant memory."""
    tables = tables_of(model)
    with tempfile.TemporaryDirectory(prefix=".medsynth-tables-", dir=beside) as name, ExitStack() as stack:
        files = {table: stack.enter_context((Path(name) / (table + ending)).open("wb")) for table in tables.tables}
        parquet = {table: ParquetParts(file) for table, file in files.items()} if ending == PARQUET else {}
        for k, part in enumerate(table_codes(model, patients, seed, where)):
            for table, rows in part.items():
                codes, schema = own_columns(tables, table, rows.codes), written(tables, table)
                if ending == PARQUET:
                    parquet[table].add(decode(codes, schema))
                else:
                    files[table].write(csv_text(csv_cells(codes, schema), header=k == 0).encode())
        for one in parquet.values():
            one.close()
        for file in files.values():
            file.flush()
        yield Path(name)


def drawn_by(model: Model, folder: Path) -> bool:
    """Whether the tables in a folder are exactly what `model` draws with the seed, count and conditions on file."""
    found = load(folder)
    if found is None or model.tables is None or found.patients is None:
        return False
    if found.replicates is not None or found.balance or found.where_any:
        return False
    names = list(model.tables.tables)
    files = [named(folder, name) for name in names]
    try:
        endings = {PARQUET if is_parquet(file) else CSV for file in files if file}
        if len(endings) != 1 or None in files:
            return False
        with (
            tempfile.TemporaryDirectory() as beside,
            _drawn(model, Path(beside), found.patients, found.seed, found.where, ending := endings.pop()) as made,
        ):
            pairs = [(file, made / (name + ending)) for file, name in zip(files, names, strict=True) if file]
            return all(_same(*pair) for pair in pairs)
    except (MedsynthError, OSError, ValueError):
        return False


def _same(one: Path, other: Path) -> bool:
    """Whether two files hold the same bytes; of Parquet, whose bytes vary with the library, the same cells."""
    if is_parquet(one):
        import pyarrow.parquet

        return bool(pyarrow.parquet.read_table(one).equals(pyarrow.parquet.read_table(other)))
    return one.read_bytes() == other.read_bytes()


@dataclass(frozen=True, kw_only=True)
class TablesHoldOut:
    """The folders of a split: `train` and `heldout`, and where both wait beside the checkpoint for the model."""

    train: Path
    heldout: Path
    waiting: tuple[Path, Path]

    @property
    def numbers(self) -> tuple[Path, Path]:
        """The file with the split's number: where it waits, and where it belongs."""
        return file_beside(self.waiting[1]), file_beside(self.heldout)

    @classmethod
    def of(cls, name: str, checkpoint: Path) -> TablesHoldOut:
        """Those that are called `name`, a path without an ending: and after the checkpoint while the fit runs."""
        first, second = (checkpoint.with_name(f"{checkpoint.name}.{part}") for part in ("train", "heldout"))
        return cls(train=Path(f"{name}.train"), heldout=Path(f"{name}.heldout"), waiting=(first, second))

    def check(self, tables: LinkedTables, *, force: bool) -> None:
        """Raises OutputExists where one of the files is there, unless `force`."""
        for folder in (self.train, self.heldout):
            for path in outputs(tables, folder):
                refuse_existing(path, force=force)

    def publish(self) -> None:
        """Move all files to where they belong: the model that was fitted on them stands."""
        for waiting, final in zip(self.waiting, (self.train, self.heldout), strict=True):
            try:
                final.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
                for file in waiting.iterdir():
                    os.replace(file, final / file.name)
                if final == self.heldout:
                    os.replace(*self.numbers)
            except OSError as error:
                raise MedsynthError(
                    f"{final} could not be written ({error.strerror}). The model stands; its rows are in {waiting}."
                ) from None
        self.drop()

    def drop(self) -> None:
        """Remove both folders where they wait, and the split's number."""
        for waiting in self.waiting:
            shutil.rmtree(waiting, ignore_errors=True)
        self.numbers[0].unlink(missing_ok=True)


def hold_out_tables(
    source: Source, files: TablesHoldOut, fraction: float, encoding: str | None, *, resume: bool
) -> tuple[PrivateTables, str]:
    """Keep patients out of training by secret coins; or, to `resume`, take the split that waits.

    A patient's rows stay together, over all tables. Returns the tables to train on, with the number of patients that
    was expected, and the split's number: how many the draws left is no public number. Raises UsageError, TableError or
    SchemaError.
    """
    check_fraction(fraction)
    read = open_tables(source, encoding)
    expected = max(2, round(read.patients * (1 - fraction)))
    table = source.folder / source.name
    if resume:  # a fit that is resumed keeps its split
        if not all(folder.is_dir() for folder in files.waiting):
            raise UsageError(
                f"The fit that is resumed was begun without `holdout`, or its rows, {files.waiting[0]} and "
                f"{files.waiting[1]}, are gone. Fit as it was begun, or start anew with `force` and without `resume`."
            )
        kept = open_tables(Source(tables=unnamed(source.tables), folder=files.waiting[0], name=source.name))
        kept = replace(kept, tables=source.tables, expected_patients=expected)
        return kept, number_kept(files.waiting[1], table)
    out = rng.coins(rng.system_entropy(), read.cells[source.tables.first].rows, fraction)
    if (~out).sum() < 2:
        raise TableError("What `holdout` leaves to train on are fewer than two patients. Leave more.")
    parts = [{name: table.cells[mask[read.whose[name]]] for name, table in read.cells.items()} for mask in (~out, out)]
    files.drop()
    for folder, cells in zip(files.waiting, parts, strict=True):
        folder.mkdir(mode=PRIVATE_FOLDER)
        for name, own in cells.items():
            _write_private(folder / f"{name}{CSV}", own)
    kept_cells = {name: replace(read.cells[name], cells=own.reset_index(drop=True)) for name, own in parts[0].items()}
    kept = replace(private_tables(source.tables, kept_cells), expected_patients=expected)
    return kept, number_split(files.waiting[1], table)


def unnamed(tables: LinkedTables) -> LinkedTables:
    """The tables as files of their own names."""
    return tables.model_copy(
        update={"tables": {name: table.model_copy(update={"file": None}) for name, table in tables.tables.items()}}
    )


def _write_private(path: Path, cells: pd.DataFrame) -> None:
    text = csv_text(cells, header=True).encode()
    atomic_write(path, lambda file: file.write(text), force=True, private=True)
