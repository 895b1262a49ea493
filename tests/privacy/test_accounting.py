"""Epsilon against closed forms and independent accountants; plans and ledgers that cannot overspend."""

import math

import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from medsynth.errors import ArtifactError, BudgetError, UsageError
from medsynth.privacy.accounting import accountant
from medsynth.privacy.accounting.calibration import Query, make_plan
from medsynth.privacy.accounting.events import Gaussian, SubsampledGaussian, Thresholded
from medsynth.privacy.accounting.ledger import Ledger

DELTA = 1e-5


def exact_gaussian(multiplier, delta=DELTA):
    """Balle and Wang 2018, theorem 8."""
    m = 1 / multiplier
    return brentq(lambda e: norm.cdf(m / 2 - e / m) - math.exp(e) * norm.cdf(-m / 2 - e / m) - delta, 0, 200)


@pytest.mark.parametrize("multiplier", [0.5, 1.3, 5.0, 40.0, 300.0])
def test_a_plain_gaussian_meets_its_exact_curve(multiplier):
    exact = exact_gaussian(multiplier)
    ours = accountant.epsilon([(Gaussian(multiplier=multiplier), 1)], DELTA)
    assert exact - 1e-9 <= ours <= exact * (1.01 if exact > accountant.SMALL else 1.02) + 1e-4


@pytest.mark.parametrize("multiplier", [0.9, 2.0, 8.0])
@pytest.mark.parametrize("rate, steps", [(0.01, 1000), (0.14, 300), (0.5, 50)])
def test_mixtures_agree_with_dp_accounting_and_lie_below_rdp(multiplier, rate, steps):
    events = [(Gaussian(multiplier=3.0), 1), (SubsampledGaussian(multiplier=multiplier, rate=rate), steps)]
    ours, pld = accountant.epsilon(events, DELTA), accountant.cross_check(events, DELTA)
    assert pld <= ours + max(0.005, 0.005 * ours)
    assert ours <= pld * 1.02 + 0.01
    assert ours <= accountant.epsilon(events, DELTA, "rdp") + 1e-6


def test_figures_of_the_thyroid_study():
    """The paper claims 3.7 for these settings; RDP gives 3.24 and PRV 2.98 today."""
    events = [(SubsampledGaussian(multiplier=1.15, rate=32 / 3772), 5894)]
    assert accountant.epsilon(events, DELTA, "rdp") == pytest.approx(3.24, abs=0.02)
    assert accountant.epsilon(events, DELTA) == pytest.approx(2.98, abs=0.02)


def test_folding_is_exact():
    many = [(Gaussian(multiplier=z), 1) for z in (2.0, 3.0, 4.0)]
    together = (1 / 4 + 1 / 9 + 1 / 16) ** -0.5
    assert accountant.as_sampled_gaussians(many) == [(pytest.approx(together), 1.0, 1)]


def test_key_discovery_uses_its_delta():
    events = [(Thresholded(multiplier=2.0, delta=9e-6), 1)]
    assert accountant.epsilon(events, DELTA) > accountant.epsilon([(Gaussian(multiplier=2.0), 1)], DELTA)
    with pytest.raises(BudgetError):
        accountant.epsilon([(Thresholded(multiplier=2.0, delta=DELTA), 1)], DELTA)


NEEDS = [Query(label="counts", weight=3.0), Query(label="steps", weight=1.0, rate=0.1, times=50)]


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 3.7, 10.0, 100.0])
def test_a_plan_spends_nearly_all_and_never_more(epsilon):
    plan = make_plan(NEEDS, epsilon=epsilon, delta=DELTA, rows=100)
    assert 0.99 * epsilon < plan.epsilon <= epsilon
    assert plan.noise("counts") == pytest.approx(3 * plan.noise("steps"))
    assert accountant.cross_check(plan.events.values(), DELTA) <= epsilon + max(0.005, 0.005 * epsilon)


def test_a_plan_falls_back_to_rdp_and_says_so(monkeypatch):
    def broken(history, delta, error=None):
        raise ValueError("as in Opacus issue 601")

    monkeypatch.setattr(accountant, "_prv", broken)
    plan = make_plan(NEEDS, epsilon=3.7, delta=DELTA, rows=100)
    assert plan.accountant == "rdp" and 0.95 * 3.7 < plan.epsilon <= 3.7
    assert plan.ledger("x").accountant == "rdp"


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan, math.inf])
def test_an_epsilon_out_of_range_is_refused(epsilon):
    with pytest.raises(UsageError):
        make_plan(NEEDS, epsilon=epsilon, delta=DELTA, rows=100)


@pytest.mark.parametrize("delta", [0.0, 1.0, -1e-5, math.nan, 2.0])
def test_a_delta_out_of_range_is_refused(delta):
    with pytest.raises(UsageError):
        make_plan(NEEDS, epsilon=1.0, delta=delta, rows=100)


def test_a_budget_too_small_is_refused():
    with pytest.raises(BudgetError):
        make_plan(NEEDS, epsilon=1e-7, delta=DELTA, rows=100)


def test_the_spent_table_rises_to_the_plan():
    plan = make_plan(NEEDS, epsilon=3.7, delta=DELTA, rows=100)
    steps, spent = zip(*plan.epsilon_by_release(), strict=True)
    assert list(spent) == sorted(spent) and steps[-1] == 50 and spent[-1] == plan.epsilon


def spend(ledger, plan):
    for label, (event, times) in plan.events.items():
        for _ in range(times):
            ledger.charge(label, event, 1.0)


def test_a_ledger_admits_the_plan_and_nothing_else():
    plan = make_plan(NEEDS, epsilon=3.7, delta=DELTA, rows=100)
    ledger = plan.ledger("operating system")
    with pytest.raises(BudgetError):
        ledger.charge("counts", Gaussian(multiplier=0.1), 1.0)
    with pytest.raises(BudgetError):
        ledger.charge("something else", plan.events["counts"][0], 1.0)
    assert not ledger.complete and not ledger.claims
    spend(ledger, plan)
    assert ledger.complete and ledger.claims and len(ledger.entries) == 2
    assert ledger.epsilon() == plan.epsilon
    with pytest.raises(BudgetError):
        ledger.charge("steps", plan.events["steps"][0], 1.0)
    back = Ledger.from_json(ledger.to_json())
    assert back.entries == ledger.entries and back.epsilon() == plan.epsilon
    with pytest.raises(BudgetError):
        back.charge("steps", plan.events["steps"][0], 1.0)


def test_a_seeded_ledger_makes_no_claim():
    plan = make_plan(NEEDS, epsilon=3.7, delta=DELTA, rows=100)
    ledger = plan.ledger("TEST ONLY: seeded, no privacy")
    spend(ledger, plan)
    assert not ledger.claims


@pytest.mark.parametrize("key", ["events", "delta", "relation", "accountant"])
def test_a_broken_ledger_is_one_error(key):
    content = make_plan(NEEDS, epsilon=3.7, delta=DELTA, rows=100).ledger("x").to_json()
    content[key] = {"events": [{"mechanism": "Magic"}], "delta": "much"}.get(key, "none")
    with pytest.raises(ArtifactError):
        Ledger.from_json(content)
