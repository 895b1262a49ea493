"""Several synthetic tables as files of one folder, with their provenance."""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from ..artifact import Model
from ..errors import MedsynthError, OutputExists, UsageError
from ..io.atomic import refuse_existing
from ..io.formats import is_parquet, named
from ..io.writer import ParquetParts, csv_text
from ..schema.codec import Where, csv_cells, decode
from ..schema.linked import LinkedTables
from .draw import ONE_TABLE_ONLY, Draw, check_mark, with_mark
from .provenance import SEED_BITS, label, load, of
from .provenance import beside as provenance_of
from .tables import own_columns, table_codes, tables_of, written

CSV, PARQUET = ".csv", ".parquet"


def outputs(tables: LinkedTables, folder: Path, ending: str = CSV) -> list[Path]:
    """Return the files of synthetic tables in a folder."""
    return [folder / (name + ending) for name in tables.tables]


def check_request(draw: Draw) -> None:
    """Raise UsageError for what models of several tables cannot do."""
    for name, cure in ONE_TABLE_ONLY.items():
        if getattr(draw, name):
            raise UsageError(f"`{name}` works for one table only. {cure}")


def check_folder(tables: LinkedTables, folder: Path, ending: str, *, force: bool) -> None:
    """Raise OutputExists if one of the files exists, unless `force`, MedsynthError if none can be written."""
    if folder.exists() and not folder.is_dir():
        raise MedsynthError(f"{folder} is a file, but several tables need a folder. Choose another `output`.")
    if not folder.absolute().parent.is_dir():
        raise MedsynthError(f"{folder} cannot be created: there is no folder {folder.parent}. Create it first.")
    other = PARQUET if ending == CSV else CSV
    if folder.is_dir() and any((folder / (name + other)).exists() for name in tables.tables):
        raise OutputExists(f"{folder} contains these tables in another format. Choose another `output`.")
    for path in (*outputs(tables, folder, ending), provenance_of(folder)):
        refuse_existing(path, force=force)


def write_tables(
    model: Model, path: Path, folder: Path, patients: int, seed: int | None = None, where: Where = (), *,
    parquet: bool = False, mark: bool = False, force: bool = False,
) -> int:  # fmt: skip
    """Draw tables of the model in the file `path` into a folder, and write their provenance next to it.

    All files appear after all are drawn. `mark` is as in Draw. Returns the seed, a fresh one if none is given. Raises
    OutputExists unless `force`, UsageError as `sample_tables` does.
    """
    tables, ending = tables_of(model), PARQUET if parquet else CSV
    check_mark(mark, model)
    check_folder(tables, folder, ending, force=force)
    seed = secrets.randbits(SEED_BITS) if seed is None else seed
    draw = Draw(patients=patients, seed=seed, where=where, mark=mark)
    with _drawn(model, folder.absolute().parent, draw, ending) as made:
        folder.mkdir(exist_ok=True)
        for file in outputs(tables, folder, ending):
            os.replace(made / file.name, file)
    of(model, path, draw).save(folder, force=True)
    return seed


@contextmanager
def _drawn(model: Model, beside: Path, draw: Draw, ending: str) -> Iterator[Path]:
    """Yield a temporary folder with the files of drawn tables: any number of rows in constant memory."""
    tables = tables_of(model)
    with tempfile.TemporaryDirectory(prefix=".medsynth-tables-", dir=beside) as name, ExitStack() as stack:
        files = {table: stack.enter_context((Path(name) / (table + ending)).open("wb")) for table in tables.tables}
        of_parquet = files.items() if ending == PARQUET else ()
        parquet = {t: ParquetParts(f, written(tables, t).days, label(model)) for t, f in of_parquet}
        for k, part in enumerate(table_codes(model, draw.patients, draw.seed, draw.where)):
            for table, rows in part.items():
                codes, schema = own_columns(tables, table, rows.codes), written(tables, table)
                if ending == PARQUET:
                    parquet[table].add(with_mark(decode(codes, schema), draw.mark, model))
                else:
                    cells = with_mark(csv_cells(codes, schema), draw.mark, model)
                    files[table].write(csv_text(cells, header=k == 0).encode())
        for one in parquet.values():
            one.close()
        for file in files.values():
            file.flush()
        yield Path(name)


def drawn_by(model: Model, folder: Path) -> bool:
    """Return whether the tables in a folder are exactly what `model` draws with the request on file."""
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
            _drawn(model, Path(beside), found.draw, ending := endings.pop()) as made,
        ):
            pairs = [(file, made / (name + ending)) for file, name in zip(files, names, strict=True) if file]
            return all(_same(*pair) for pair in pairs)
    except (MedsynthError, OSError, ValueError):
        return False


def _same(one: Path, other: Path) -> bool:
    """Return whether two files have the same bytes, or the same cells for Parquet, whose bytes vary."""
    if is_parquet(one):
        import pyarrow.parquet

        return bool(pyarrow.parquet.read_table(one).equals(pyarrow.parquet.read_table(other)))
    return one.read_bytes() == other.read_bytes()
