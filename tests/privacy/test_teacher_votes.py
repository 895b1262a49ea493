"""Votes of teachers on shards: what one row changes, how much noise they get, and the errors of published code.

Ganev, Annamalai, De Cristofaro 2024 (arXiv 2406.13985) found nineteen privacy violations in six public implementations
of PATE-GAN. The kinds of them that a method behind these votes could repeat are tested here by name.
"""

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch.nn import functional

from medsynth.errors import BudgetError
from medsynth.methods import g_pate, pate_gan
from medsynth.privacy.accounting import accountant
from medsynth.privacy.accounting.calibration import make_plan
from medsynth.privacy.accounting.events import Event, Gaussian, PublicOrderGaussian, ShardSampledGaussian
from medsynth.privacy.accounting.ledger import Ledger
from medsynth.privacy.contribution import PrivacyUnits
from medsynth.privacy.release import Releases
from medsynth.privacy.shards import CriticConfig, Shards
from medsynth.privacy.vault import Vault
from medsynth.rng import Entropy, NoNoise, SeededEntropy

K, FREE, CLASSES, MULTIPLIER, TIMES, CAP = 6, 6, 3, 1.5, 300, 3
TEACHER = CriticConfig(width=8, rate=0.05, loss="cross-entropy")
DIRECTIONS = torch.randn(FREE, 2, generator=torch.Generator().manual_seed(3))
BINS, BOUND = 3, 0.05


class ExactEntropy(NoNoise):
    """No noise, and the same private seeds each time."""

    def __init__(self) -> None:
        self._seeded = SeededEntropy(0)

    def bytes(self, count: int) -> bytes:
        return self._seeded.bytes(count)


def features(codes: Any) -> Any:
    """Two columns of three cells and a class, as indicators."""
    hot = [functional.one_hot(torch.from_numpy(codes[:, k].astype(np.int64)), 3) for k in range(3)]
    return torch.cat(hot, 1).to(torch.get_default_dtype())


def some(rows: int = 60, seed: int = 0) -> Any:
    return np.random.default_rng(seed).integers(0, 3, (rows, 3)).astype(np.int32)


def releases(entropy: Entropy, max_rows: int | None = None) -> Releases:
    allowance: dict[str, tuple[Event, int]] = {"v": (Gaussian(multiplier=MULTIPLIER), TIMES)}
    return Releases(
        Ledger(delta=1e-5, accountant="prv", random_source=entropy.source, allowance=allowance, max_rows=max_rows),
        entropy,
    )


def trained(codes: Any, place: Any, entropy: Entropy, steps: int = 40) -> Shards:
    shards = Shards(features(codes), np.asarray(place, np.int64), K, CLASSES, TEACHER, releases(entropy))
    pool = torch.stack([features(np.c_[some(8, y)[:, :2], np.full(8, y, np.int32)]) for y in range(CLASSES)])
    for _ in range(steps):
        shards.train(pool)
    return shards


def slopes(shards: Shards, rows: Any) -> Any:
    return shards.measure_gradient_votes("v", rows, DIRECTIONS, BOUND, BINS)


QUESTIONS: dict[str, tuple[Any, Any]] = {
    "votes": (lambda shards, rows: shards.measure_votes("v", rows), math.sqrt),
    "gradient votes": (slopes, lambda rows: math.sqrt(2 * rows * DIRECTIONS.shape[1])),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_row_moves_votes_by_no_more_than_is_charged(question: str) -> None:
    """A changed row and one that is gone, in whatever shard: the change is that of one teacher, and stays in bounds."""
    ask, sensitivity = QUESTIONS[question]
    codes, place, rows = some(), np.arange(60) % K, features(some(12, 9))
    exact = ask(trained(codes, place, ExactEntropy()), rows)
    moved = []
    for row in (0, 31):
        other = codes.copy()
        other[row] = (codes[row] + 1) % 3
        for changed, where in ((other, place), (np.delete(codes, row, 0), np.delete(place, row))):
            found = ask(trained(changed, where, ExactEntropy()), rows)
            assert (found - exact).abs().max() <= 1
            moved.append(float((found - exact).norm()))
    assert 0 < max(moved) <= sensitivity(len(rows)) + 1e-9


@pytest.mark.statistical
@pytest.mark.parametrize("question", QUESTIONS)
def test_votes_have_the_noise_that_is_charged(question: str) -> None:
    """By a Kolmogorov-Smirnov test against multiplier times sensitivity; the ledger has both. The seed is fixed."""
    ask, sensitivity = QUESTIONS[question]
    codes, place, rows = some(), np.arange(60) % K, features(some(6, 9))
    exact = ask(trained(codes, place, ExactEntropy(), 1), rows)
    shards = trained(codes, place, SeededEntropy(1), 0)
    shards._Shards__critics = trained(codes, place, ExactEntropy(), 1)._Shards__critics  # type: ignore[attr-defined]
    noise = torch.cat([(ask(shards, rows) - exact).flatten() for _ in range(TIMES)]).numpy()
    assert stats.kstest(noise / (MULTIPLIER * sensitivity(6)), "norm").pvalue > 1e-4
    with pytest.raises(BudgetError):
        ask(shards, rows)  # "the accountant stops one round late": the plan holds no further round


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_charge_is_that_of_all_rows_and_directions_of_a_round(question: str) -> None:
    """Not of one vote: N questions are put to the same teachers. For patients it is the same, whatever their rows."""
    ask, sensitivity = QUESTIONS[question]
    for units in (None, PrivacyUnits(np.arange(60) // CAP, CAP)):
        room = releases(SeededEntropy(0), CAP if units else None)
        vault = Vault(some(), ("a", "b", "c"), room, units)
        ask(vault.split_into_shards(K, features, CLASSES, TEACHER), features(some(7)))
        (entry,) = room._Releases__ledger.entries  # type: ignore[attr-defined]
        assert entry.sensitivity == pytest.approx(sensitivity(7)) and entry.event == Gaussian(multiplier=MULTIPLIER)


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("kind", [ShardSampledGaussian, PublicOrderGaussian])
def test_votes_are_never_charged_as_a_sampled_shard(question: str, kind: Any) -> None:
    """Every shard is read: neither secret sampling nor a public order makes it cheaper."""
    entropy = SeededEntropy(0)
    allowance = {"v": (kind(multiplier=1.0, shards=K), 1)}
    ledger = Ledger(delta=1e-5, accountant="prv", random_source=entropy.source, allowance=allowance)
    shards = Shards(features(some()), np.arange(60) % K, K, CLASSES, TEACHER, Releases(ledger, entropy))
    with pytest.raises(BudgetError, match="plain Gaussian"):
        QUESTIONS[question][0](shards, features(some(4)))
    assert not ledger.entries


def test_no_teacher_sees_another_teachers_rows() -> None:
    """Published: every teacher is fed the first partition, or a fresh sample of all rows at each step. Bit for bit."""
    codes, place = some(), np.arange(60) % K
    other = codes.copy()
    other[place == 2] = (codes[place == 2] + 1) % 3
    one, two = (trained(table, place, ExactEntropy())._Shards__critics for table in (codes, other))  # type: ignore[attr-defined]
    for p, q in zip(one.parameters, two.parameters, strict=True):
        same = (p == q).flatten(1).all(1).reshape(K, CLASSES).all(1)
        assert same.tolist() == [k != 2 for k in range(K)]


def test_a_patient_is_with_one_teacher() -> None:
    codes, units = some(), PrivacyUnits(np.arange(60) // CAP, CAP)
    seen: list[Any] = []

    class Watched(Shards):
        def __init__(self, rows: Any, place: Any, *more: Any) -> None:
            seen.append(place)
            super().__init__(rows, place, *more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("medsynth.privacy.shards.Shards", Watched)
        Vault(codes, ("a", "b", "c"), releases(SeededEntropy(0), CAP), units).split_into_shards(
            K, features, CLASSES, TEACHER
        )
    assert (seen[0].reshape(-1, CAP) == seen[0].reshape(-1, CAP)[:, :1]).all() and len(set(seen[0])) > 1


@pytest.mark.parametrize("method", [pate_gan.PateGan(), g_pate.GPate()], ids=["pate-gan", "g-pate"])
def test_epsilon_does_not_depend_on_how_votes_fall(method: Any) -> None:
    """Published: a moments accountant of the votes, with an index or a logarithm wrong, printed without a charge.

    Here the plan is made before a row is read, of plain Gaussians, and a fit charges exactly it. More teachers, who
    agree more, cost no less. The noise's scale is not turned round either: a smaller budget has more noise.
    """
    plans = {
        epsilon: make_plan(method.queries(method.Config(), 3000, 4, epsilon), epsilon=epsilon, delta=1e-5, rows=3000)
        for epsilon in (1.0, 3.7)
    }
    events = {epsilon: plan.events[list(plan.events)[-1]] for epsilon, plan in plans.items()}
    assert all(isinstance(event, Gaussian) for event, _ in events.values())
    assert events[1.0][0].multiplier > 2 * events[3.7][0].multiplier
    assert accountant.epsilon(plans[3.7].events.values(), 1e-5) == plans[3.7].epsilon <= 3.7
    more = make_plan(method.queries(method.Config(shards=7), 3000, 4, 3.7), epsilon=3.7, delta=1e-5, rows=3000)
    assert more.events == plans[3.7].events


def test_the_student_learns_from_noised_votes_alone(quick: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Published: students, or generators, that see real rows. Votes of zero make the same model of any table."""
    import pandas as pd

    import medsynth
    from medsynth.privacy import shards as module
    from medsynth.privacy.queries import query
    from medsynth.schema import Schema

    columns = {"a": {"kind": "count", "bounds": [0, 9]}, "y": {"kind": "binary", "levels": [0, 1]}}
    schema = Schema.from_dict({"name": "t", "target": "y", "columns": columns})
    for place in (query, module):
        monkeypatch.setattr(place, "noised", lambda values, std, entropy: 0.0 * values)
    made = []
    for seed in (0, 1):
        draw = np.random.default_rng(seed)
        frame = pd.DataFrame({"a": draw.integers(0, 10, 80), "y": draw.integers(0, 2, 80)})
        made.append(medsynth.fit(frame, epsilon=3.7, schema=schema, rows=80, method="pate-gan", seed=1).tensors)
    assert all(np.array_equal(made[0][name], made[1][name]) for name in made[0])


def test_an_odd_teacher_stops_no_fit() -> None:
    """A critic whose slopes overflow votes for a bin like any other: an error would tell of its rows."""
    shards = trained(some(), np.arange(60) % K, ExactEntropy(), 1)
    with torch.no_grad():
        for p in shards._Shards__critics.parameters:  # type: ignore[attr-defined]
            p[:CLASSES] = 6e18  # slopes of 3e38 an input
    along = torch.tensor([[torch.inf], [-torch.inf]]).repeat(FREE // 2, 2)  # whatever overflows: not a number
    counts = shards.measure_gradient_votes("v", features(some(4)), along, BOUND, BINS)
    assert (counts.sum(-1) == K).all()
    votes = shards.measure_votes("v", features(some(4)))
    assert ((votes >= 0) & (votes <= K)).all()
    with pytest.raises(BudgetError, match="clipping norm"):
        shards.measure_gradient_votes("v", features(some(4)), DIRECTIONS, 0.0, BINS)
