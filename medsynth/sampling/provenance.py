"""The origin of synthetic rows: a file next to them, and the proof that a model draws exactly these rows.

The proof is a second draw: the model, with the seed, count and conditions on file, must give the same rows to the last
byte. The file's text about the claim is not trusted; the file only defines what to draw. Costs no privacy.
"""

from __future__ import annotations

import hashlib
import io
import json
import secrets
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, BinaryIO

from pydantic import ConfigDict, TypeAdapter

from .. import __version__
from ..artifact import Model, claim, leans_on
from ..errors import MedsynthError, OutputExists, UsageError
from ..io import statistical_writer
from ..io.atomic import atomic_write, check_folder, refuse_existing, write_together
from ..io.formats import DAMAGE_ERRORS, TableFile, unpacked
from ..io.statistical import cells_of
from ..io.statistical_writer import DeclaredColumn
from ..io.table import MISSING_TOKENS
from ..io.writer import write
from ..schema.codec import words
from ..schema.columns.column import Column
from ..schema.columns.parts import whole_of
from .draw import Draw
from .patients import RowCounts, cut_short
from .pipeline import Parts, as_bytes, as_frames, drawn_parts, replicates_apart

ONE_TABLE = (
    "This is one synthetic table. Standard errors that treat its rows as real are too small. For estimates with "
    "intervals draw `replicates` and combine their results."
)
FORM_ALONE = "Rows of a schema show the form of a table, to write and test code with. No result may rest on them."
SEVERAL = (
    "Replicates: run the analysis on each, then combine the estimates. They were fitted to the released measurements "
    "alone, so they cost no privacy."
)
LABELS = "The schema comes from the labels of {file}, which were declared public: no noise covers them."
SUFFIX = ".provenance.json"
NUMBER = "{replicate}"  # in a file's name: each replicate has its own file, with its number in this place
CSV, PARQUET = ".csv", ".parquet"  # endings of several tables
BLOCK = 1 << 20  # bytes compared at once
SEED_BITS = 53  # of a fresh seed: whole numbers that every JSON reader keeps exactly


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """How rows were drawn: all that is needed to draw them again.

    `claim` and `note` are for people; no program reads them. `counts`: planned and written rows by table, as
    `RowCounts`; empty without an order. One of `rows` and `patients` is None. `replicates`: the
    number of models that drew the same amount each, None if the model itself did; `replicate`: the number of the one
    that drew these rows, None if all did.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")  # for `load`

    model: str
    model_sha256: str
    rows: int | None
    patients: int | None = None
    seed: int
    where: tuple[str, ...]
    where_any: tuple[str, ...] = ()
    balance: bool
    claim: str
    replicates: int | None = None
    replicate: int | None = None
    mark: bool = False
    note: str = ""
    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    medsynth: str = __version__

    @property
    def draw(self) -> Draw:
        """The request to the model. Raises UsageError if it is impossible."""
        return Draw(**{field.name: getattr(self, field.name) for field in fields(Draw)})

    @property
    def cut_short(self) -> list[str]:
        """A sentence for each table in which rules cut patients short."""
        return cut_short(self.counts)

    def save(self, table: Path, *, force: bool = False) -> Path:
        """Write the file next to `table`, whole or not at all. Raise OutputExists unless `force`."""
        path = beside(table)
        content = json.dumps({k: v for k, v in asdict(self).items() if k != "counts" or v}, indent=1).encode()
        atomic_write(path, content + b"\n", force=force)
        return path


def beside(table: Path) -> Path:
    """Return the provenance file of a table: patients.synthetic.csv has patients.synthetic.csv.provenance.json."""
    return table.with_name(table.name + SUFFIX)


def of(model: Model, path: Path, draw: Draw) -> Provenance:
    """Return the provenance of the rows that the model in the file `path` draws, with a seed."""
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert draw.seed is not None
    return Provenance(
        model=path.name,
        model_sha256=digest,
        claim=claim(model),
        note=(FORM_ALONE if model.structure_only else ONE_TABLE if draw.replicates is None else SEVERAL)
        + (f" {LABELS.format(file=model.schema.public_labels)}" if model.schema.public_labels else "")
        + (f" {leans}" if (leans := leans_on(model)) else ""),
        **{**vars(draw), "where": words(draw.where), "where_any": words(draw.where_any)},
    )


def write_sample(
    model: Model, path: Path, target: Path, draw: Draw, *, ending: str = CSV, force: bool = False
) -> Provenance:
    """Draw rows of the model in the file `path` into the file `target`, and write their provenance next to it.

    The name of `target` decides its format. With `{replicate}` in it, each replicate has its own file and provenance.
    Several tables are files with this `ending` in the folder `target`; they appear after all are drawn. Returns the
    provenance, the last of several, with a fresh seed if `draw` has none. Nothing is measured or charged, with
    replicates either. Raises OutputExists unless `force`, MedsynthError for a folder that cannot be written, UsageError
    as `sample` and `sample_tables` do.
    """
    draw = draw.of(model)
    several = model.tables is not None
    if several:
        _check_folder(model, target, ending, force=force)
    elif target.suffix.lower() in statistical_writer.ENDINGS:
        names = [n for n, own in model.schema.header.items() if any(column.written for column in own.values())]
        statistical_writer.check_names(target, names)
    draw = replace(draw, seed=secrets.randbits(SEED_BITS)) if draw.seed is None else draw
    found = of(model, path, draw)
    counts = RowCounts()
    whole = iter([(draw, drawn_parts(model, draw, counts))])
    for own, parts in replicates_apart(model, draw) if NUMBER in target.name else whole:
        place = target.with_name(target.name.replace(NUMBER, str(own.replicate)))
        with _folder(place) if several else nullcontext():
            _write(model, files_of(model, place, ending), parts, own, force=force)
        found = replace(found, replicate=own.replicate, counts={name: dict(one) for name, one in counts.items()})
        found.save(place, force=force)
    return found


def _write(model: Model, files: Mapping[str, Path], parts: Parts, draw: Draw, *, force: bool) -> None:
    """Write drawn rows into the files of their tables. No file appears before all are complete."""
    place = next(iter(files.values()))
    form = model.form.of(place)
    schemas = model.written

    def fill(opened: dict[str, BinaryIO]) -> None:
        write(
            opened, place, as_frames(parts, model, draw), as_bytes(parts, model, draw, form),
            {name: schema.days for name, schema in schemas.items()}, label(model),
            {name: {key: _of_columns(key, one) for key, one in own.header.items()} for name, own in schemas.items()},
        )  # fmt: skip

    write_together(files, fill, force=force)


def files_of(model: Model, place: Path, ending: str = CSV) -> dict[str, Path]:
    """Return the file of each table: `place` itself or, of several tables, those in this folder."""
    return {name: place / (name + ending) if model.tables is not None else place for name in model.views}


@contextmanager
def _folder(folder: Path) -> Iterator[None]:
    """Make a folder, and remove it at the end if nothing was written into it."""
    folder.mkdir(exist_ok=True)
    try:
        yield
    finally:
        with suppress(OSError):  # it has files
            folder.rmdir()


def _check_folder(model: Model, folder: Path, ending: str, *, force: bool) -> None:
    """Raise OutputExists if one of the files exists, unless `force`, MedsynthError if none can be written."""
    check_folder(folder, "several tables need a folder")
    if any(path.exists() for path in files_of(model, folder, PARQUET if ending == CSV else CSV).values()):
        raise OutputExists(f"{folder} contains these tables in another format. Choose another `output`.")
    for path in (*files_of(model, folder, ending).values(), beside(folder)):
        refuse_existing(path, force=force)


def label(model: Model) -> dict[str, str]:
    """Return what the metadata of a Parquet file of synthetic rows states."""
    return {"synthetic": "true", "medsynth.claim": claim(model)}


def tables_of(table: Path, draw: Draw) -> list[Path]:
    """Return the files, or folders, that a draw into `table` writes: one, or one per replicate.

    Raises UsageError if the name has a replicate's number but the draw has no replicates.
    """
    if NUMBER not in table.name:
        return [table]
    if draw.replicates is None:
        raise UsageError(f"{NUMBER} in a file's name stands for the number of a replicate. Set `replicates`.")
    return [table.with_name(table.name.replace(NUMBER, str(k + 1))) for k in range(draw.replicates)]


def load(table: Path) -> Provenance | None:
    """Return the provenance next to a table, or None if there is none that can be read."""
    try:
        found = TypeAdapter(Provenance).validate_json(beside(table).read_bytes(), strict=True)
    except (OSError, ValueError):
        return None
    return found if (found.rows is None) != (found.patients is None) else None


def drawn_by(model: Model, place: Path) -> bool:
    """Return whether the rows in the file or folder `place` are exactly what `model` draws with the request on file.

    False without a provenance file, or if a single byte differs. Of Parquet and of files of SPSS, Stata and SAS, whose
    bytes vary, the cells are compared.
    """
    found = load(place)
    if found is None or place.is_dir() != (model.tables is not None):
        return False
    parquet = any(path.exists() for path in files_of(model, place, PARQUET).values())
    files = files_of(model, place, PARQUET if parquet else CSV)
    try:
        draw = found.draw
        kinds = {TableFile.of(file).kind for file in files.values()}
        parts = drawn_parts(model, draw)
        if kinds != {"text"}:
            return len(kinds) == 1 and _same_cells(model, files, parts, draw, kinds.pop())
        with ExitStack() as opened:
            read = {name: opened.enter_context(unpacked(file)) for name, file in files.items()}
            for part in as_bytes(parts, model, draw, model.form.of(place)):
                for name, text in part.items():
                    known = io.BytesIO(text)
                    while block := known.read(BLOCK):
                        if read[name].read(len(block)) != block:
                            return False
            return not any(file.read(1) for file in read.values())
    except (MedsynthError, OSError, ValueError, *DAMAGE_ERRORS):
        return False


def _same_cells(model: Model, files: Mapping[str, Path], parts: Parts, draw: Draw, kind: str) -> bool:
    """Return whether files of a kind contain the same cells as these rows; their bytes vary with library and time."""
    import pyarrow.parquet

    with tempfile.TemporaryDirectory(prefix="medsynth-") as folder:
        drawn = {name: Path(folder) / f"{k}.{kind}" for k, name in enumerate(files)}
        _write(model, drawn, parts, draw, force=False)
        cells: Callable[[Path], Any] = pyarrow.parquet.read_table if kind == "parquet" else cells_of
        return all(cells(files[name]).equals(cells(drawn[name])) for name in files)


def _of_columns(name: str, columns: Mapping[str, Column]) -> DeclaredColumn:
    """Return what a file can keep of the column of that name, whose cells these columns may share."""
    column = columns.get(name) or next(iter(columns.values()))
    whole = whole_of(columns)
    codes = column.missing if isinstance(column.missing, tuple) else ()
    codes = tuple(code for code in codes if code not in MISSING_TOKENS)
    if whole:
        label, labels = (column.label, column.value_labels) if name in columns else (whole.label, {})
        return DeclaredColumn(0, codes, label or "", labels, "nominal")
    measure = ("ordinal" if column.ordered else "nominal") if column.categorical else "scale" * column.modelled
    return DeclaredColumn(max(column.places, 0), codes, column.label or "", column.value_labels, measure)
