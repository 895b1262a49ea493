"""Replicates: from the released measurements alone, repeated by a seed, at no cost; refused where they cannot be."""

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from medsynth_cli.main import app
from typer.testing import CliRunner

import medsynth
from medsynth.artifact import Model
from medsynth.errors import ArtifactError, UsageError
from medsynth.mixture.constants import DIGITS_WEIGHT
from medsynth.sampling import Draw, csv_chunks, provenance
from medsynth.sampling.replicates import RELEASED, released, replicates, why_not
from medsynth.schema import Schema

ROWS = 600
SCHEMA = Schema.from_dict({
    "name": "small",
    "target": "event",
    "columns": {
        "age": {"kind": "count", "bounds": [18, 100], "out_of_range": "clip"},
        "pulse": {"kind": "continuous", "bounds": [30, 200], "decimals": 0, "out_of_range": "clip"},
        "sex": {"kind": "binary", "levels": ["F", "M"]},
        "event": {"kind": "binary", "levels": ["no", "yes"]},
    },
})  # fmt: skip
FORMULAS = ("pulse ~ age + sex", "event ~ age")


def table(seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    age = rng.integers(20, 90, ROWS)
    pulse = np.round(60 + 0.4 * age + 8 * rng.standard_normal(ROWS))
    event = rng.random(ROWS) < age / 120
    return pd.DataFrame({"age": age, "pulse": pulse, "sex": rng.choice(["F", "M"], ROWS),
                         "event": np.where(event, "yes", "no")})  # fmt: skip


@pytest.fixture(scope="module")
def model() -> Model:
    return medsynth.fit(table(1), schema=SCHEMA, epsilon=5, delta=1e-5, rows=ROWS, inference=FORMULAS)


@pytest.fixture(scope="module")
def saved(model: Model, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return model.save(tmp_path_factory.mktemp("alone") / "small.medsynth")


def slopes(rows: pd.DataFrame) -> "pd.Series[float]":
    return pd.Series([float(np.polyfit(own.age, own.pulse, 1)[0]) for _, own in rows.groupby("replicate")])


@pytest.mark.nightly
def test_they_run_where_the_table_never_was_and_leave_the_ledger(saved: Path) -> None:
    """In a process of its own, in a folder that holds the model alone; the model's file stays as it was."""
    code = (
        "import medsynth; m = medsynth.load('small.medsynth'); before = m.ledger.to_json()\n"
        "rows = medsynth.sample(m, 50, seed=1, replicates=2)\n"
        "assert len(rows) == 100 and list(rows.columns)[0] == 'replicate'\n"
        "assert m.ledger.to_json() == before and all(r.ledger is m.ledger for r in m.replicates(2, 1))\n"
    )
    content = saved.read_bytes()
    subprocess.run([sys.executable, "-c", code], cwd=saved.parent, check=True)
    assert saved.read_bytes() == content and [path.name for path in saved.parent.iterdir()] == [saved.name]


@pytest.mark.nightly
def test_a_plain_sample_imports_no_torch(saved: Path) -> None:
    code = (
        "import sys, medsynth; medsynth.sample(medsynth.load('small.medsynth'), 50); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], cwd=saved.parent, check=True)


@pytest.mark.nightly
def test_a_seed_repeats_them_and_they_differ_from_one_another(model: Model) -> None:
    one, again = ("".join(csv_chunks(model, Draw(rows=40, seed=3, replicates=2))) for _ in range(2))
    assert one == again and one != "".join(csv_chunks(model, Draw(rows=40, seed=4, replicates=2)))
    first, second = replicates(model, 2, 3)
    assert any((first.tensors[name] != second.tensors[name]).any() for name in first.tensors)
    assert not any(name.startswith(RELEASED) for name in first.tensors)


@pytest.mark.nightly
def test_declared_slopes_come_back_with_an_honest_spread(model: Model) -> None:
    """The slope is 0.4 by the simulation; replicates lie about it, by more than the real rows' standard error of 0.016.

    Their mean is within five of their own standard deviations and a tenth of the slope: a chance below 1e-6 otherwise.
    """
    found = slopes(medsynth.sample(model, 3000, seed=5, replicates=8))
    assert 0.008 < found.std() < 0.2
    assert abs(found.mean() - 0.4) < 5 * found.std() + 0.04


def test_measurements_are_on_file_with_their_noise(model: Model) -> None:
    """As many releases as the ledger holds, each with standard deviations multiplier times sensitivity over weights."""
    found = released(model)
    charged = [label for entry in model.ledger.entries for label in [entry.label] * entry.count]
    assert [one["measurement"] for one in found] == charged
    by_label = {entry.label: entry for entry in model.ledger.entries}
    for one in found:
        entry = by_label[one["measurement"]]
        least, most = one["noise_std"]  # of tables: the sensitivity over a weight, which is DIGITS_WEIGHT or more
        assert 0.7 * entry.event.multiplier <= least <= most  # centred tables: a row moves their cells by less than one
        assert most <= entry.event.multiplier * entry.sensitivity / DIGITS_WEIGHT * (1 + 1e-6)
    size = sum(tensor.nbytes for name, tensor in model.tensors.items() if name.startswith(RELEASED))
    assert size < 100_000


@pytest.mark.nightly
def test_the_provenance_of_replicates_is_proven_and_one_table_is_marked(
    model: Model, saved: Path, tmp_path: Path
) -> None:
    several, one = tmp_path / "several.csv", tmp_path / "one.csv"
    provenance.write_sample(model, saved, several, Draw(rows=40, seed=7, replicates=2))
    provenance.write_sample(model, saved, one, Draw(rows=40, seed=7))
    assert provenance.drawn_by(model, several) and provenance.drawn_by(model, one)
    notes = [json.loads(provenance.beside(path).read_text()) for path in (several, one)]
    assert notes[0]["replicates"] == 2 and "combine" in notes[0]["note"] and "cost no privacy" in notes[0]["note"]
    assert notes[1]["replicates"] is None and "too small" in notes[1]["note"]
    several.write_text(several.read_text().replace("yes", "no", 1))
    assert not provenance.drawn_by(model, several)


@pytest.mark.nightly
@pytest.mark.nightly_for("parquet")
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_each_may_have_a_file_of_its_own(model: Model, saved: Path, tmp_path: Path, suffix: str) -> None:
    """The same rows as in one long table, without the column; each file is proven by itself."""
    read = pd.read_csv if suffix == "csv" else pd.read_parquet
    named, draw = tmp_path / f"rows-{{replicate}}.{suffix}", Draw(rows=40, seed=7, replicates=3)
    places = provenance.tables_of(named, draw)
    assert [path.name for path in places] == [f"rows-{k}.{suffix}" for k in (1, 2, 3)]
    provenance.write_sample(model, saved, named, draw)
    provenance.write_sample(model, saved, tmp_path / f"long.{suffix}", draw)
    long = read(tmp_path / f"long.{suffix}")
    for k, path in enumerate(places, 1):
        own = long[long.replicate == k].drop(columns="replicate").reset_index(drop=True)
        pd.testing.assert_frame_equal(read(path), own)
        assert json.loads(provenance.beside(path).read_text())["replicate"] == k
    assert provenance.drawn_by(model, places[1])
    provenance.beside(places[1]).write_text(provenance.beside(places[0]).read_text())
    assert not provenance.drawn_by(model, places[1])


@pytest.mark.nightly
def test_the_command_writes_a_file_for_each(saved: Path, tmp_path: Path) -> None:
    named = tmp_path / "rows-{replicate}.csv"
    words = ["sample", "--model", str(saved), "-n", "30", "-o", str(named), "--seed", "1"]
    refused = CliRunner().invoke(app, words)
    assert refused.exit_code == 2 and "--replicates" in refused.output
    (tmp_path / "rows-2.csv").write_text("mine")
    kept = CliRunner().invoke(app, [*words, "--replicates", "2"])
    assert kept.exit_code == 1 and [path.name for path in tmp_path.iterdir()] == ["rows-2.csv"]
    done = CliRunner().invoke(app, [*words, "--replicates", "2", "--force", "--json"])
    assert done.exit_code == 0
    assert json.loads(done.stdout)["outputs"] == [str(tmp_path / f"rows-{k}.csv") for k in (1, 2)]
    assert len(pd.read_csv(tmp_path / "rows-2.csv")) == 30


@pytest.mark.nightly
def test_the_command_draws_them(saved: Path, tmp_path: Path) -> None:
    output = tmp_path / "rows.csv"
    words = [
        "sample",
        "--model",
        str(saved),
        "-n",
        "30",
        "--replicates",
        "2",
        "-o",
        str(output),
        "--seed",
        "1",
        "--json",
    ]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0 and json.loads(done.stdout)["replicates"] == 2
    assert pd.read_csv(output)["replicate"].tolist() == [1] * 30 + [2] * 30
    refused = CliRunner().invoke(app, ["sample", "--model", str(saved), "--replicates", "1"])
    assert refused.exit_code == 2 and "two or more" in refused.output
    shown = CliRunner().invoke(app, ["inspect", str(saved)])
    assert "released measurements" in shown.stdout


def test_what_cannot_be_replicated_says_why_and_what_to_do(model: Model) -> None:
    old = dataclasses.replace(model, tensors={n: t for n, t in model.tensors.items() if not n.startswith(RELEASED)})
    assert "earlier version" in (why_not(old) or "") and why_not(model) is None
    before = {name: value for name, value in old.config.items() if not name.startswith("inference")}
    assert len(medsynth.sample(dataclasses.replace(old, config=before), 10)) == 10  # a file of before it still serves
    earlier = dataclasses.replace(model, method="warm-dp-cgan", config={"histogram_share": 0.15, "pairs": None})
    assert len(medsynth.sample(earlier, 10)) == 10 and "An earlier version fitted" in (why_not(earlier) or "")
    other = dataclasses.replace(model, method="dp-merf")
    assert "mixture" in (why_not(other) or "")
    assert "without noise" in (why_not(dataclasses.replace(model, epsilon=None)) or "")
    with pytest.raises(UsageError, match="earlier version"):
        medsynth.sample(old, 10, replicates=2)
    with pytest.raises(UsageError, match="two or more"):
        list(replicates(model, 1))
    patients = dataclasses.replace(model.ledger, max_rows=3)
    assert "patient" in (why_not(dataclasses.replace(model, ledger=patients)) or "")


def test_measurements_of_another_model_are_refused(model: Model) -> None:
    """A refit whose structure is not that of the measurements would be of nothing."""
    changed = {n: t[::-1] if n == "prior" else t for n, t in model.tensors.items()}
    with pytest.raises(ArtifactError, match="would make other measurements"):
        list(replicates(dataclasses.replace(model, tensors=changed), 2))
    key = next(n for n in model.tensors if n.endswith(".noisy"))
    public = model.tensors["released.public"]
    for words in (public[1:], np.concatenate([public[:1] - 1, public[1:]])):  # of versions before
        with pytest.raises(ArtifactError, match="would make other measurements"):
            list(replicates(dataclasses.replace(model, tensors=model.tensors | {"released.public": words}), 2))
    short = model.tensors | {key: model.tensors[key][:-1]}
    with pytest.raises(ArtifactError, match="would make other measurements"):
        list(replicates(dataclasses.replace(model, tensors=short), 2))


def test_a_file_whose_measurements_and_settings_differ_is_one_error(model: Model) -> None:
    undeclared = dataclasses.replace(model, config=model.config | {"inference": []})
    with pytest.raises(ArtifactError):
        list(replicates(undeclared, 2))


def test_a_column_called_replicate_is_refused() -> None:
    columns = {"replicate": {"kind": "binary", "levels": ["0", "1"]}, "y": {"kind": "binary", "levels": ["0", "1"]}}
    schema = Schema.from_dict({"name": "t", "target": "y", "columns": columns})
    rows = pd.DataFrame({"replicate": ["0", "1"] * 100, "y": ["0", "1", "1", "0"] * 50})
    found = medsynth.fit(rows, schema=schema, epsilon=3, delta=1e-5, rows=200)
    with pytest.raises(UsageError, match="Rename it"):
        medsynth.sample(found, 5, replicates=2)
