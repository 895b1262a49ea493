"""A fit that is killed can be resumed: its releases are used again, none is drawn twice."""

import random
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from medsynth_cli.main import app
from typer.testing import CliRunner

import medsynth
from medsynth.errors import UsageError
from medsynth.methods.registry import CLAIMING
from medsynth.privacy import noise, partition_selection, shards
from medsynth.privacy.checkpoint import Checkpoint
from medsynth.privacy.queries import query
from medsynth.schema import Schema
from tests.benchmarks import kills


class Killed(BaseException):
    """Stands for the end of the process."""


@pytest.mark.matrix
@pytest.mark.nightly_for(
    "schema-dp-cgan", "schema-dp-gan", *(f"learned-{name}" for name in CLAIMING if name != "independent")
)
@pytest.mark.parametrize("method", CLAIMING)
@pytest.mark.parametrize("declared", [True, False], ids=["schema", "learned"])
@pytest.mark.filterwarnings("ignore::medsynth.errors.MedsynthWarning")  # few rows, on purpose
def test_a_resumed_fit_draws_no_release_twice_and_ends_in_the_same_model(
    method: Any,
    declared: bool,
    quick: None,
    tmp_path: Path,
    cohort: pd.DataFrame,
    clinic: Schema,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Killed after every second release until it is done. All that was drawn is what one whole fit draws."""
    path = tmp_path / "c"
    drawn: list[str] = []
    options: dict[str, Any] = {
        "epsilon": 40,
        "schema": clinic if declared else None,
        "method": method,
        "rows": 300,
        "checkpoint": path,
    }
    store = Checkpoint.store

    def storing(self: Any, label: Any, arrays: Any, names: Any) -> None:
        store(self, label, arrays, names)
        drawn.append(label)
        if len(drawn) % 2 == 0 and len(drawn) < 13:
            raise Killed

    monkeypatch.setattr(Checkpoint, "store", storing)
    for attempt in range(40):
        try:
            model = medsynth.fit(cohort, resume=attempt > 0, **options)
            break
        except Killed:
            continue
    assert attempt > 0 and model.ledger.complete and model.epsilon is not None and model.epsilon <= 40
    charged = [entry.label for entry in model.ledger.entries for _ in range(entry.count)]
    assert [label for label in drawn if not label.startswith("secret")] == charged
    # The same releases again, from the file alone, make the same model: nothing else random went into it.
    monkeypatch.setattr(Checkpoint, "store", store)
    for module in (query, shards, partition_selection):
        monkeypatch.setattr(module, "noised", lambda *args: pytest.fail("a release was drawn twice"))
    same = medsynth.fit(cohort, resume=True, **options)
    assert vars(query)["noised"] is not noise.noised
    assert all((same.tensors[name] == tensor).all() for name, tensor in model.tensors.items())


@pytest.mark.statistical
@pytest.mark.parametrize("in_order", [True, False], ids=["public order", "sampled in secret"])
def test_a_resumed_fit_leaves_every_row_in_its_shard(
    in_order: bool, quick: None, tmp_path: Path, cohort: pd.DataFrame, clinic: Schema, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a public order a row is charged for one shard's releases: placed anew, it would be in two of them.

    False-alarm rate 4^-300.
    """
    preset = "public-order" if in_order else None
    places: list[Any] = []
    stored: list[str] = []
    store, kills = Checkpoint.store, [2, 5]

    class Watched(shards.Shards):
        def __init__(self, rows: Any, place: Any, *more: Any) -> None:
            places.append(place)
            super().__init__(rows, place, *more)

    def storing(self: Any, label: Any, arrays: Any, names: Any) -> None:
        store(self, label, arrays, names)
        stored.append(label)
        if kills and stored.count("upstream gradients") == kills[0]:
            kills.pop(0)
            raise Killed

    monkeypatch.setattr(Checkpoint, "store", storing)
    monkeypatch.setattr(shards, "Shards", Watched)
    options: dict[str, Any] = {"epsilon": 40, "schema": clinic, "method": "gs-wgan", "preset": preset, "rows": 300}
    for _ in range(2):
        with pytest.raises(Killed):
            medsynth.fit(cohort, resume=True, checkpoint=tmp_path / "c", **options)
    model = medsynth.fit(cohort, resume=True, checkpoint=tmp_path / "c", **options)
    assert model.ledger.complete and len(places) == 3
    assert (places[0] == places[1]).all() and (places[0] == places[2]).all()
    medsynth.fit(cohort, **options)
    assert (places[0] != places[3]).any()  # the same draw twice has a chance of 4^-300


def test_releases_without_noise_are_never_taken_for_private_ones(
    quick: None, tmp_path: Path, cohort: pd.DataFrame, clinic: Schema
) -> None:
    """A fit with --no-dp follows the plan of some epsilon: its file must not serve a fit that makes a claim."""
    from medsynth.fitting.settings import NO_DP_BUDGET

    options: dict[str, Any] = {"schema": clinic, "rows": 300, "checkpoint": tmp_path / "c", "method": "independent"}
    medsynth.fit(cohort, no_dp=True, **options)
    with pytest.raises(UsageError, match="another fit"):
        medsynth.fit(cohort, epsilon=NO_DP_BUDGET, anyway=True, resume=True, **options)


def test_changed_tables_and_settings_are_not_resumed(quick: None, patients: Path, cohort: pd.DataFrame) -> None:
    run = CliRunner().invoke
    patients.with_suffix(".medsynth-checkpoint").write_bytes(b"")
    fit = ["fit", "patients.csv", "--method", "independent"]
    medsynth.fit(
        "patients.csv", epsilon=4, method="independent", checkpoint=patients.with_suffix(".medsynth-checkpoint")
    )
    for words in (["--epsilon", "3"], ["--epsilon", "4", "--method", "mixture"], ["--epsilon", "4", "--seed", "1"]):
        done = run(app, [*fit, *words, "--resume"])
        assert done.exit_code == 2 and "another fit" in done.stderr
    cohort.iloc[:299].to_csv("patients.csv", index=False)
    done = run(app, [*fit, "--epsilon", "4", "--rows", "300", "--resume"])
    assert done.exit_code == 2 and "another fit" in done.stderr
    assert run(app, [*fit, "--epsilon", "4", "--force"]).exit_code == 0  # it begins anew
    assert not patients.with_suffix(".medsynth-checkpoint").exists()


@pytest.mark.nightly
def test_killed_at_random_moments_and_resumed(tmp_path: Path) -> None:
    """kill -9, at random states of one fit's checkpoint; then it ends in a valid model, within its plan.

    At no kill is less on the budget file than was released. Four columns and few features make one fit quick; the
    kills come from the same code as the benchmark's, which makes fifty.
    """
    job = kills.small(tmp_path)
    assert kills.chain(job, kills.prepared(job), random.Random(4), 3)
