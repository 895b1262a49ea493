"""The critic of pairs of columns: features of norm one, exact expectations, and what is left without the noise."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from medsynth.methods.shared.bins import Bins
from medsynth.methods.warm_dp_cgan.budget_rule import MOST_PRODUCTS
from medsynth.methods.warm_dp_cgan.critics import pairs as pair_critics
from medsynth.methods.warm_dp_cgan.critics.column_features import column_features, smallest_ball
from medsynth.methods.warm_dp_cgan.critics.linear import FeatureSums
from medsynth.methods.warm_dp_cgan.critics.pairs import LEVEL_ROWS, PairCritic
from medsynth.methods.warm_dp_cgan.generator import Generator, smooth_functions
from medsynth.methods.warm_dp_cgan.shrinkage import Alike, chances, shrunk, shrunk_table
from medsynth.privacy.queries.tables import centred_norm
from medsynth.rng import torch_stream
from medsynth.schema import Schema

COLUMNS: dict[str, dict[str, Any]] = {
    "age": {"kind": "count", "bounds": [0, 120], "missing": True},
    "sick": {"kind": "binary", "levels": ["no", "yes"]},
    "site": {"kind": "categorical", "levels": [*"abcdefghijkl"]},
    "y": {"kind": "categorical", "levels": ["a", "b", "c"]},
}
SCHEMA = Schema.from_dict({"name": "t", "target": "y", "columns": COLUMNS})
NAMES = ["age", "sick", "site"]
SIZES = (122, 2, 12, 3)


class Classes:
    """The target's codes are its classes."""

    cells = 3

    def cell_of(self, codes: Any) -> Any:
        return np.asarray(codes, np.int64)


def bins() -> dict[str, Bins]:
    found = {}
    for name in NAMES:
        shares = np.ones(122) if name == "age" else None
        found[name] = Bins.of(SCHEMA.columns[name], shares, None, 10)
    return found


def critic(names: list[str] = NAMES, noise: float = 0.0) -> PairCritic:
    mass = {name: np.arange(1.0, some.cells + 1) for name, some in bins().items()}
    return PairCritic(bins(), mass, names, ("y", Classes()), SCHEMA.names, torch_stream(0, "critic"), noise)


def codes(rows: int, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    return np.stack([rng.integers(0, size, rows) for size in SIZES], 1).astype(np.int32)


def test_a_row_has_products_of_norm_one_at_most_in_the_place_of_its_class() -> None:
    rows = codes(500)
    found = critic().features(rows).reshape(500, 3, -1).double()
    norms = found.square().sum(2).sqrt()
    own = torch.from_numpy(rows[:, 3].astype(np.int64))
    assert (norms.sum(1) <= 1 + 1e-6).all() and (norms.gather(1, own[:, None])[:, 0] == norms.sum(1)).all()
    assert norms.max() > 0.95  # a smaller norm than there is to use would be more noise than is due


def test_features_of_a_row_do_not_depend_on_the_rows_beside() -> None:
    some, rows = critic(), codes(137)
    together = some.features(rows)
    assert torch.equal(some.features(rows[::-1].copy()).flip(0), together)
    assert all(torch.equal(some.features(rows[k : k + 1])[0], together[k]) for k in (0, 1, 70, 136))


def test_the_features_of_a_column_have_norm_one_at_most_and_some_have_it() -> None:
    for name, some in bins().items():
        for most in (40, 8):
            norms = np.sqrt(np.square(column_features(some, np.arange(1.0, some.cells + 1), 0.0, most)).sum(1))
            assert norms.max() == pytest.approx(1, abs=1e-9)
            assert (norms < 0.5).sum() == (max(12 - most, 0) if name == "site" else 0)  # of levels without features


def test_levels_of_few_rows_beside_the_noise_have_no_features() -> None:
    """Levels have 1 to 12 rows: those with at least twice the noise of a product, which has one of so many pairs."""
    for rows in (4.0, 9.0):
        made = critic(noise=rows / LEVEL_ROWS / math.sqrt(math.comb(len(NAMES), 2)) * (1 - 1e-9))
        table = made.tables["site"]
        assert table.shape[1] == 13 - rows
        assert len(np.unique(table.numpy(), axis=0)) == table.shape[1] + 1  # those of fewer rows are told from no other
    assert critic(noise=1e6).tables["site"].shape[1] == 1


def test_the_rarest_levels_go_before_a_column_does(monkeypatch: pytest.MonkeyPatch) -> None:
    every = critic()
    monkeypatch.setattr(pair_critics, "MOST_PRODUCTS", 3 * every.width - 1)
    fewer = critic()
    assert fewer.columns_read == every.columns_read and fewer.tables["site"].shape[1] == 8
    assert every.tables["site"].shape[1] == 12


def test_levels_are_centred_as_tables_of_levels_are() -> None:
    """The smallest ball around indicators of k levels has the norm of a centred row for a radius."""
    for levels in range(2, 9):
        centre, radius = smallest_ball(np.eye(levels))
        assert centre == pytest.approx(np.full(levels, 1 / levels), abs=0.01)
        assert radius == pytest.approx(centred_norm(levels), rel=0.01)


@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(1, 30))
def test_all_points_lie_in_the_smallest_ball_and_none_much_smaller_does(seed: int, width: int, count: int) -> None:
    points = np.random.default_rng(seed).normal(size=(count, width))
    centre, radius = smallest_ball(points)
    assert np.linalg.norm(points - centre, axis=1).max() <= radius + 1e-12
    apart = np.linalg.norm(points[:, None] - points[None], axis=2).max()
    assert apart / 2 <= radius + 1e-12 and radius <= apart / 2**0.5 + 0.02 * apart  # Jung: any set has such a ball


def test_a_pair_weighs_the_third_root_of_its_products() -> None:
    some = critic()
    sizes = {name: table.shape[1] for name, table in some.tables.items()}
    owner = [name for name, size in sizes.items() for _ in range(size)]
    scales = some.products.scales.tolist()
    found = {(owner[i], owner[j]): w for (i, j), w in zip(some.products.factors.T.tolist(), scales, strict=True)}
    assert len(found) == 3 and sum(w**2 for w in found.values()) == pytest.approx(1)
    ratios = [w / (sizes[one] * sizes[other]) ** (1 / 3) for (one, other), w in found.items()]
    assert ratios == pytest.approx([ratios[0]] * 3)


def test_how_far_two_columns_are_from_independence_does_not_depend_on_their_weight() -> None:
    some = critic()
    width = {name: table.shape[1] for name, table in some.tables.items()}
    sizes = some.by_columns(some.products.scales.double().numpy()[None].repeat(3, 0))
    pairs = [("age", "sick"), ("age", "site"), ("sick", "site")]
    assert sizes == pytest.approx({(one, other): 3 * width[one] * width[other] for one, other in pairs})


def test_a_critic_of_one_column_has_no_products() -> None:
    assert critic(["age"]).width == 0


def generator() -> Generator:
    rng = np.random.default_rng(1)
    base = {name: np.log(rng.dirichlet(np.ones(some.cells), 3)) for name, some in bins().items()}
    functions = {name: smooth_functions(some.middles(0.0), some.cells, 4) for name, some in bins().items()}
    found = Generator(base, functions, 5, torch_stream(0, "init"))
    found.common += torch.randn(found.common.shape, generator=torch_stream(2, "shift"))
    return found


def test_expected_products_are_those_of_the_joint_tables() -> None:
    """By the whole joint table of two columns, point by point, for every pair: no product of means is used."""
    some, model = critic(), generator()
    part = model.part(some.columns_read)
    with torch.no_grad():
        expected = some.expectation(part).of(part.by_bin())
    whole = model.by_bin().double()
    shares = {name: whole[span].permute(2, 1, 0) for name, span in model.spans.items()}
    tables = {
        name: torch.tensor(column_features(b, np.arange(1.0, b.cells + 1), 0.0, 40)) for name, b in bins().items()
    }
    parts = []
    for k, one in enumerate(NAMES):
        for feature in range(tables[one].shape[1]):
            for other in NAMES[k + 1 :]:
                joint = torch.einsum("zka,zkb->kab", shares[one], shares[other]) / 5
                weight = tables[one][:, feature][:, None, None] * tables[other][None]
                parts.append(torch.einsum("kab,abf->kf", joint, weight))
    assert torch.allclose(torch.cat(parts, 1) * some.products.scales, expected.double(), atol=1e-6)


def test_a_wide_table_has_no_more_products_than_planned() -> None:
    columns = {f"c{k}": COLUMNS["sick"] for k in range(300)} | {"y": COLUMNS["y"]}
    schema = Schema.from_dict({"name": "t", "target": "y", "columns": columns})
    made = {name: Bins.of(column, None, None, 10) for name, column in schema.columns.items() if name != "y"}
    mass = dict.fromkeys(made, np.ones(2))
    some = PairCritic(made, mass, list(made), ("y", Classes()), schema.names, torch_stream(0, "critic"), 0.0)
    assert 150 < len(some.columns_read) < 300 and some.width * 3 <= MOST_PRODUCTS
    assert some.width == len(some.names) * (len(some.names) - 1) // 2


def freed(sums: FeatureSums, model: Generator, rows: np.ndarray[Any, Any]) -> torch.Tensor:
    expected = sums.expected(model, rows)
    return sums.shrunk(expected, sums.likely(expected, critic().alike())).totals


def test_sums_that_say_what_was_expected_stay_and_a_clear_deviation_is_kept() -> None:
    some, model, rows = critic(), generator(), np.array([500.0, 300.0, 200.0])
    part = model.part(some.columns_read)
    with torch.no_grad():
        expected = torch.tensor(rows)[:, None] * some.expectation(part).of(part.by_bin())
    sums = FeatureSums(some, expected.float(), 2.0)
    assert torch.allclose(freed(sums, model, rows).double(), expected, atol=1e-2)
    moved = expected.clone()
    moved[1, 4] += 1000
    sums = FeatureSums(some, moved.float(), 2.0)
    found = freed(sums, model, rows).double()
    assert 990 < found[1, 4] - expected[1, 4] <= 1000.01


def test_products_of_the_same_two_columns_are_alike() -> None:
    """Groups are pairs of columns; within one a number's trend is of another kind than its waves, a rare level than a
    common one.
    """
    some = critic()
    column = np.array([name for name, _ in some.items()])
    pairs = ["".join(sorted(column[[one, other]])) for one, other in some.products.factors.T.tolist()]
    alike = some.alike()
    assert len(set(zip(pairs, alike.groups.tolist(), strict=True))) == len(set(pairs)) == alike.groups.max() + 1 == 3
    kinds = dict(zip(map(tuple, some.products.factors.T.tolist()), alike.kinds.tolist(), strict=True))
    sick, first, third = column.tolist().index("sick"), *(column.tolist().index("site") + k for k in (0, 2))
    assert len({kinds[0, sick], kinds[1, sick], kinds[4, sick]}) == 3  # trend, wave and gap of age
    assert kinds[1, sick] == kinds[2, sick] == kinds[3, sick]
    assert len({kinds[sick, first], kinds[sick, third]}) == 2 and kinds[sick, first] == kinds[sick, first + 1]


@given(st.lists(st.floats(-1e4, 1e4), min_size=1, max_size=60), st.floats(0.1, 100), st.integers(1, 8))
def test_deviations_in_groups_are_shrunk_too(deviations: list[float], std: float, groups: int) -> None:
    values = np.array(deviations)
    own = np.unique(np.arange(len(values)) % groups, return_inverse=True)[1]
    found = shrunk(values, std, chances(values, std, Alike(own, np.unique(own // 2, return_inverse=True)[1])))
    assert np.isfinite(found).all() and (np.abs(found) <= np.abs(values) * (1 + 1e-9)).all()
    assert (found * values >= 0).all()
    whole = shrunk(values, std, chances(values, std, Alike.all(len(values))))
    np.testing.assert_array_equal(whole, shrunk(values, std))


@pytest.mark.statistical
def test_a_deviation_is_kept_where_those_of_its_group_or_kind_are_large() -> None:
    """Of sixty groups six are large, and in these the second kind alone: the same deviation is kept there, and hardly
    anywhere else. The whole loses a third of the error that it has without groups. The seed is fixed: it cannot fail by
    chance.
    """
    rng = np.random.default_rng(0)
    groups, kinds = np.repeat(np.arange(60), 20), np.tile(np.arange(20) % 2, 60)
    true = np.where((groups < 6) & (kinds == 1), 4 * rng.normal(size=1200), 0.0)
    noisy = true + rng.normal(size=1200)
    noisy[[3, 2, 1003]] = 2.5  # of the large kind in a large group, of the other kind there, and of a small group
    found = shrunk(noisy, 1.0, chances(noisy, 1.0, Alike(groups, kinds)))
    assert found[3] > 2.0 and found[2] < 1.0 and found[1003] < 0.5
    own = np.square(found - true).sum(), np.square(shrunk(noisy, 1.0) - true).sum()
    assert own[0] < own[1] * 2 / 3


@given(st.lists(st.floats(-1e4, 1e4), min_size=1, max_size=60), st.floats(0.1, 100))
def test_shrinking_only_brings_nearer_to_zero(deviations: list[float], std: float) -> None:
    values = np.array(deviations)
    found = shrunk(values, std)
    assert np.isfinite(found).all() and (np.abs(found) <= np.abs(values) * (1 + 1e-9)).all()
    assert (found * values >= 0).all()


@pytest.mark.statistical
def test_noise_alone_leaves_next_to_nothing_and_a_smooth_relation_loses_half_of_its_noise() -> None:
    """The seed is fixed: it cannot fail by chance."""
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(3, 8, 8))
    assert np.abs(shrunk_table(noise, 1.0, (8, 7))).mean() < 0.1 * np.abs(noise).mean()
    wave = np.cos(np.pi * (np.arange(8) + 0.5) / 8)
    relation = 20 * np.multiply.outer(wave, wave)[None]
    found = shrunk_table(relation + noise[:1], 1.0, (8, 8))
    assert np.abs(found - relation).mean() < 0.5 * np.abs(noise[:1]).mean()


def test_a_large_deviation_passes_whole() -> None:
    table = np.random.default_rng(0).normal(size=(2, 5, 6)) * 1e4
    assert np.allclose(shrunk_table(table, 1.0, (0, 4)), table, rtol=1e-3, atol=0.5)
