"""Every kind of measurement of a vault, for patients of several rows: its noise is what is charged."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from medsynth.methods.encoded_rows import Embedding, EncodedRows
from medsynth.methods.marginals import GRID_CELLS
from medsynth.privacy.accounting.events import Gaussian
from medsynth.privacy.accounting.ledger import Ledger
from medsynth.privacy.clipping import Groups, clipped_gradient_sum, gradients_of_groups
from medsynth.privacy.contribution import PrivacyUnits
from medsynth.privacy.networks import Mlp
from medsynth.privacy.queries import gradients as module
from medsynth.privacy.queries.vectors import VectorSum
from medsynth.privacy.release import Releases
from medsynth.privacy.vault import Vault
from medsynth.rng import Entropy, NoNoise, SeededEntropy
from medsynth.schema import Schema
from medsynth.schema.columns.grid import Grid, grid

MULTIPLIER, TIMES, CAP, BOUND = 1.5, 150, 3, 0.7
LEVELS = Grid(np.arange(4), False)
AXES: Any = {"a": [("a", LEVELS)], "b": [("b", LEVELS)], "ab": [("a", LEVELS), ("b", LEVELS)]}
GROUPS = Groups(torch.tensor([0, 1]), (0.3, 2.0))


def vault(codes: Any, entropy: Entropy, units: PrivacyUnits | None = None, times: int = TIMES) -> Vault:
    ledger = Ledger(
        delta=1e-5, accountant="prv", random_source=entropy.source,
        allowance={"m": (Gaussian(multiplier=MULTIPLIER), times)}, max_rows=units.max_rows if units else None,
    )  # fmt: skip
    return Vault(codes, ("a", "b"), Releases(ledger, entropy), units)


def features(codes: Any) -> torch.Tensor:
    return torch.from_numpy(codes.astype(np.float32))


def first(output: torch.Tensor) -> torch.Tensor:
    return output[:, 0]


def of_real(critic: Any, real: torch.Tensor, fake: torch.Tensor, mix: torch.Tensor) -> torch.Tensor:
    found: torch.Tensor = critic(real)
    return found


def marginals(room: Vault) -> Any:
    return np.concatenate([t.ravel() for t in room.measure_marginals("m", AXES).values()])


def distances(room: Vault) -> Any:
    guesses = {"a": np.zeros(3), "b": np.ones(3), "ab": np.full((3, 3), 2.0)}
    return np.array(list(room.measure_distances("m", AXES, guesses).values()))


def gradients(room: Vault) -> Any:
    return room.measure_gradient_sum("m", Mlp([2, 1], bias=False), first, features, BOUND)[0].numpy().ravel()


def pairs(room: Vault) -> Any:
    pool = torch.zeros(1, 2)
    found = room.measure_pair_gradient_sum("m", Mlp([2, 1], bias=False), of_real, features, pool, GROUPS)
    return found[0].numpy().ravel() / np.array(GROUPS.bounds)


def norms(room: Vault) -> Any:
    return room.measure_norms_below("m", Mlp([2, 1], bias=False), of_real, features, torch.zeros(1, 2), GROUPS)


def second_moments(room: Vault) -> Any:
    """The diagonal, and what stands beside it times sqrt(2): the noise of each is that of one number."""
    found = room.measure_second_moments("m", lambda codes: np.tile(codes / 9.0, 3), ("a", LEVELS), 6)
    assert np.array_equal(found, found.transpose(0, 2, 1))
    ones, others = np.triu_indices(6)
    return (found[:, ones, others] * np.where(ones == others, 1, math.sqrt(2))).ravel()


def vector_sum(room: Vault) -> Any:
    return room.measure("m", VectorSum(features, 2))


CASES: dict[str, tuple[Callable[[Vault], Any], float]] = {
    "marginals": (marginals, CAP * math.sqrt(3)),
    "distances": (distances, CAP * math.sqrt(3)),
    "gradient sum": (gradients, CAP * BOUND),
    "pair gradients": (pairs, CAP * math.sqrt(2)),
    "norms below a bound": (norms, CAP * math.sqrt(2) / 2),
    "second moments": (second_moments, CAP),
    "vector sum": (vector_sum, CAP),
    "rows per patient": (lambda room: room.measure_rows_per_patient("m"), 1.0),
}


@pytest.mark.statistical
@pytest.mark.parametrize("name", CASES)
def test_every_number_has_the_noise_that_is_charged(name: str) -> None:
    """Released less exact numbers of 150 releases, by a Kolmogorov-Smirnov test. The seed is fixed."""
    measure, sensitivity = CASES[name]
    units = PrivacyUnits(np.arange(30) // CAP, CAP)
    codes = np.random.default_rng(0).integers(0, 3, (30, 2)).astype(np.int32)
    exact = measure(vault(codes, NoNoise(), units))
    room = vault(codes, SeededEntropy(1), units)
    noise = np.concatenate([measure(room) - exact for _ in range(TIMES)])
    assert stats.kstest(noise / (MULTIPLIER * sensitivity), "norm").pvalue > 1e-4


def test_rows_join_microbatches_by_draws_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by their place in the lot, which a row less would move for all rows after it. The seed is fixed."""
    seen: list[Any] = []

    def watched(critic: Any, loss: Any, rows: Any, groups: Any, count: Any) -> Any:
        seen.append(groups.numpy())
        return gradients_of_groups(critic, loss, rows, groups, count)

    monkeypatch.setattr(module, "gradients_of_groups", watched)
    room = vault(np.ones((300, 2), np.int32), SeededEntropy(2))
    for _ in range(2):
        room.measure_gradient_sum("m", Mlp([2, 1], bias=False), first, features, BOUND, microbatches=5)
    assert (seen[0] != seen[1]).mean() > 0.5
    for groups in seen:
        assert stats.chisquare(np.bincount(groups, minlength=5)).pvalue > 1e-4
        assert stats.binomtest(int((np.diff(groups) % 5 == 1).sum()), 299, 1 / 5).pvalue > 1e-4


def test_a_gradient_sum_grows_with_its_lot() -> None:
    """It is a sum: what it is divided by is the caller's, and public. A mean would have another sensitivity."""
    for rows in (1, 10, 200, 500):
        found = gradients(vault(np.ones((rows, 2), np.int32), NoNoise()))
        assert np.linalg.norm(found) == pytest.approx(rows * BOUND, rel=1e-4)


def test_rounding_lifts_no_clipped_row_over_its_norm() -> None:
    """Norms and factors are rounded, some of them upwards: the margin is wider than that."""
    critic, rows = Mlp([8, 1], bias=False), torch.randn(500, 8, generator=torch.Generator().manual_seed(0)) * 9
    longest = [float(clipped_gradient_sum(critic, first, row[None], BOUND).tensors[0].double().norm()) for row in rows]
    assert 0.999 * BOUND < max(longest) <= BOUND


def test_what_a_critic_reads_of_a_row_depends_on_that_row_alone() -> None:
    """Gradients of rows that read their neighbours could not be bounded row by row."""
    columns = {
        "age": {"kind": "count", "bounds": [0, 100]},
        "sex": {"kind": "binary", "levels": ["F", "M"]},
        "y": {"kind": "categorical", "levels": ["a", "b", "c"]},
    }
    schema = Schema.from_dict({"name": "t", "target": "y", "columns": columns})
    counts = {name: np.ones(grid(column, GRID_CELLS).cells) for name, column in schema.columns.items()}
    rows = EncodedRows.of(schema, counts, 100)
    embed = Embedding(rows, 16, 2.0, 0.7, 1.0, np.random.default_rng(0), "cpu")
    codes = np.column_stack([np.arange(20), np.arange(20) % 2, np.arange(20) % 3]).astype(np.int32)
    other = codes.copy()
    other[7] = [90, 1, 2]
    same = np.arange(20) != 7
    assert torch.equal(embed.by_class(codes)[same], embed.by_class(other)[same])
