"""DP-MERF: one measurement whatever the training, of sensitivity one; and what its public code gets wrong."""

from typing import Any

import numpy as np
import pytest
import torch

from medsynth.methods.dp_merf import EMBEDDING, DpMerf
from medsynth.methods.encoded_rows import Embedding, EncodedRows
from medsynth.methods.marginals import GRID_CELLS
from medsynth.methods.random_features import LinearCritic
from medsynth.privacy.accounting.calibration import make_plan
from medsynth.privacy.accounting.events import Gaussian
from medsynth.privacy.release import Releases
from medsynth.privacy.vault import Vault
from medsynth.rng import NoNoise
from medsynth.schema import Schema
from medsynth.schema.columns.grid import grid

FEATURES, MERF = 64, DpMerf()
SCHEMA = Schema.from_dict({"name": "t", "target": "y", "columns": {
    "age": {"kind": "count", "bounds": [0, 120], "missing": True},
    "dose": {"kind": "continuous", "bounds": [0, 100], "decimals": 1, "scale": "log"},
    "site": {"kind": "categorical", "levels": ["n", "e", "s", "w"]},
    "y": {"kind": "categorical", "levels": ["a", "b", "c"]},
}})  # fmt: skip


def rows(count: int = 40, seed: int = 0) -> Any:
    draw = np.random.default_rng(seed)
    return np.stack([draw.integers(0, column.size, count) for column in SCHEMA.columns.values()], 1).astype(np.int32)


def embedding() -> Embedding:
    counts = {name: np.ones(grid(column, GRID_CELLS).cells) for name, column in SCHEMA.columns.items()}
    encoded = EncodedRows.of(SCHEMA, counts, 40)
    return Embedding(encoded, FEATURES, 2.0, 0.7, 1.0, np.random.default_rng(0), "cpu")


def exact_sum(codes: Any) -> Any:
    """What the vault computes before its noise: the sum over rows of features in the place of the row's class."""
    plan = make_plan(MERF.queries(MERF.Config(), 40, 4, 3.7), epsilon=3.7, delta=1e-5, rows=40)
    vault = Vault(codes, SCHEMA.names, Releases(plan.ledger("none"), NoNoise()))
    mean = LinearCritic(embedding(), torch.ones(3), 1.0, None, 0.0, EMBEDDING)
    mean.measure(vault)
    return mean._total.double().numpy()


def test_a_row_moves_the_embedding_by_its_norm_of_one() -> None:
    """Over neighbours, rows with extreme and missing cells among them; a changed row moves it by two at most."""
    codes = rows()
    codes[3] = [column.size - 1 + bool(column.missing) for column in SCHEMA.columns.values()]
    whole = exact_sum(codes)
    gone = [np.linalg.norm(whole - exact_sum(np.delete(codes, k, 0))) for k in (0, 3, 7)]
    assert max(gone) <= 1 and min(gone) > 0.999
    other = codes.copy()
    other[3] = rows(1, 9)[0]
    assert np.linalg.norm(whole - exact_sum(other)) <= 2


def test_features_of_shifted_cosines_have_no_norm_of_one() -> None:
    """The public code's other option, sqrt(2/d) cos(wx + b), has norms up to sqrt(2): a charge of one is too little.

    The seed is fixed: it cannot fail by chance.
    """
    draw = np.random.default_rng(0)
    w, b = draw.standard_normal((8, 4)), draw.random(8) * 2 * np.pi
    norms = np.linalg.norm(np.sqrt(2 / 8) * np.cos(draw.standard_normal((500, 4)) @ w.T + b), axis=1)
    assert norms.max() > 1.2
    of_pairs = torch.linalg.vector_norm(embedding().by_class(rows()).double(), dim=1)
    assert torch.allclose(of_pairs, torch.ones_like(of_pairs), atol=1e-6)


@pytest.mark.parametrize("steps", [1, 100_000])
def test_training_longer_costs_nothing(steps: int) -> None:
    """The embedding is measured once, a plain Gaussian; nothing in the plan knows of steps or features."""
    plan = make_plan(MERF.queries(MERF.Config(steps=steps, features=7), 3000, 4, 3.7), epsilon=3.7, delta=1e-5,
                     rows=3000)  # fmt: skip
    assert all(isinstance(event, Gaussian) and times == 1 for event, times in plan.events.values())
    assert (
        plan.events == make_plan(MERF.queries(MERF.Config(), 3000, 4, 3.7), epsilon=3.7, delta=1e-5, rows=3000).events
    )


def test_the_length_scale_follows_no_row() -> None:
    """The public code sets it by distances among real rows. Here: the same for any rows, given the noisy marginals."""
    one, two = embedding(), embedding()
    assert torch.equal(one._frequencies, two._frequencies)
    counts = {name: np.arange(1.0, 1 + grid(c, GRID_CELLS).cells) for name, c in SCHEMA.columns.items()}
    encoded = EncodedRows.of(SCHEMA, counts, 40)
    other = Embedding(encoded, FEATURES, 2.0, 0.7, 1.0, np.random.default_rng(0), "cpu")
    assert not torch.equal(one._frequencies, other._frequencies)
