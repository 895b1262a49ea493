"""A fit on a cluster is that of the same rows on one machine, byte by byte, and no cell comes to the client.

Most tests run the workers' functions here (`Here`); those with `cluster` start two worker processes.
"""

import copy
import json
import os
import pickle
import re
import signal
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from medsynth_cli.main import app
from test_large_tables import CASES, PATIENT, ROW, visits, write
from typer.testing import CliRunner

import medsynth
from medsynth import rng
from medsynth.budget import Budget
from medsynth.errors import MedsynthError, SchemaError, TableError, UsageError
from medsynth.fitting import cluster as module
from medsynth.fitting.cluster import ClusterRows, ClusterTable, Failure, Partition, files_in, parts_of
from medsynth.fitting.private_rows import keys_of, patients
from medsynth.fitting.private_table import read_rows
from medsynth.io.formats import SavedAs
from medsynth.io.table import LargeTable
from medsynth.privacy.queries.rows import Lot
from medsynth.privacy.queries.tables import Marginals
from medsynth.schema import Schema
from medsynth.schema.codec import encode

CUTS = (0, 100, 100, 103, 240)  # rows of files: one has none
pytestmark = pytest.mark.filterwarnings("ignore::medsynth.errors.MedsynthWarning")  # few rows, on purpose


def parts(folder: Path, frame: pd.DataFrame) -> Path:
    """The rows in files whose names sort as the rows do, and not as the files are made; and files of no table."""
    folder.mkdir(exist_ok=True)
    for k in (2, 0, 1):
        write(frame[CUTS[k] : CUTS[k + 1]], folder / f"part-{k}.csv")
    last = pa.Table.from_pandas(frame[CUTS[3] :], preserve_index=False)
    pq.write_table(last.replace_schema_metadata(None), folder / "part-3.parquet")  # as a database writes it
    for name in ("_SUCCESS", ".part-0.csv.crc", "_part.csv"):
        (folder / name).write_text("")
    return folder


class Done:
    """A future whose value is here: what is asked of it is what crosses to the client."""

    def __init__(self, value: Any, crossed: list[Any]) -> None:
        self.value, self.crossed = value, crossed

    def result(self, timeout: float) -> Any:
        self.crossed.append(self.value)
        return copy.deepcopy(self.value)

    def exception(self, timeout: float) -> None:
        return None

    @property
    def key(self) -> "Done":
        return self


class Here:
    """A client whose workers are this process. What is sent is copied, by pickling if it can be."""

    def __init__(self, address: str = "", timeout: float = 0, set_as_default: bool = True) -> None:
        assert not set_as_default
        self.crossed = list[Any]()

    def who_has(self, futures: list[Done]) -> dict[Done, tuple[str, ...]]:
        return dict.fromkeys(futures, ("here",))

    def submit(self, call: Any, *arguments: Any, key: str, pure: bool, workers: list[str] | None) -> Done:
        assert workers == (["here"] if any(isinstance(one, Done) for one in arguments) else None)
        assert not pure and re.fullmatch(r"\w+-[0-9a-f]{32}", key)
        values = [one.value if isinstance(one, Done) else copy.deepcopy(one) for one in arguments]
        return Done(call(*values), self.crossed)

    def wait_for_workers(self, count: int, timeout: float) -> None:
        pass

    def __enter__(self) -> "Here":
        return self

    def __exit__(self, *error: object) -> None:
        pass


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", types.SimpleNamespace(Client=Here))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two worker processes, asked by address."""
    distributed = pytest.importorskip("distributed", reason="medsynth[cluster] is not installed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
        with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as found:
            yield found


class Counted(rng.SeededEntropy):
    """Seeded entropy that counts its draws."""

    draws: list[int] = []  # noqa: RUF012

    def bytes(self, count: int) -> bytes:
        self.draws.append(count)
        return super().bytes(count)


@contextmanager
def counted() -> Iterator[list[int]]:
    with pytest.MonkeyPatch.context() as patch:
        draws = list[int]()
        patch.setattr(Counted, "draws", draws)
        patch.setattr(rng, "system_entropy", lambda: Counted(0))
        yield draws


def fitted(table: Any, **options: Any) -> medsynth.Model:
    return medsynth.fit(table, epsilon=30, seed=1, notice=lambda text: None, **options)


def same(table: Path, folder: Path, scheduler: str, **options: Any) -> None:
    """Both fits are the same bytes, after as many secret numbers."""
    with counted() as draws:
        whole, spent = fitted(table, **options), sum(draws)
        draws.clear()
        with parts_of(folder, scheduler) as rows:
            found = fitted(rows, **options)
    assert sum(draws) == spent
    files = [model.save(table.with_name(f"{k}.medsynth")).read_bytes() for k, model in enumerate((whole, found))]
    assert files[0] == files[1]


def both(tmp_path: Path, codes: bool = False) -> tuple[Path, Path]:
    frame = visits(codes)
    return write(frame, tmp_path / "visits.csv"), parts(tmp_path / "parts", frame)


@pytest.mark.nightly_for("default", "codes of a hierarchy", "lots", "lots of patients", "pairs")
@pytest.mark.parametrize("case", [name for name in CASES if not name.startswith(("shards", "bare"))])
def test_the_same_model_as_on_one_machine(case: str, tmp_path: Path, quick: None, here: None) -> None:
    same(*both(tmp_path, "codes" in case), "here", **CASES[case])


@pytest.mark.nightly
def test_the_same_model_by_two_worker_processes(tmp_path: Path, quick: None, cluster: Any) -> None:
    same(*both(tmp_path), cluster.scheduler_address, schema=PATIENT)


@pytest.mark.nightly
def test_a_killed_worker_is_replaced_without_a_second_draw(
    tmp_path: Path, quick: None, cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    exact, asked = ClusterRows.exact, list[int]()

    def killing(self: ClusterRows, query: Any, lot: Lot) -> Any:
        asked.append(1)
        if len(asked) == 4:  # in the midst of a measurement
            for name, worker in cluster.scheduler_info["workers"].items():
                os.kill(worker_pid(cluster, name), signal.SIGKILL)
                assert worker
                break
        return exact(self, query, lot)

    monkeypatch.setattr(ClusterRows, "exact", killing)
    same(*both(tmp_path), cluster.scheduler_address, schema=ROW)
    assert len(asked) > 4


def worker_pid(cluster: Any, name: str) -> int:
    with cluster.get_client() as client:
        return int(client.run(os.getpid, workers=[name])[name])


@pytest.fixture
def table(tmp_path: Path, here: None) -> Iterator[ClusterTable]:
    with parts_of(parts(tmp_path / "parts", visits()), "here") as found:
        yield found


def coded(table: ClusterTable, schema: dict[str, Any] = PATIENT, unit: str | None = "patient") -> Any:
    core = Schema.from_dict(schema).core
    keys = partial(keys_of, unit=unit) if unit else None
    return table.coded(partial(encode, schema=core), keys, [1000] * len(core.columns), lambda share: None), core


def test_patients_are_numbered_over_all_files(table: ClusterTable, tmp_path: Path) -> None:
    coded(table)
    whole = patients(read_rows(write(visits(), tmp_path / "visits.csv")), "patient")
    assert (patients(table, "patient") == whole).all()


def test_what_crosses_to_the_client_is_sums_and_pseudonyms(table: ClusterTable) -> None:
    codes, core = coded(table)
    crossed = table.cluster._client.crossed
    files = [one for one in crossed if isinstance(one, LargeTable)]
    known = [one for one in crossed if not isinstance(one, LargeTable)]
    assert len(files) == len(known) == len(table.files) == 4
    for place, names in (piece for pieces in known for piece in pieces):
        assert place.dtype == np.int64 and all(type(name) is bytes and len(name) == 16 for name in names)
    crossed.clear()
    axes = ("ward", core.columns["ward"]), ("sick", core.columns["sick"])
    query = Marginals({"a": [(name, Cells(column.size)) for name, column in axes]})
    for part in codes.parts(core.names):
        part.exact(query, Lot(np.arange(part.count) % 2 == 0, np.empty((part.count, 0), np.uint64)))
    assert all([(array.dtype, array.shape) for array in one] == [(np.int64, (3, 2))] for one in crossed)
    everything = pickle.dumps([*files, *known, *crossed])
    assert b"P000" not in everything  # no key of a patient


class Cells:
    """A column's codes as cells."""

    def __init__(self, cells: int) -> None:
        self.cells = cells

    def cell_of(self, codes: Any) -> Any:
        return codes


def test_a_partition_is_pickled_without_its_rows(tmp_path: Path) -> None:
    path, core = write(visits(), tmp_path / "visits.csv"), Schema.from_dict(PATIENT).core
    kinds = [np.dtype(np.uint16)] * len(core.columns)
    made = Partition(module.opened(path, SavedAs()), partial(encode, schema=core), kinds, None, b"")
    before, rows = pickle.dumps(made), made.codes(slice(0, 240), None)
    assert sys.getsizeof(made) > 240 * 2 * len(kinds) and pickle.dumps(made) == before
    assert (copy.copy(made).codes(slice(0, 240), None) == rows).all()
    assert "private" in repr(made)
    path.write_text(path.read_text().replace("yes", "no"))
    with pytest.raises(TableError, match="was changed"):
        copy.copy(made).codes(slice(0, 240), None)


def test_an_answer_that_is_asked_again_is_of_the_same_lot(table: ClusterTable) -> None:
    codes, core = coded(table)
    stay = np.arange(0, 240, 3)
    query = Marginals({"a": [("ward", Cells(3))]})
    whole = encode(visits_table(), core)[stay]
    joined = np.random.default_rng(1).random(len(stay)) < 0.5
    first, total = 0, np.zeros(3, np.int64)
    for part in codes.parts(core.names, stay):
        lot = Lot(joined[first : first + part.count], np.empty((0, 0), np.uint64))
        once, again = part.exact(query, lot)[0], part.exact(query, lot)[0]
        assert (once == again).all()
        total, first = total + once, first + part.count
    assert first == len(stay)
    assert (total == np.bincount(whole[joined][:, core.names.index("ward")], minlength=3)).all()


def visits_table() -> Any:
    from medsynth.io.table import from_frame

    return from_frame(visits())


def test_a_failure_at_a_worker_has_no_cell() -> None:
    def fails(cell: str) -> None:
        raise ValueError(f"cannot read {cell}")

    found = module._on_worker(module._versions(), fails, "secret")
    assert isinstance(found, Failure) and "ValueError" in str(found.error)
    assert "secret" not in f"{found.error} {vars(found.error)}"
    assert module._on_worker(module._versions(), fails, found) is found
    other = module._on_worker(module._versions() | {"numpy": "1.0"}, len, "secret")
    assert isinstance(other, Failure) and "a different version of numpy" in str(other.error)


@pytest.mark.parametrize("unit", [None, "patient"])
def test_a_wrong_cell_is_named_by_its_file_and_row(unit: str | None, tmp_path: Path, here: None) -> None:
    frame = visits()
    frame.loc[200, "patient" if unit else "ward"] = None if unit else "nowhere"
    folder = parts(tmp_path / "parts", frame)
    with parts_of(folder, "here") as rows, pytest.raises(SchemaError, match=r"part-3\.parquet.* row 98\b") as error:
        fitted(rows, schema=PATIENT if unit else ROW)
    assert "nowhere" not in str(error.value) and not list(folder.glob("*-ledger"))


def test_what_a_cluster_cannot_do_is_refused_before_anything_is_spent(table: ClusterTable) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({}, "cannot learn a schema"),
        ({"schema": ROW, "method": "gs-wgan"}, "Choose another `method`"),
        ({"schema": PATIENT | {"order": "dose", "max_rows": 3}}, "`order` needs all rows"),
        (
            {"schema": ROW, "method": "dp-gan", "public": table.files[0].where, "citation": "c"},
            "is the private table itself",
        ),
    ]
    for options, words in cases:
        with pytest.raises(UsageError, match=words):
            fitted(table, budget_table=table.where, **options)
    assert not list(Path(table.where).glob("*-ledger"))
    with pytest.raises(MedsynthError, match="stay on its workers"):
        next(table.chunks())


def test_files_of_no_table_are_refused(tmp_path: Path, here: None) -> None:
    with pytest.raises(UsageError, match="is not a folder"):
        files_in(write(visits(), tmp_path / "visits.csv"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="no Parquet or CSV"):
        files_in(tmp_path / "empty")
    folder = parts(tmp_path / "parts", visits())
    write(visits().drop(columns="dose"), folder / "part-2.csv")
    with pytest.raises(TableError, match=r"part-2\.csv has other columns"), parts_of(folder, "here"):
        pass


def test_a_cluster_that_is_not_there_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = parts(tmp_path / "parts", visits())
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(UsageError, match=r"medsynth\[cluster\]"), parts_of(folder, "tcp://127.0.0.1:9"):
        pass
    monkeypatch.undo()
    pytest.importorskip("distributed", reason="medsynth[cluster] is not installed")
    monkeypatch.setattr(module, "CONNECT_SECONDS", 0.2)
    for address in ("tcp://127.0.0.1:9", "nowhere"):
        with pytest.raises(MedsynthError, match="No scheduler answers"), parts_of(folder, address):
            pass


def test_fits_of_the_folder_and_of_its_files_are_added_up(tmp_path: Path, quick: None, here: None) -> None:
    folder, told = parts(tmp_path / "parts", visits()), list[str]()
    alone = folder / "part-3.parquet"
    fitted(alone, schema=ROW)
    assert Budget.of(alone).path.name == "part-3.medsynth-ledger"
    with parts_of(folder, "here") as rows:
        medsynth.fit(rows, epsilon=30, schema=ROW, notice=told.append)
    assert any(text.startswith("WARNING: single files") and "part-3" in text for text in told)
    fitted(alone, schema=ROW)
    spent = Budget.of(folder).spent()
    assert len(spent.fits) == 2 and spent.path == Budget.of(alone).path == folder / "all-parts.medsynth-ledger"
    assert Budget.on_file(folder) is not None


def test_the_command(tmp_path: Path, quick: None, here: None, monkeypatch: pytest.MonkeyPatch) -> None:
    parts(tmp_path / "claims", visits())
    (tmp_path / "s.yaml").write_text(Schema.from_dict(PATIENT).to_yaml())
    monkeypatch.chdir(tmp_path)
    words = ["fit", "claims", "--epsilon", "30", "--schema", "s.yaml", "--scheduler", "here", "--json"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["model"] == "claims.medsynth"
    refused = CliRunner().invoke(app, [*words, "--holdout", "0.2", "--force"])
    assert refused.exit_code == 2 and "--holdout does not split a folder" in refused.output
    without = CliRunner().invoke(app, ["fit", "claims", "--epsilon", "30"])
    assert without.exit_code == 1 and "--scheduler" in without.output
    spent = CliRunner().invoke(app, ["ledger", "--table", "claims", "--json"])
    assert len(json.loads(spent.stdout)["fits"]) == 1


def test_a_cluster_that_is_lost_for_good_ends_the_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOST_SECONDS", 0.0)

    class Lost:
        def __init__(self, error: type[Exception]) -> None:
            self.error = error

        def result(self, timeout: float) -> Any:
            raise self.error("a secret cell")

    class Late(Lost):
        def result(self, timeout: float) -> Any:
            if self.error is UnboundLocalError:  # once: a wait that Dask's loop has cancelled
                self.error = TimeoutError
                raise UnboundLocalError
            return 7

    client = types.SimpleNamespace(scheduler_info=lambda n_workers: {"workers": {}})
    busy = types.SimpleNamespace(scheduler_info=lambda n_workers: {"workers": {"tcp://w": {}}})
    assert module.Cluster(busy).result(Late(UnboundLocalError)) == 7
    for error, words in (
        (TimeoutError, "workers of the cluster are gone"),
        (RuntimeError, "cluster stopped .RuntimeError."),
    ):
        with pytest.raises(MedsynthError, match=words) as found:
            module.Cluster(client).result(Lost(error))
        assert "secret" not in str(found.value)
