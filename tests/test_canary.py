"""A table in which every cell is a canary: none stands in any message, log, traceback, progress line or file."""

import logging
import re
import sys
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from medsynth_cli.main import app
from scipy import stats
from typer.testing import CliRunner

import medsynth
from medsynth import rng
from medsynth.errors import MedsynthError
from medsynth.mixture.method import LatentMixture
from medsynth.privacy.accounting.events import Thresholded
from medsynth.schema import Schema

SCHEMA = """\
name: cage
target: y
unit: who
max_rows: 2
columns:
  who: {kind: identifier, shape: "P-####"}
  note: {kind: categorical, levels: [none, some], unknown: some}
  icd: {kind: categorical, hierarchy: icd10, unknown: other}
  seen: {kind: date, bounds: [2019-01-01, 2021-12-31]}
  dose: {kind: continuous, bounds: [0, 9], decimals: 2, missing: [-9, ""]}
  visits: {kind: count, bounds: [0, 20]}
  y: {kind: binary, levels: [left, right], unknown: left}
"""
# Numbers of ten digits: no other number of an output, of at most 1e5 digits, has them with a chance above 1e-5. A year
# counts where it stands alone or begins a date, and not among the digits of a fraction.
CANARY = re.compile(r"CANARY|7431862951|Q74|(?<![\d.])1874(?![\d.])|31\.0[78]\.")


def cage(seed: int, rows: int = 90) -> pd.DataFrame:
    """Rows of canaries: words, numbers beyond bounds, codes and dates of nobody else.

    So few rows have a code of Q74 that its noisy counts pass the thresholds of two levels with a chance below 1e-6.
    """
    drawn = np.random.default_rng(seed)
    return pd.DataFrame({
        "who": [f"CANARY{k // 2}" for k in range(rows)],
        "note": [f"CANARY{k}" for k in drawn.integers(0, 999, rows)],
        "icd": drawn.choice(["Q74.1", "CANARY", "Q743"], rows, p=[0.05, 0.9, 0.05]),
        "seen": drawn.choice(["1874-07-31", "1874-08-31"], rows),
        "dose": [f"7431862951.{k:02}" for k in drawn.integers(0, 99, rows)],
        "visits": 743_186_295_100 + drawn.integers(0, 99, rows),
        "y": drawn.choice(["CANARY", "right"], rows),
    })  # fmt: skip


def clean(text: str) -> None:
    found = CANARY.search(text)
    assert found is None, text[max(0, found.start() - 80) : found.end() + 20]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cage.schema.yaml").write_text(SCHEMA)
    return tmp_path


@pytest.mark.statistical
@pytest.mark.nightly_for("dp-cgan-1")
@pytest.mark.parametrize(("method", "seed"), [("mixture", 0), ("dp-cgan", 1)])
def test_no_output_of_a_fit_contains_one(
    quick: None,
    seeded_entropy: None,
    folder: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    seed: int,
) -> None:
    """Seeds are fixed, and a canary is no time or duration: it cannot fail by chance."""
    # A shareable report needs a claim.
    monkeypatch.setattr(rng.SeededEntropy, "source", rng.SystemEntropy.source)
    caplog.set_level(logging.DEBUG)
    cage(seed).to_csv("cage.csv", index=False)
    run = CliRunner().invoke
    for words in (["fit", "cage.csv", "--epsilon", "3", "--rows", "90", "--method", method, "--seed", "0", "--anyway"],
                  ["sample", "-n", "200", "--seed", "0"],
                  ["ledger"], ["inspect"], ["ledger", "--table", "cage.csv"], ["report", "--shareable"],
                  ["schema", "check", "cage.csv"], ["plan", "cage.csv", "--epsilon", "1"]):  # fmt: skip
        result = run(app, words)
        assert result.exit_code == (4 if words[0] == "schema" else 0), result.stderr  # nearly no note is a level
        clean(result.stdout + result.stderr)
    clean(caplog.text)
    made = {path.name for path in folder.iterdir()} - {"cage.csv", "cage.schema.yaml"}
    assert made == {
        "cage.medsynth",
        "cage.medsynth-ledger",
        "cage.medsynth-ledger.lock",
        "cage.synthetic.csv",
        "cage.synthetic.csv.provenance.json",
        "cage.report.html",
        "cage.report.json",
    }
    for name in made:
        text = (folder / name).read_bytes().decode("latin-1")
        clean(re.sub(r"[0-9a-f]{24,}", "", text) if name != "cage.medsynth" else _words(text))


def _words(text: str) -> str:
    """A model file's head without digests and numbers; in the bytes of its tensors anything may stand."""
    head = text[8 : 8 + int.from_bytes(text[:8].encode("latin-1"), "little")]
    return re.sub(r"-?\d+\.\d+(e-?\d+)?|[0-9a-f]{64}", "", head)


@pytest.mark.statistical
def test_progress_and_notices_contain_none(quick: None, seeded_entropy: None, folder: Path) -> None:
    """The seed is fixed: it cannot fail by chance."""
    texts: list[str] = []
    medsynth.fit(cage(0), epsilon=3, schema=Schema.from_yaml(SCHEMA), rows=90, seed=0, anyway=True, notice=texts.append,
                 progress=lambda *facts: texts.append(str(facts)))  # fmt: skip
    assert len(texts) > 10
    clean(re.sub(r"\d+\.\d{6,}", "", "\n".join(texts)))


SPOILS = {"who": "", "note": None, "icd": None, "seen": "CANARY", "dose": "CANARY", "visits": "7431862951x", "y": None}


@pytest.mark.parametrize("column", [name for name, spoilt in SPOILS.items() if spoilt is not None])
@pytest.mark.parametrize("row", [0, 37, 89])
def test_a_refusal_names_the_place_alone(folder: Path, column: str, row: int) -> None:
    frame = cage(row).astype(str)
    frame.loc[row, column] = SPOILS[column]
    frame.to_csv("cage.csv", index=False)
    for words in (["fit", "cage.csv", "--epsilon", "3"], ["schema", "check", "cage.csv", "--json"]):
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 4 and f"row {row + 1}" in result.stderr
        clean(result.stdout + result.stderr)
    with pytest.raises(MedsynthError) as error:
        medsynth.fit("cage.csv", epsilon=3, anyway=True, notice=list[str]().append)
    clean("".join(traceback.format_exception(error.value)))


def test_a_bug_shows_no_cell_in_its_traceback(quick: None, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither python's own traceback nor the command's shows the variables' contents."""
    cage(0).to_csv("cage.csv", index=False)

    def broken(*args: Any) -> None:
        raise RuntimeError("something of ours is wrong")

    monkeypatch.setattr(LatentMixture, "fit", broken)
    with pytest.raises(RuntimeError) as error:
        medsynth.fit("cage.csv", epsilon=3, anyway=True, notice=list[str]().append)
    clean("".join(traceback.format_exception(error.value)))
    assert not app.pretty_exceptions_show_locals
    result = CliRunner().invoke(app, ["fit", "cage.csv", "--epsilon", "3", "--anyway"])
    assert result.exit_code == 1 and "RuntimeError" in result.stderr
    clean(result.stdout + result.stderr)
    text: list[str] = []
    monkeypatch.setattr(sys.stderr, "write", text.append)
    sys.excepthook(error.type, error.value, error.tb)
    monkeypatch.undo()
    clean("".join(text))


WORDS_OF = {"tag": 3, "icd": 1, "visits": 1}  # how many rows hold a word, by column


@pytest.mark.statistical
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.filterwarnings("ignore::medsynth.errors.MedsynthWarning")  # few rows, on purpose
def test_a_learned_schema_holds_no_word_of_few(quick: None, folder: Path, seed: int) -> None:
    """A word of m rows is released with chance Phi((m - threshold) / std): false-alarm rate, for all words, below 1e-4.

    The threshold and its noise stand in the ledger, and the rate is computed from them. The target's two levels, of 60
    rows each, are missed with a chance below 1e-7.
    """
    drawn, rows = np.random.default_rng(seed), 120
    words = {name: drawn.permutation(90) // few for name, few in WORDS_OF.items()}
    frame = pd.DataFrame({
        "tag": [f"CANARY{k}" for k in words["tag"]] + [""] * 30,
        "icd": [f"Q74.{k}" for k in words["icd"]] + [""] * 30,
        "dose": [f"7431862951.{k:02}" for k in drawn.integers(0, 99, rows)],
        "visits": [str(743_186_295_100 + k) for k in words["visits"]] + [""] * 30,
        "y": ["left", "right"] * 60,
    })  # fmt: skip
    model = medsynth.fit(frame, epsilon=3, rows=rows, method="independent", anyway=True)
    clean(re.sub(r"\d+\.\d+", "", model.schema.to_yaml()))
    (entry,) = [entry for entry in model.ledger.entries if entry.label == "schema: levels"]
    assert isinstance(entry.event, Thresholded)
    std, columns = entry.event.multiplier * entry.sensitivity, len(WORDS_OF)
    threshold = 1 + std * stats.norm.isf(entry.event.delta / columns)
    rate = sum(90 / few * stats.norm.sf((threshold - few) / std) for few in WORDS_OF.values())
    assert rate < 1e-4
