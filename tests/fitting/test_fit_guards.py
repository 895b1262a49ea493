"""What a fit reads and what it leaves: training rows alone, the public file's rows as public, nothing secret."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import small_clinic
from medsynth_cli.main import app
from typer.testing import CliRunner

import medsynth
from medsynth.errors import MedsynthError, UsageError
from medsynth.fitting import pipeline
from medsynth.io.reader import read
from medsynth.io.table import Table
from medsynth.methods import dp_gan
from medsynth.methods.marginals import ONE_WAY
from medsynth.mixture.method import Independent
from medsynth.schema import Schema
from medsynth.schema.codec import encode

pytestmark = pytest.mark.usefixtures("quick")


class Stopped(MedsynthError):
    """Ends a fit where the test has seen enough."""


def test_a_table_with_one_changed_cell_is_not_resumed(cohort: pd.DataFrame, clinic: Schema, tmp_path: Path) -> None:
    """In whatever row and column: its releases are of another table."""
    options: dict[str, Any] = {"epsilon": 4, "schema": clinic, "rows": 300, "method": "independent"}
    medsynth.fit(cohort, checkpoint=tmp_path / "c", **options)
    other = cohort.copy()
    other.loc[299, "age_years"] = 18 if cohort.loc[299, "age_years"] != 18 else 19
    with pytest.raises(UsageError, match="another fit"):
        medsynth.fit(other, checkpoint=tmp_path / "c", resume=True, **options)
    assert medsynth.fit(cohort, checkpoint=tmp_path / "c", resume=True, **options).ledger.complete


def test_nothing_secret_is_left_beside_a_model(patients: Path) -> None:
    before = {path.name for path in patients.parent.iterdir()}
    done = CliRunner().invoke(app, ["fit", "patients.csv", "--epsilon", "3", "--method", "independent"])
    assert done.exit_code == 0, done.stderr
    left = {path.name for path in patients.parent.iterdir()} - before
    assert left == {"patients.medsynth", "patients.medsynth-ledger", "patients.medsynth-ledger.lock"}


def test_held_out_rows_are_not_trained_on(patients: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows that reach the fit are those of the training file, and none of the held-out ones."""
    numbered = pd.read_csv("patients.csv").assign(age_years=lambda frame: range(len(frame)))
    numbered.to_csv("patients.csv", index=False)  # each row has a number of its own
    seen: list[set[str]] = []

    def watched(table: Table | Path, **options: Any) -> Any:
        found = table if isinstance(table, Table) else read(table)
        seen.append(set(found.cells["age_years"]))
        for part in ("train", "heldout"):  # where both wait for the model
            seen.append(set(read(f"patients.medsynth-checkpoint.{part}.csv").cells["age_years"]))
        raise Stopped("seen")

    monkeypatch.setattr(pipeline, "fit", watched)
    done = CliRunner().invoke(app, ["fit", "patients.csv", "--epsilon", "3", "--holdout", "0.4"])
    assert done.exit_code == 1 and "seen" in done.stderr
    used, train, heldout = seen
    assert heldout and not used & heldout and used == train and len(train | heldout) == 300


def test_public_rows_are_those_of_the_public_file(
    patients: Path, clinic: Schema, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are learned from without noise: not one may come from the private table."""
    given: list[Any] = []

    def watched(*arguments: Any, public: Any = None) -> Any:
        given.append(public)
        raise Stopped("seen")

    small_clinic.cohort(40, 99).to_csv("open.csv", index=False)
    monkeypatch.setattr(dp_gan.DpGan, "fit", watched)
    with pytest.raises(Stopped):
        medsynth.fit(patients, epsilon=3, method="dp-gan", public="open.csv", citation="Smith 2020", rows=300)
    assert np.array_equal(given[0], encode(read("open.csv"), clinic.core))


def test_the_private_table_is_not_taken_for_public_rows(patients: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By whatever path, with the API and with the command, and before anything is measured."""
    again = Path("linked.csv")
    again.hardlink_to(patients)
    with pytest.raises(UsageError, match="the private table itself"):
        medsynth.fit(patients, epsilon=3, method="dp-gan", public=str(again), citation="Smith 2020", rows=300)
    for verb in (["fit"], ["fit", "--method", "dp-gan"], ["plan"]):
        words = [*verb, str(patients), "--epsilon", "3", "--public", str(again), "--citation", "Smith 2020"]
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 2 and "the private table itself" in done.stderr
    assert not list(Path().glob("*.medsynth*"))


def test_a_ledger_that_is_not_the_plan_is_never_sealed(
    cohort: pd.DataFrame, clinic: Schema, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A method that measures less than it planned is a bug: its model is not made."""
    from medsynth.methods.bins import decoder_axes, grids

    def careless(self: Any, config: Any, schema: Any, vault: Any, *rest: Any) -> Any:
        vault.measure_marginals(ONE_WAY, decoder_axes(schema, grids(schema, 20)))
        return {"prior": np.ones(3, np.float32)}

    monkeypatch.setattr(Independent, "fit", careless)
    with pytest.raises(MedsynthError, match="differs from the plan"):
        medsynth.fit(cohort, epsilon=3, schema=clinic, rows=300, method="independent")
