"""Accounting against others: upper bounds lie above, the cross check is another's, no plan is beyond its budget."""

import inspect
import math
from types import SimpleNamespace
from typing import Any

import pytest
from scipy.optimize import brentq

from medsynth.artifact import claim
from medsynth.budget import Spent
from medsynth.privacy.accounting import accountant, calibration, shard_sampling
from medsynth.privacy.accounting.events import Event, Gaussian, ShardSampledGaussian, SubsampledGaussian
from medsynth.privacy.accounting.ledger import Ledger
from medsynth.report.page.render import epsilon as on_page
from medsynth.report.sections.claim import privacy_ledger

DELTA = 1e-5


def test_the_bound_for_shards_lies_above_an_independent_one() -> None:
    """By dp-accounting, whose own error at this mesh is smaller than the allowance; ours is above by 0.3 % at most."""
    pytest.importorskip("dp_accounting")
    events: list[tuple[Event, int]] = [(ShardSampledGaussian(multiplier=1.0, shards=10), 100)]
    ours, theirs = accountant.epsilon(events, DELTA), accountant.cross_check(events, DELTA)
    assert theirs - 0.001 <= ours <= 1.02 * theirs


@pytest.mark.parametrize("multiplier", [0.7, 2.0, 8.0])
@pytest.mark.parametrize("shards", [2, 10, 150])
def test_the_renyi_bound_for_shards_lies_above_the_pairs_divergence(multiplier: float, shards: int) -> None:
    """No smaller than for shards that all give 0, against one of n that gives 1: in closed form at whole orders."""
    for order in (2, 3, 5, 8):
        moment = math.fsum(
            math.comb(order, j)
            * (1 - 1 / shards) ** (order - j)
            / shards**j
            * math.exp(j * (j - 1) / 2 / multiplier**2)
            for j in range(order + 1)
        )
        bound = shard_sampling.rdp(multiplier, shards, [float(order)])[0]
        assert bound >= math.log(moment) / (order - 1) * (1 - 1e-6)


@pytest.mark.nightly
def test_the_cross_check_does_without_our_accountants(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is another's computation from first to last: closed forms, and dp-accounting's own account of the events."""
    dp = pytest.importorskip("dp_accounting")
    from dp_accounting.pld import PLDAccountant

    def ours(*arguments: Any, **options: Any) -> float:
        pytest.fail("our own accountant was asked")

    for name in ("_prv", "_rdp", "_prv_with_shards", "as_sampled_gaussians"):
        monkeypatch.setattr(accountant, name, ours)
    cross_check = inspect.unwrap(accountant.cross_check)  # nothing that was found before
    exact = brentq(lambda e: accountant.gaussian_delta(1.0, e) - DELTA, 0.1, 50)
    assert cross_check([(Gaussian(multiplier=2.0), 4)], DELTA) == pytest.approx(exact, rel=1e-3)
    events: list[tuple[Event, int]] = [
        (Gaussian(multiplier=5.0), 2),
        (SubsampledGaussian(multiplier=1.1, rate=0.1), 30),
        (SubsampledGaussian(multiplier=1.1, rate=0.1), 20),
    ]
    account = PLDAccountant(value_discretization_interval=1e-4)
    account.compose(dp.GaussianDpEvent(5.0), 2)
    account.compose(dp.PoissonSampledDpEvent(0.1, dp.GaussianDpEvent(1.1)), 50)
    assert cross_check(events, DELTA) == pytest.approx(account.get_epsilon(DELTA), rel=1e-3)


@pytest.mark.parametrize("by", ["prv", "rdp"])
def test_measurements_of_all_rows_add_up_in_squares(by: Any) -> None:
    """Four measurements of multiplier 2z are one of z, however they are listed."""
    lists: list[list[tuple[Event, int]]] = [
        [(Gaussian(multiplier=1.0), 1)],
        [(Gaussian(multiplier=2.0), 4)],
        [(Gaussian(multiplier=2.0), 1)] * 4,
        [(Gaussian(multiplier=2.0), 3), (SubsampledGaussian(multiplier=2.0, rate=1.0), 1)],
    ]
    found = [accountant.epsilon(events, DELTA, by) for events in lists]
    assert found == pytest.approx([found[0]] * 4, rel=1e-9)
    assert found[0] >= brentq(lambda e: accountant.gaussian_delta(1.0, e) - DELTA, 0.1, 50) - 1e-9


def test_the_report_prints_the_cross_check(monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger(
        delta=DELTA, accountant="prv", random_source="operating system", allowance={"h": (Gaussian(multiplier=2.0), 1)}
    )
    ledger.charge("h", Gaussian(multiplier=2.0), 1.0)
    monkeypatch.setattr(accountant, "cross_check", lambda events, delta: 7.5)
    found = privacy_ledger(ledger, 2.0)
    assert found.by_pld == 7.5 and found.epsilon == 2.0 and found.by_rdp != 7.5


@pytest.mark.parametrize("above", [1.0001, 1.001, 1.002, 1.0039, 1.2])
def test_no_plan_is_beyond_its_budget_by_however_little(above: float) -> None:
    """A cost that jumps from below the budget to just above it: the scale found is on the right side of the jump."""
    for place in (0.5, 1.0, 3.0, 20.0):

        def cost(scale: float, place: float = place) -> float:
            return 0.3 * (0.9 if scale >= place else above * (place / scale) ** 0.001)

        assert cost(calibration._least(cost, 0.01, 100.0, 0.3)) <= 0.3


@pytest.mark.parametrize("epsilon", [3.69949, 3.7, 0.99951, 0.123449, 12.3449, 1e-5])
def test_epsilon_is_printed_rounded_up(epsilon: float) -> None:
    """In the claim, in the total of a table and on the page: what is read is never less than what was spent."""
    ledger = SimpleNamespace(delta=DELTA, protects="one row", relation="r", accountant="prv")
    model: Any = SimpleNamespace(epsilon=epsilon, claims=True, ledger=ledger, structure_only=False, seen=0)
    printed = [claim(model), str(on_page(epsilon)).split(">")[1].join("(<")]
    fit: Any = SimpleNamespace(
        model="m",
        ended=False,
        noise=True,
        max_rows=None,
        one_row_a_patient=False,
        delta=DELTA,
        epsilon=epsilon,
        events=(),
        number="1",
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(accountant, "epsilon", lambda events, delta, by: 1e9)
        printed.append("(" + Spent(fits=(fit,)).sentence().split("cost epsilon ")[1].split()[0])
    for text in printed:
        shown = float(text[1:].split(",")[0].split("<")[0])
        assert epsilon <= shown <= 1.001 * epsilon + 0.01, text
