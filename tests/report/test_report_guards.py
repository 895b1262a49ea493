"""Figures of the report against tables whose figures are known: signs, sides, and who has seen which rows."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import small_clinic
from medsynth_cli.main import app
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from typer.testing import CliRunner

import medsynth
from medsynth.errors import UsageError
from medsynth.report.build import build
from medsynth.report.data.protocol import LABELS, TaskPredictions
from medsynth.report.data.question import Question
from medsynth.report.data.statistics import auroc, compared, simultaneous
from medsynth.report.data.tables import Tables
from medsynth.report.data.verdict import Estimate, Thresholds
from medsynth.report.sections import attacks as attack_section
from medsynth.report.sections import utility
from medsynth.report.sections.attacks import (
    ATTACKS,
    AttributeAttack,
    Membership,
    MembershipAttack,
    attacks,
    attribute,
    memberships,
)
from medsynth.report.sections.fidelity import fidelity, quality
from medsynth.report.sections.plausibility import plausibility
from medsynth.report.sections.utility import subgroups
from medsynth.schema import Schema

NUMBERS = ("one", "two", "three")
MEMBERSHIP = [attack for attack in ATTACKS.values() if isinstance(attack, MembershipAttack)]


def cohort(rows: int, seed: int, **columns: Any) -> pd.DataFrame:
    """Independent normal numbers and a class by coins; other columns as given."""
    rng = np.random.default_rng(seed)
    made = {name: rng.normal(size=rows) for name in NUMBERS}
    return pd.DataFrame({**made, "y": rng.choice(["no", "yes"], rows), **columns})


def tables(real: pd.DataFrame, synthetic: pd.DataFrame, train: pd.DataFrame | None = None, target: str = "y") -> Tables:
    return Tables(real, synthetic, train, target, frozenset(NUMBERS))


@pytest.mark.statistical
def test_a_loss_is_real_less_synthetic() -> None:
    """Value and interval, of each side its own. The seed is fixed: it cannot fail by chance."""
    draws = np.random.default_rng(0).normal([0.9, 0.7], [0.005, 0.03], (4000, 2))
    found = compared(np.array([0.9, 0.7]), draws)
    assert found["loss"].value == pytest.approx(0.2)
    ends = {"real": (0.89, 0.91), "synthetic": (0.641, 0.759), "loss": (0.14, 0.26)}
    for name, (low, high) in ends.items():
        assert found[name].low == pytest.approx(low, abs=0.004) and found[name].high == pytest.approx(high, abs=0.004)


@pytest.mark.statistical
def test_an_attribute_attack_does_not_see_its_column() -> None:
    """A class by coins cannot be guessed: half are right, of members and of controls. The seed is fixed."""
    members, controls, synthetic = (cohort(400, seed) for seed in range(3))
    known = tables(controls, synthetic, members)
    attack = ATTACKS["nearest row's value"]
    assert isinstance(attack, AttributeAttack)
    found = attribute(attack, known, (members, controls, synthetic), "y", np.random.default_rng(0))
    assert 0.4 < found.members < 0.6 and 0.4 < found.controls < 0.6


def test_copies_are_of_members() -> None:
    train, real = cohort(60, 0), cohort(70, 1)
    found = attacks(tables(real, pd.concat([train.head(25), cohort(50, 2)], ignore_index=True), train), [],
                    np.random.default_rng(0))  # fmt: skip
    assert found is not None
    assert (found.copies, found.copies_of_controls, found.unique_members, found.unique_controls) == (25, 0, 60, 70)


def membership_by(made: list[MembershipAttack], rows: int, seed: int) -> Any:
    """The worst attack's name and the figures of these attacks, on as many members as controls."""
    candidates, nothing = np.arange(2.0 * rows)[:, None], np.zeros((1, 1))
    scored = [(attack, attack.score(candidates, nothing, nothing)) for attack in made]
    return memberships(scored, np.arange(2 * rows) < rows, np.random.default_rng(seed))


def test_the_worst_attack_is_reported() -> None:
    rng = np.random.default_rng(0)
    blind = MembershipAttack(name="blind", how="by coins", score=lambda rows, *_: rng.random(len(rows)))
    sees = MembershipAttack(name="sees", how="members come first", score=lambda rows, *_: -rows[:, 0])
    worst, found = membership_by([blind, sees], 60, 0)
    assert worst == "sees" and found[1].auroc.value == 1.0 and found[1].advantage.value == 1.0


def test_of_equal_scores_an_attack_finds_as_many_controls() -> None:
    """Members stand first in the table, and must not come first among equal scores: patients with one row are alike."""
    same = MembershipAttack(name="same", how="40 % alike", score=lambda rows, *_: (rows[:, 0] % 5 < 2) * 1.0)
    some = MembershipAttack(name="some", how="a tenth of members", score=lambda rows, *_: (rows[:, 0] < 20) * 1.0)
    _, found = membership_by([same, some], 200, 0)
    assert found[0].at_one_percent.value == pytest.approx(0.01)
    assert found[1].at_one_percent.value == pytest.approx(0.1 + 0.9 * 0.01)  # all others are alike


@pytest.mark.statistical
def test_the_worst_attacks_interval_allows_for_looking_at_all() -> None:
    """Of fifteen attacks by coins the worst seems to find something in hardly any of 40 tables. The seed is fixed.

    2.5 % of them would show an advantage above zero; intervals one by one show it in a third.
    """
    coins = np.random.default_rng(1)
    made = [
        MembershipAttack(name=str(k), how="by coins", score=lambda rows, *_: coins.random(len(rows))) for k in range(15)
    ]
    leaks, single = 0, 0
    for seed in range(40):
        worst, found = membership_by(made, 100, seed)
        quoted = next(m for m in found if m.name == worst)
        assert quoted.advantage.value == max(m.advantage.value for m in found)
        leaks, single = leaks + (quoted.advantage.low > 0), single + (quoted.auroc.low > 0.5)
    assert leaks <= 4 and single >= 6


def test_intervals_allow_for_every_page_that_is_read() -> None:
    """Normal draws: one family of five attacks reaches the 95 % quantile of their largest, five pages the 99 % one."""
    draws = np.random.default_rng(0).normal(size=(200_000, 5))
    for looks, reach in ((1, 2.569), (5, 3.089)):
        found = simultaneous(np.zeros(5), draws, looks)
        assert all(one.high == pytest.approx(reach, abs=0.04) for one in found)


def verdict_of(advantage: Estimate, fair: bool = True) -> Any:
    """The verdict on an attack with this advantage."""
    nothing = Estimate(value=None)
    line = Membership(
        name="a", how="b", auroc=nothing, advantage=advantage, at_one_percent=nothing, at_one_per_mille=nothing
    )
    found = attack_section.Attacks(
        members=50, controls=40, blind=Estimate(value=0.5), fair=fair, worst="a", membership=[line], attributes=[],
        copies=0, copies_of_controls=0, unique_members=0, unique_controls=0,
    )  # fmt: skip
    return attack_section._verdicts(found, Thresholds())[0]


def test_an_attack_around_its_limit_decides_nothing() -> None:
    """An interval that holds the limit is neither a leak nor its absence."""
    for value, low, high in ((0.05, -0.1, 0.2), (0.05, 0.01, 0.11), (0.12, 0.05, 0.19)):
        wide = verdict_of(Estimate(value=value, low=low, high=high))
        assert wide.outcome == "cannot tell" and wide.met is None
    assert verdict_of(Estimate(value=0.01, low=-0.03, high=0.05)).outcome == "within"
    assert verdict_of(Estimate(value=0.15, low=0.1, high=0.2)).outcome == "beyond"
    assert verdict_of(Estimate(value=0.3, low=0.2, high=0.4), fair=False).outcome == "not judged"
    assert attack_section._verdicts(None, Thresholds())[0].outcome == "not measured"


@pytest.mark.statistical
@pytest.mark.usefixtures("all_trees")
@pytest.mark.parametrize("attack", MEMBERSHIP, ids=lambda attack: attack.name)
def test_each_attack_finds_copies(attack: MembershipAttack) -> None:
    """Members of whom each has a synthetic copy. The seed is fixed: it cannot fail by chance."""
    rng = np.random.default_rng(0)
    members, controls, reference = rng.random((3, 150, 3))
    copies = np.repeat(members, 3, axis=0) + rng.normal(0, 0.003, (450, 3))
    score = attack.score(np.concatenate([members, controls]), reference, copies)
    assert auroc(np.arange(300) < 150, score)[0] > 0.65


def trees(labels: Any) -> dict[str, Any]:
    """Classifiers that remember all that they have seen."""
    return {name: DecisionTreeClassifier() for name in LABELS}


@pytest.mark.statistical
def test_what_synthetic_rows_teach_is_what_they_say() -> None:
    """Synthetic rows with the classes exchanged: who learns from them alone is always wrong. The seed is fixed."""
    real, synthetic = cohort(300, 0), cohort(300, 1)
    real["y"], synthetic["y"] = np.where(real["one"] > 0, "yes", "no"), np.where(synthetic["one"] > 0, "no", "yes")
    found = TaskPredictions(tables(real, synthetic), trees).synthetic["lr"].probabilities[:, 1]
    assert auroc((real["y"] == "yes").to_numpy(), found)[0] < 0.1


@pytest.mark.statistical
def test_the_baseline_has_not_seen_the_test_rows() -> None:
    """A class by coins is not learned, with a training table or by folds. The seed is fixed."""
    real, train = cohort(300, 0), cohort(300, 1)
    for given in (None, train):
        found = TaskPredictions(tables(real, train, given), trees).real["rf"].probabilities[:, 1]
        assert 0.35 < auroc((real["y"] == "yes").to_numpy(), found)[0] < 0.65


@pytest.mark.statistical
def test_the_numeric_baseline_has_not_seen_the_test_rows() -> None:
    """An independent number is not learned. The seed is fixed: it cannot fail by chance."""
    real, train = cohort(300, 0), cohort(300, 1)
    for given in (None, train):
        found = utility._after_real(
            tables(real, train, given, target="three"), lambda labels: {n: DecisionTreeRegressor() for n in LABELS}
        )["rf"]
        assert np.corrcoef(found, real["three"])[0, 1] < 0.3


@pytest.mark.statistical
def test_shares_are_each_tables_own() -> None:
    """Half of the real patients are women, and none of the synthetic ones. The seed is fixed."""
    real, train = cohort(200, 0, sex=["F", "M"] * 100), cohort(200, 1, sex=["F", "M"] * 100)
    known = tables(real, cohort(200, 2, sex=["M"] * 200), train)
    column = {c.name: c for c in fidelity(known, np.random.default_rng(0)).columns}["sex"]
    assert dict(zip(column.labels, column.real, strict=True))["F"] == 0.5
    assert dict(zip(column.labels, column.synthetic, strict=True))["F"] == 0.0
    assert column.similarity == pytest.approx(0.5) and column.ceiling == pytest.approx(1.0)
    women = next(g for g in subgroups(known, ["sex"], None, np.random.default_rng(0)).groups if g.group == "F")
    assert (women.share_real, women.share_synthetic) == (0.5, 0.0)
    assert women.prevalence_real is not None and women.prevalence_synthetic is None


@pytest.mark.statistical
def test_the_quality_is_of_the_synthetic_rows() -> None:
    """Two numbers that go together in the real rows and not in the synthetic ones. The seed is fixed."""
    real, made = cohort(300, 0), cohort(300, 1)
    real["two"] = real["one"]
    found, same = (quality(tables(real, one), np.random.default_rng(0)) for one in (made, real))
    assert found.quality_pairs is not None and same.quality_pairs is not None
    assert found.quality_pairs < same.quality_pairs - 0.05


def test_rules_are_checked_on_synthetic_rows() -> None:
    columns: dict[str, Any] = {
        "age": {"kind": "count", "bounds": [0, 100]},
        "sex": {"kind": "binary", "levels": ["F", "M"]},
    }
    schema = Schema.from_dict({"name": "t", "target": "sex", "columns": columns})
    real = pd.DataFrame({"age": ["10", "20", "30", "40"], "sex": ["F", "M", "F", "M"]})
    made = pd.DataFrame({"age": ["10", "20", "30", "400"], "sex": ["F", "X", "F", "X"]})
    found = plausibility(schema, real, made)
    broken = {rule.column: (rule.real, rule.synthetic) for rule in found.rules if rule.synthetic > 0}
    assert found.broken == 2 and broken == {"age": (0.0, 0.25), "sex": (0.0, 0.5)}


@pytest.mark.parametrize(
    ("figure", "outcome"),
    [
        ((0.05, None, None), "within"), ((0.1, None, None), "within"), ((0.15, None, None), "beyond"),
        ((0.05, 0.01, 0.09), "within"), ((0.05, 0.01, 0.1), "within"), ((0.05, -0.2, 0.12), "cannot tell"),
        ((0.15, 0.02, 0.2), "cannot tell"), ((0.15, 0.1, 0.2), "cannot tell"), ((0.15, 0.101, 0.2), "beyond"),
        ((None, None, None), "not measured"), ((float("nan"), 0.0, 0.2), "not measured"),
    ],
)  # fmt: skip
def test_a_verdict_is_where_the_interval_lies(figure: Any, outcome: str) -> None:
    asked = Question(key="k", words="q", measure="m", limit=0.1, cure="c")
    estimate = Estimate(value=figure[0], low=figure[1], high=figure[2])
    line = asked.judge(estimate, Thresholds(), "")
    met = {"within": True, "beyond": False}.get(outcome)
    assert (line.outcome, line.met, bool(line.advice)) == (outcome, met, outcome == "beyond")
    for instead, decided in (("not judged", None), ("no guarantee", False)):
        line = asked.judge(estimate, Thresholds(), "", instead=instead)  # type: ignore[arg-type]
        assert (line.outcome, line.met) == (instead, decided)


def test_no_shareable_report_of_a_model_without_a_claim(quick: None, clinic: Schema) -> None:
    """Whoever drew its rows: they were learned without noise."""
    model = medsynth.fit(small_clinic.cohort(120, 1), no_dp=True, schema=clinic, rows=120, method="independent")
    for proven in (True, False):
        with pytest.raises(UsageError, match="needs a model with a privacy claim"):
            build(synthetic=medsynth.sample(model, 50), real=None, model=model, drawn_by_model=proven)


def test_a_shareable_report_opens_no_file_of_real_rows(
    clinic_with_heldout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where they are no tables at all, and where they are gone, it is the same report to the last number."""
    shutil.copytree(clinic_with_heldout, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    twins = []
    for there in (True, False):
        for name in ("clinic.csv", "clinic.train.csv", "clinic.heldout.csv"):
            Path(name).write_bytes(b"\0 no table") if there else Path(name).unlink()
        done = CliRunner().invoke(app, ["report", "--shareable", "--force"])
        assert done.exit_code == 0, done.stderr
        twins.append(json.loads(Path("clinic.report.json").read_text()))
    assert twins[0] == twins[1] and twins[0]["shareable"] is True
