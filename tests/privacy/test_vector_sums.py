"""Sums of clipped vectors: exact sums of rows of norm one at most, and a sensitivity that the worst row attains."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from medsynth.errors import BudgetError
from medsynth.privacy.accounting.events import Gaussian
from medsynth.privacy.accounting.ledger import Ledger
from medsynth.privacy.contribution import PrivacyUnits
from medsynth.privacy.networks import Mlp
from medsynth.privacy.queries.gradients import GradientSum, minus_output
from medsynth.privacy.queries.rows import CodedRows
from medsynth.privacy.queries.vectors import UNIT, VectorSum, clipped_vectors
from medsynth.privacy.release import Releases
from medsynth.privacy.vault import Vault
from medsynth.rng import NoNoise

WIDTH, ONE = 7, round(1 / UNIT)


def vectors(codes: Any) -> torch.Tensor:
    """Some rows are longer than one, and the worst of all, of code 9, is far longer."""
    found = (codes[:, :1] + np.arange(WIDTH) - 3.0) * np.linspace(0.05, 0.4, WIDTH) * np.where(codes == 9, 50, 1)
    return torch.from_numpy(found.astype(np.float32))


def vault(codes: Any, units: PrivacyUnits | None = None) -> tuple[Vault, Ledger]:
    ledger = Ledger(
        delta=1e-5, accountant="prv", random_source="t", allowance={"m": (Gaussian(multiplier=1.0), 1)},
        max_rows=units.max_rows if units else None,
    )  # fmt: skip
    return Vault(codes, ("x",), Releases(ledger, NoNoise()), units), ledger


def rows(count: int) -> Any:
    return np.random.default_rng(0).integers(0, 6, (count, 1)).astype(np.int32)


def test_vectors_are_clipped_to_norm_one_exactly() -> None:
    """In whole numbers of any size, so that the statement needs no rounding; shorter ones are rounded alone."""
    stream = torch.Generator().manual_seed(1)
    for scale in (1e-6, 0.1, 1.0, 40.0, 1e200):
        whole = clipped_vectors(torch.randn(300, 50, generator=stream, dtype=torch.float64) * scale)
        assert max(sum(v**2 for v in row) for row in whole.tolist()) <= ONE**2
    short = torch.randn(300, 50, generator=stream) * 0.05
    assert (clipped_vectors(short) * UNIT - short).abs().max() <= 2.0**-19
    long = clipped_vectors(torch.randn(300, 50, generator=stream, dtype=torch.float64))
    assert (torch.linalg.vector_norm(long * UNIT, dim=1) > 1 - 2e-6).all()
    odd = torch.tensor([[math.nan, 1.0], [1.0, math.inf], [-math.inf, math.nan]])
    assert not clipped_vectors(odd).any()


def test_the_sum_is_that_of_every_row_by_itself() -> None:
    """Rounded down once, to a multiple of 2^-33."""
    codes = rows(200)
    total = [sum(column) for column in zip(*clipped_vectors(vectors(codes)).tolist(), strict=True)]
    found = vault(codes)[0].measure("m", VectorSum(vectors, WIDTH))
    assert found.tolist() == [(one >> 10) * 2.0**-33 for one in total]


def test_it_is_minus_the_gradient_sum_of_a_linear_function() -> None:
    """Earlier versions asked that query of minus the vectors. Equal bits keep their model files and checkpoints."""
    codes = rows(1000)
    coded = CodedRows(codes, ("x",), np.empty((1000, 0), np.uint64))
    own = VectorSum(lambda some: -vectors(some), WIDTH)
    earlier = GradientSum(Mlp([WIDTH, 1], bias=False), minus_output, vectors, 1.0)
    (one,), (other,) = (query.finished(query.exact(coded)) for query in (own, earlier))
    assert np.array_equal(one, other.ravel()) and own.scales(1.3) == earlier.scales(1.3)


def test_one_row_moves_the_release_by_what_is_charged_and_no_more() -> None:
    """With the worst row, whose vector is clipped: one nearly. With a patient of four such rows, four times that."""
    for copies in (1, 4):
        codes = np.concatenate([rows(60), np.full((copies, 1), 9, np.int32)])
        owner = np.concatenate([np.arange(60), np.full(copies, 60)])
        found = []
        for count in (len(codes), 60):
            room, ledger = vault(codes[:count], PrivacyUnits(owner[:count], copies) if copies > 1 else None)
            found.append(room.measure("m", VectorSum(vectors, WIDTH)))
        assert ledger.entries[0].sensitivity == copies
        assert 0.99 * copies < np.linalg.norm(found[0] - found[1]) <= copies


def test_vectors_of_another_width_are_refused() -> None:
    with pytest.raises(BudgetError, match="width"):
        vault(rows(20))[0].measure("m", VectorSum(vectors, WIDTH + 1))
