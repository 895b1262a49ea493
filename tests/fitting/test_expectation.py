"""What the plan expects of a fit, the stop before anything is spent, and what a model says of its own noise."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from medsynth_cli.main import app
from typer.testing import CliRunner

import medsynth
from medsynth.artifact import QUALITY, quality
from medsynth.errors import BudgetError
from medsynth.fitting import expectation
from medsynth.fitting.planning import plan, plan_fit
from medsynth.fitting.private_table import open_table, smallest_level
from medsynth.fitting.settings import FitSettings, silent
from medsynth.privacy import partition_selection
from medsynth.rng import numpy_stream
from medsynth.schema import Schema

FEW, ENOUGH = 60, 1600
DECLARED = {
    "name": "t", "target": "target",
    "columns": {
        "column 0": {"kind": "categorical", "levels": [0, 1, 2]}, "column 1": {"kind": "count", "bounds": [0, 120]},
        "target": {"kind": "binary", "levels": ["no", "yes"]},
    },
}  # fmt: skip


def typical(rows: int, columns: int = 8, seed: int = 11) -> pd.DataFrame:
    return expectation.typical_table(rows, columns, 0, numpy_stream(seed, "test"))


def expected(rows: int, columns: int, epsilon: float, **settings: object) -> expectation.Expectation:
    """What is expected of a table of which nothing but the header and the number of rows is used."""
    frame = pd.DataFrame({f"c{k}": ["a", "b"] * 10 for k in range(columns)})
    chosen = FitSettings(epsilon=epsilon, rows=rows, delta=1e-5, **settings)  # type: ignore[arg-type]
    found = open_table(frame, chosen, silent).expected(plan_fit(frame, chosen)[0])
    assert found is not None
    return found


@pytest.mark.nightly_for("12-3.7", "12-1.0", "40-3.7")
@pytest.mark.parametrize(("columns", "epsilon"), [(4, 3.7), (12, 3.7), (12, 1.0), (40, 3.7)])
def test_more_rows_are_expected_to_give_more(columns: int, epsilon: float) -> None:
    found = [expected(rows, columns, epsilon) for rows in (200, 1600, 100_000)]
    ways, levels = [one.one_way for one in found], [one.level or 0.0 for one in found]
    assert all(b > a - 1e-3 for a, b in pairwise(ways)) and levels == sorted(levels, reverse=True)
    assert ways[-1] > 0.95 and levels[-1] < 0.01


@pytest.mark.nightly
@pytest.mark.parametrize("rows", [300, 3000])
def test_more_budget_and_fewer_columns_are_expected_to_give_more(rows: int) -> None:
    by_epsilon = [expected(rows, 12, epsilon).one_way for epsilon in (0.5, 1.5, 4.5, 13.5)]
    by_columns = [expected(rows, columns, 3.7).one_way for columns in (80, 20, 5)]
    assert by_epsilon == sorted(by_epsilon) and by_columns == sorted(by_columns)


def test_more_rows_a_patient_are_expected_to_give_less() -> None:
    frame = typical(400, 4).assign(person=np.arange(400) // 4)
    settings = FitSettings(epsilon=3.7, unit="person", max_rows=1)
    found = [
        open_table(frame, one, silent).expected(plan_fit(frame, one)[0]) for one in
        (settings, replace(settings, max_rows=4))
    ]  # fmt: skip
    assert found[0] and found[1] and found[0].one_way > found[1].one_way + 0.1


def test_an_expectation_reads_the_header_and_the_public_number_alone() -> None:
    """Other cells, another number of private rows: the same expectation, because `rows` declares the number."""
    one, other = typical(50, 4, seed=1), typical(90, 4, seed=2).assign(target="never")
    settings = FitSettings(epsilon=3.7, rows=700)
    found = [open_table(t, settings, silent).expected(plan_fit(t, settings)[0]) for t in (one, other)]
    assert found[0] == found[1]


def test_the_share_of_lost_levels_follows_from_the_plan() -> None:
    frame = typical(500, 4)
    made, notes, _ = plan_fit(frame, FitSettings(epsilon=3.7))
    found = open_table(frame, FitSettings(epsilon=3.7), silent).expected(made)
    assert found and found.level == smallest_level(made, partition_selection.LEVELS, 4) / 500
    assert any(note.startswith(f"Expected: one-way similarity {found.one_way:.2f}") for note in notes)
    assert f"levels below {found.level:.0%} of the rows lost" in "\n".join(notes)


@pytest.mark.parametrize("anyway", [False, True])
@pytest.mark.usefixtures("quick")
def test_a_hopeless_fit_stops_before_anything_is_spent(tmp_path: Path, anyway: bool) -> None:
    typical(FEW, 4).to_csv(tmp_path / "t.csv", index=False)
    assert "a fit stops" in "\n".join(plan(tmp_path / "t.csv", epsilon=1.0).notes)
    words = ["fit", str(tmp_path / "t.csv"), "--epsilon", "1", "--method", "independent", "-o", str(tmp_path / "m")]
    told = CliRunner().invoke(app, [*words, *["--anyway"] * anyway])
    if anyway:  # a target may be lost in such a fit, which the budget counts
        assert told.exit_code in (0, 4) and [path.name for path in tmp_path.glob("*ledger*")]
    else:
        assert told.exit_code == BudgetError.exit_code and "set --anyway" in told.stderr
        assert "60 rows are too few for 4 columns" in told.stderr and "schema draft" in told.stderr
        assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


@pytest.mark.usefixtures("quick")
def test_a_stop_leaves_the_budget_file_unchanged(tmp_path: Path) -> None:
    typical(ENOUGH, 4).to_csv(tmp_path / "t.csv", index=False)
    medsynth.fit(tmp_path / "t.csv", epsilon=3.7, method="independent", notice=silent)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(BudgetError, match="set `anyway`"):
        medsynth.fit(tmp_path / "t.csv", epsilon=0.05, method="independent", notice=silent)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize(("rows", "stops"), [(20, True), (150, False), (1000, False)])
def test_a_declared_schema_stops_only_if_it_expects_as_little(rows: int, stops: bool) -> None:
    frame = pd.DataFrame({"column 0": [0, 1] * 10, "column 1": range(20), "target": ["no", "yes"] * 10})
    settings = FitSettings(epsilon=1.0, rows=rows, schema=Schema.from_dict(DECLARED))
    notes = plan_fit(frame, settings)[1]
    assert any("a fit stops" in note for note in notes) is stops
    assert not any("levels below" in note for note in notes)


@pytest.mark.nightly
@pytest.mark.parametrize("method", ["gs-wgan", "dp-gan"])
def test_other_methods_lose_what_a_learned_schema_loses(method: str) -> None:
    exact, own = expected(300, 12, 3.7, method=method).one_way, expected(300, 12, 3.7).one_way
    assert own - 0.1 < exact < 1 and expected(20, 12, 3.7, method=method).one_way < expectation.LIMIT


@pytest.mark.statistical
def test_expectations_agree_with_fits_of_typical_tables() -> None:
    """Eight fits: the mean similarity is within .05 of what the plan expects and of what the models say."""
    measured, said, foreseen = list[float](), list[float](), list[float]()
    for number, rows in enumerate((300, 300, 300, 300, 900, 900, 900, 900)):
        frame = expectation.typical_table(rows, 8, number, numpy_stream(number, "oracle"))
        settings = FitSettings(epsilon=3.7, method="independent")
        found = open_table(frame, settings, silent).expected(plan_fit(frame, settings)[0])
        model = medsynth.fit(frame, epsilon=3.7, method="independent", anyway=True, notice=silent)
        drawn = model.sample(5000).astype(object)
        texts = {name: drawn[name].where(drawn[name].notna(), "").astype(str) for name in frame}
        ways = [expectation.of_texts(frame[name].to_numpy(object), texts[name].to_numpy(object)) for name in frame]
        measured.append(float(np.mean(ways)))
        said.append(float(np.mean(list(model.quality.values()))))
        assert found is not None
        foreseen.append(found.one_way)
    assert abs(np.mean(measured) - np.mean(foreseen)) < 0.05, (measured, foreseen)
    assert abs(np.mean(measured) - np.mean(said)) < 0.05, (measured, said)


@pytest.mark.usefixtures("quick")
def test_a_model_says_what_its_noise_leaves(tmp_path: Path, some_sections: Callable[..., None]) -> None:
    frame = typical(ENOUGH, 4)
    little, much = (medsynth.fit(frame, epsilon=e, method="independent", notice=silent) for e in (1.0, 20.0))
    assert set(much.quality) == set(frame) and np.mean([*much.quality.values()]) > np.mean([*little.quality.values()])
    assert all(0 <= one <= 1 for one in little.quality.values())
    path = much.save(tmp_path / "m.medsynth")
    assert (sentence := quality(much)) and "a column is about" in sentence
    assert sentence in CliRunner().invoke(app, ["inspect", str(path)]).stdout
    assert json.loads(CliRunner().invoke(app, ["inspect", str(path), "--json"]).stdout)["quality"] == much.quality
    some_sections()  # notes are above all of them
    assert any(note == sentence for note in much.report(frame).notes)


@pytest.mark.usefixtures("quick")
def test_a_model_of_an_earlier_version_says_nothing(tmp_path: Path) -> None:
    model = medsynth.fit(typical(ENOUGH, 4), epsilon=3.7, method="independent", notice=silent)
    older = replace(model, tensors={name: t for name, t in model.tensors.items() if name != QUALITY})
    path = older.save(tmp_path / "m.medsynth")
    told = CliRunner().invoke(app, ["inspect", str(path)])
    assert older.quality == {} and quality(older) is None and told.exit_code == 0 and "similarity" not in told.stdout


@pytest.mark.usefixtures("quick")
def test_a_level_that_was_lost_lowers_what_a_model_says() -> None:
    """A column of a thousand words, of few rows each: none passes, and the model says that nothing of it is left."""
    frame = typical(ENOUGH, 3).assign(place=[f"place {k % 1000}" for k in range(ENOUGH)])
    model = medsynth.fit(frame, epsilon=3.7, target="target", method="independent", notice=silent)
    assert model.quality["place"] == 0.0 and model.quality["target"] > 0.9
