"""Tables of DuckDB files and of a real PostgreSQL that the test starts: the same rows as in a file, and no address."""

import datetime
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet
import pytest
from commands import good, run

import medsynth
from medsynth import rng
from medsynth.errors import MedsynthError, OutputExists, TableError, UsageError
from medsynth.io.database import VARIABLE, DatabaseTable
from medsynth.io.reader import read

ROWS, SECRET = 120, "s3cret-w0rd"
FIT = ["fit", "--table", "visits", "--epsilon", "3.7", "--method", "independent", "--target", "none"]
CREATE = (
    'create table visits (id integer primary key, age smallint, lab numeric(6, 2), seen date, "at" timestamp, '
    "smokes boolean, weight double precision, ward varchar(20))"
)


def cells() -> pd.DataFrame:
    """The rows in the order of their key, as a CSV file has them; "" is a missing cell."""
    draw = np.random.default_rng(3)
    days = [datetime.date(2020, 1, 1) + datetime.timedelta(days=int(k)) for k in draw.integers(0, 300, ROWS)]
    return pd.DataFrame({
        "id": [str(k) for k in range(1, ROWS + 1)], "age": [str(k) for k in draw.integers(18, 90, ROWS)],
        "lab": [f"{k / 100:.2f}" for k in draw.integers(0, 9999, ROWS)],
        "seen": [str(day) for day in days], "at": [f"{day} 10:30:00" for day in days],
        "smokes": draw.choice(["true", "false"], ROWS), "weight": [f"{k / 10}" for k in draw.integers(401, 999, ROWS)],
        "ward": draw.choice(["A 'x'", "B, C", ""], ROWS),
    })  # fmt: skip


def inserts() -> list[str]:
    """Statements that insert the rows, the last one first: the key brings them into order."""

    def value(text: str) -> str:
        return "null" if text == "" else "'" + text.replace("'", "''") + "'"

    lines = [f"({', '.join(map(value, row))})" for row in cells().itertuples(index=False)]
    return [f"insert into visits values {', '.join(reversed(lines))}"]


class Place:
    """A database with the table: its address, and what runs a statement there."""

    def __init__(self, address: str, execute: Callable[[str], Any]) -> None:
        self.address, self.execute = address, execute

    def table(self, name: str) -> DatabaseTable:
        return DatabaseTable(table=name, address=self.address)


def duckdb_place(folder: Path) -> Iterator[Place]:
    duckdb = pytest.importorskip("duckdb", reason="pip install -c constraints.txt 'medsynth[duckdb]'")
    path = folder / "clinic.duckdb"

    def execute(statement: str) -> Any:
        with duckdb.connect(str(path)) as connection:
            return connection.execute(statement).fetchall()

    yield Place(str(path), execute)


def server_place() -> Iterator[Place]:
    native = pytest.importorskip("pg8000.native", reason="pip install -c constraints.txt 'medsynth[postgres]'")
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin")) or [Path(shutil.which("initdb") or "/").parent]
    if not (programs[-1] / "initdb").exists():
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    user: dict[str, Any] = {}
    if os.geteuid() == 0:  # the server refuses to run as root
        try:
            user = {"user": pwd.getpwnam("postgres").pw_uid}
        except KeyError:
            pytest.skip("tests run as root, and there is no user postgres to start PostgreSQL")
    folder = Path(tempfile.mkdtemp(prefix="medsynth-pg-"))
    try:
        (folder / "word").write_text(SECRET)
        for path in (folder, folder / "word"):
            os.chown(path, user.get("user", -1), -1)
        data = str(folder / "data")

        def control(*words: str) -> None:
            subprocess.run([str(programs[-1] / words[0]), *words[1:]], check=True, capture_output=True, cwd="/", **user)

        control("initdb", "-D", data, "-U", "steward", "-A", "scram-sha-256", f"--pwfile={folder / 'word'}", "-N")
        options = f"-k {folder} -c listen_addresses='' -c fsync=off"
        control("pg_ctl", "-D", data, "-o", options, "-l", str(folder / "log"), "-w", "start")
        try:

            def execute(statement: str) -> Any:
                with native.Connection("steward", password=SECRET, unix_sock=f"{folder}/.s.PGSQL.5432",
                                       database="postgres") as connection:  # fmt: skip
                    return connection.run(statement)

            yield Place(f"postgresql://steward:{SECRET}@/postgres?host={folder}", execute)
        finally:
            control("pg_ctl", "-D", data, "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def server() -> Iterator[Place]:
    yield from server_place()


@pytest.fixture(params=["duckdb", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """An empty folder, and a database with the table."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    if request.param == "duckdb":
        found = next(duckdb_place(tmp_path / "elsewhere"))
    else:
        found = request.getfixturevalue("server")
        found.execute("drop schema public cascade; create schema public")
    for statement in (CREATE, *inserts()):
        found.execute(statement)
    monkeypatch.setenv(VARIABLE, found.address)
    yield found


def files() -> list[str]:
    return sorted(name for name in os.listdir() if name != "elsewhere")


def test_rows_are_those_of_a_file(place: Place) -> None:
    with place.table("visits").snapshot(Path("visits.medsynth")) as path:
        found = read(path)
        assert path.stat().st_mode & 0o777 == 0o600
    assert not files()
    expected = cells().assign(at=lambda rows: rows["at"])
    assert list(found.header) == list(expected.columns)
    for name in expected.columns:
        texts = expected[name] if name != "weight" else [text.removesuffix(".0") for text in expected[name]]
        assert list(found.cells[name]) == list(texts), name


@pytest.mark.nightly
def test_a_fit_is_the_same_as_of_a_file(place: Place, quick: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """To the byte, with fixed entropy: the model file, and the tensors with the same rows as CSV."""
    monkeypatch.setattr(rng, "system_entropy", lambda: rng.SeededEntropy(7))
    with place.table("visits").snapshot(Path("visits.medsynth")) as path:
        Path("visits.parquet").write_bytes(path.read_bytes())
    good(*FIT, "--seed", "1", "--output", "a.medsynth")
    good("fit", "visits.parquet", *FIT[3:], "--seed", "1", "--output", "b.medsynth")
    assert Path("a.medsynth").read_bytes() == Path("b.medsynth").read_bytes()
    cells().to_csv("visits.csv", index=False)
    good("fit", "visits.csv", *FIT[3:], "--seed", "1", "--output", "c.medsynth")
    first, other = (medsynth.load(name).tensors for name in ("a.medsynth", "c.medsynth"))
    assert all((first[name] == other[name]).all() for name in first | other)


def test_nothing_names_the_database(place: Place, quick: None, server_words: Callable[[Place], list[str]]) -> None:
    result = good(*FIT, "--holdout", "0.25", "--anyway")
    budget = place.table("visits").budget_name
    made = {"visits.medsynth", "visits.train.parquet", "visits.heldout.parquet", f"{budget}.medsynth-ledger"}
    assert made <= set(files()) and not [name for name in files() if name.startswith(".medsynth")]
    for word in server_words(place):
        assert word not in result.output + result.stderr
        for name in files():
            assert word not in name and word.encode() not in Path(name).read_bytes(), (name, word)
    good(*FIT, "--output", "second.medsynth", "--budget-name", "named", "--anyway")
    assert any(name.startswith("named") for name in files())


@pytest.fixture
def server_words() -> Callable[[Place], list[str]]:
    """Words of an address that nothing may contain."""
    return lambda place: [place.address, SECRET, "steward", "clinic.duckdb", "medsynth-pg-", ".rows"]


BROKEN = {
    "no server": "postgresql://steward:s3cret-w0rd@/postgres?host=/nowhere",
    "no host": "postgresql://steward:s3cret-w0rd@127.0.0.1:1/postgres",
    "no file": "/nowhere/clinic.duckdb",
    "no port": "postgresql://steward:s3cret-w0rd@nowhere:port/db",
    "another database": "mysql://steward:s3cret-w0rd@host/db",
}


@pytest.mark.parametrize("address", BROKEN.values(), ids=BROKEN)
def test_an_unreachable_database_is_a_clear_error(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(VARIABLE, address)
    result = run(*FIT)
    assert result.exit_code in (1, 2) and "bug" not in result.stderr
    assert any(words in result.stderr for words in ("cannot be", "no such database", "impossible port"))
    for word in ("s3cret", "steward", "nowhere", "mysql", "127.0.0.1"):
        assert word not in result.stderr
    assert not files()


SAME = [
    ["postgresql://a:b@/research?host=/var/run", "postgres://c@LOCALHOST:5432/research", "postgresql://127.0.0.1/research"],
    ["postgresql://a@db.example/research?sslmode=require", "postgresql://b@DB.example:5432/research"],
    ["postgresql://a@db.example", "postgresql://a@db.example/a"], ["clinic.duckdb", "./clinic.duckdb"],
]  # fmt: skip


def test_one_table_has_one_budget_under_all_its_names() -> None:
    found = list[str]()
    for addresses in SAME:
        usual = "public.visits" if "://" in addresses[0] else "main.visits"
        names = {
            DatabaseTable(table=table, address=one).budget_name for one in addresses for table in ("visits", usual)
        }
        assert len(names) == 1, names
        found += names
    found.append(DatabaseTable(table="other.visits", address=SAME[0][0]).budget_name)
    found.append(DatabaseTable(table="visits", address=SAME[1][0].replace("db.", "db2.")).budget_name)
    assert len(set(found)) == len(found)


def test_wrong_words_and_tables(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.execute("create table lists as select 1 as id, array[1, 2] as two union all select 2, array[3]")
    refused = {
        "none": "no table", "visits; drop table visits": "no table", 'vis"its': "cannot be a query",
        "lists": "column 'two'",
    }  # fmt: skip
    for name, words in refused.items():
        result = run(*FIT[:2], name, *FIT[3:])
        assert result.exit_code != 0 and words in result.stderr, (name, result.stderr)
        assert not files()
    assert len(place.execute("select * from visits")) == ROWS
    assert run(*FIT, "elsewhere").exit_code == 2  # a file and a table
    if place.address.startswith("postgresql"):
        monkeypatch.setenv(VARIABLE, place.address.replace(SECRET, "wrong"))
        result = run(*FIT)
        assert "refuses this user or password" in result.stderr and "wrong" not in result.stderr
    monkeypatch.delenv(VARIABLE)
    assert "No database is named" in run(*FIT).stderr
    Path("address").write_text(f"{place.address}\n")
    if place.address.startswith("postgresql"):
        assert DatabaseTable.of("visits", Path("address")).address == place.address
    else:
        assert DatabaseTable.of("visits", Path(place.address)).address == place.address
        with pytest.raises(UsageError, match="is not a DuckDB file"):
            DatabaseTable.of("visits", Path("address"))


def test_a_value_that_a_type_does_not_store_is_not_quoted(place: Place) -> None:
    if not place.address.startswith("postgresql"):
        pytest.skip("DuckDB stores what Arrow stores")
    place.execute("create table odd as select k as id, 'infinity'::date as seen from generate_series(1, 3) k")
    with (
        pytest.raises(TableError, match="its declared type does not store") as error,
        place.table("odd").snapshot(Path("x")),
    ):
        pass
    assert "infinity" not in str(error.value)


def test_rows_that_change_meanwhile_are_those_of_the_start(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """One repeatable-read transaction: the second piece is as old as the first."""
    if not place.address.startswith("postgresql"):
        pytest.skip("a DuckDB file has one writer, or readers")
    monkeypatch.setattr("medsynth.io.database.BATCH", 50)
    writer = pyarrow.parquet.ParquetWriter.write_batch
    changed: list[bool] = []

    def writing(self: Any, batch: Any) -> None:
        if batch.num_rows and not changed:
            changed.append(
                bool(place.execute("update visits set ward = 'changed'; delete from visits where id > 100")) or True
            )
        writer(self, batch)

    monkeypatch.setattr(pyarrow.parquet.ParquetWriter, "write_batch", writing)
    with place.table("visits").snapshot(Path("x")) as path:
        found = read(path)
    assert changed and found.rows == ROWS and "changed" not in set(found.cells["ward"])


def test_a_full_disk_leaves_nothing(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Any, batch: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pyarrow.parquet.ParquetWriter, "write_batch", full)
    result = run(*FIT)
    assert result.exit_code == 1 and "the disk is full" in result.stderr and not files()


def plain(row: Any) -> list[str]:
    """The cells of a row as texts, whatever types a driver has for them."""
    return [str(cell) for cell in row]


def test_sampled_rows_go_into_a_new_table(place: Place, quick: None) -> None:
    good(*FIT)
    good("sample", "-n", "50", "--model", "visits.medsynth", "--table", "visits_made", "--seed", "1")
    made = place.execute("select * from visits_made")
    rows = pyarrow.parquet.read_table("visits.synthetic.parquet").to_pylist()
    assert sorted(map(plain, made)) == sorted(plain(list(row.values())) for row in rows)
    before = files()
    result = run("sample", "-n", "50", "--model", "visits.medsynth", "--table", "visits", "-o", "new.parquet")
    assert result.exit_code == 1 and "already" in result.stderr and files() == before
    assert len(place.execute("select * from visits")) == ROWS
    with pytest.raises(OutputExists):
        place.table("visits_made").create(Path("visits.synthetic.parquet"), "x")
    assert run("sample", "--model", "visits.medsynth", "--table", "t", "-o", "new.csv").exit_code == 2
    with pytest.raises(MedsynthError):
        place.table("visits").check_new()
