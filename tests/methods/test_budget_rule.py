"""The budget rule for two-way marginals reads public numbers, and the critic's expectations are those of rows."""

from dataclasses import replace

from medsynth.methods.shared.labels import TWO_WAY
from medsynth.methods.warm_dp_cgan.budget_rule import SELECTION_ROUNDS, allocate
from medsynth.methods.warm_dp_cgan.method import Config, queries


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
    assert large.count > 150 and large.pairs_read and large.rounds == 1 and large.moments_share > 0 and large.tails
    assert thyroid.critics_first and not large.critics_first  # precise tables need no critic to tell them from noise
    assert not replace(thyroid, critic_share=0.0).critics_first
    assert not thyroid.tails and allocate(20_000, 15, 3.7).tails  # ends of numbers would follow the noise
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
