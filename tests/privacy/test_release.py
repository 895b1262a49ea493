"""One way out: what is released is charged before it is drawn, and on file before it is used."""

import ast
import copy
import functools
import pickle
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from open_tables import queries as bare_queries
from open_tables import raw_vault

from medsynth.errors import BudgetError, MedsynthError
from medsynth.io.table import from_frame
from medsynth.privacy import noise
from medsynth.privacy import partition_selection as selection
from medsynth.privacy.accounting.calibration import make_plan
from medsynth.privacy.accounting.events import Gaussian
from medsynth.privacy.accounting.ledger import Ledger
from medsynth.privacy.checkpoint import Checkpoint
from medsynth.privacy.partition_selection import RawVault
from medsynth.privacy.release import Release, Releases
from medsynth.privacy.vault import Vault
from medsynth.rng import SeededEntropy, SystemEntropy
from medsynth.schema.columns.categorical import Binary
from medsynth.schema.columns.grid import grid

EVENT = Gaussian(multiplier=2.0)
SOURCES = Path(__file__).parents[2] / "medsynth"


def new_ledger(times: int = 2) -> Ledger:
    return Ledger(delta=1e-5, accountant="prv", random_source="t", allowance={"h": (EVENT, times)})


def calls(name: str) -> Iterator[str]:
    """Where a method or function of that name is called, as file names below medsynth/, once for each call."""
    yield from (path for path, text in sources() if f"{name}(" in text for called in called_in(text) if called == name)


@functools.cache
def sources() -> list[tuple[str, str]]:
    """(file, content), in the order of their names."""
    return sorted((path.relative_to(SOURCES).as_posix(), path.read_text()) for path in SOURCES.rglob("*.py"))


@functools.cache
def called_in(text: str) -> list[str]:
    """The names of what a source calls, once for each call."""
    calls = [node.func for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    return [getattr(called, "attr", getattr(called, "id", "")) for called in calls]


def test_there_is_one_charge_path() -> None:
    """A site that starts anew charges again what its file holds, and draws nothing there."""
    assert sorted(calls("charge")) == ["federated/rounds.py", "privacy/release.py"]
    rounds = ast.parse((SOURCES / "federated" / "rounds.py").read_text())
    assert _within(rounds, "charge_again", "charge") == _within(rounds, None, "charge") == 1
    assert set(calls("store")) == {"federated/rounds.py", "privacy/release.py"}
    assert list(calls("replay")) == ["privacy/release.py"]


def test_noise_is_drawn_by_those_who_release_alone() -> None:
    """Whoever adds noise does it inside a `draw` that `Releases.release` runs; no other room adds any.

    A query scales it, once, where a vault asks it to; what leaves a vault of several is a `Noising`'s business. A
    critic's query does the same for sums on a device.
    """
    names = ("federated/server", "privacy/partition_selection", "privacy/queries/noising", "privacy/queries/query",
             "privacy/shards")  # fmt: skip
    assert set(calls("noised")) == {f"{name}.py" for name in names}
    assert list(calls("noised")).count("privacy/queries/query.py") == 1
    assert list(calls("noise_share")) == ["privacy/queries/noising.py"]
    rooms = [f"privacy/queries/{name}.py" for name in ("gradients", "noising", "query")]
    assert list(calls("noised_finished")) == rooms[1:]
    assert list(calls("with_noise")) == [rooms[0], rooms[2]]
    assert list(calls("noised_tensors")) == rooms[:1]
    gradients = ast.parse((SOURCES / rooms[0]).read_text())
    assert _within(gradients, "with_noise", "noised_tensors") == 1
    assert {*calls("rounded_normal_on"), *calls("keystream")} == {"privacy/device_noise.py"}
    assert list(calls("released")) == ["privacy/shards.py", "privacy/vault.py"] and list(calls("_combined")) == [
        "federated/server.py"
    ]
    drawn = {"privacy/partition_selection": "noised", "privacy/shards": "noised", "privacy/vault": "released",
             "federated/server": "_combined"}  # fmt: skip
    for name, call in drawn.items():
        tree = ast.parse((SOURCES / f"{name}.py").read_text())
        assert _within(tree, "draw", call) == _within(tree, None, call) > 0
    server = ast.parse((SOURCES / "federated" / "server.py").read_text())
    assert _within(server, "_combined", "noised") == _within(server, None, "noised") > 0


def _within(tree: ast.AST, function: str | None, call: str) -> int:
    """Calls of a function or method of one name inside functions of another, or anywhere."""
    trees = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == function] if function else [tree]
    found = [n.func for one in trees for n in ast.walk(one) if isinstance(n, ast.Call)]
    return sum(getattr(f, "id", getattr(f, "attr", "")) == call for f in found)


def test_no_fit_asks_for_the_exact_kinds_of_columns() -> None:
    """They turn on a single cell. Only looks, for a person's own screen, and the report, which is kept back, read them.

    On the old code the plan of a table without a schema was made from them.
    """
    assert sorted(set(calls("dtypes"))) == ["report/data/columns.py", "report/sections/structure.py"]
    assert set(calls("look")) == {"fitting/looking.py"}
    assert not [
        path for path in SOURCES.rglob("*.py") if re.search(r"import .*looking|from \.looking", path.read_text())
    ]


def test_a_release_is_charged_then_drawn_then_stored(tmp_path: Path) -> None:
    ledger, path = new_ledger(), tmp_path / "c"
    releases = Releases(ledger, SystemEntropy(), Checkpoint(path, {}, resume=False))

    def draw(event: Any) -> Any:
        assert event == EVENT and ledger.times_measured("h") == 1 and not path.exists()
        return Release([np.array([1.5, 2.5])], ["a", "b"])

    found = releases.release("h", 3.0, draw)
    again = Checkpoint(path, {}, resume=True)
    assert again.remaining == 1
    record = again.replay("h")
    assert record is not None
    arrays, names = record
    assert isinstance(arrays, list) and (arrays[0] == found.arrays[0]).all() and names == found.names == ["a", "b"]
    assert ledger.entries[0].sensitivity == 3.0


def test_what_could_not_be_stored_is_not_released_and_stays_charged(tmp_path: Path) -> None:
    ledger = new_ledger()
    checkpoint = Checkpoint(tmp_path / "c", {}, resume=False)
    checkpoint.path = tmp_path / "no folder" / "c"
    with pytest.raises(MedsynthError, match="`resume`"):
        Releases(ledger, SystemEntropy(), checkpoint).release("h", 1.0, lambda event: Release([np.zeros(1)]))
    assert ledger.times_measured("h") == 1


def test_a_replayed_release_is_charged_and_not_drawn(tmp_path: Path) -> None:
    path = tmp_path / "c"
    first = Releases(new_ledger(), SystemEntropy(), Checkpoint(path, {}, resume=False))
    one = first.release("h", 1.0, lambda event: Release([np.array([7.0])]))
    ledger = new_ledger()
    second = Releases(ledger, SystemEntropy(), Checkpoint(path, {}, resume=True))
    same = second.release("h", 1.0, lambda event: pytest.fail("drawn twice"))
    assert (same.arrays[0] == one.arrays[0]).all() and ledger.times_measured("h") == 1
    assert second.release("h", 1.0, lambda event: Release([np.array([8.0])])).arrays[0] == 8.0


def test_what_the_plan_lacks_is_never_drawn() -> None:
    ledger = new_ledger(times=1)
    releases = Releases(ledger, SystemEntropy())
    with pytest.raises(BudgetError, match="'g'"):
        releases.release("g", 1.0, lambda event: pytest.fail("drawn"))
    releases.release("h", 1.0, lambda event: Release([]))
    with pytest.raises(BudgetError, match="refused before drawing"):
        releases.release("h", 1.0, lambda event: pytest.fail("drawn"))
    assert len(ledger.entries) == 1


def test_a_secret_draw_is_kept_on_file_and_is_no_release(tmp_path: Path) -> None:
    path, ledger = tmp_path / "c", new_ledger()
    first = Releases(ledger, SystemEntropy(), Checkpoint(path, {}, resume=False))
    drawn = first.draw_once("shards", lambda: np.arange(5.0))
    second = Releases(new_ledger(), SystemEntropy(), Checkpoint(path, {}, resume=True))
    assert (second.draw_once("shards", lambda: pytest.fail("drawn twice")) == drawn).all()
    assert not ledger.entries and path.stat().st_mode & 0o077 == 0
    with pytest.raises(MedsynthError, match="plan"):  # nor can it be taken for a release
        Releases(new_ledger(), SystemEntropy(), Checkpoint(path, {}, resume=True)).release(
            "h", 1.0, lambda event: pytest.fail("drawn")
        )
    assert (Releases(new_ledger(), SystemEntropy()).draw_once("x", lambda: np.ones(2)) == 1).all()


def test_a_release_is_replayed_by_name(tmp_path: Path) -> None:
    """Whatever the order in which the arrays are asked for; those of other columns are refused."""
    path = tmp_path / "c"
    first = Releases(new_ledger(), SystemEntropy(), Checkpoint(path, {}, resume=False))
    first.release("h", 1.0, lambda event: Release([np.array([1.0]), np.array([2.0])], of=("age", "sex")))
    for asked, found in ((("sex", "age"), {"sex": 2.0, "age": 1.0}), (("age", "ward"), None), (("age",), None)):
        again = Releases(new_ledger(), SystemEntropy(), Checkpoint(path, {}, resume=True))
        release = again.release("h", 1.0, lambda event: pytest.fail("drawn twice"))
        if found is None:
            with pytest.raises(MedsynthError, match="other columns"):
                release.by_name(asked)
        else:
            assert {name: float(array[0]) for name, array in release.by_name(asked).items()} == found


def test_a_vault_of_other_columns_refuses_what_is_on_file(tmp_path: Path) -> None:
    """As many codes and as many rows: the places would fit. And a raw table reads kinds under its columns' names."""
    path, codes = tmp_path / "c", np.zeros((9, 2), np.int32)

    def histograms(names: tuple[str, ...], resume: bool) -> Any:
        releases = Releases(new_ledger(), SystemEntropy(), Checkpoint(path, {}, resume=resume))
        maps = {name: grid(Binary(levels=("no", "yes")), 2) for name in names}
        return Vault(codes, names, releases).measure_histograms("h", maps)

    drawn = histograms(("a", "b"), False)
    assert all((drawn[name] == found).all() for name, found in histograms(("a", "b"), True).items())
    for names in (("b", "a"), ("a", "c")):
        with pytest.raises(MedsynthError, match="other columns"):
            histograms(names, True)


def test_kinds_of_columns_are_replayed_under_their_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint without facts, and the columns in another order: each has the kind that was measured of it."""
    frame = pd.DataFrame({"a": [f"{k}.5" for k in range(900)], "b": ["no", "yes"] * 450, "c": ["x", "y", "z"] * 300})
    plan, path = make_plan(bare_queries(), epsilon=9.0, delta=1e-5, rows=900), tmp_path / "c"
    kinds: list[dict[str, Any]] = []

    def levels(self: Any, label: Any, names: Any, found: Any) -> Any:
        kinds.append(found)
        raise Killed

    monkeypatch.setattr(RawVault, "_measure_levels", levels)
    for order in (["a", "b", "c"], ["c", "a", "b"]):
        releases = Releases(plan.ledger("t"), SystemEntropy(), Checkpoint(path, {}, resume=bool(kinds)))
        with pytest.raises(Killed):
            raw_vault(from_frame(frame[order]), 900, releases, "b").measure_schema()
    assert kinds[0] == kinds[1] and kinds[0]["a"].cells == "decimal" and kinds[0]["b"].cells != "decimal"


def test_nothing_else_is_offered() -> None:
    releases = Releases(new_ledger(), SystemEntropy())
    attempts: list[Callable[[Any], object]] = [len, iter, pickle.dumps, copy.copy, copy.deepcopy]
    for attempt in attempts:
        with pytest.raises(TypeError):
            attempt(releases)
    assert not hasattr(releases, "__dict__") and "private" not in repr(releases)


class Killed(BaseException):
    """Stands for the end of the process."""


@pytest.mark.statistical
def test_partition_selection_resumes_measurement_by_measurement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names as well as counts are on file before they are used; what was released once is not drawn again.

    Seeds are fixed.
    """
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({
        "ward": rng.choice(["a", "b", "c"], 900), "age": rng.integers(18, 90, 900),
        "dose": rng.integers(0, 999, 900) / 100, "sick": rng.choice(["no", "yes"], 900),
    })  # fmt: skip
    table = from_frame(frame)
    plan = make_plan(bare_queries(), epsilon=5.0, delta=1e-5, rows=900)
    labels, path, store = [*plan.events], tmp_path / "c", Checkpoint.store
    assert labels == [selection.KINDS, selection.TARGET, selection.LEVELS, selection.FORMATS]
    stored: list[tuple[str, list[str]]] = []
    drawn: list[int] = []

    def storing(self: Any, label: Any, arrays: Any, names: Any) -> None:
        store(self, label, arrays, names)
        stored.append((label, names))
        raise Killed

    monkeypatch.setattr(Checkpoint, "store", storing)

    def counted(*args: Any) -> Any:
        drawn.append(len(stored))
        return noise.noised(*args)

    monkeypatch.setattr(selection, "noised", counted)
    for fit in range(5):
        ledger = plan.ledger("t")
        raw = raw_vault(table, 900, Releases(ledger, SeededEntropy(fit), Checkpoint(path, {}, resume=fit > 0)), "sick")
        if fit < 4:
            with pytest.raises(Killed):
                raw.measure_schema()
        else:
            schema = raw.measure_schema().schema
    assert [label for label, _ in stored] == labels and set(drawn) == {0, 1, 2, 3}  # the last fit drew nothing
    names = [some for _, some in stored]
    assert names[0] == names[3] == [] and names[1] == ["no", "yes"] and names[2][:3] == ["a", "b", "c"]
    assert ledger.complete and schema.columns["ward"].levels == ("a", "b", "c")


def test_names_are_released_by_partition_selection_alone() -> None:
    table = from_frame(pd.DataFrame({"a": ["x", "y"], "b": ["1.5", "2.5"]}))
    allowance: dict[str, Any] = dict.fromkeys((selection.KINDS, selection.TARGET), (EVENT, 1))
    ledger = Ledger(delta=1e-5, accountant="prv", random_source="t", allowance=allowance)
    raw = raw_vault(table, 2, Releases(ledger, SystemEntropy()), "b")
    with pytest.raises(BudgetError, match="partition selection"):
        raw.measure_schema()


def test_a_fork_of_a_fit_draws_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both processes would draw as much for one charge."""
    releases = Releases(new_ledger(), SystemEntropy())
    monkeypatch.setattr("os.getpid", lambda: -1)
    with pytest.raises(MedsynthError, match="the process that began it"):
        releases.release("h", 1.0, lambda event: pytest.fail("drawn"))
