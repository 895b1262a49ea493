"""A model is spent budget: files that an earlier tree wrote still sample the same rows, and budgets are still read.

`fixtures/models` were fitted on simulated rows before the rooms were rebuilt, with few steps. `expected.json` has what
that tree said of each: its epsilon, and the SHA-256 of twenty rows or patients drawn with seed 1. Rules now keep
shares, and patients who were cut short are drawn again, so the rows of `visits` and `ward` are those of this tree.
`ends` has a rule about last rows, whose columns were drawn in another order. `fixtures/budgets` are of four trees:
without attempts, with attempts, with counts of records, and with a fit that failed.
"""

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from medsynth_cli.main import app
from typer.testing import CliRunner

import medsynth
from medsynth.budget import Budget

FIXTURES = Path(__file__).parent / "fixtures"
EXPECTED: dict[str, dict[str, Any]] = json.loads((FIXTURES / "models" / "expected.json").read_text())


@pytest.mark.parametrize("name", EXPECTED)
def test_a_model_of_an_earlier_tree_samples_the_same_rows(name: str) -> None:
    model = medsynth.load(FIXTURES / "models" / f"{name}.medsynth")
    assert model.epsilon == EXPECTED[name]["epsilon"]
    if model.tables is None:
        text = medsynth.sample(model, 20, seed=1).to_csv(index=False)
    else:
        text = "".join(frame.to_csv(index=False) for frame in medsynth.sample_tables(model, 20, seed=1).values())
    assert hashlib.sha256(text.encode()).hexdigest() == EXPECTED[name]["sample"]


@pytest.mark.nightly
@pytest.mark.parametrize("name", EXPECTED)
def test_its_claim_holds(name: str) -> None:
    model = medsynth.load(FIXTURES / "models" / f"{name}.medsynth")
    assert not model.claims or medsynth.verify(model)["claimed"] == model.epsilon


@pytest.mark.parametrize("name", ["mixture", "gs-wgan", "visits", "ward", "loss-noise"])
def test_the_commands_read_it(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(FIXTURES / "models" / f"{name}.medsynth", tmp_path)
    monkeypatch.chdir(tmp_path)
    run, simple = CliRunner(), name in ("mixture", "gs-wgan")  # others have many measurements, which take seconds
    for command in (["inspect", "--json"], ["sample", "-n", "5"], ["ledger", *["--verify"] * simple]):
        done = run.invoke(app, command)
        assert done.exit_code == 0, (command, done.stderr)


@pytest.mark.parametrize(
    ("name", "fits", "noiseless", "unfinished"),
    [("first", 1, 0, 0), ("attempts", 1, 0, 0), ("counted", 12, 1, 0), ("unfinished", 2, 0, 1)],
)
def test_a_budget_of_an_earlier_tree_counts(
    name: str, fits: int, noiseless: int, unfinished: int, tmp_path: Path
) -> None:
    shutil.copy(FIXTURES / "budgets" / f"{name}.medsynth-ledger", tmp_path / "t.medsynth-ledger")
    budget = Budget.of(tmp_path / "t.csv")
    spent = budget.spent()
    assert (len(spent.fits), spent.unprotected, spent.unfinished) == (fits, noiseless, unfinished)
    assert spent.row().epsilon is None if noiseless else (spent.row().epsilon or 0) > 1.9


def test_a_budget_that_cannot_be_read_stops_a_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text("a,y\n" + "0,1\n1,0\n" * 50)
    before = (FIXTURES / "budgets" / "first.medsynth-ledger").read_text().replace("Gaussian", "Unheard")
    Path("t.medsynth-ledger").write_text(before)
    done = CliRunner().invoke(app, ["fit", "t.csv", "--epsilon", "9", "--method", "independent"])
    assert done.exit_code == 1 and "t.medsynth-ledger" in done.stderr and not Path("t.medsynth").exists()
    assert Path("t.medsynth-ledger").read_text() == before
