"""Noise that several vaults share: their sum has the planned law, and nobody gets a part that does not add up."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from scipy.special import ndtr

from medsynth.arrays import Codes
from medsynth.errors import BudgetError
from medsynth.privacy.accounting.calibration import Charge, make_plan
from medsynth.privacy.noise import noise_grid, noise_share, shares_distance
from medsynth.privacy.queries.cells import EveryCode
from medsynth.privacy.queries.noising import NoiseShare, Noising, Unnoised, WholeNoise, as_words, from_words
from medsynth.privacy.queries.tables import Distances, Marginals
from medsynth.privacy.release import Releases
from medsynth.privacy.vault import Vault
from medsynth.rng import Entropy, NoNoise, SeededEntropy, SystemEntropy

TABLE = Marginals({"x": [("a", EveryCode(4))]})
ROWS: list[Codes] = [np.array([[0], [1], [1]], np.int32), np.array([[3], [3], [3], [0]], np.int32)]
COUNTS = np.array([2.0, 2.0, 0.0, 3.0])


def vault(rows: Codes, entropy: Entropy, noising: Noising | None = None) -> Vault:
    plan = make_plan([Charge(label="x", weight=1.0, times=2)], epsilon=3.7, delta=1e-5, rows=100)
    return Vault(rows, ("a",), Releases(plan.ledger(entropy.source), entropy), None, noising)


def multiplier() -> float:
    event, _ = make_plan([Charge(label="x", weight=1.0, times=2)], epsilon=3.7, delta=1e-5, rows=100).events["x"]
    return event.multiplier


def rounded_law(std: float, most: int) -> NDArray[np.float64]:
    """The law of a normal variable rounded, over -most..most, tails as small numbers."""
    k = np.abs(np.arange(-most, most + 1))
    return np.where(k > 0, ndtr(-(k - 0.5) / std) - ndtr(-(k + 0.5) / std), 1 - 2 * ndtr(-0.5 / std))


@pytest.mark.parametrize("shares", [1, 2, 3, 5, 9])
@pytest.mark.parametrize("scale", [1.0, 2.0, 5.0, 10.0])
def test_the_distance_between_laws_is_bounded(scale: float, shares: int) -> None:
    """Computed in full for coarse grids, where it is far larger than on any that is used."""
    one = rounded_law(scale, math.ceil(14 * scale))
    law = one
    for _ in range(shares - 1):
        law = np.convolve(law, one)
    other = rounded_law(math.sqrt(shares * scale**2 + (shares - 1) / 12), len(law) // 2)
    distance = 0.5 * np.abs(law - other).sum()
    assert distance <= shares_distance(scale, shares) + 1e-14
    assert shares == 1 or distance > shares_distance(scale, shares) / 10  # and not by a wide margin


def test_on_the_grids_in_use_it_is_no_part_of_any_delta() -> None:
    assert shares_distance(2.0**15, 9) < 1e-20


@pytest.mark.statistical
@pytest.mark.parametrize("honest", [1, 2, 5])
def test_shares_of_the_honest_add_up_to_the_noise(honest: int) -> None:
    """40,000 sums against a normal variable of the planned deviation (Kolmogorov, Smirnov): fixed seed."""
    entropy, std = SeededEntropy(7), 3.0
    steps = noise_grid(std / math.sqrt(honest))[0]
    zeros = np.zeros(40_000, np.int64)
    total = sum(noise_share(zeros, std, honest, entropy) for _ in range(honest)) / steps
    assert stats.kstest(np.asarray(total), stats.norm(scale=std).cdf).pvalue > 1e-3
    assert 0.98 < np.std(total) / std < 1.02


@pytest.mark.parametrize("noising", [NoiseShare(2), Unnoised()])
def test_parts_add_up_to_the_answer(noising: Noising) -> None:
    """Without noise exactly; each charged like the answer itself."""
    entropy = NoNoise()
    parts = []
    for rows in ROWS:
        own = vault(rows, entropy, noising)
        parts.append(from_words(own.release("x", TABLE).arrays))
        with pytest.raises(BudgetError):
            for _ in range(2):
                own.release("x", TABLE)
    total = [one + other for one, other in zip(*parts, strict=True)]
    std = multiplier() * TABLE.sensitivity(None)
    if isinstance(noising, NoiseShare):
        found = noising.noised(TABLE, total, std)
    else:
        found = Unnoised().noised(TABLE, total, std, entropy)
    assert (found[0] == COUNTS).all()


@pytest.mark.statistical
def test_a_share_is_noised_and_a_sum_of_shares_by_as_much_as_is_due() -> None:
    """Of 4 cells x 500: the variance within a fifth of the plan's; a chi-squared of 2,000 is so with 1 - 1e-9."""
    found, std = [], multiplier() * TABLE.sensitivity(None)
    for _ in range(500):
        parts = [from_words(vault(rows, SystemEntropy(), NoiseShare(2)).release("x", TABLE).arrays) for rows in ROWS]
        assert (parts[0][0] % 2**10 != 0).any()
        found.append(NoiseShare(2).noised(TABLE, [parts[0][0] + parts[1][0]], std)[0] - COUNTS)
    assert 0.8 < np.var(found) / std**2 < 1.2


def test_what_is_no_sum_has_no_share() -> None:
    gaps = Distances(TABLE.tables, {"x": np.zeros(4)})
    assert not gaps.adds_up and TABLE.adds_up
    with pytest.raises(BudgetError, match="not a sum over rows"):
        vault(ROWS[0], NoNoise(), NoiseShare(2)).release("x", gaps)
    tables = [from_words(vault(rows, NoNoise(), Unnoised()).release("x", gaps).arrays)[0] for rows in ROWS]
    found = Unnoised().noised(gaps, [tables[0] + tables[1]], 1.0, NoNoise())
    assert gaps.result(found) == {"x": 7.0}
    with pytest.raises(BudgetError, match="At least one vault"):
        NoiseShare(0)


def test_a_vault_knows_its_own_noisings_alone() -> None:
    class Quiet(WholeNoise):
        pass

    with pytest.raises(BudgetError, match="own kinds"):
        vault(ROWS[0], NoNoise(), Quiet())
    assert (vault(ROWS[0], NoNoise()).release("x", TABLE).arrays[0] == [1, 2, 0, 0]).all()
    with pytest.raises(BudgetError, match="parts of a sum"):
        vault(ROWS[0], NoNoise(), Unnoised()).measure("x", TABLE)


def test_words_hold_every_whole_number() -> None:
    numbers = np.array([0, 1, -1, 2**63 - 1, -(2**63), 2**40 + 3])
    assert (from_words(as_words([numbers]))[0] == numbers).all()
