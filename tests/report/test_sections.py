"""Sections against oracles: the benchmark protocol, closed forms, tables whose figures are known."""

import importlib.util
import math
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import small_clinic
from scipy.stats import norm
from sklearn.exceptions import ConvergenceWarning

from medsynth.errors import SchemaError, TableError
from medsynth.report.build import build
from medsynth.report.data import tables as inputs
from medsynth.report.data.columns import cells_of
from medsynth.report.data.reach import _power
from medsynth.report.data.tables import Cells
from medsynth.report.sections.attacks import attacks
from medsynth.report.sections.claim import privacy
from medsynth.report.sections.fidelity import fidelity
from medsynth.report.sections.inference import fit
from tests.benchmarks.figures import score

ROOT = Path(__file__).parents[2]


def gather(real: Any, synthetic: Any, train: Any = None, target: str = "diagnosis", schema: Any = None) -> Any:
    real, synthetic, train = (None if frame is None else cells_of(frame) for frame in (real, synthetic, train))
    return inputs.gather(real, synthetic, train, target, schema, np.random.default_rng(0))


def test_figures_are_those_of_the_protocol(report: Any, halves: Any, synthetic: Any) -> None:
    mine = {
        c.name: (c.real.value, c.synthetic.value, c.micro_synthetic) for c in report.sections["utility"].classifiers
    }
    real, made = (score(t, halves[1], "diagnosis") for t in (halves[0], synthetic))
    for name, (by_real, by_made, micro) in mine.items():
        assert by_real == pytest.approx(real["macro"][name], abs=5e-5)
        assert by_made == pytest.approx(made["macro"][name], abs=5e-5)
        assert micro == pytest.approx(made["micro_hard"][name], abs=5e-5)
    assert report.sections["utility"].mean_synthetic.value == pytest.approx(made["mean"], abs=5e-5)


def test_the_protocol_is_the_field_script(halves: Any, synthetic: Any) -> None:
    """The same four decimals as the project's shared scoring script, where it is at hand."""
    path = ROOT.parent / "shared" / "tools" / "tstr.py"
    if not path.exists():
        pytest.skip("no shared scoring script beside the checkout")
    spec = importlib.util.spec_from_file_location("field_script", path)
    assert spec is not None and spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    ours = score(synthetic, halves[1], "diagnosis")
    with warnings.catch_warnings():  # its network stops after 300 steps, as ours does, on some drawn rows
        warnings.simplefilter("ignore", ConvergenceWarning)
        theirs = script.score(synthetic, halves[1], "diagnosis")
    assert {k: round(v, 4) for k, v in ours["macro"].items()} == theirs["macro"]
    assert {k: round(v, 4) for k, v in ours["micro_hard"].items()} == theirs["micro_hard"]


@pytest.mark.statistical
def test_real_rows_as_synthetic_rows_lose_nothing_and_cannot_be_separated(halves: Any) -> None:
    """The seed is fixed: it cannot fail by chance."""
    train, real = halves
    half = gather(real, train.iloc[::2].reset_index(drop=True), train.iloc[1::2].reset_index(drop=True))
    found = fidelity(half, np.random.default_rng(1))
    assert abs(found.two_way - found.two_way_ceiling) < 0.02 and abs(found.one_way - found.one_way_ceiling) < 0.02
    assert found.propensity_auroc.value is not None and 0.4 < found.propensity_auroc.value < 0.6


@pytest.mark.statistical
def test_a_shuffled_table_keeps_columns_and_loses_pairs(halves: Any) -> None:
    """The seed is fixed: it cannot fail by chance."""
    train, real = halves
    rng = np.random.default_rng(2)
    shuffled = train.apply(lambda c: rng.permutation(c.to_numpy()))
    found = fidelity(gather(real, shuffled, train), rng)
    assert abs(found.one_way - found.one_way_ceiling) < 0.01
    assert found.two_way < found.two_way_ceiling - 0.005 and found.association_gap > 0.01


def test_values_that_many_rows_share_have_cells_of_their_own() -> None:
    frame = pd.DataFrame({"x": [0.0] * 50 + list(np.linspace(1, 2, 50)), "y": ["a", "b"] * 50})
    cells_of = Cells.of(frame, [], frozenset("x"))
    cells = cells_of.column(frame, "x")
    assert len(set(cells[:50])) == 1 and cells[0] not in set(cells[50:])
    assert cells_of.column(frame.assign(x=np.nan), "x")[0] == cells_of.count("x") - 1


def attacked(tables: inputs.Tables, rng: np.random.Generator) -> tuple[Any, Any]:
    """The attacks on a table, and the membership attack that does best."""
    found = attacks(tables, ["diagnosis"], rng)
    assert found is not None
    return found, next(m for m in found.membership if m.name == found.worst)


@pytest.mark.statistical
def test_attacks_find_a_copy_and_not_the_truth(halves: Any) -> None:
    """Training rows with 1 % noise are found; rows of the true distribution hold zero (chance of a false alarm 5 %).

    The seed is fixed: it cannot fail by chance.
    """
    train, real = halves
    rng = np.random.default_rng(4)
    copy = train.copy()
    for name in copy.select_dtypes("number"):
        if copy[name].nunique() > 20:
            copy[name] = copy[name] + rng.normal(0, 0.01 * copy[name].std(), len(copy))
    found, best = attacked(gather(real, copy, train), rng)
    assert found.fair and best.advantage.low > 0.3 and best.at_one_percent.value > 0.1
    honest, best = attacked(gather(real, small_clinic.cohort(2000, 98), train), rng)
    assert best.advantage.low <= 0 <= best.advantage.high
    assert honest.attributes[0].excess.low <= 0.02


def layers(*sizes: Any) -> Any:
    import torch

    made = []
    for a, b in zip(sizes, sizes[1:], strict=False):
        made += [torch.nn.Linear(a, b), torch.nn.LeakyReLU(0.2)]
    return torch.nn.Sequential(*made[:-1])


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.statistical
def test_attacks_find_an_overfitted_gan(halves: Any) -> None:
    """A conditional GAN with a label of its own for each of 250 patients, trained without privacy to remember them.

    The seed is fixed: it cannot fail by chance.
    """
    import torch
    from torch.nn.functional import softplus

    from medsynth.report.data.tables import points

    train, real = halves[0].head(250).reset_index(drop=True), halves[1]
    numbers = [n for n in train.select_dtypes("number") if train[n].nunique() > 20 and train[n].notna().all()]
    names = [*numbers, "diagnosis"]
    tables = gather(real[names], train[names], train[names])
    torch.manual_seed(0)
    data = torch.tensor(points(tables.numbers, [tables.train])[0][:, : len(numbers)], dtype=torch.float32)
    label = torch.eye(len(data))
    generator, critic = layers(len(data), 128, data.shape[1]), layers(data.shape[1] + len(data), 256, 1)
    adam = [torch.optim.Adam(net.parameters(), 1e-3, betas=(0.5, 0.9)) for net in (generator, critic)]

    def critic_score(rows: Any) -> Any:
        return critic(torch.cat([rows, label], 1))

    for _ in range(1500):
        for optimizer, critics in zip(adam, (False, True), strict=True):
            fake = generator(label)
            loss = (
                softplus(-critic_score(data)).mean() + softplus(critic_score(fake)).mean()
                if critics
                else softplus(-critic_score(fake)).mean()
            )
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            optimizer.step()
    with torch.no_grad():
        ranks = generator(label).clamp(0, 1).numpy()
    made = pd.DataFrame({n: np.quantile(train[n], ranks[:, k]) for k, n in enumerate(numbers)})
    synthetic = made.assign(diagnosis=train["diagnosis"])
    found, best = attacked(gather(tables.real, synthetic, tables.train), np.random.default_rng(0))
    assert found.fair and best.advantage.low > 0.09


def test_the_trade_off_curve_is_the_gaussians() -> None:
    """One Gaussian measurement, multiplier z: power Phi(Phi^-1(x) + 1/z), right guesses Phi(1/2z). An upper bound."""
    from types import SimpleNamespace

    from medsynth.privacy.accounting.events import RELATION, Gaussian
    from medsynth.privacy.accounting.ledger import Ledger

    event = Gaussian(multiplier=1.2)
    ledger = Ledger(delta=1e-5, accountant="prv", random_source="operating system", allowance={"all": (event, 1)})
    ledger.charge("all", event, 1.0)
    fake: Any = SimpleNamespace(claims=True, structure_only=False, seen=0, ledger=ledger, epsilon=ledger.epsilon(),
                                rows=100, rows_declared=True, method="m", preset=None, versions={})  # fmt: skip
    found = privacy(fake)
    assert found is not None and found.relation == RELATION
    for x, y in found.curve[1:-1]:
        true = norm.cdf(norm.ppf(x) + 1 / 1.2)
        assert true - 1e-3 <= y <= true + 0.03
    exact = norm.cdf(1 / 2.4)
    assert exact - 1e-4 <= found.guess_right <= exact + 0.01 < found.generic_guess_right


def test_a_claim_of_nothing_allows_nothing() -> None:
    assert _power(0.3, [(0.0, 0.0)]) == 0.3
    assert _power(0.1, [(math.log(2), 0.0)]) == pytest.approx(0.2)


@pytest.mark.statistical
def test_the_regression_finds_known_coefficients() -> None:
    """Logistic regression with known coefficients, within four standard errors.

    The seed is fixed: it cannot fail by chance.
    """
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20_000, 2))
    y = (rng.random(20_000) < 1 / (1 + np.exp(-(0.5 + x @ [1.0, -2.0])))).astype(float)
    found = fit(x, y, linear=False)
    spread = (found.high - found.low) / 2 / norm.ppf(0.975)
    assert np.all(np.abs(found.value - [1.0, -2.0]) < 4 * spread) and np.all(spread < 0.05)


@pytest.mark.parametrize("linear", [False, True])
def test_the_regression_is_statsmodels(linear: bool) -> None:
    import statsmodels.api as sm

    rng = np.random.default_rng(1)
    x = rng.normal(size=(500, 3))
    y = x @ [1.0, -1.0, 0.5] + rng.normal(size=500)
    y = y if linear else (y > 0).astype(float)
    design = sm.add_constant(x)
    theirs = sm.OLS(y, design).fit() if linear else sm.Logit(y, design).fit(disp=0)
    found = fit(x, y, linear)
    assert found.value == pytest.approx(theirs.params[1:], rel=1e-4)
    ends = theirs.conf_int()
    assert found.low == pytest.approx(ends[1:, 0], rel=1e-3) and found.high == pytest.approx(ends[1:, 1], rel=1e-3)


def test_what_cannot_be_estimated_is_left_out() -> None:
    """A column that separates the outcomes, one that does not vary, one that another determines."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(400, 5))
    y = (rng.random(400) < 1 / (1 + np.exp(-x[:, 0]))).astype(float)
    x[:, 1] = (y == 1) & (rng.random(400) < 0.3)  # never without the outcome: its log odds have no maximum
    x[:, 2] = 7.0
    x[:, 4] = 2 * x[:, 3]
    found = fit(x, y, linear=False)
    assert np.isfinite(found.value).tolist() == [True, False, False, True, False]
    assert abs(found.value[0] - 1) < 1
    complete = fit(np.where(y == 1, 1.0, -1.0)[:, None] + 0.1 * x[:, :1], y, linear=False)
    assert np.isnan(complete.value).all()
    assert np.isnan(fit(x[:3], y[:3], linear=True).value).all()


def test_rows_of_both_files_leave_train(halves: Any) -> None:
    train, real = halves
    tables = gather(real, train, pd.concat([train, real.head(7)], ignore_index=True))
    assert len(tables.train) == 1000 and "7 rows" in tables.notes[0]
    with pytest.raises(TableError, match="same rows"):
        gather(real, train, real)


def degenerate(synthetic: Any) -> Iterator[Any]:
    yield "missing class", synthetic[synthetic["diagnosis"] != "overt"]
    yield "one class", synthetic[synthetic["diagnosis"] == "normal"]
    yield "constant columns", synthetic.assign(age_years=50, sex_at_birth="F")
    yield "all missing columns", synthetic.assign(tsh_miu_l=np.nan, referral_source=None)
    yield "five rows", synthetic.head(5)
    yield "unknown columns", synthetic.assign(shoe_size=42)
    yield "a column less", synthetic.drop(columns="tsh_miu_l")
    yield "other types", synthetic.assign(age_years=synthetic["age_years"].astype(str) + "y", is_pregnant=True)


@pytest.mark.matrix
@pytest.mark.slow
@pytest.mark.nightly_for("1", "2", "5", "6", "7")
@pytest.mark.parametrize("case", range(8))
def test_degenerate_tables_make_a_report_or_one_error(case: Any, halves: Any, synthetic: Any, model: Any) -> None:
    from medsynth.report.page.render import page

    name, table = list(degenerate(synthetic))[case]
    table = table.reset_index(drop=True)
    small = [frame.head(150) for frame in halves]
    report = build(synthetic=table, real=small[1], train=small[0], drawn_by_model=True, model=model)
    assert "</html>" in page(report), name
    sections: dict[str, Any] = {**report.sections}
    if name == "missing class":
        assert sections["utility"].missing_classes == ["overt"]
    if name in ("unknown columns", "a column less", "other types"):
        assert report.notes
    if name == "other types":
        assert sections["plausibility"].broken > 0


def test_no_target_is_one_error(halves: Any, synthetic: Any) -> None:
    with pytest.raises(SchemaError, match="target"):
        build(synthetic=synthetic, real=halves[1], target="nothing")
    with pytest.raises(TableError, match="no value"):
        build(synthetic=synthetic.assign(diagnosis=np.nan), real=halves[1], target="diagnosis")


@pytest.mark.nightly
@pytest.mark.slow
def test_a_numeric_target_and_no_training_rows(halves: Any, synthetic: Any) -> None:
    from medsynth.report.page.render import page

    report = build(synthetic=synthetic, real=halves[1], target="tt4_nmol_l")
    utility: Any = report.sections["utility"]
    assert utility.kind == "number" and "cross-validation" in utility.train_rows
    assert report.sections["attacks"] is None and report.sections["claim"] is None
    assert "No claim can be made for this table" in page(report)
