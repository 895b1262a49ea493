"""Tables of a database: DuckDB files and PostgreSQL. Rows come in one read-only transaction, typed as declared there.

The address is in a file, or in the environment variable MEDSYNTH_DATABASE. No message, output or name contains it or
any part of it: errors of drivers quote hosts, users and cells, so they are replaced.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import ssl
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import parse_qs, unquote, urlsplit

from ..errors import MedsynthError, OutputExists, TableError, UsageError
from .atomic import sole_writer

if TYPE_CHECKING:
    import pyarrow

VARIABLE = "MEDSYNTH_DATABASE"
MAGIC = b"DUCK"  # bytes 8 to 12 of a DuckDB file
SAFE: dict[str, Any] = {"enable_external_access": "false", "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false"}  # fmt: skip
LOCAL = ("", "localhost", "127.0.0.1", "::1")
BATCH = 20_000  # rows that are fetched at once
SECONDS = 20  # to connect
NAME = re.compile(r"[^\0\"]{1,120}")
SYMBOLS = re.compile(r"[^\w.-]")  # that no name of a file of ours has
REASONS = {  # of PostgreSQL, by the first characters of its state
    "28": "it refuses this user or password", "3D": "it has no such database",
    "42501": "this user may not use the table",
    "53": "it has no free connection or space", "57": "it is shutting down or stopped the query",
    "40": "another transaction interfered",
}  # fmt: skip
# Types of PostgreSQL that have single values, as Arrow stores them. Numbers without a declared precision are texts.
TYPES = {
    "bool": "bool_", "int2": "int16", "int4": "int32", "int8": "int64", "float4": "float32", "float8": "float64",
    "date": "date32",
}  # fmt: skip
TEXTS = ("text", "varchar", "bpchar", "char", "name", "uuid", "citext")
COLUMNS = "select attname, typname, typtype, atttypmod"  # of a table in PostgreSQL
COLUMNS += " from pg_attribute a join pg_type t on t.oid = atttypid"
COLUMNS += " where attrelid = {oid} and attnum > 0 and not attisdropped order by attnum"
KEY = "select attname from pg_index cross join unnest(indkey) with ordinality as k(number, place)"
KEY += " join pg_attribute on attrelid = indrelid and attnum = k.number"
KEY += " where indrelid = {oid} and indisprimary order by k.place"
TO_SQL = {"bool": "boolean", "int8": "smallint", "int16": "smallint", "int32": "integer", "int64": "bigint",
          "float": "real", "double": "double precision", "date32[day]": "date"}  # fmt: skip


class Server(Protocol):
    """An open connection that can read one table and write one."""

    def has(self, table: str) -> bool:
        """Return whether there is such a table or view."""

    def batches(self, table: str) -> Iterator[pyarrow.RecordBatch]:
        """Yield the rows of a table, in the order of its primary key, else of all its columns."""

    def create(self, table: str, rows: pyarrow.Table, comment: str) -> None:
        """Write the rows into a new table, whole or not at all."""


@dataclass(frozen=True, kw_only=True)
class DatabaseTable:
    """A table by its name, or schema.name, in the database at `address`, which no text of this object contains."""

    table: str
    address: str = field(repr=False)

    @classmethod
    def of(cls, table: str, place: Path | None) -> DatabaseTable:
        """Return a table of the DuckDB file `place`, or of the database whose address it contains, or VARIABLE does.

        Raises UsageError without an address, and for a name that is not that of a table.
        """
        if not NAME.fullmatch(table):
            raise UsageError("`table_name` must be the name of one table, or schema.table. It cannot be a query.")
        address = os.environ.get(VARIABLE, "") if place is None else _address_in(place)
        if not address.strip():
            raise UsageError(
                f"No database is named. Set the variable {VARIABLE} to its address, or pass a DuckDB file, or a file "
                "that contains the address, as `database`."
            )
        with suppress(ValueError):
            _ = urlsplit(address).port  # raises for what is not a number
            return cls(table=table, address=address.strip())
        raise UsageError("The address of the database has an impossible port or host. Correct it.")

    @property
    def name(self) -> str:
        """The name of files that are named after the table."""
        return re.sub(SYMBOLS, "_", self.table).lstrip(".-") or "table"

    @property
    def budget_name(self) -> str:
        """The name by which the budget counts fits of this table: with a digest of server, database and table.

        User, password and options of the address play no part, and neither does the usual schema of the table.
        """
        if self._postgres:
            found = urlsplit(self.address)
            host = parse_qs(found.query).get("host", [found.hostname or ""])[-1].lower()
            local = host in LOCAL or host.startswith("/")  # one server has several names here
            database = unquote(found.path.lstrip("/") or found.username or "")
            place = ["localhost" if local else host, f"{found.port or 5432}", database]
        else:
            place = [str(Path(self.address).resolve())]
        table = self.table.removeprefix("public." if self._postgres else "main.")
        digest = hashlib.sha256("\0".join([*place, table]).encode()).hexdigest()
        return f"{re.sub(SYMBOLS, '_', table).lstrip('.-') or 'table'}-{digest[:16]}"

    @property
    def _postgres(self) -> bool:
        return self.address.startswith(("postgresql://", "postgres://"))

    @contextmanager
    def snapshot(self, near: Path) -> Iterator[Path]:
        """Yield a Parquet file with the rows: private, hidden, next to `near`, and removed at the end.

        If this process is killed, the next run for `near` removes it. Errors name the table in place of the file.
        """
        import pyarrow.parquet

        with sole_writer(near, "rows") as (_, path):
            try:
                with self._open(write=False) as server:
                    rows = server.batches(self.table)
                    first = next(rows)
                    with pyarrow.parquet.ParquetWriter(path, first.schema) as writer:
                        writer.write_batch(first)
                        for batch in rows:
                            writer.write_batch(batch)
                yield path
            except MedsynthError as error:
                error.args = tuple(str(one).replace(str(path), self.table) for one in error.args)
                raise

    def check_new(self) -> None:
        """Raise OutputExists if the database has this table, before rows are drawn."""
        with self._open(write=False) as server:
            if server.has(self.table):
                raise _exists(self.table)

    def create(self, rows: Path, comment: str) -> None:
        """Write the rows of a Parquet file into this table, which must be new. Raise OutputExists for an old one."""
        import pyarrow.parquet

        found = pyarrow.parquet.read_table(rows).replace_schema_metadata(None)
        with self._open(write=True) as server:
            server.create(self.table, found, comment)

    @contextmanager
    def _open(self, *, write: bool) -> Iterator[Server]:
        """Open the database. Errors of the driver and of Arrow become a TableError without their words."""
        connect = _postgres if self._postgres else _duckdb
        try:
            with connect(self.address, write) as server:
                yield server
        except MedsynthError:
            raise
        except ImportError:
            extra = "postgres" if self._postgres else "duckdb"
            raise TableError(f"This database needs a package. Run: pip install 'medsynth[{extra}]'.") from None
        except Exception as error:  # a driver's message quotes hosts, users and cells
            reason = _reason(error)
            raise TableError(f"{self.table}: the database cannot be used: {reason}. Nothing was spent.") from None


def _address_in(place: Path) -> str:
    """Return the path of a DuckDB file, or the address in a file of one line."""
    try:
        with place.open("rb") as file:
            start = file.read(2000)
    except OSError as error:
        why = error.strerror
        raise UsageError(f"{place} cannot be read ({why}). Pass a DuckDB file or one with an address.") from None
    if start[8:12] == MAGIC:
        return str(place)
    text = start.decode(errors="replace").strip()
    if len(text.splitlines()) != 1 or not text.startswith(("postgresql://", "postgres://")):
        raise UsageError(
            f"{place} is not a DuckDB file, and not one line with an address such as postgresql://USER@HOST/DATABASE."
        )
    return text


def _reason(error: Exception) -> str:
    """Return why a database failed, in words that contain nothing of its message."""
    causes: list[BaseException] = [error]  # an error while a connection is closed hides the first one
    while (earlier := causes[-1].__context__) is not None:
        causes.append(earlier)
    facts = next((one.args[0] for one in causes if one.args and isinstance(one.args[0], dict)), {})
    state = str(facts.get("C", ""))
    if found := next((words for start, words in REASONS.items() if state.startswith(start)), None):
        return found
    name = type(error).__name__
    if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT):
        return "the disk is full. The rows need room next to the model while they are read"
    if name in ("InterfaceError", "IOException", "ConnectionError", "TimeoutError") or isinstance(error, OSError):
        return "it cannot be reached or opened. Check its address, and whether another program writes to the file"
    if "Arrow" in name:
        return "a column has a value that its declared type does not store"
    return f"it reports an error of the kind {name}{f' ({state})' if state.isalnum() else ''}"


def _quoted(table: str) -> str:
    """Return a table's name, or schema.name, as SQL quotes it."""
    return ".".join(f'"{part}"' for part in table.split(".", 1))


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _no_table(table: str) -> TableError:
    return TableError(f"The database has no table {table!r} that this user can see. Name it as schema.table.")


def _exists(table: str) -> OutputExists:
    return OutputExists(f"The database has a table {table!r} already. Name a new one: no table is ever replaced.")


class _DuckDB:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def batches(self, table: str) -> Iterator[pyarrow.RecordBatch]:
        run = self._connection.execute
        run("begin transaction read only")
        if not self.has(table):
            raise _no_table(table)
        head = self._connection.sql(f"select * from {_quoted(table)} limit 0")
        keys = run(
            "select constraint_column_names from duckdb_constraints() where constraint_type = 'PRIMARY KEY' "
            "and table_name = $1", [table.rpartition(".")[2]],
        ).fetchall()  # fmt: skip
        order = ", ".join(f'"{name}"' for name in (keys[0][0] if keys else head.columns))
        found = self._connection.sql(f"select * from {_quoted(table)} order by {order}").to_arrow_reader(BATCH)
        yield _no_rows(found.schema)
        yield from found

    def create(self, table: str, rows: pyarrow.Table, comment: str) -> None:
        run = self._connection.execute
        run("begin transaction")
        if self.has(table):
            raise _exists(table)
        self._connection.register("medsynth_rows", rows)
        run(f"create table {_quoted(table)} as select * from medsynth_rows")
        run(f"comment on table {_quoted(table)} is {_literal(comment)}")
        run("commit")

    def has(self, table: str) -> bool:
        space, _, name = table.rpartition(".")
        found = self._connection.execute(
            "select count(*) from information_schema.tables where table_name = $1 and table_schema = $2",
            [name, space or "main"],
        ).fetchall()  # fmt: skip
        return bool(found[0][0])


@contextmanager
def _duckdb(address: str, write: bool) -> Iterator[Server]:
    import duckdb

    if not (write or Path(address).is_file()):
        raise TableError("There is no such database file. Check its name.")
    with closing(duckdb.connect(address, read_only=not write, config=SAFE)) as connection:
        yield _DuckDB(connection)


class _Postgres:
    def __init__(self, connection: Any) -> None:
        self._run: Callable[..., Any] = connection.run

    def has(self, table: str) -> bool:
        ((found,),) = self._run(f"select to_regclass({_literal(_quoted(table))}) is not null")
        return bool(found)

    def batches(self, table: str) -> Iterator[pyarrow.RecordBatch]:
        import pyarrow

        self._run("begin transaction isolation level repeatable read read only")
        if not self.has(table):
            raise _no_table(table)
        oid = f"{_literal(_quoted(table))}::regclass"
        kinds = {str(name): _arrow_type(table, str(name), *kind) for name, *kind in self._run(COLUMNS.format(oid=oid))}
        key = [name for (name,) in self._run(KEY.format(oid=oid))] or list(kinds)
        schema = pyarrow.schema(kinds)
        texts = [name for name, kind in kinds.items() if pyarrow.types.is_string(kind)]
        listed = ", ".join(f"{_column(name)}::text" if name in texts else _column(name) for name in kinds)
        order = ", ".join(f'{_column(name)}::text collate "C"' if name in texts else _column(name) for name in key)
        self._run(f"declare medsynth_rows no scroll cursor for select {listed} from {_quoted(table)} order by {order}")
        yield _no_rows(schema)
        while rows := self._run(f"fetch {BATCH} from medsynth_rows"):
            cells = zip(zip(*rows, strict=True), schema.types, strict=True)
            yield pyarrow.RecordBatch.from_arrays([pyarrow.array(own, kind) for own, kind in cells], schema=schema)

    def create(self, table: str, rows: pyarrow.Table, comment: str) -> None:
        import io

        import pyarrow.csv

        self._run("begin transaction")
        if self.has(table):
            raise _exists(table)
        columns = ", ".join(f"{_column(one.name)} {_sql_type(one.type)}" for one in rows.schema)
        self._run(f"create table {_quoted(table)} ({columns})")
        text = io.BytesIO()
        pyarrow.csv.write_csv(rows, text, pyarrow.csv.WriteOptions(include_header=False))
        text.seek(0)
        self._run(f"copy {_quoted(table)} from stdin with (format csv)", stream=text)
        self._run(f"comment on table {_quoted(table)} is {_literal(comment)}")
        self._run("commit")


@contextmanager
def _postgres(address: str, write: bool) -> Iterator[Server]:
    import pg8000.native

    found = urlsplit(address)
    given = {name: values[-1] for name, values in parse_qs(found.query).items()}
    host = given.get("host", found.hostname or "")
    socket = f"{host}/.s.PGSQL.{found.port or 5432}" if host.startswith("/") else None
    connection = pg8000.native.Connection(
        unquote(found.username or os.environ.get("USER", "postgres")), password=unquote(found.password or "") or None,
        host=None if socket else host or "localhost", unix_sock=socket, port=found.port or 5432,
        database=unquote(found.path.lstrip("/")) or None, timeout=SECONDS,
        ssl_context=False if socket else _encryption(host, given),
    )  # fmt: skip
    try:
        connection._usock.settimeout(None)  # a query may take longer than a connection
        connection.run("set datestyle to iso; set timezone to 'UTC'; set extra_float_digits to 1")
        yield _Postgres(connection)
    finally:
        with suppress(Exception):
            connection.close()


def _encryption(host: str, given: dict[str, str]) -> ssl.SSLContext | bool | None:
    """Return how to encrypt: with a checked certificate, unless the address sets `sslmode` or the server is local."""
    mode = given.get("sslmode", "prefer" if host in LOCAL else "verify-full")
    if mode in ("disable", "prefer", "require"):
        return {"disable": False, "prefer": None, "require": True}[mode]
    return ssl.create_default_context(cafile=given.get("sslrootcert"))


def _no_rows(schema: pyarrow.Schema) -> pyarrow.RecordBatch:
    import pyarrow

    return pyarrow.RecordBatch.from_pylist([], schema=schema)


def _column(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _arrow_type(table: str, column: str, kind: str, family: str, limit: int) -> pyarrow.DataType:
    """Return the Arrow type of a column by its declared type. Raise TableError for a type without single values."""
    import pyarrow

    if kind in TYPES:
        return getattr(pyarrow, TYPES[kind])()
    if kind == "numeric" and limit > 0 and (digits := (limit - 4) >> 16) <= pyarrow.decimal128(38).precision:
        return pyarrow.decimal128(digits, (limit - 4) & 0x7FF)
    if kind in ("timestamp", "timestamptz"):
        return pyarrow.timestamp("us", "UTC" if kind == "timestamptz" else None)
    if kind == "time":
        return pyarrow.time64("us")
    if kind in (*TEXTS, "numeric") or family == "e":
        return pyarrow.string()
    raise TableError(
        f"{table}, column {column!r} has the type {kind}, which has no single values. Make a view without this column, "
        "or with a text or number in its place."
    )


def _sql_type(kind: pyarrow.DataType) -> str:
    """Return the type of PostgreSQL for a column of synthetic rows."""
    import pyarrow

    types = pyarrow.types
    if types.is_decimal(kind):
        return f"numeric({kind.precision}, {kind.scale})"
    if types.is_timestamp(kind):
        return "timestamptz" if kind.tz else "timestamp"
    return TO_SQL.get(str(kind), "text")
