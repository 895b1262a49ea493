"""One report for many tests: simulated patients, a model fitted to half of them, its synthetic rows."""

import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import small_clinic
from medsynth_cli.main import app
from quick_methods import offer_quick
from threadpoolctl import threadpool_limits
from typer.testing import CliRunner

import medsynth
from medsynth.report.build import build
from medsynth.schema import Schema


@pytest.fixture(scope="session", autouse=True)
def fewer_draws(with_few_trees: Any) -> Iterator[Any]:
    """Sixty resamples and few trees serve nearly every test; one thread, since threads wait on a busy machine."""
    with threadpool_limits(1), pytest.MonkeyPatch.context() as patch:
        with_few_trees(patch)
        yield


@pytest.fixture(scope="session")
def halves() -> tuple[pd.DataFrame, pd.DataFrame]:
    """(training rows, held-out rows) of one simulated clinic."""
    everyone = small_clinic.cohort(1600, 11)
    return everyone.iloc[:1000].reset_index(drop=True), everyone.iloc[1000:].reset_index(drop=True)


@pytest.fixture(scope="session")
def model(halves: Any, once: Callable[..., Path]) -> Any:
    declared = Schema.from_yaml(
        small_clinic.schema().to_yaml().replace("bounds: [18, 110]", "bounds: [18, 110], cut_points: [40, 65]")
    )

    def make(folder: Path) -> None:
        medsynth.fit(halves[0], epsilon=3.7, schema=declared, rows=1000).save(folder / "clinic.medsynth")

    return medsynth.load(once("model_of_half_a_clinic", make) / "clinic.medsynth")


@pytest.fixture(scope="session")
def synthetic(model: Any) -> pd.DataFrame:
    return medsynth.sample(model, 1500, seed=1)


@pytest.fixture(scope="session")
def report(model: Any, halves: Any, synthetic: Any, once: Callable[..., Path]) -> Any:
    def make(folder: Path) -> None:
        train, real = halves
        found = build(synthetic=synthetic, real=real, train=train, drawn_by_model=True, model=model, title="clinic")
        (folder / "report").write_bytes(pickle.dumps(found))

    return pickle.loads((once("report_of_half_a_clinic", make) / "report").read_bytes())  # noqa: S301 - our own


@pytest.fixture(scope="session")
def clinic_with_heldout(once: Callable[..., Path]) -> Path:
    """The folder of clinic.csv, its schema, held-out rows, model and synthetic rows, by the commands. Read-only."""

    def make(folder: Path) -> None:
        small_clinic.cohort(500, 3).to_csv(folder / "clinic.csv", index=False)
        (folder / "clinic.schema.yaml").write_text(small_clinic.schema().to_yaml())
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            offer_quick(patch)
            for words in ("fit clinic.csv --epsilon 3.7 --holdout 0.4 -q", "sample -n 400"):
                outcome = CliRunner().invoke(app, words.split())
                assert outcome.exit_code == 0, outcome.stderr

    return once("clinic_with_heldout", make)
