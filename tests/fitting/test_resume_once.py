"""One charge, one model: whatever is killed, copied, resumed or forced, the budget file holds what was drawn."""

from __future__ import annotations

import dataclasses
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import medsynth
from medsynth.budget import Budget
from medsynth.errors import MedsynthError, TargetError, UsageError
from medsynth.fitting import planning
from medsynth.fitting.settings import FitOptions
from medsynth.privacy import partition_selection as selection
from medsynth.privacy.checkpoint import Checkpoint
from medsynth.privacy.release import Releases

pytestmark = pytest.mark.filterwarnings("ignore::medsynth.errors.MedsynthWarning")  # few rows, on purpose

SCHEMA: dict[str, Any] = {
    "name": "t",
    "target": "y",
    "columns": {
        "a": {"kind": "count", "bounds": [0, 9]},
        "b": {"kind": "categorical", "levels": ["u", "v", "w"]},
        "y": {"kind": "binary", "levels": [0, 1]},
    },
}
MEASUREMENTS = 4  # of such a fit


class Killed(BaseException):
    """Stands for the end of the process."""


def frame(rows: int = 80, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame({
        "a": rng.integers(0, 9, rows), "b": rng.choice(["u", "v", "w"], rows), "y": rng.integers(0, 2, rows),
    })  # fmt: skip


class World:
    """A folder with a table, and every draw that reached a checkpoint there: those that anybody can have used."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.table = folder, folder / "t.csv"
        frame().to_csv(self.table, index=False)
        self.drawn: Counter[Any] = Counter()
        self.labels: list[str] = []
        self.left: int | None = None  # measurements until the kill
        self.when = "before"  # the kill: before a draw, or between a draw and its record
        self.hook: Callable[[], None] = lambda: None
        true, store = Releases.release, Checkpoint.store

        def release(releases: Releases, label: str, sensitivity: float, draw: Any) -> Any:
            if self.left == 0 and self.when == "before":
                raise Killed

            def counted(event: Any) -> Any:
                self.hook()
                found = draw(event)
                if self.left == 0:
                    raise Killed
                self.drawn[event] += 1
                self.labels.append(label)
                return found

            found = true(releases, label, sensitivity, counted)
            self.left = None if self.left is None else self.left - 1
            return found

        monkeypatch.setattr(Releases, "release", release)
        self.store = store

    def fit(self, checkpoint: str = "m", *, kill: int | None = None, when: str = "before", **options: Any) -> Any:
        self.left, self.when = kill, when
        settings: dict[str, Any] = {"epsilon": 2.0, "schema": SCHEMA, "method": "independent", **options}
        table = settings.pop("table", self.table)
        settings.setdefault("notice", lambda text: None)
        try:
            return medsynth.fit(table, checkpoint=self.folder / checkpoint, model_name=f"{checkpoint}.m", **settings)
        except Killed:
            return None
        finally:
            self.left = None

    def copy(self, *names: str, of: str = "m") -> None:
        for name in names:
            if (self.folder / of).exists():
                shutil.copy(self.folder / of, self.folder / name)

    @property
    def on_file(self) -> Counter[Any]:
        found: Counter[Any] = Counter()
        for fit in Budget.of(self.table).spent().fits:
            for event, times in fit.events:
                found[event] += times
        return found

    @property
    def fits(self) -> list[str | None]:
        return [fit.model for fit in Budget.of(self.table).spent().fits]

    def check(self) -> None:
        """Every draw is on file: event by event, which is more than that the sums compare."""
        assert self.drawn <= self.on_file


@pytest.fixture
def world(tmp_path: Path, quick: None, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(tmp_path, monkeypatch)


def scenarios() -> Iterator[Callable[[World, int], None]]:
    """What may happen after a kill at the k-th measurement."""

    def copies(world: World, kill: int) -> None:
        world.copy("c", "d", "e")
        for name in ("c", "m", "d", "e"):
            world.fit(name, resume=True)
            world.check()

    def killed_again(world: World, kill: int) -> None:
        world.copy("c")
        world.fit(kill=kill + 1, resume=True)
        world.copy("d")
        for name, more in (("c", kill + 2), ("d", None), ("m", None), ("c", None), ("d", None)):
            world.fit(name, kill=more, resume=True)
            world.check()

    def after_a_model(world: World, kill: int) -> None:
        world.copy("c")
        world.fit(resume=True)
        world.copy("d")
        world.fit("d", resume=True)  # all of it is in the copy: the same model, and nothing is drawn
        assert [name for name in world.fits if name] == ["d.m"]
        world.fit("c", resume=True)
        world.fit("c", resume=True)

    def forced(world: World, kill: int) -> None:
        world.copy("c")
        world.fit()
        world.check()
        world.fit("c", resume=True)

    def without_the_file(world: World, kill: int) -> None:
        world.copy("c")
        Budget.of(world.table).path.unlink(missing_ok=True)
        world.drawn.clear()  # what was drawn was on the file that is gone
        world.fit(resume=True)
        world.fit("c", resume=True)

    def copied_on_the_way(world: World, kill: int) -> None:
        """The copy has the latest attempt, and lacks what the fit has used since; it is resumed first, or alone."""
        made: list[str] = []

        def copy() -> None:
            if not made:
                world.copy("c")
                made.append("c")

        world.hook = copy
        world.fit(kill=kill + 2, resume=True)
        world.hook = lambda: None
        for name in ("c", "m"):
            world.fit(name, resume=True)
            world.check()

    yield from (copies, killed_again, after_a_model, forced, without_the_file, copied_on_the_way)


@pytest.mark.nightly_for("between-1", *(f"{when}-{kill}" for when in ("before", "between") for kill in (0, 2, 3, 4)))
@pytest.mark.parametrize("kill", range(MEASUREMENTS + 1))
@pytest.mark.parametrize("when", ["before", "between"])
def test_the_sum_on_file_is_never_below_what_was_drawn(world: World, when: str, kill: int) -> None:
    for scenario in scenarios():
        for path in world.folder.iterdir():
            if path != world.table:
                path.unlink()
        world.drawn.clear()
        assert (world.fit(kill=kill, when=when) is None) == (kill < MEASUREMENTS)
        world.check()
        scenario(world, kill)
        world.check()
        assert not [path for path in world.folder.iterdir() if path.name.startswith(".")]


def test_a_copy_is_a_fit_of_its_own_and_says_what_it_costs(world: World) -> None:
    """The first to resume goes on with the charge; each other draws anew, under its own number, which it names."""
    world.fit(kill=1)
    world.copy("c")
    notices: list[str] = []
    first = world.fit("c", resume=True)
    second = world.fit(resume=True, notice=notices.append)
    numbers = [fit.number for fit in Budget.of(world.table).spent().fits]
    assert world.fits == ["c.m", "m.m"]
    (told,) = [text for text in notices if numbers[1] in text]
    assert "epsilon" in told and "delta 1e-05" in told and "another copy" in told
    assert any(numbers[1] in note for note in second.ledger.notes) and not any(
        numbers[0] in note for note in first.ledger.notes
    )


def test_a_crash_between_the_checkpoint_and_the_budget_file_costs_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.fit(kill=1)
    with monkeypatch.context() as patch:
        patch.setattr(Budget, "resume", lambda *args, **options: (_ for _ in ()).throw(Killed))
        world.fit(resume=True)
    world.copy("c")
    world.fit(resume=True)
    assert world.fits == ["m.m"]
    world.fit("c", resume=True)
    world.check()
    assert world.fits == ["m.m", "c.m"]


def test_a_fit_that_is_killed_at_its_first_measurement_is_charged_once(world: World) -> None:
    """On a large table that measurement takes long: the checkpoint has begun before it."""
    world.fit(kill=0, when="between")
    assert (world.folder / "m").exists() and world.fits == [None]
    notices: list[str] = []
    assert world.fit(resume=True, notice=notices.append) is not None
    assert world.fits == ["m.m"] and not any("reserved in full" in text for text in notices)


def test_a_fit_that_ends_before_it_measures_leaves_no_checkpoint(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.fit(kill=0)
    assert not (world.folder / "m").exists() and world.fits == []


def test_one_fit_at_a_time_uses_a_checkpoint_and_a_copy_of_it_counts_anew(world: World) -> None:
    """While a fit is between two measurements: the same checkpoint is refused, and a copy is another fit."""
    inside, go_on = threading.Event(), threading.Event()
    owner = threading.Thread(target=lambda: world.fit(resume=True))
    world.fit(kill=1)

    def wait() -> None:
        if threading.current_thread() is owner:
            inside.set()
            assert go_on.wait(60)

    world.hook = wait
    owner.start()
    assert inside.wait(60)
    try:
        for resume in (True, False):
            with pytest.raises(MedsynthError, match="still running uses the checkpoint"):
                world.fit(resume=resume)
        world.copy("c")
        world.fit("c", resume=True)
        assert world.fits == [None, "c.m"]
    finally:
        go_on.set()
        owner.join()
    assert world.fits == ["m.m", "c.m"]
    world.check()


def test_a_settled_fit_draws_nothing_more(world: World) -> None:
    """A checkpoint that holds all of it makes the same model again; were anything to be drawn, it would be refused."""
    model = world.fit()
    drawn = world.drawn.copy()
    again = world.fit(resume=True)
    assert world.drawn == drawn and world.fits == ["m.m"]
    assert all((again.tensors[name] == tensor).all() for name, tensor in model.tensors.items())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Checkpoint, "replay", lambda self, label: None)
        with pytest.raises(MedsynthError, match="measures nothing more"):
            world.fit(resume=True)
    assert world.drawn == drawn


@pytest.mark.nightly
def test_several_tables_are_charged_for_each_copy(tmp_path: Path, quick: None, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ward.tables.yaml").write_text(TABLES)
    rng = np.random.default_rng(0)
    pd.DataFrame({"id": range(90), "sex": rng.choice(["f", "m"], 90)}).to_csv(tmp_path / "people.csv", index=False)
    visits = pd.DataFrame({"id": rng.integers(0, 90, 200), "day": rng.integers(0, 99, 200)})
    visits.assign(sick=rng.choice(["no", "yes"], 200)).to_csv(tmp_path / "visits.csv", index=False)
    source, left = tmp_path / "ward.tables.yaml", [-1]
    true, drawn = Releases.release, Counter[Any]()

    def release(releases: Releases, label: str, sensitivity: float, draw: Any) -> Any:
        if left[0] == 0:
            raise Killed
        left[0] -= 1

        def counted(event: Any) -> Any:
            drawn[event] += 1
            return draw(event)

        return true(releases, label, sensitivity, counted)

    monkeypatch.setattr(Releases, "release", release)
    options: dict[str, Any] = {"epsilon": 5, "method": "independent", "notice": lambda text: None}
    for kill in range(1, 8, 2):
        left[0] = kill
        with pytest.raises(Killed):
            medsynth.fit(source, checkpoint=tmp_path / "m", **options)
        left[0] = -1
        shutil.copy(tmp_path / "m", tmp_path / "c")
        for name in ("m", "c"):
            medsynth.fit(source, checkpoint=tmp_path / name, resume=True, **options)
    on_file = Counter[Any]()
    spent = Budget.of(tmp_path / "ward").spent()
    for fit in spent.fits:
        for event, times in fit.events:
            on_file[event] += times
    assert drawn <= on_file and len(spent.fits) == 8
    with pytest.raises(UsageError, match="`table` differs"):
        text = (tmp_path / "visits.csv").read_text().splitlines()
        (tmp_path / "visits.csv").write_text("\n".join([text[0], *text[2:], text[1]]) + "\n")
        medsynth.fit(source, checkpoint=tmp_path / "m", resume=True, **options)


TABLES = """
name: ward
key: id
tables:
  people: {columns: {id: {kind: identifier}, sex: {kind: binary, levels: [f, m]}}}
  visits:
    order: day
    max_rows: 3
    target: sick
    columns:
      id: {kind: identifier}
      day: {kind: count, bounds: [0, 99]}
      sick: {kind: binary, levels: ["no", "yes"]}
"""


# What each option is changed to between kill and resume, where the first fit had another value.
CHANGES: dict[str, dict[str, Any]] = {
    "epsilon": {"epsilon": 2.5},
    "no_dp": {"epsilon": None, "no_dp": True},
    "delta": {"delta": 1e-6},
    "schema": {"schema": {**SCHEMA, "columns": {**SCHEMA["columns"], "a": {"kind": "count", "bounds": [0, 12]}}}},
    "target": {"target": "b"},
    "method": {"method": "mixture"},
    "preset": {"method": "gs-wgan", "preset": "public-order"},
    "microbatches": {"method": "dp-cgan", "microbatches": 4},
    "inference": {"method": "mixture", "inference": ("y ~ a",)},
    "settings": {"settings": {"one_way_share": 0.2}},
    "rows": {"rows": 90},
    "encoding": {"encoding": "latin-1"},
    "skip_lines": {"skip_lines": 0},
    "header_lines": {"header_lines": 1},
    "skip_rows": {"skip_rows": 1},
    "skip_last_rows": {"skip_last_rows": 1},
    "header_is_names": {"header_is_names": True},
    "na_values": {"schema": None, "na_values": ("9",)},
    "drop": {"drop": ("b",)},
    "one_row_a_patient": {"one_row_a_patient": True},
    "unit": {"schema": None, "unit": "a"},
    "max_rows": {"schema": None, "unit": "a", "max_rows": 3},
    "patients": {"schema": None, "unit": "a", "patients": 40},
    "public": {"method": "dp-gan", "public": "public.csv", "citation": "Smith 2020"},
    "citation": {"public": "public.csv", "citation": "Jones 2021"},
    "public_patients": {"public": "public.csv", "citation": "Smith 2020", "public_patients": "some"},
    "device": {"method": "dp-gan", "device": "cuda"},
    "seed": {"seed": 5},
    "budget_table": {"budget_table": "other.csv"},
    "split_number": {"split_number": "0123456789abcdef"},
}
NAMED = {"split_number": "holdout"}
# Options of a run on which no record of a checkpoint depends.
FREE = (
    "checkpoint",
    "resume",
    "model_name",
    "notice",
    "progress",
    "phase",
    "verbose",
    "anyway",
    "decimal_comma",
    "plan",
)


@pytest.mark.nightly
def test_an_option_that_differs_is_refused_before_anything_is_drawn(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every option has a verdict: a new one is a fact of the checkpoint, and without a line here it fails this test."""
    options = {field.name for field in dataclasses.fields(FitOptions)}
    assert options == {*CHANGES, *FREE} and not set(FREE) & set(CHANGES)
    monkeypatch.chdir(world.folder)
    monkeypatch.setattr(planning, "choose_device", lambda name: {"auto": "cpu"}.get(name, name))
    frame(seed=3).to_csv("public.csv", index=False)
    world.fit(kill=1, epsilon=100.0)
    checkpoint, drawn, lines = (world.folder / "m").read_bytes(), world.drawn.copy(), Budget.of(world.table).path
    before = lines.read_bytes()
    for name, change in CHANGES.items():
        with pytest.raises(UsageError, match="of another fit") as refused:
            world.fit(resume=True, **{"epsilon": 100.0, **change})
        assert f"`{NAMED.get(name, name)}`" in str(refused.value), name
        assert (world.folder / "m").read_bytes() == checkpoint and lines.read_bytes() == before
        assert world.drawn == drawn and not Budget.of(world.folder / "other.csv").path.exists()
    assert world.fit(resume=True, epsilon=100.0).ledger.complete and world.fits == ["m.m"]


def test_a_table_that_differs_is_refused_the_order_of_its_columns_and_rows_too(world: World) -> None:
    own = frame()
    changes = {
        "a cell": own.assign(b=["u" if k == 3 else word for k, word in enumerate(own["b"])]),
        "columns": own[["b", "a", "y"]],
        "rows": own.iloc[::-1],
        "a row more": pd.concat([own, own.head(1)]),
        "a name": own.rename(columns={"b": "c"}),
    }
    changes["a cell"].loc[3, "b"] = "v" if own.loc[3, "b"] != "v" else "w"
    for declared in (SCHEMA, None):
        options: dict[str, Any] = {"schema": declared, "epsilon": 100.0}
        own.to_csv(world.table, index=False)
        assert world.fit(kill=1, **options) is None
        for name, changed in changes.items():
            changed.to_csv(world.table, index=False)
            with pytest.raises(MedsynthError) as refused:
                world.fit(resume=True, **options)
            if declared is None or name != "a name":  # a declared schema has no such column
                assert "`table`" in str(refused.value), name
    notices: list[str] = []
    own.to_csv(world.table, index=False)
    for name in ("c", "d"):  # without a schema the target is an option, and the last column if none is named
        world.copy(name)
    with pytest.raises(UsageError, match=r"another fit: `target` differs\."):
        world.fit("c", resume=True, target="b", **options)
    assert world.fit("d", resume=True, target="y", notice=notices.append, **options).schema.target == "y"


def lost(kind: str) -> pd.DataFrame:
    """A table whose target is lost: texts, as the kinds of cells show, or words of which none is shared."""
    own = frame(200)
    words = [f"note on number {k} of {'many ' * 20}" if kind == "text" else f"w{k:04}" for k in range(200)]
    return own.assign(y=words)


@pytest.mark.parametrize("kind", ["text", "words"])
def test_a_target_that_is_lost_stops_the_fit_before_the_rest_is_measured(world: World, kind: str) -> None:
    """What is drawn until then is settled at its own cost if it is plain Gaussian. No resume raises the charge."""
    lost(kind).to_csv(world.table, index=False)
    options: dict[str, Any] = {"schema": None, "epsilon": 20.0, "target": "y"}
    drawn = [selection.KINDS] if kind == "text" else [selection.KINDS, selection.TARGET]
    costs = list[float | None]()
    for resume in (False, True, True):
        with pytest.raises(TargetError, match=r"one class.*set `target` to another column"):
            world.fit(resume=resume, **options)
        assert world.labels == drawn
        costs.append(Budget.of(world.table).spent().row().epsilon)
        world.check()
    assert len(set(costs)) == 1 and len(world.fits) == 1 and costs[0] is not None
    whole = 19 < costs[0] <= 20
    assert whole == (kind == "words")  # names of levels were selected: no sum is proven for a fit that stops by them
    if kind == "text":
        assert world.on_file == world.drawn
    with pytest.raises(UsageError, match="`target` differs"):
        world.fit(resume=True, **{**options, "target": "a"})
    assert world.fit(**{**options, "target": "a"}).ledger.complete and len(world.fits) == 2


@pytest.mark.parametrize("kind", ["text", "words"])
def test_a_resumed_fit_drops_the_same_target_at_no_further_cost(world: World, kind: str) -> None:
    """Wherever the fit is killed, the stored releases decide alike, and each measurement is drawn once."""
    lost(kind).to_csv(world.table, index=False)
    options: dict[str, Any] = {"schema": None, "epsilon": 20.0}
    whole = world.fit("whole", **options)
    planned = {label: times for label, (_, times) in whole.ledger.allowance.items()}
    assert whole.schema.target is None and Counter(world.labels) == planned
    for kill in (1, 2, len(world.labels) - 1):
        world.labels.clear()
        assert world.fit(f"m{kill}", kill=kill, **options) is None
        found = world.fit(f"m{kill}", resume=True, **options)
        assert found.schema.target is None and Counter(world.labels) == planned
        assert found.ledger.notes[-1] == whole.ledger.notes[-1] and found.epsilon == whole.epsilon
        world.check()
    assert len(world.fits) == 4


def test_a_declared_target_of_one_class_is_refused_before_anything_is_measured(world: World) -> None:
    schema = {**SCHEMA, "columns": {**SCHEMA["columns"], "y": {"kind": "categorical", "levels": [0]}}}
    with pytest.raises(MedsynthError):
        world.fit(schema=schema)
    assert not world.drawn and not Budget.of(world.table).path.exists()
