"""A table whose rows are in many files, which the workers of a Dask cluster read and count.

A worker reads a file, keeps its codes in memory and answers queries about them. The client gets exact sums, numbers of
rows and, if the schema names patients, their pseudonyms. It never gets a cell. The client owns the vault, the ledger,
the checkpoint and the budget, and draws lots and noise. If a worker dies, another worker reads its files again.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from ..arrays import Codes, Mask, Whole
from ..budget import SUFFIX, Budget
from ..errors import NEEDS_SCHEMA, WARNING, MedsynthError, Message, TableError, UsageError
from ..io.formats import READ_WHOLE, SUFFIXES, USUAL, SavedAs, beside
from ..io.reader import read_large
from ..io.table import LargeTable, Table, check_rows
from ..privacy.accounting.calibration import Plan
from ..privacy.accounting.events import Gaussian, SubsampledGaussian
from ..privacy.queries.query import RowQuery, answered
from ..privacy.queries.rows import CodedRows, Features, Lot
from ..privacy.queries.stored_rows import positions_kept
from ..privacy.release import on_host

if TYPE_CHECKING:
    from torch import Tensor

    from ..schema import Schema

PAGE = "docs/how-to/cluster.md"
PACKAGES = ("medsynth", "numpy", "pandas", "pyarrow", "torch")  # packages that decide texts, codes and exact sums
ROWS_AT_ONCE = 1 << 19  # rows of a file per answer: a worker widens the codes of these rows, and receives their lot
CONNECT_SECONDS = 10.0
LOST_SECONDS = 60.0  # without any worker, until a fit stops
POLL_SECONDS = 2.0
PSEUDONYM_BYTES = 16
Keys = tuple[Whole, list[str]]  # the index of each row's key, and the keys
People = tuple[Whole, list[bytes]]  # the same, with pseudonyms in place of keys


@dataclass(frozen=True)
class Failure:
    """The error of a worker, whose message contains no cell."""

    error: MedsynthError


class Partition:
    """The coded rows of one file, on the worker that reads it. A pickle contains how to read them, but no row."""

    __slots__ = ("__columns", "__people", "__recipe")

    def __init__(self, *recipe: Any) -> None:
        self.__recipe = recipe  # file, encoder, types of the codes, how to find patients, salt
        self.__columns: list[NDArray[Any]] | None = None
        self.__people = list[People]()

    def __read(self) -> list[NDArray[Any]]:
        """Return the codes, column by column, from memory or read again. Raise TableError if the file was changed."""
        if self.__columns is None:
            data, encode, kinds, keys, salt = self.__recipe
            found: list[list[NDArray[Any]]] = [[np.empty(0, kind)] for kind in kinds]
            self.__people = []
            for piece in data.chunks():
                for column, codes, kind in zip(found, encode(piece).T, kinds, strict=True):
                    column.append(codes.astype(kind))
                if keys is not None:
                    place, texts = keys(piece)
                    self.__people.append((place, [_pseudonym(text, salt) for text in texts]))
            self.__columns = [np.concatenate(column) for column in found]
        return self.__columns

    def people(self) -> list[People]:
        """Return the pseudonym of each row's patient, piece by piece."""
        self.__read()
        return self.__people

    def codes(self, rows: slice, some: Mask | None) -> Codes:
        """Return the codes of the `rows` that the mask `some` selects, (rows, columns), column by column in memory."""
        columns = [column[rows] if some is None else column[rows][some] for column in self.__read()]
        return np.array(columns, np.int32).T

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + sum(column.nbytes for column in self.__columns or ())

    def __repr__(self) -> str:
        return "Partition(private rows)"

    def __reduce__(self) -> tuple[Any, ...]:
        return Partition, self.__recipe


def _pseudonym(text: str, salt: bytes) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=PSEUDONYM_BYTES, key=salt).digest()


def opened(path: Path, saved: SavedAs) -> LargeTable:
    """Run on a worker: return the header and the row count of a file, which may have no rows."""
    if not path.exists():
        raise TableError(f"A worker cannot find {path}. Make the folder visible to all workers under this path.")
    return read_large(path, saved, part=True)


def coded(*recipe: Any) -> Partition:
    """Run on a worker: read and code the rows of a file."""
    (partition := Partition(*recipe)).people()
    return partition


def people(partition: Partition) -> list[People]:
    """Run on a worker: return the pseudonym of each row's patient, piece by piece; nothing without patients."""
    return partition.people()


def answer(
    partition: Partition, rows: slice, packed: NDArray[np.uint8] | None, names: tuple[str, ...], query: RowQuery[Any],
    lot: Lot,
) -> list[Whole]:  # fmt: skip
    """Run on a worker: answer a query exactly for `rows` of a file that a `packed` mask selects. `lot` covers these."""
    some = None if packed is None else np.unpackbits(packed, count=rows.stop - rows.start).astype(np.bool_)
    return on_host(answered(query, CodedRows(partition.codes(rows, some), names, lot.draws, lot.units)))


@cache
def _versions() -> dict[str, str]:
    return {name: importlib.metadata.version(name) for name in PACKAGES}


def _on_worker(versions: dict[str, str], call: Callable[..., Any], first: Any, *others: Any) -> Any:
    """Return what a call returns, or a Failure. Nothing is raised: Dask would log it with arguments and messages."""
    if isinstance(first, Failure):
        return first
    try:
        if differ := [name for name in PACKAGES if _versions()[name] != versions[name]]:
            raise MedsynthError(f"A worker has a different version of {' and '.join(differ)} than this machine. "
                                "Install the same versions on all machines.")  # fmt: skip
        return call(first, *others)
    except MedsynthError as error:
        return Failure(error)
    except Exception as error:
        text = f"A worker failed ({type(error).__name__} in `{call.__name__}`). Give it more memory, or report this "
        return Failure(MedsynthError(text + "message, please: it contains no data."))


class WorkerLost(Exception):
    """A worker died before it finished its call."""


class Cluster:
    """The workers of a scheduler, with one client."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def begin(self, call: Callable[..., Any], *arguments: Any, workers: Sequence[str] = ()) -> Any:
        """Start a function of this module on a worker, or on one of `workers`. Return the future of its result."""
        key = f"{call.__name__}-{secrets.token_hex(16)}"  # random: a hash of the arguments could reveal a secret lot
        where = list(workers) or None
        return self._client.submit(_on_worker, _versions(), call, *arguments, key=key, pure=False, workers=where)

    def ask(self, call: Callable[..., Any], partition: Any, *arguments: Any) -> Any:
        """Return the result of a function on the worker that keeps a partition, or on the next worker if that one dies.

        Dask alone would copy partitions between workers. Here another worker reads the file again instead.
        """
        while True:
            self._wait(partition.exception)
            workers = self._client.who_has([partition])[partition.key]
            with suppress(WorkerLost):
                return self.result(self.begin(call, partition, *arguments, workers=workers), workers)

    def result(self, future: Any, workers: Sequence[str] = ()) -> Any:
        """Return the result of a future. Raise the worker's error, or the errors of `_wait`."""
        found = self._wait(future.result, workers)
        if isinstance(found, Failure):
            raise found.error
        return found

    def _wait(self, asked: Callable[..., Any], workers: Sequence[str] = ()) -> Any:
        """Wait for a future. Raise MedsynthError if no worker is left, and WorkerLost if none of `workers` is left."""
        lost = None
        while True:
            try:
                if isinstance(found := asked(timeout=POLL_SECONDS), Exception):
                    raise found
                return found
            except (TimeoutError, UnboundLocalError):  # Dask raises the latter if its loop cancelled the wait
                left = self._client.scheduler_info(n_workers=-1)["workers"]
                if left and workers and not left.keys() & set(workers):
                    raise WorkerLost from None
                lost = None if left else lost or time.monotonic()
                if lost and time.monotonic() - lost > LOST_SECONDS:
                    raise MedsynthError("All workers of the cluster are gone. What was measured is on file: start "
                                        "workers, then fit again with `resume`.") from None  # fmt: skip
            except Exception as error:
                raise MedsynthError(
                    f"The cluster stopped ({type(error).__name__}). Check that the scheduler runs, all workers have "
                    "medsynth, and each file fits into their memory. What was measured is on file: then fit again "
                    "with `resume`."
                ) from None


@dataclass(frozen=True, kw_only=True)
class ClusterTable(LargeTable):
    """A table whose rows are in `files`, in this order. The client never gets a row, so the table has no pieces.

    people: the patient of each row, piece by piece, after the rows were coded with their patients.
    """

    cluster: Cluster = field(repr=False)
    files: tuple[LargeTable, ...] = field(repr=False)
    people: list[People] = field(repr=False, default_factory=list)

    def coded(
        self, encode: Callable[[Table], Codes], keys: Callable[[Table], Keys] | None, sizes: Sequence[int],
        done: Callable[[float], None],
    ) -> ClusterCodes:  # fmt: skip
        """Code all rows and leave the codes on the workers. Raise the errors of `encode` and `keys`."""
        kinds = [np.min_scalar_type(max(size - 1, 0)) for size in sizes]
        salt = secrets.token_bytes(PSEUDONYM_BYTES)
        partitions = [self.cluster.begin(coded, data, encode, kinds, keys, salt) for data in self.files]
        whose = list[People]()
        for k, partition in enumerate(partitions, 1):
            whose += self.cluster.ask(people, partition)
            done(k / len(self.files))
        self.people[:] = whose
        return ClusterCodes(self.cluster, tuple(zip(partitions, (data.rows for data in self.files), strict=True)))


@dataclass(frozen=True, repr=False)
class ClusterCodes:
    """Codes that workers keep: the future of each file's Partition, and its number of rows."""

    cluster: Cluster
    files: tuple[tuple[Any, int], ...]

    def parts(self, names: tuple[str, ...], stay: Whole | None = None) -> Iterator[ClusterRows]:
        """Return the files' rows as parts of a vault: all of them, or those at the ascending positions `stay`."""
        first = 0
        for partition, count in self.files:
            for start in range(0, count, ROWS_AT_ONCE):
                rows = slice(start, min(start + ROWS_AT_ONCE, count))
                kept = None if stay is None else positions_kept(stay, first + start, rows.stop - start)
                yield ClusterRows(self.cluster, partition, rows, names, kept)
            first += count


class ClusterRows:
    """A part of a vault: the `rows` of a file whose codes a worker keeps, or only those of them that are `kept`."""

    __slots__ = ("__cluster", "__kept", "__names", "__partition", "__rows")
    elsewhere = True

    def __init__(self, *what: Any) -> None:  # the last: a mask of these rows, or None
        self.__cluster, self.__partition, self.__rows, self.__names, self.__kept = what

    @property
    def count(self) -> int:
        """How many rows."""
        return self.__rows.stop - self.__rows.start if self.__kept is None else int(self.__kept.sum())

    def exact(self, query: RowQuery[Any], lot: Lot) -> list[Whole]:
        """Return the exact answer over the rows in the lot. The same question always gets the same answer."""
        some = lot.joined if self.__kept is None else self.__kept
        if self.__kept is not None and lot.joined is not None:
            some = self.__kept.copy()
            some[some] = lot.joined
        joined = Lot(None, lot.draws, lot.units_that_joined)
        packed = None if some is None else np.packbits(some)
        arguments = (self.__partition, self.__rows, packed, self.__names, query, joined)
        found: list[Whole] = self.__cluster.ask(answer, *arguments)
        return found

    def encoded(self, features: Features) -> Tensor:
        """Raise UsageError: a critic of a shard needs the rows, which stay with the workers."""
        raise UsageError("Critics of shards need the rows where the fit runs. Choose another `method` on a cluster.")


def files_in(folder: Path) -> list[Path]:
    """Return the files of a table's parts, sorted by name. Raise UsageError if `folder` does not contain any."""
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder. With `scheduler`, pass the folder with the files of one table.")
    tables = tuple(suffix for suffix in SUFFIXES if suffix not in READ_WHOLE)
    found = [path for path in sorted(folder.absolute().iterdir()) if path.name.lower().endswith(tables)]
    found = [path for path in found if path.name[0] not in "._"]
    if not found:
        raise UsageError(f"{folder} has no Parquet or CSV file. Write the table there, in one or more files ({PAGE}).")
    return found


@contextmanager
def parts_of(folder: Path, scheduler: str, saved: SavedAs = USUAL) -> Iterator[ClusterTable]:
    """Open the table whose rows are in the files of a folder, with a client of the Dask `scheduler` at this address.

    Raises MedsynthError, UsageError or TableError if the cluster or a file cannot be used.
    """
    files = files_in(folder)
    try:
        distributed = importlib.import_module("distributed")
    except ModuleNotFoundError:
        raise UsageError("`scheduler` needs Dask. Install it here and on all workers: pip install 'medsynth[cluster]'"
                         ) from None  # fmt: skip
    try:
        client = distributed.Client(scheduler, timeout=CONNECT_SECONDS, set_as_default=False)
    except Exception as error:
        raise MedsynthError(
            f"No scheduler answers at {scheduler} ({type(error).__name__}). Start one with `dask scheduler`, and pass "
            f"its address, such as tcp://host:8786 ({PAGE})."
        ) from None
    with client:
        try:
            client.wait_for_workers(1, timeout=CONNECT_SECONDS)
        except TimeoutError:
            raise MedsynthError(f"{scheduler} has no workers. Start some: dask worker {scheduler}") from None
        cluster = Cluster(client)
        found = [cluster.begin(opened, path, saved) for path in files]
        yield _table(folder, cluster, [cluster.result(future) for future in found])


def _table(folder: Path, cluster: Cluster, files: list[LargeTable]) -> ClusterTable:
    first = files[0]
    for data in files:
        if sorted(data.header) != sorted(first.header):
            raise TableError(f"{data.where} has other columns than {first.where}. Give all files the same columns, or "
                             "move files of other tables away.")  # fmt: skip
    check_rows(rows := sum(data.rows for data in files), str(folder))
    forms = dict.fromkeys(data.form for data in files if data.form)
    digest = hashlib.sha256("\n".join(data.digest for data in files).encode()).hexdigest()
    floats = frozenset[str]().union(*(data.floats for data in files))
    return ClusterTable(
        str(folder), first.header, rows, "; ".join(forms), digest, _no_pieces, floats=floats, cluster=cluster,
        files=tuple(files),
    )  # fmt: skip


def _no_pieces() -> NoReturn:
    raise MedsynthError("The rows of a cluster stay on its workers, but this step needs them here. Fit a single file.")


def check_declared(data: ClusterTable, declared: Schema, notice: Callable[[str], None]) -> None:
    """Raise UsageError if a column is open. Warn of fits of single files, which no total includes."""
    if declared.open or declared.open_pairs:
        raise UsageError(
            "A cluster cannot learn a schema, or what one leaves open. Draft one from one of the files and finish it, "
            "then fit with `schema`.",
            NEEDS_SCHEMA,
        )
    alone = [path.name for path in (beside(Path(part.where), SUFFIX) for part in data.files) if path.exists()]
    if alone:
        text = (
            f"single files of {data.where} have their own budget files: {', '.join(alone[:5])}. For their rows, add "
            f"these fits to the total in {Budget.of(Path(data.where)).path.name}."
        )
        notice(Message(text, None, kind=WARNING))


def check_plan(plan: Plan) -> None:
    """Raise UsageError for a method of shards, before the fit spends anything."""
    if not all(isinstance(event, Gaussian | SubsampledGaussian) for event, _ in plan.events.values()):
        raise UsageError("This method trains critics where the rows are. Choose another `method` on a cluster.")
