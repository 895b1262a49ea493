"""The budget rule for two-way marginals reads public numbers, and the critic's expectations are those of rows."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from medsynth_sample_data import simulate

from medsynth.io.table import from_frame
from medsynth.methods.shared.bins import Bins
from medsynth.methods.shared.cuts import grids
from medsynth.methods.shared.labels import TWO_WAY
from medsynth.methods.shared.marginals import Condition
from medsynth.methods.shared.mixture import Mixture, mixture_tensors
from medsynth.methods.warm_dp_cgan.budget_rule import SELECTION_ROUNDS, allocate
from medsynth.methods.warm_dp_cgan.critics.triples import TripleCritic
from medsynth.methods.warm_dp_cgan.generator import Generator, smooth_functions
from medsynth.methods.warm_dp_cgan.method import Config, queries
from medsynth.rng import torch_stream
from medsynth.schema import Schema
from medsynth.transforms.table_codec import encode


def test_more_rows_and_a_larger_epsilon_never_give_fewer_pairs() -> None:
    for columns in (4, 12, 22, 60):
        for one, other in ((400, 3_772), (3_772, 10_000), (10_000, 50_000), (50_000, 250_000)):
            for small, large in ((0.5, 1.0), (1.0, 3.7), (3.7, 10.0)):
                few = allocate(one, columns, small)
                assert few.count <= allocate(other, columns, small).count
                assert few.count <= allocate(one, columns, large).count
                assert few.count <= (columns - 1) * (columns - 2) // 2
                assert few.count % few.rounds == 0


def test_small_tables_get_none_and_large_ones_all() -> None:
    assert allocate(400, 31, 1.0).count == 0 and allocate(400, 31, 1.0).critic_share == 0
    thyroid = allocate(3_772, 22, 3.7)
    assert 0 < thyroid.count <= 30 and thyroid.pairs_read and thyroid.rounds == 1  # the critic selects
    assert replace(thyroid, critic_share=0.0).rounds == SELECTION_ROUNDS
    large = allocate(50_000, 22, 3.7)
    assert large.count > 150 and large.critic == "triples" and large.critic_share > 0
    assert allocate(250_000, 22, 3.7).rounds == 1  # all of them: nothing to choose


def test_one_pair_beside_a_critic_is_not_paid_for() -> None:
    """Where noise allows one or two tables, their share of the privacy loss goes to the classes."""
    thyroid = allocate(3_772, 22, 0.5)
    assert thyroid.pairs_read and thyroid.count == 0
    assert TWO_WAY not in [query.label for query in queries(Config(), 3_772, 22, 0.5)]
    assert all(allocate(rows, 22, 1.0).count not in (1, 2, 3) for rows in range(500, 5_000, 100))
    assert allocate(4_000, 4, 3.7).count == 3  # there are no more: three columns beside the target


def test_a_critic_that_is_left_out_leaves_no_round_without_a_pair() -> None:
    """Pairs that a critic does not tell are selected in rounds, a whole number of them in each."""
    for rows in range(1_000, 8_000, 250):
        found = Config(critic_share=0.0).allocation(rows, 22, 0.5)
        planned = {query.label: query.times for query in queries(Config(critic_share=0.0), rows, 22, 0.5)}
        assert found.count % found.rounds == 0 and (TWO_WAY in planned) == (found.count > 0)
        assert planned.get(TWO_WAY, found.rounds) == found.rounds


def test_without_a_pair_of_features_neither_pairs_nor_a_critic_are_paid_for() -> None:
    """Two columns: the class-by-bin marginal is the whole table."""
    found = allocate(50_000, 2, 3.7)
    assert found.count == 0 and found.critic_share == 0


@pytest.fixture(scope="module")
def critic() -> Any:
    schema = Schema.from_yaml(simulate.schema_text())
    codes = encode(from_frame(simulate.cohort(4000, 3)), schema)
    fine = grids(schema, 10)
    bins = {
        name: Bins.of(c, np.ones(fine[name].cells) if name in fine else None, None, 10)
        for name, c in schema.columns.items()
    }
    condition = Condition.of(schema.model_copy(update={"target": None}), {})
    names = [name for name in schema.names if name != schema.target]
    made = TripleCritic(bins, names, ("", condition), schema.names, 64, torch_stream(0, "critic"))
    return made, codes, bins, names


def test_features_have_norm_one_and_no_row_reads_another(critic: Any) -> None:
    made, codes, *_ = critic
    all_at_once = made.features(codes[:50])
    assert torch.allclose(all_at_once.norm(dim=1), torch.ones(50), atol=1e-5)
    assert torch.equal(all_at_once[7:8], made.features(codes[7:8]))


@pytest.mark.statistical
def test_expected_features_are_the_means_of_drawn_rows(critic: Any) -> None:
    """200,000 rows drawn from a mixture: means of 128 features within 5 standard errors of what is expected.

    The seed is fixed: it cannot fail by chance.
    """
    made, codes, bins, names = critic
    stream = np.random.default_rng(0)
    base = {name: np.log(stream.dirichlet(np.ones(bins[name].cells)))[None] for name in names}
    functions = {name: smooth_functions(bins[name].middles(0.0), bins[name].cells, 4) for name in names}
    generator = Generator(base, functions, 4, torch_stream(1, "init"))
    generator.common += torch.randn(generator.common.shape, generator=torch_stream(2, "shift"))
    expected = made.expectation(generator).of(generator.by_bin())[0]
    mixture = Mixture.of(mixture_tensors(base, generator.residuals()), names)
    rows = 200_000
    drawn = mixture.draw(np.zeros(rows, np.int64), stream, np.ones((4, 1)), {})
    first = {name: np.searchsorted(bins[name].place, np.arange(bins[name].cells)) for name in names}
    table = np.zeros((rows, codes.shape[1]), np.int32)
    for name in names:
        table[:, made.order.index(name)] = bins[name].grid.edges[first[name]][drawn[name]]
    mean = made.features(table).mean(0)
    assert (mean - expected).abs().max() < 5 / np.sqrt(rows) / np.sqrt(64)
