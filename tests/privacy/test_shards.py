"""The shards release one clipped, noised gradient; every condition under which sampling a shard amplifies."""

import copy
import functools
import logging
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch.nn import functional

from medsynth.errors import BudgetError
from medsynth.privacy import shards as shards_module
from medsynth.privacy.accounting.calibration import Charge, Plan, make_plan
from medsynth.privacy.accounting.events import (
    Gaussian,
    PublicOrderGaussian,
    ShardSampledGaussian,
    SubsampledGaussian,
)
from medsynth.privacy.accounting.ledger import Ledger
from medsynth.privacy.contribution import PrivacyUnits
from medsynth.privacy.release import Releases
from medsynth.privacy.shards import CriticConfig, Critics, clipped, scores, unit_of
from medsynth.privacy.vault import Vault
from medsynth.rng import NoNoise, SeededEntropy, SystemEntropy

K, FREE, CLASSES, WIDTH = 5, 6, 3, 9
SMALL = CriticConfig(width=8, batch=4)
ONE_SHARD = (ShardSampledGaussian, PublicOrderGaussian)


def features(codes: Any) -> Any:
    """Two columns of three cells and a class, as indicators."""
    hot = [functional.one_hot(torch.from_numpy(codes[:, k].astype(np.int64)), 3) for k in range(3)]
    return torch.cat(hot, 1).to(torch.get_default_dtype())


def some(rows: int = 60, seed: int = 0) -> Any:
    return np.random.default_rng(seed).integers(0, 3, (rows, 3)).astype(np.int32)


@functools.cache
def planned(count: int, steps: int, most: int | None) -> Plan:
    return make_plan([Charge(label="u", weight=1.0, times=steps, shards=count)],
                     epsilon=3.7, delta=1e-5, rows=60, max_rows=most)  # fmt: skip


class EntropyByCall(SeededEntropy):
    """The k-th call gives the same bytes whatever was drawn before: tables of other lengths meet the same."""

    calls = 0

    def bytes(self, count: Any) -> Any:
        self.calls += 1
        return np.random.Generator(np.random.Philox(self.calls)).bytes(count)


def build(
    codes: Any = None,
    *,
    entropy: Any = None,
    count: Any = K,
    steps: int = 400,
    place: Any = None,
    monkeypatch: pytest.MonkeyPatch | None = None,
    units: Any = None,
) -> Any:
    """A vault's shards, its ledger and plan; `place` fixes the shard of each row."""
    codes = some() if codes is None else codes
    most = units.max_rows if units else None
    plan = planned(count, steps, most)
    entropy = entropy or SeededEntropy(0)
    ledger = plan.ledger(entropy.source)
    vault = Vault(codes, ("a", "b", "c"), Releases(ledger, entropy), units)
    if place is not None:
        assert monkeypatch is not None
        true = np.frombuffer
        drawn = [np.asarray(place, np.uint64)]
        monkeypatch.setattr(
            "medsynth.privacy.vault.np.frombuffer", lambda *a, **k: drawn.pop() if drawn else true(*a, **k)
        )
    return vault.split_into_shards(count, features, CLASSES, SMALL), ledger, plan


def fakes(rows: int = 6, seed: int = 0) -> Any:
    return features(some(rows, seed + 100))


def pool(seed: int = 0) -> Any:
    each = [np.c_[some(8, seed + y)[:, :2], np.full(8, y, np.int32)] for y in range(CLASSES)]
    return torch.stack([features(codes) for codes in each])


def critics_of(shards: Any) -> Critics:
    critics: Critics = shards._Shards__critics
    return critics


def weights(shards: Any) -> Any:
    return [p.detach().clone() for p in critics_of(shards).parameters]


def test_without_noise_an_update_through_the_boundary_is_plain_training(monkeypatch: pytest.MonkeyPatch) -> None:
    shards, *_ = build(entropy=NoNoise(), place=np.arange(60) % K, monkeypatch=monkeypatch)
    for _ in range(20):
        shards.train(pool())
    monkeypatch.setattr(shards_module.Shards, "_Shards__sample_shard", lambda self: 3)
    generator = torch.nn.Linear(4, FREE)
    latent, label = torch.randn(6, 4, generator=torch.Generator().manual_seed(0)), fakes()[:, FREE:]

    def drawn() -> Any:
        return torch.cat([generator(latent), label], 1)

    fake = drawn()
    fake[:, :FREE].backward(gradient=shards.measure_upstream_gradient("u", fake.detach(), 99.0))
    found = [p.grad.clone() for p in generator.parameters() if p.grad is not None]
    generator.zero_grad()
    which = 3 * CLASSES + label.argmax(1)
    assert (shards._Shards__sizes[which] > 0).all()
    own = [p[which] for p in critics_of(shards).parameters]
    torch.autograd.backward(-scores(own, drawn()[:, None, :FREE]).sum())
    for one, p in zip(found, generator.parameters(), strict=True):
        assert p.grad is not None
        assert torch.allclose(one, p.grad, atol=1e-6) and p.grad.abs().max() > 1e-3


@pytest.fixture
def doubles() -> Iterator[Any]:
    """Sixty-four bits: Adam makes much of the rounding of a gradient that is zero."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


def test_stacked_critics_are_separate_critics_one_by_one(doubles: Any) -> None:
    def stream() -> Any:
        return torch.Generator().manual_seed(5)

    stack, same, rng = Critics(K, FREE, SMALL, stream()), stream(), np.random.default_rng(0)
    Critics(K, FREE, SMALL, same)  # draws what the stack drew for its weights
    alone = [[p.detach()[k].clone().requires_grad_() for p in stack.parameters] for k in range(K)]
    adams = [torch.optim.Adam(own, lr=SMALL.rate, betas=SMALL.betas) for own in alone]
    for _ in range(10):
        mix = torch.rand(K, 4, generator=same)[..., None]
        real, fake = (features(rng.integers(0, 3, (4 * K, 3)).astype(np.int32))[:, :FREE] for _ in range(2))
        real, fake = real.reshape(K, 4, -1), fake.reshape(K, 4, -1)
        stack.step(real, fake, torch.full((K, 4), 0.25))
        for k in range(K):
            w, b, v = alone[k]

            def score(x: Any, w: Any = w, b: Any = b, v: Any = v) -> Any:
                return functional.leaky_relu(x @ w.T + b[:, 0], 0.2) @ v[0]

            between = (mix[k] * real[k] + (1 - mix[k]) * fake[k]).requires_grad_()
            (slope,) = torch.autograd.grad(score(between).sum(), between, create_graph=True)
            penalty = 10 * (slope.norm(dim=1) - 1).square()
            adams[k].zero_grad()
            (score(fake[k]) - score(real[k]) + penalty).mean().backward()
            adams[k].step()
    rows = features(some(K))[:, :FREE]
    slopes = stack.generator_gradient(torch.arange(K), rows)
    for k in range(K):
        for p, own in zip(stack.parameters, alone[k], strict=True):
            assert torch.allclose(p[k], own, atol=1e-9)
        at = rows[k].clone().requires_grad_()
        w, b, v = alone[k]
        (-(functional.leaky_relu(at @ w.T + b[:, 0], 0.2) @ v[0])).backward()
        assert torch.allclose(slopes[k], at.grad, atol=1e-9)


def test_a_shards_rows_reach_no_other_shards_critic(monkeypatch: pytest.MonkeyPatch) -> None:
    """One shard's rows changed, added to or taken away: all other critics are the same, bit for bit."""
    codes, place = some(), np.arange(60) % K
    other = codes.copy()
    other[place == 2] = (other[place == 2] + 1) % 3
    many, few = np.repeat(codes[place == 2], 9, axis=0), place != 2
    tables = [
        (codes, place),
        (other, place),
        (np.concatenate([codes, many]), np.concatenate([place, np.full(len(many), 2)])),
        (codes[few], place[few]),
    ]
    trained = []
    for table, at in tables:
        with monkeypatch.context() as patch:
            shards, *_ = build(table, entropy=EntropyByCall(0), place=at, monkeypatch=patch)
        for step in range(15):
            shards.train(pool(step))
        trained.append(weights(shards))
    same = torch.arange(K * CLASSES) // CLASSES != 2
    for changed in trained[1:]:
        for p, q in zip(trained[0], changed, strict=True):
            assert torch.equal(p[same], q[same])
        assert not torch.equal(trained[0][0][~same], changed[0][~same])


def test_every_critic_trains_at_every_step_and_none_depends_on_the_sampled_shard() -> None:
    one, two = build(entropy=SeededEntropy(3))[0], build(entropy=SeededEntropy(3))[0]
    for step in range(5):
        before = weights(one)
        one.train(pool(step))
        two.train(pool(step))
        with_rows = one._Shards__sizes > 0
        assert with_rows.sum() > K
        for was, now in zip(before, weights(one), strict=True):
            assert ((was != now).flatten(1).any(1) == with_rows).all()
        one.measure_upstream_gradient("u", fakes(), 1.0)  # `two` is never measured: its critics are the same
        assert all(torch.equal(p, q) for p, q in zip(weights(one), weights(two), strict=True))


@pytest.mark.statistical
def test_sampled_shards_are_even_and_no_public_seed_repeats_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """False-alarm rate 4e-5 for either count, 5^-60 for the repetition: 8e-5 together."""
    sampled: list[int] = []

    def watched(self: Critics, which: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        sampled.append(int(which[0]) // CLASSES)
        return 0 * rows

    monkeypatch.setattr(Critics, "generator_gradient", watched)
    runs = []
    for _ in range(2):
        torch.manual_seed(0)
        shards, *_ = build(entropy=SystemEntropy(), steps=800)
        sampled.clear()
        for _ in range(800):
            shards.measure_upstream_gradient("u", fakes(1), 1.0)
        runs.append(list(sampled))
        assert stats.chisquare(np.bincount(sampled, minlength=K)).pvalue > 4e-5
    assert runs[0][:60] != runs[1][:60]


def test_the_shard_is_sampled_after_the_critics_have_trained_and_is_written_nowhere(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    drawn = []

    class Recording(SystemEntropy):
        def bytes(self, count: Any) -> Any:
            drawn.append(count)
            return super().bytes(count)

    shards, ledger, _ = build(entropy=Recording())
    before = len(drawn)
    for _ in range(3):
        shards.train(pool())
    assert len(drawn) == before
    shards.measure_upstream_gradient("u", fakes(), 1.0)
    assert drawn[before] == 16  # one sample's bits, then the noise's
    assert not capsys.readouterr().out and not caplog.records
    (row,) = ledger.to_json()["events"]
    assert set(row) == {"label", "count", "sensitivity", "mechanism", "multiplier", "shards"}


@pytest.mark.statistical
def test_rows_join_shards_by_draws_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """False-alarm rates: 4e-5 for the counts and for the pairs, below 2e-6 for the variance; 8.2e-5 together."""
    places = []

    class Watching:
        def __init__(self, rows: Any, place: Any, *more: Any) -> None:
            places.append(place)

    monkeypatch.setattr("medsynth.privacy.shards.Shards", Watching)
    for codes in (some(), (some() + 1) % 3):
        build(codes, entropy=SeededEntropy(4))
    assert (places[0] == places[1]).all()  # the values of a row decide nothing
    places.clear()
    for _ in range(150):
        build(entropy=SystemEntropy())
    table = np.array(places)
    assert stats.chisquare(np.bincount(table.ravel(), minlength=K)).pvalue > 4e-5
    sizes = np.array([np.bincount(place, minlength=K) for place in table])
    assert abs(sizes.var() - 60 / K * (1 - 1 / K)) < 3.5  # binomial; a shuffle and split has none
    together = (table[:, 0] == table[:, 1]).sum()
    assert stats.binomtest(int(together), 150, 1 / K).pvalue > 4e-5
    places.clear()
    build(units=PrivacyUnits(np.arange(60) // 3, 3))
    assert (places[0].reshape(20, 3) == places[0][::3, None]).all()


@pytest.mark.parametrize("joint", [False, True])
def test_no_two_critics_gradients_differ_by_more_than_is_charged(joint: bool) -> None:
    rng = torch.Generator().manual_seed(0)
    most = 0.0
    for trial in range(200):
        one, two = torch.randn(2, 6, FREE, generator=rng) * 10 ** (trial % 5 - 2)
        if trial % 2:
            two = -one
        distance = (clipped(one, 0.7, joint) - clipped(two, 0.7, joint)).double().norm() * unit_of(0.7)
        bound = 2 * 0.7 * (1 if joint else 6**0.5)
        assert distance <= bound
        most = max(most, float(distance) / bound)
    assert most > 0.999
    shards, ledger, _ = build()
    shards.measure_upstream_gradient("u", fakes(), 0.7, joint=joint)
    assert ledger.entries[0].sensitivity == pytest.approx(bound)


@pytest.mark.statistical
@pytest.mark.parametrize("joint, factor", [(False, 4000**0.5), (True, 1.0)])
def test_noise_is_multiplier_times_sensitivity_and_empty_shards_release_it(joint: bool, factor: float) -> None:
    """The seed is fixed: it cannot fail by chance."""
    shards, ledger, plan = build(np.empty((0, 3), np.int32))
    shards.train(pool())
    released = shards.measure_upstream_gradient("u", fakes(4000), 0.7, joint=joint)
    std = plan.events["u"][0].multiplier * 2 * 0.7 * factor
    assert released.shape == (4000, FREE)
    assert stats.kstest(released.flatten().numpy() / std, "norm").pvalue > 1e-4
    assert ledger.entries[0].count == 1


def test_an_empty_shard_beside_full_ones_learns_nothing_and_harms_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    shards, *_ = build(place=np.arange(60) % (K - 1), monkeypatch=monkeypatch)
    before = weights(shards)
    for step in range(5):
        shards.train(pool(step))
    for was, now in zip(before, weights(shards), strict=True):
        empty, full = slice((K - 1) * CLASSES, None), shards._Shards__sizes > 0
        assert torch.equal(was[empty], now[empty]) and torch.isfinite(now).all()
        assert ((was != now).flatten(1).any(1) == full).all()


def test_what_is_no_number_is_released_as_zero() -> None:
    shards, *_ = build(entropy=NoNoise())
    with torch.no_grad():
        critics_of(shards).parameters[0].fill_(torch.nan)
    assert shards.measure_upstream_gradient("u", fakes(), 1.0).abs().max() == 0


def test_what_the_plan_lacks_is_refused_before_anything_is_drawn() -> None:
    shards, ledger, _ = build(steps=1)
    shards.measure_upstream_gradient("u", fakes(), 1.0)
    entropy = shards._Shards__releases.entropy
    state = copy.deepcopy(entropy._generator.bit_generator.state)
    for label in ("u", "unplanned"):
        with pytest.raises(BudgetError):
            shards.measure_upstream_gradient(label, fakes(), 1.0)
    with pytest.raises(BudgetError, match="clipping"):
        shards.measure_upstream_gradient("u", fakes(), 0.0)
    assert str(entropy._generator.bit_generator.state) == str(state) and len(ledger.entries) == 1


def test_one_shard_is_charged_as_one_of_these_shards() -> None:
    """A plan of more shards, of a Poisson lot or of all rows is another claim: it is refused, and nothing is drawn."""
    other = [SubsampledGaussian(multiplier=1.0, rate=0.01), Gaussian(multiplier=1.0)]
    other += [kind(multiplier=1.0, shards=count) for kind in ONE_SHARD for count in (K - 1, K + 1, 1000)]
    for event in other:
        shards, ledger = planned_by({"u": (event, 5)})
        with pytest.raises(BudgetError, match=f"one of {K} shards"):
            shards.measure_upstream_gradient("u", fakes(), 1.0)
        assert not ledger.entries
    for kind in ONE_SHARD:
        shards, ledger = planned_by({"u": (kind(multiplier=1.0, shards=K), 5)})
        shards.measure_upstream_gradient("u", fakes(), 1.0)
        assert len(ledger.entries) == 1


def test_each_label_has_a_public_order_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A label's measurements are charged by the largest number of one shard: those of another label do not shift it."""
    seen: list[int] = []

    def watched(self: Critics, which: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        seen.append(int(which[0]) // CLASSES)
        return 0 * rows

    monkeypatch.setattr(Critics, "generator_gradient", watched)
    event = PublicOrderGaussian(multiplier=1.0, shards=K)
    shards, _ = planned_by({"u": (event, K), "v": (event, K)})
    for _ in range(K):
        for label in ("u", "v"):
            shards.measure_upstream_gradient(label, fakes(1), 1.0)
    assert seen == [shard for shard in range(K) for _ in "uv"]


def test_the_rows_of_a_vault_are_split_once() -> None:
    """In a second placement a unit could be measured again, where it is charged for one shard of the first."""
    ledger = planned(K, 5, None).ledger("t")
    vault = Vault(some(), ("a", "b", "c"), Releases(ledger, SeededEntropy(0)))
    vault.split_into_shards(K, features, CLASSES, SMALL)
    with pytest.raises(BudgetError, match="once"):
        vault.split_into_shards(K, features, CLASSES, SMALL)


def planned_by(events: dict[str, tuple[Any, int]]) -> tuple[Any, Ledger]:
    """Shards by a plan of these events."""
    ledger = Ledger(delta=1e-5, accountant="prv", random_source="t", allowance=events)
    vault = Vault(some(), ("a", "b", "c"), Releases(ledger, SeededEntropy(0)))
    return vault.split_into_shards(K, features, CLASSES, SMALL), ledger


def test_nothing_else_is_offered() -> None:
    shards, *_ = build()
    for attempt in (len, iter, pickle.dumps, copy.copy, copy.deepcopy, lambda s: s[0]):
        with pytest.raises(TypeError):
            attempt(shards)
    assert not hasattr(shards, "__dict__")
    offered = {"train", "measure_upstream_gradient", "measure_upstream_sum", "release"}
    offered |= {"measure_votes", "measure_gradient_votes"}
    assert {name for name in dir(shards) if not name.startswith("_")} == offered


def test_no_text_of_it_contains_a_canary(capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    codes = np.full((60, 3), 2, np.int32)
    shards, ledger, _ = build(codes)
    shards.train(pool())
    shards.measure_upstream_gradient("u", fakes(), 1.0)
    assert repr(shards) == str(shards) == "Shards(private rows and critics)"
    assert not capsys.readouterr().out and not caplog.records
    assert repr(ledger.entries) == repr(entries_of(some())) == repr(entries_of(codes[:3]))


def entries_of(codes: Any) -> Any:
    shards, ledger, _ = build(codes)
    shards.measure_upstream_gradient("u", fakes(), 1.0)
    return ledger.entries
