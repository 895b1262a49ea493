"""The sum of all critics' clipped gradients: one shard's part is bounded, and the noise is that which is charged."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from medsynth.errors import BudgetError
from medsynth.privacy.accounting.events import Event, Gaussian, PublicOrderGaussian, ShardSampledGaussian
from medsynth.privacy.accounting.ledger import Ledger
from medsynth.privacy.queries.noising import NoiseShare, Noising, Unnoised, from_words
from medsynth.privacy.release import Releases
from medsynth.privacy.shards import CriticConfig, Shards, UpstreamSum, unit_of
from medsynth.rng import Entropy, NoNoise, SeededEntropy

SHARDS, CLASSES, FREE, BOUND = 5, 2, 4, 0.7
SUM = Gaussian(multiplier=2.0)


def rows(count: int, seed: int = 0) -> torch.Tensor:
    made = torch.rand(count, FREE + CLASSES, generator=torch.Generator().manual_seed(seed))
    made[:, -CLASSES:] = torch.eye(CLASSES)[torch.arange(count) % CLASSES]
    return made


def build(
    entropy: Entropy | None = None, noising: Noising | None = None, event: Event = SUM, own: Any = None, more: int = 0
) -> Any:
    """Five shards with trained critics; `own` are the rows of the third, and `more` of them are its alone."""
    events = {"s": (event, 10), "u": (PublicOrderGaussian(multiplier=1.0, shards=SHARDS), SHARDS)}
    ledger = Ledger(delta=1e-5, accountant="prv", random_source="t", allowance=events)
    place = np.append(np.arange(60) // 2 % SHARDS, np.full(more, 2))
    real = torch.cat([rows(60), rows(more, 9) if own is None else own])
    shards: Any = Shards(real, place, SHARDS, CLASSES, CriticConfig(), Releases(ledger, entropy or NoNoise()), noising)
    return shards, ledger


def trained(**options: Any) -> Any:
    """Critics of the same private seed, 50 steps on: one shard's rows are all that differs."""
    shards, _ = build(SeededEntropy(0), **options)
    shards._Shards__releases.entropy = NoNoise()
    for _ in range(50):
        shards.train(torch.stack([rows(16, 3)[y::CLASSES] for y in range(CLASSES)]))
    return shards


@pytest.mark.parametrize("joint", [False, True])
def test_the_sum_is_that_of_each_shards_clipped_gradient(joint: bool) -> None:
    """Number by number: single gradients, shard after shard in a public order, without noise."""
    shards = trained()
    with torch.no_grad():  # steep enough that some are clipped
        shards._Shards__critics.parameters[2].mul_(3.0)
    found = shards.measure_upstream_sum("s", rows(7, 1), BOUND, joint=joint)
    single = [shards.measure_upstream_gradient("u", rows(7, 1), BOUND, joint=joint) for _ in range(SHARDS)]
    assert torch.allclose(found, torch.stack(single).double().sum(0).float(), atol=1e-6)
    norms = torch.stack([g.norm() if joint else g.norm(dim=1).max() for g in single])
    assert 0.999 * BOUND < norms.max() <= BOUND * (1 + 1e-6)


@pytest.mark.parametrize("joint", [False, True])
def test_a_row_changes_the_sum_by_no_more_than_is_charged(joint: bool) -> None:
    """A row far out, and critics as far apart as any rows can take one shard's: the bound is nearly reached."""
    query = UpstreamSum(rows(8, 2), CLASSES, BOUND, joint)
    away = torch.cat([torch.full((1, FREE), -1e4), torch.eye(CLASSES)[:1]], 1)
    tables = [trained(more=1, own=own) for own in (rows(1), away)]
    turned = [trained(), trained()]
    for shards, sign in zip(turned, (1e6, -1e6), strict=True):
        with torch.no_grad():
            shards._Shards__critics.parameters[2][2 * CLASSES : 3 * CLASSES].mul_(sign)
    for (one, two), least in ((tables, 0.0), (turned, 0.999)):
        gap = (one._Shards__sum(query)[0] - two._Shards__sum(query)[0]).astype(float) * unit_of(BOUND)
        assert least * query.sensitivity(None) < np.linalg.norm(gap) <= query.sensitivity(None)
    assert query.sensitivity(3) == query.sensitivity(None)


@pytest.mark.statistical
@pytest.mark.parametrize(("joint", "factor"), [(False, 3000**0.5), (True, 1.0)])
def test_a_sum_has_noise_of_multiplier_times_sensitivity(joint: bool, factor: float) -> None:
    """The seed is fixed: it cannot fail by chance."""
    shards, ledger = build(SeededEntropy(1))
    fakes = rows(3000, 4)
    exact = shards._Shards__sum(UpstreamSum(fakes, CLASSES, BOUND, joint))[0] * unit_of(BOUND)
    noise = shards.measure_upstream_sum("s", fakes, BOUND, joint=joint).double().numpy() - exact
    std = SUM.multiplier * 2 * BOUND * factor
    assert stats.kstest(noise.ravel() / std, "norm").pvalue > 1e-4
    (entry,) = ledger.entries
    assert entry.sensitivity == pytest.approx(2 * BOUND * factor) and entry.count == 1


@pytest.mark.parametrize("event", [PublicOrderGaussian, ShardSampledGaussian])
def test_a_sum_is_never_charged_as_one_shards(event: Any) -> None:
    shards, ledger = build(event=event(multiplier=2.0, shards=SHARDS))
    with pytest.raises(BudgetError, match="every shard"):
        shards.measure_upstream_sum("s", rows(4), BOUND)
    assert not ledger.entries


def test_other_classes_and_bounds_are_refused() -> None:
    shards, ledger = build()
    with pytest.raises(BudgetError, match="other classes"):
        shards.release("s", UpstreamSum(rows(4), CLASSES + 1, BOUND))
    with pytest.raises(BudgetError, match="clipping"):
        shards.measure_upstream_sum("s", rows(4), 0.0)
    assert not ledger.entries


@pytest.mark.parametrize("noising", [Unnoised(), NoiseShare(2)])
def test_parts_of_a_sum_over_vaults_are_no_answers(noising: Noising) -> None:
    shards, ledger = build(noising=noising)
    with pytest.raises(BudgetError, match="parts"):
        shards.measure_upstream_sum("s", rows(4), BOUND)
    assert not ledger.entries
    query = UpstreamSum(rows(4), CLASSES, BOUND)
    (part,) = from_words(shards.release("s", query).arrays)
    assert part.shape == (4, FREE) and len(ledger.entries) == 1
    if isinstance(noising, Unnoised):
        assert (part == shards._Shards__sum(query)[0]).all()
