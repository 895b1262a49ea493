"""A critic on a device: its sums stay there until they are noised, and what is released and stored is the same.

`forced` treats the CPU as such a device. Seeds are fixed: no statistical test can fail by chance.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from critic_queries import POOL, features, pair_loss, soft
from scipy import stats

from medsynth.privacy.accounting.events import Gaussian
from medsynth.privacy.accounting.ledger import Ledger
from medsynth.privacy.checkpoint import Checkpoint
from medsynth.privacy.clipping import Groups
from medsynth.privacy.networks import Mlp
from medsynth.privacy.queries import gradients
from medsynth.privacy.queries.gradients import GradientSum, PairGradientSum
from medsynth.privacy.queries.noising import NoiseShare, Noising, Unnoised
from medsynth.privacy.queries.parts import RowsInMemory
from medsynth.privacy.release import Releases
from medsynth.privacy.vault import Vault
from medsynth.rng import Entropy, NoNoise, SeededEntropy

NAMES, MULTIPLIER, BOUND = ("a", "b"), 1.5, 0.4
CODES = np.random.default_rng(0).integers(0, 3, (60, 2)).astype(np.int32)
CRITIC = Mlp([2, 300, 1], "tanh", torch.Generator().manual_seed(0))
PARAMETERS = sum(p.numel() for p in CRITIC.parameters())
GROUPS = Groups(torch.arange(PARAMETERS) % 2, (0.3, 2.0))


CASES: dict[str, Any] = {
    "rows": GradientSum(CRITIC, soft, features, BOUND),
    "microbatches": GradientSum(CRITIC, soft, features, BOUND, 4),
    "pairs": PairGradientSum(CRITIC, pair_loss, features, POOL, GROUPS),
}
every = pytest.mark.parametrize("name", CASES)


class Counting(SeededEntropy):
    """Repeatable bytes, and how many were asked for in each call."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.calls = list[int]()

    def bytes(self, count: int) -> bytes:
        self.calls.append(count)
        return super().bytes(count)


def vault(
    entropy: Entropy, *, noising: Noising | None = None, checkpoint: Checkpoint | None = None, parts: int = 1,
    codes: Any = CODES,
) -> Vault:  # fmt: skip
    allowance: Any = {"m": (Gaussian(multiplier=MULTIPLIER), 5)}
    ledger = Ledger(delta=1e-5, accountant="prv", random_source=entropy.source, allowance=allowance)
    rows = [RowsInMemory(some, NAMES) for some in np.array_split(codes, parts)]
    return Vault(rows, NAMES, Releases(ledger, entropy, checkpoint), noising=noising)


@pytest.fixture
def forced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gradients, "where_computed", list)


def flat(tensors: Any) -> Any:
    return torch.cat([tensor.flatten() for tensor in tensors]).numpy()


@every
def test_sums_without_noise_are_those_of_the_cpu(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bit for bit, in one part and in three, whose draws are alike."""

    class Seeded(NoNoise):
        def __init__(self) -> None:
            self.bytes = SeededEntropy(1).bytes  # type: ignore[method-assign]

    found = vault(Seeded()).measure("m", CASES[name])
    monkeypatch.setattr(gradients, "where_computed", list)
    for parts in (1, 3):
        own = vault(Seeded(), parts=parts).measure("m", CASES[name])
        assert all(torch.equal(a, b) and a.dtype == b.dtype for a, b in zip(found, own, strict=True))


@pytest.mark.statistical
@every
def test_the_noise_is_multiplier_times_sensitivity(name: str, forced: None) -> None:
    """No rows add up to zero, and no two numbers of a release share a draw. The seed is fixed."""
    query = CASES[name]
    drawn = vault(SeededEntropy(1), codes=CODES[:0]).release("m", query).arrays
    scales = query.scales(MULTIPLIER * query.sensitivity(None))
    noise = np.concatenate([np.ravel(a) / scale.std for a, scale in zip(drawn, scales, strict=True)])
    assert stats.kstest(noise, "norm").pvalue > 1e-4 and len(np.unique(noise)) == len(noise) == PARAMETERS


@every
def test_what_is_stored_is_what_is_released_and_is_replayed(name: str, tmp_path: Path, forced: None) -> None:
    path = tmp_path / "c"
    first = vault(SeededEntropy(3), checkpoint=Checkpoint(path, {}, resume=True)).measure("m", CASES[name])
    entropy = Counting(4)
    again = vault(entropy, checkpoint=Checkpoint(path, {}, resume=True)).measure("m", CASES[name])
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True)) and not entropy.calls
    found = vault(SeededEntropy(3)).release("m", CASES[name])
    assert found.arrays and all(isinstance(array, torch.Tensor) for array in found.arrays)
    assert np.array_equal(flat(CASES[name].result(found.arrays)), flat(first))


def test_one_draw_noises_all_parameters(forced: None) -> None:
    """A release asks the host for one key. Two groups with different bounds ask for two, after the pairs' draws."""
    keys = {"rows": [32], "pairs": [16 * len(CODES), 32, 32]}
    for name, calls in keys.items():
        entropy = Counting(5)
        vault(entropy).measure("m", CASES[name])
        assert entropy.calls == calls


@pytest.mark.parametrize("noising", [Unnoised(), NoiseShare(2)])
def test_parts_of_a_sum_over_vaults_are_those_of_the_cpu(noising: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums that go to another vault are noised on the CPU."""
    found = vault(SeededEntropy(6), noising=noising).release("m", CASES["rows"])
    monkeypatch.setattr(gradients, "where_computed", list)
    own = vault(SeededEntropy(6), noising=noising).release("m", CASES["rows"])
    assert {*map(type, own.arrays)} == {np.ndarray}
    assert all(np.array_equal(a, b) for a, b in zip(found.arrays, own.arrays, strict=True))
