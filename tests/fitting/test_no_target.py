"""A target that nobody named and that has no classes: the fit goes on without one, in the same plan."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from medsynth_cli.main import app
from open_tables import queries as bare_queries
from open_tables import raw_vault
from typer.testing import CliRunner

import medsynth
from medsynth.artifact import load
from medsynth.budget import Budget
from medsynth.errors import DROPPED_TARGET, Message, TargetError
from medsynth.io.table import from_frame
from medsynth.privacy import partition_selection as selection
from medsynth.privacy.accounting.calibration import make_plan
from medsynth.privacy.accounting.events import Event
from medsynth.privacy.release import Release, Releases
from medsynth.rng import SeededEntropy
from medsynth.schema.learned import Learned

pytestmark = pytest.mark.usefixtures("quick")
N = 600


def useless(kind: str) -> pd.DataFrame:
    """A table whose last column cannot be the target."""
    rng = np.random.default_rng(0)
    last = {
        "constant": ["yes"] * N, "status": [2] * N, "empty": [""] * N, "rare": ["yes"] * (N - 2) + ["no"] * 2,
        "key": [f"K{k:05}" for k in range(N)], "number of a key": rng.permutation(N) + 10**7,
        "postcode": [f"{k:05}" for k in rng.integers(100, 99999, N)],
        "text": [f"a sentence of several words about the patient who has the number {k}" for k in range(N)],
        "large": [str(10**16 + k) for k in range(N)],
    }[kind]  # fmt: skip
    frame = pd.DataFrame({"age": rng.integers(18, 90, N), "sex": rng.choice(["m", "f"], N), "last": last})
    return frame.assign(patient=np.arange(N) // 2)[["patient", "age", "sex", "last"]]


KINDS = ("constant", "status", "empty", "rare", "key", "number of a key", "postcode", "text", "large")


@pytest.mark.matrix
@pytest.mark.parametrize("unit", [None, "patient"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_fit_goes_on_without_a_target_in_the_same_plan(kind: str, unit: str | None, tmp_path: Path) -> None:
    useless(kind).to_csv(tmp_path / "t.csv", index=False)
    told = list[str]()
    options: dict[str, Any] = {"epsilon": 20.0, "method": "independent", "unit": unit, "notice": told.append}
    model = medsynth.fit(tmp_path / "t.csv", **options)
    assert model.schema.target is None and "last" in model.schema.columns
    ledger, planned = model.ledger, {label: times for label, (_, times) in model.ledger.allowance.items()}
    assert {label: ledger.times_measured(label) for label in planned} == planned and selection.TARGET in planned
    spent = Budget.of(tmp_path / "t.csv").spent()
    assert [sorted(map(str, fit.events)) for fit in spent.fits] == [sorted(map(str, ledger.composition()))]
    (note,) = [text for text in told if Message.of(text).about.kind == DROPPED_TARGET]
    assert "'last'" in note and note == ledger.notes[-1]
    assert medsynth.sample(model, 20, seed=0).shape == (20, len(model.schema.columns))


@pytest.mark.nightly
@pytest.mark.parametrize("options", [{"target": "last"}, {"method": "dp-cgan"}], ids=["named", "needed"])
def test_a_target_that_a_person_named_or_the_method_needs_stops_the_fit(options: dict[str, Any]) -> None:
    with pytest.raises(TargetError, match=r"'last' has one class.*set `target` to another column"):
        medsynth.fit(useless("constant"), notice=lambda text: None, **{"epsilon": 20.0, "method": "mixture", **options})


def test_large_numbers_are_a_target_if_a_person_says_so() -> None:
    options: dict[str, Any] = {"epsilon": 20.0, "method": "independent", "notice": lambda text: None}
    model = medsynth.fit(useless("number of a key"), target="last", **options)
    assert model.schema.target == "last" and model.schema.columns["last"].kind == "count"


def learned(frame: pd.DataFrame, release: Callable[..., Release] | None = None) -> tuple[Learned, dict[str, Release]]:
    """What a fit learns of a table, and its releases. `release`: answers in place of the rows."""
    plan = make_plan(bare_queries(), epsilon=20.0, delta=1e-5, rows=len(frame))
    kept = dict[str, Release]()

    class Kept(Releases):
        def release(self, label: str, sensitivity: float, draw: Callable[[Event], Release]) -> Release:
            found = super().release(label, sensitivity, draw)
            kept[label] = release(label) if release else found
            return kept[label]

    entropy = SeededEntropy(0)
    raw = raw_vault(from_frame(frame), len(frame), Kept(plan.ledger(entropy.source), entropy), frame.columns[-1])
    return raw.measure_schema(required=False), kept


@pytest.mark.parametrize("kind", ["constant", "number of a key", "text"])
def test_only_releases_decide(kind: str) -> None:
    """Other rows behind the same releases give the same schema, with or without a target."""
    frame = useless(kind).drop(columns="patient")
    usual = frame.assign(last=frame["sex"])
    for rows, others, target in ((frame, usual, None), (usual, frame, "last")):
        found, released = learned(rows)
        again, _ = learned(others, released.__getitem__)
        assert found.schema.target == target and again == found


@pytest.mark.usefixtures("seeded_entropy")
def test_a_key_that_a_declared_regression_names_is_a_number() -> None:
    options: dict[str, Any] = {"epsilon": 20.0, "method": "independent", "notice": lambda text: None}
    frame = useless("number of a key").drop(columns="patient")
    model = medsynth.fit(frame, inference=["age ~ last + sex"], **options)
    assert model.schema.columns["last"].kind == "count"
    with pytest.raises(TargetError, match="all columns are keys"):
        medsynth.fit(frame[["last"]].assign(more_id=frame["last"]), target="none", **options)


def test_output_and_ledger_say_so_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    useless("constant").to_csv("t.csv", index=False)
    words = ["fit", "t.csv", "--epsilon", "20", "--method", "independent", "--holdout", "0.3", "--force"]
    run = CliRunner().invoke
    done, facts = run(app, words), json.loads(run(app, [*words, "--json"]).stdout)
    assert done.exit_code == 0 and done.stdout.startswith("NO TARGET: 'last', the last column,")
    assert facts["target"] is None and "'last'" in facts["no_target"]
    assert "Note: NO TARGET: 'last'" in run(app, ["ledger"]).stdout
    assert facts["no_target"] in load(Path("t.medsynth")).ledger.notes


@pytest.mark.nightly
@pytest.mark.usefixtures("few_trees")
def test_a_report_says_so_first(tmp_path: Path) -> None:
    frame = useless("constant")
    model = medsynth.fit(frame[:400], epsilon=20.0, method="independent", notice=lambda text: None)
    page = model.report(frame[400:])
    assert page.notes[1] == model.ledger.about(DROPPED_TARGET)[0]
