"""The patient as the unit of privacy: at most so many rows each, noise for all of them, one coin for all of them."""

import functools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from medsynth_cli.main import app
from typer.testing import CliRunner

import medsynth
from medsynth.errors import ArtifactError, BudgetError, SchemaError
from medsynth.methods.registry import CLAIMING
from medsynth.privacy.accounting.calibration import Charge, Plan, make_plan
from medsynth.privacy.accounting.events import Gaussian
from medsynth.privacy.accounting.ledger import Ledger
from medsynth.privacy.contribution import PrivacyUnits, bound_contributions
from medsynth.privacy.networks import Mlp
from medsynth.privacy.release import Releases
from medsynth.privacy.vault import Vault
from medsynth.rng import NoNoise, SeededEntropy
from medsynth.sampling.patients import ROWS_PER_PATIENT
from medsynth.schema import Schema
from medsynth.schema.columns.grid import Grid

COLUMNS = {
    "patient": {"kind": "identifier", "shape": "P#####"},
    "age": {"kind": "count", "bounds": [0, 100]},
    "ward": {"kind": "categorical", "levels": ["a", "b", "c"]},
    "sick": {"kind": "binary", "levels": ["no", "yes"]},
}
SCHEMA = Schema.from_dict({"name": "visits", "target": "sick", "unit": "patient", "max_rows": 3, "columns": COLUMNS})
LEVELS = Grid(np.arange(4), False)


def visits(patients: int = 150) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    each = rng.integers(1, 6, patients)
    rows = int(each.sum())
    return pd.DataFrame({
        "patient": np.repeat([f"P{k}" for k in range(patients)], each),
        "age": rng.integers(18, 90, rows),
        "ward": rng.choice(["a", "b", "c"], rows),
        "sick": rng.choice(["no", "yes"], rows),
    }).sample(frac=1, random_state=0)  # fmt: skip


def test_no_patient_keeps_more_than_the_cap_and_choices_are_free_of_one_another() -> None:
    keys = visits()["patient"].reset_index(drop=True)
    stay, units = bound_contributions(keys, 3, SeededEntropy(1))
    assert keys[stay].value_counts().max() == 3 and units.max_rows == 3
    assert (np.bincount(units.of_row) == np.minimum(keys.value_counts(sort=False), 3)[keys.unique()]).all()
    assert keys[stay].nunique() == keys.nunique() == units.count
    # Patients are numbered by their first row, whichever rows a resumed fit's own draw keeps.
    for seed in range(2, 12):
        kept, numbered = bound_contributions(keys, 3, SeededEntropy(seed))
        assert (pd.factorize(keys)[0][kept] == numbered.of_row).all()
    # With another patient's rows in the same places, the rows that everybody else keeps are the same.
    other = keys.copy()
    own = np.flatnonzero(keys == "P7")
    other[own] = [f"new{k}" for k in range(len(own))]
    again, _ = bound_contributions(other, 3, SeededEntropy(1))
    assert set(stay) - set(own) == set(again) - set(own)


@pytest.mark.statistical
def test_every_row_of_a_patient_may_stay_equally_often() -> None:
    """The 3,000 seeds are fixed: it cannot fail by chance."""
    keys = pd.Series(["x"] * 5 + ["y"])
    kept = np.zeros(6)
    for seed in range(3000):
        kept[bound_contributions(keys, 2, SeededEntropy(seed))[0]] += 1
    assert kept[5] == 3000 and np.abs(kept[:5] / 3000 - 0.4).max() < 0.04  # 4.5 standard errors


@functools.cache
def planned(rows: int, max_rows: int, epsilon: float, rate: float) -> Plan:
    queries = [
        Charge(label="h", weight=1.0),
        Charge(label="s", weight=1.0),
        Charge(label="g", weight=1.0, rate=rate, times=3),
    ]
    return make_plan(queries, epsilon=epsilon, delta=1e-5, rows=rows, max_rows=max_rows)


def build(codes: Any, units: Any, epsilon: float = 3.0, entropy: Any = None, rate: float = 0.4) -> Any:
    plan = planned(len(codes), units.max_rows, epsilon, rate)
    entropy = entropy or NoNoise()
    ledger = plan.ledger(entropy.source)
    return Vault(codes, ("a", "b"), Releases(ledger, entropy), units), ledger, plan


def test_sensitivities_bound_what_a_patient_can_change() -> None:
    """Exact measurements with and without one patient whose rows are all alike: the largest change there is."""
    rng = np.random.default_rng(0)
    others = rng.integers(0, 3, (60, 2)).astype(np.int32)
    codes = np.concatenate([others, np.full((4, 2), 2, np.int32)])
    of = np.concatenate([np.arange(60), np.full(4, 60)])
    axes = {"a": [("a", LEVELS)], "b": [("b", LEVELS)], "ab": [("a", LEVELS), ("b", LEVELS)]}
    guess = {"a": np.zeros(3), "b": np.zeros(3), "ab": np.zeros((3, 3))}
    critic = Mlp([2, 1], bias=False)
    found = []
    for table, patients in ((codes, of), (others, of[:60])):
        full, ledger, _ = build(table, PrivacyUnits(patients, 4))
        distances = build(table, PrivacyUnits(patients, 4))[0].measure_distances("h", axes, guess)
        sums = build(table, PrivacyUnits(patients, 4), rate=1.0)[0].measure_gradient_sum(
            "g", critic, lambda out: -out[:, 0], lambda c: 5.0 * torch.from_numpy(c).float(), 0.5
        )
        found.append((full.measure_marginals("h", axes), distances, sums[0].numpy()))
    change = np.sqrt(sum(((found[0][0][k] - found[1][0][k]) ** 2).sum() for k in axes))
    assert change == pytest.approx(4 * np.sqrt(3)) and ledger.entries[0].sensitivity == pytest.approx(change)
    moved = np.sqrt(sum((found[0][1][k] - found[1][1][k]) ** 2 for k in axes))
    assert moved <= 4 * np.sqrt(3) + 1e-9
    pulled = np.linalg.norm(found[0][2] - found[1][2])
    assert 4 * 0.5 * 0.99 < pulled <= 4 * 0.5 + 1e-6


@pytest.mark.statistical
def test_noise_is_as_large_as_the_patient() -> None:
    """The noise of 3,000 empty cells by a Kolmogorov-Smirnov test. The seed is fixed: it cannot fail by chance."""
    from scipy import stats

    codes = np.zeros((40, 2), np.int32)
    vault, _, plan = build(codes, PrivacyUnits(np.arange(40) // 4, 4), entropy=SeededEntropy(0))
    noise = vault.measure_marginals("h", {"a": [("a", Grid(np.arange(3002), False))]})["a"][1:]
    assert stats.kstest(noise / plan.noise("h"), "norm").pvalue > 1e-4
    assert plan.noise("h") == pytest.approx(4 * make_plan(
        [Charge(label=label, weight=1.0) for label in "hs"] + [Charge(label="g", weight=1.0, rate=0.4, times=3)],
        epsilon=3.0, delta=1e-5, rows=40).noise("h"))  # fmt: skip


@pytest.mark.statistical
def test_patients_join_lots_whole() -> None:
    """The lot's entropy is the system's: the binomial's bounds have a false-alarm rate of 3e-5."""
    codes = np.column_stack([np.arange(400) // 4, np.zeros(400)]).astype(np.int32)
    vault, *_ = build(codes, PrivacyUnits(np.arange(400) // 4, 4))
    lots = []

    def features(rows: Any) -> Any:
        lots.append(np.bincount(rows[:, 0], minlength=100))
        return torch.ones(len(rows), 1)

    vault.measure_gradient_sum("g", Mlp([1, 1], bias=False), lambda out: -out[:, 0], features, 1.0)
    assert set(lots[0]) <= {0, 4} and 20 <= (lots[0] > 0).sum() <= 60


def test_sizes_are_counted_and_charged_once_a_patient() -> None:
    vault, ledger, _ = build(np.zeros((7, 2), np.int32), PrivacyUnits(np.array([0, 0, 0, 1, 2, 3, 3]), 3))
    assert vault.measure_rows_per_patient("s").tolist() == [2, 1, 1] and ledger.entries[0].sensitivity == 1.0


def test_a_vault_refuses_units_that_the_ledger_does_not_state() -> None:
    codes = np.zeros((6, 2), np.int32)
    with pytest.raises(BudgetError):
        build(codes, PrivacyUnits(np.zeros(6, np.int64), 3))  # six rows of a patient who may have three
    plan = make_plan([Charge(label="h", weight=1.0)], epsilon=1, delta=1e-5, rows=6)
    with pytest.raises(BudgetError):
        Vault(codes, ("a", "b"), Releases(plan.ledger("x"), NoNoise()), PrivacyUnits(np.arange(6), 1))


@pytest.mark.statistical
@pytest.mark.nightly_for("dp-gan", "dp-cgan")
@pytest.mark.parametrize("method", CLAIMING)
def test_a_fit_per_patient(method: str, quick: None, seeded_entropy: None, tmp_path: Path) -> None:
    """The seed is fixed: it cannot fail by chance."""
    model = medsynth.fit(visits(), epsilon=4, schema=SCHEMA, method=method, seed=0)
    assert model.ledger.complete and model.ledger.max_rows == 3
    assert model.epsilon is not None and model.epsilon <= 4
    again = medsynth.load(model.save(tmp_path / "m.medsynth"))
    assert again.ledger.relation == model.ledger.relation and "one patient" in model.ledger.relation
    # How many rows stay is added up from a noisy histogram: its standard deviation here is some thirty rows.
    assert abs(model.rows - visits()["patient"].value_counts().clip(upper=3).sum()) < 120
    labels = {e.label: e.sensitivity for e in again.ledger.entries}
    assert labels.pop("clipping quantiles", 1.5) == 1.5  # a row counts a half
    assert labels.pop("teachers' votes", 2.0) == 2.0  # sqrt of four votes a round: a patient's rows are in one shard
    assert labels.pop("rows per patient") == 1.0 and min(labels.values()) >= 3 * 0.999
    drawn = medsynth.sample(again, 2000, seed=0)
    sizes = drawn["patient"].value_counts()
    assert sizes.max() <= 3 and drawn["patient"].str.fullmatch(r"P\d{5}").all()
    shares = np.bincount(sizes, minlength=4)[1:] / len(sizes)
    assert np.abs(shares - model.tensors[ROWS_PER_PATIENT]).max() < 0.07


@pytest.mark.statistical
def test_a_patient_with_fifty_rows_counts_for_three(quick: None, seeded_entropy: None) -> None:
    """The seed is fixed: it cannot fail by chance."""
    frame = visits()
    flood = pd.DataFrame({"patient": "P7", "age": 99, "ward": "c", "sick": "yes"}, index=range(50))
    model = medsynth.fit(pd.concat([frame, flood]), no_dp=True, schema=SCHEMA, rows=300, method="independent", seed=0)
    drawn = medsynth.sample(model, 4000, seed=0)
    assert (drawn["age"] == 99).mean() < 0.03


def test_a_row_without_a_patient_is_refused() -> None:
    frame = visits()
    frame.iloc[4, 0] = None
    with pytest.raises(SchemaError, match="'patient', row 5"):
        medsynth.fit(frame, epsilon=3, schema=SCHEMA)


@pytest.mark.parametrize("change", [{"unit": "age"}, {"max_rows": None}, {"unit": None}, {"max_rows": 0}])
def test_what_cannot_be_declared(change: dict[str, Any]) -> None:
    with pytest.raises(SchemaError):
        Schema.from_dict({**SCHEMA.to_dict(), **change})


def test_a_forged_relation_is_refused() -> None:
    ledger = Ledger(
        delta=1e-5, accountant="prv", random_source="x", allowance={"h": (Gaussian(multiplier=1.0), 1)}, max_rows=3
    )
    content = ledger.to_json()
    assert Ledger.from_json(content).max_rows == 3
    for most in (None, 2, "3", -1):
        with pytest.raises(ArtifactError):
            Ledger.from_json({**content, "max_rows_per_patient": most})


@pytest.mark.usefixtures("few_trees")
@pytest.mark.statistical
def test_hold_out_by_patient_and_state_it_everywhere(
    quick: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part without one of 400 patients has a chance below 1e-80: the false-alarm rate."""
    monkeypatch.chdir(tmp_path)
    visits(400).to_csv("visits.csv", index=False)
    (tmp_path / "visits.schema.yaml").write_text(SCHEMA.to_yaml())
    run = CliRunner().invoke
    made = run(app, ["fit", "visits.csv", "--epsilon", "4", "--holdout", "0.4"])
    assert made.exit_code == 0 and "one patient with up to 3 rows" in made.stdout, made.stderr
    train, heldout = (set(pd.read_csv(f"visits.{part}.csv")["patient"]) for part in ("train", "heldout"))
    assert train and heldout and not train & heldout
    assert run(app, ["sample", "-n", "500"]).exit_code == 0
    assert run(app, ["ledger", "--verify"]).exit_code == 0
    assert "one patient" in json.loads(run(app, ["ledger", "--json"]).stdout)["relation"]
    assert run(app, ["plan", "visits.csv", "--epsilon", "4"]).exit_code == 0
    done = run(app, ["report"])
    assert done.exit_code == 0, done.stderr
    assert "one patient with up to 3 rows" in (tmp_path / "visits.report.html").read_text()


CONSTANT = """\
name: ward
target: sick
unit: who
max_rows: 4
constant: [born, sex]
columns:
  who: {kind: identifier, shape: "P-######"}
  born: {kind: date, bounds: [1920-01-01, 2009-12-31]}
  seen: {kind: date, bounds: [2010-01-01, 2020-12-31]}
  age: {kind: count, bounds: [0, 101]}
  sex: {kind: binary, levels: [F, M]}
  pregnant: {kind: binary, levels: [0, 1]}
  sick: {kind: binary, levels: ["no", "yes"]}
rules:
  - age = (seen - born) / 365.25
  - pregnant = 1 implies sex = F
"""


def ward(rows: int = 3000) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    who = np.sort(rng.integers(0, rows // 2, rows))
    woman = (rng.random(rows) < 0.5)[who]
    seen = pd.Timestamp("2010-01-01") + pd.to_timedelta(rng.integers(0, 3999, rows), "D")
    born = pd.Timestamp("1920-01-01") + pd.to_timedelta(rng.integers(0, 32000, rows)[who], "D")
    return pd.DataFrame({
        "who": [f"P-{k:06}" for k in who], "born": born.strftime("%Y-%m-%d"), "seen": seen.strftime("%Y-%m-%d"),
        "age": np.rint((seen - born).days / 365.25).astype(int), "sex": np.where(woman, "F", "M"),
        "pregnant": (woman & (rng.random(rows) < 0.4)).astype(int),
        "sick": np.where(rng.random(rows) < np.where(woman, 0.9, 0.1), "yes", "no"),
    })  # fmt: skip


@pytest.mark.statistical
@pytest.mark.nightly_for("dp-cgan")
@pytest.mark.parametrize("method", ["mixture", "dp-cgan"])
def test_constant_columns_stay_over_a_patients_rows(method: str, seeded_entropy: None) -> None:
    """And the rest is drawn given them: the target depends on sex in first and in later rows alike.

    The seed is fixed: it cannot fail by chance.
    """
    declared = Schema.from_yaml(CONSTANT)
    assert Schema.from_yaml(declared.to_yaml()) == declared and declared.core.constant == ()
    model = medsynth.fit(ward(), epsilon=100, schema=declared, rows=3000, method=method, seed=0)
    drawn = medsynth.sample(model, 4000, seed=0)
    sizes = drawn.groupby("who").size()
    assert sizes.max() == 4 and (sizes > 1).mean() > 0.4
    assert (drawn.groupby("who")[["born", "sex"]].nunique() == 1).all().all()
    assert not ((drawn["pregnant"] == 1) & (drawn["sex"] == "M")).any()
    born, seen = pd.to_datetime(drawn["born"]), pd.to_datetime(drawn["seen"])
    assert (np.abs((seen - born).dt.days / 365.25 - drawn["age"]) <= 0.51).all()
    later = drawn[drawn.duplicated("who")]
    assert later.groupby("who")["seen"].nunique().sum() > 0.9 * len(later)  # no copies
    if method == "mixture":
        for part in (drawn.drop_duplicates("who"), later):
            sick = (part["sick"] == "yes").groupby(part["sex"]).mean()
            assert sick["F"] > 0.8 and sick["M"] < 0.2


@pytest.mark.parametrize("constant", ["[age]", "[who]", "[nobody]"])
def test_what_cannot_be_constant(constant: str) -> None:
    with pytest.raises(SchemaError, match="constant"):
        Schema.from_yaml(CONSTANT.replace("[born, sex]", constant))
    with pytest.raises(SchemaError, match='needs the key "unit"'):
        Schema.from_yaml(CONSTANT.replace("unit: who\nmax_rows: 4\n", ""))
