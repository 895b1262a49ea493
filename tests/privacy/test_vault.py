"""The vault releases noisy measurements, charges them first, and shows nothing else."""

import copy
import functools
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from medsynth.errors import BudgetError, QueryError
from medsynth.privacy.accounting.calibration import Charge, make_plan
from medsynth.privacy.accounting.events import PublicOrderGaussian, ShardSampledGaussian, SubsampledGaussian
from medsynth.privacy.accounting.ledger import Ledger
from medsynth.privacy.networks import Mlp
from medsynth.privacy.queries.tables import Marginals
from medsynth.privacy.release import Releases
from medsynth.privacy.vault import Vault
from medsynth.rng import NoNoise, SeededEntropy
from medsynth.schema.columns.grid import Grid

ROWS, RATE = 400, 0.3
LEVELS = Grid(np.arange(4), False)


class CountingEntropy(SeededEntropy):
    drawn = 0

    def bytes(self, count: Any) -> Any:
        self.drawn += count
        return super().bytes(count)


@functools.cache
def planned(epsilon: Any, steps: Any, rate: Any) -> Any:
    queries = [Charge(label="h", weight=2.0), Charge(label="g", weight=1.0, rate=rate, times=steps)]
    return make_plan(queries, epsilon=epsilon, delta=1e-5, rows=ROWS)


def build(codes: Any = None, *, epsilon: float = 3.7, seed: int = 0, steps: int = 200, rate: Any = RATE) -> Any:
    plan = planned(epsilon, steps, rate)
    entropy = CountingEntropy(seed)
    ledger = plan.ledger(entropy.source)
    codes = np.random.default_rng(0).integers(0, 3, (ROWS, 2)).astype(np.int32) if codes is None else codes
    return Vault(codes, ("a", "b"), Releases(ledger, entropy)), ledger, entropy, plan


@pytest.mark.statistical
def test_histograms_have_their_noise_and_sensitivity() -> None:
    """The seed is fixed: it cannot fail by chance."""
    codes = np.zeros((ROWS, 2), np.int32)
    grids = {"a": Grid(np.arange(5001), False), "b": LEVELS}
    vault, ledger, _, plan = build(codes)
    noise = vault.measure_histograms("h", grids)["a"][1:]
    std = plan.noise("h") * np.sqrt(2)
    assert stats.kstest(noise / std, "norm").pvalue > 1e-4
    assert ledger.entries[0].sensitivity == pytest.approx(np.sqrt(2))


@pytest.mark.statistical
def test_heavier_tables_have_less_noise_and_the_sensitivity_says_so() -> None:
    """Weights of 3 and 1: noise in the proportion of 1 to 3, sensitivity the root of ten. The seed is fixed."""
    codes = np.zeros((ROWS, 2), np.int32)
    wide = Grid(np.arange(5001), False)
    vault, ledger, _, plan = build(codes)
    tables = {"one": [("a", wide)], "other": [("b", wide)]}
    noise = vault.measure_marginals("h", tables, {"one": 3.0, "other": 1.0})
    for name, weight in (("one", 3.0), ("other", 1.0)):
        std = plan.noise("h") * np.sqrt(10) / weight
        assert stats.kstest(noise[name][1:] / std, "norm").pvalue > 1e-4
    assert ledger.entries[0].sensitivity == pytest.approx(np.sqrt(10))
    with pytest.raises(QueryError, match="above zero"):
        build(codes)[0].measure_marginals("h", tables, {"one": 0.0, "other": 1.0})


class BothZero:
    """Whether two columns are zero at once: a map of several columns."""

    cells = 2

    def cell_of(self, codes: Any) -> Any:
        return (codes == 0).all(1).astype(np.int64)


@pytest.mark.statistical
def test_an_axis_may_be_a_map_of_several_columns() -> None:
    """The seed is fixed: it cannot fail by chance."""
    codes = np.repeat([[0, 0], [1, 0], [0, 2]], [200, 150, 50], axis=0).astype(np.int32)
    vault, ledger, _, _ = build(codes, epsilon=5000.0, steps=1)
    found = vault.measure_marginals("h", {"both": [("a", LEVELS), (("a", "b"), BothZero())]})["both"]
    assert np.allclose(found, [[50, 200], [150, 0], [0, 0]], atol=1.5) and ledger.entries[0].sensitivity == 1


@pytest.mark.statistical
def test_histograms_are_exact_where_noise_is_nearly_none() -> None:
    """The seed is fixed: it cannot fail by chance."""
    codes = np.repeat([[0, 2], [1, 2]], [300, 100], axis=0).astype(np.int32)
    vault, _, _, _ = build(codes, epsilon=5000.0, steps=1)
    found = vault.measure_histograms("h", {"a": LEVELS, "b": LEVELS})
    assert np.allclose(found["a"], [300, 100, 0], atol=1.5) and np.allclose(found["b"], [0, 0, 400], atol=1.5)


@pytest.mark.statistical
def test_contingency_tables_and_distances_are_exact_where_noise_is_nearly_none() -> None:
    """The seed is fixed: it cannot fail by chance."""
    codes = np.repeat([[0, 2], [1, 2], [1, 0]], [200, 150, 50], axis=0).astype(np.int32)
    axes = {"pair": [("a", LEVELS), ("b", LEVELS)], "rows": [("", LEVELS)]}
    vault, ledger, _, _ = build(codes, epsilon=5000.0, steps=1)
    tables = vault.measure_marginals("h", axes)
    exact = np.array([[0, 0, 200], [50, 0, 150], [0, 0, 0]])
    assert np.allclose(tables["pair"], exact, atol=1.5) and tables["rows"].shape == (3,)
    assert ledger.entries[0].sensitivity == pytest.approx(np.sqrt(2))
    vault, ledger, _, _ = build(codes, epsilon=5000.0, steps=1)
    guess = np.full((3, 3), 400 / 9)
    found = vault.measure_distances("h", {"pair": axes["pair"]}, {"pair": guess})
    assert found["pair"] == pytest.approx(np.abs(exact - guess).sum(), abs=1.5)
    assert ledger.entries[0].sensitivity == 1.0


@pytest.mark.parametrize("cell", [np.inf, np.nan, 2.0**60, 2.0**32])
def test_a_guess_that_is_no_table_of_rows_is_refused_before_it_is_charged(cell: float) -> None:
    """A distance to it would not be a whole number."""
    vault, ledger, entropy, _ = build(steps=1)
    with pytest.raises(QueryError, match="guess of a contingency table"):
        vault.measure_distances("h", {"a": [("a", LEVELS)]}, {"a": np.array([cell, 0, 0])})
    assert not ledger.entries and not entropy.drawn


@pytest.mark.statistical
def test_one_row_moves_tables_and_distances_by_no_more_than_is_charged() -> None:
    """A row emptied changes k tables by sqrt(k) in L2, and each of k distances by at most one.

    The seed is fixed: it cannot fail by chance.
    """
    rng = np.random.default_rng(5)
    axes = {"ab": [("a", LEVELS), ("b", LEVELS)], "a": [("a", LEVELS)], "b": [("b", LEVELS)]}
    guess = {"ab": rng.random((3, 3)) * 90, "a": rng.random(3) * 200, "b": rng.random(3) * 200}
    for _ in range(20):
        codes = rng.integers(0, 3, (ROWS, 2)).astype(np.int32)
        # The same entropy twice: the noise cancels in the difference.
        both = [(build(c, seed=9)[0], build(c, seed=9)[0]) for c in (codes, np.delete(codes, 3, axis=0))]
        tables = [np.concatenate([t.ravel() for t in v.measure_marginals("h", axes).values()]) for v, _ in both]
        assert np.linalg.norm(tables[0] - tables[1]) == pytest.approx(np.sqrt(3), abs=1e-2)
        distances = [np.array(list(v.measure_distances("h", axes, guess).values())) for _, v in both]
        assert np.abs(distances[0] - distances[1]).max() <= 1 + 1e-2


@pytest.mark.statistical
def test_lots_are_poisson() -> None:
    """Inclusion over 200 lots is binomial for every row together; false-alarm rate 1e-4.

    The seed is fixed: it cannot fail by chance.
    """
    lots = []
    vault, ledger, _, plan = build(np.arange(2 * ROWS).reshape(ROWS, 2).astype(np.int32))
    critic = Mlp([1, 1])

    def features(lot: Any) -> Any:
        lots.append(lot[:, 0] // 2)
        return torch.zeros(len(lot), 1)

    for _ in range(200):
        vault.measure_gradient_sum("g", critic, lambda a: a[:, 0], features, 1.0)
    counts = np.bincount(np.concatenate(lots), minlength=ROWS)
    assert stats.binomtest(int(counts.sum()), 200 * ROWS, RATE).pvalue > 1e-4
    low, high = (stats.binom.ppf(share, 200, RATE) for share in (1e-4 / ROWS, 1 - 1e-4 / ROWS))
    assert low <= counts.min() and counts.max() <= high
    assert len({len(lot) for lot in lots}) > 10  # sizes vary: not a shuffled, fixed batch
    assert ledger.entries[0].count == 200 and ledger.entries[0].event == plan.events["g"][0]


@pytest.mark.parametrize("microbatches", [None, 4])
def test_an_empty_lot_is_noised_and_charged(microbatches: int | None) -> None:
    vault, ledger, _, _ = build(np.empty((0, 2), np.int32))
    released = vault.measure_gradient_sum(
        "g", Mlp([3, 1]), lambda a: a[:, 0], lambda lot: torch.zeros(len(lot), 3), 1.0, microbatches
    )
    assert all(float(t.abs().min()) > 0 for t in released) and ledger.entries[0].count == 1
    assert ledger.entries[0].sensitivity == (1.0 if microbatches is None else 2.0)


@pytest.mark.statistical
@pytest.mark.parametrize("microbatches, factor", [(None, 1), (5, 2)])
def test_gradient_noise_is_multiplier_times_sensitivity(microbatches: int | None, factor: int) -> None:
    """The seed is fixed: it cannot fail by chance."""
    vault, _, _, plan = build(np.empty((0, 2), np.int32))
    (released,) = vault.measure_gradient_sum(
        "g", Mlp([20_000, 1], bias=False), lambda a: a[:, 0], lambda lot: torch.zeros(0, 20_000), 0.7, microbatches
    )
    std = plan.noise("g") * 0.7 * factor
    assert stats.kstest(released.flatten().numpy() / std, "norm").pvalue > 1e-4


def test_what_the_plan_lacks_is_refused_before_anything_is_drawn() -> None:
    vault, ledger, entropy, _ = build(steps=1)
    vault.measure_histograms("h", {"a": LEVELS})
    before = entropy.drawn
    for label in ("h", "unplanned"):
        with pytest.raises(BudgetError):
            vault.measure_histograms(label, {"a": LEVELS})
    assert entropy.drawn == before and len(ledger.entries) == 1


def test_nothing_else_is_offered() -> None:
    vault, *_ = build()
    for attempt in (len, iter, pickle.dumps, copy.copy, copy.deepcopy, lambda v: v[0]):
        with pytest.raises(TypeError):
            attempt(vault)
    assert repr(vault) == "Vault(private rows)"
    assert not hasattr(vault, "__dict__")
    public = {name for name in dir(vault) if not name.startswith("_")}
    gradients = {"measure_gradient_sum", "measure_pair_gradient_sum", "measure_norms_below", "measure_second_moments"}
    tables = {"measure_histograms", "measure_marginals", "measure_distances", "measure_rows_per_patient"}
    assert public == {"measure", "release", "max_rows", "split_into_shards"} | tables | gradients


def test_a_query_of_another_class_is_refused_before_it_is_charged() -> None:
    """It could state any sensitivity, and give any exact answer."""
    vault, ledger, entropy, _ = build()
    query = Bold({"a": [("a", LEVELS)]})
    with pytest.raises(BudgetError, match="its own kinds"):
        vault.measure("h", query)
    assert not ledger.entries and not entropy.drawn


class Bold(Marginals):
    def sensitivity(self, max_rows: Any) -> float:
        return 1e-9


@pytest.mark.parametrize(
    "event", [ShardSampledGaussian(multiplier=1.0, shards=50), PublicOrderGaussian(multiplier=1.0, shards=50)]
)
def test_a_lot_is_never_charged_as_a_shard(event: Any) -> None:
    """A row is in every lot with the chance of the rate, and not of one shard among many."""
    entropy = CountingEntropy(0)
    ledger = Ledger(delta=1e-5, accountant="rdp", random_source=entropy.source, allowance={"h": (event, 1)})
    vault = Vault(np.zeros((4, 1), np.int32), ("a",), Releases(ledger, entropy))
    with pytest.raises(BudgetError, match="cannot be planned for"):
        vault.measure_histograms("h", {"a": LEVELS})
    assert not ledger.entries and not entropy.drawn


@pytest.mark.statistical
def test_tables_planned_of_a_lot_are_of_a_lot() -> None:
    """Whatever the query, the rows that take part are those of the law that is charged.

    Thirty lots of 1,000 rows on average, standard deviation 27: all within 150, a false alarm in 10^6.
    """
    ledger = Ledger(
        delta=1e-5, accountant="rdp", random_source="none",
        allowance={"h": (SubsampledGaussian(multiplier=1.0, rate=0.25), 30)},
    )  # fmt: skip
    vault = Vault(np.zeros((4000, 1), np.int32), ("a",), Releases(ledger, NoNoise()))
    found = [vault.measure_histograms("h", {"a": LEVELS})["a"][0] for _ in range(30)]
    assert len(set(found)) > 5 and min(found) > 850 and max(found) < 1150


def test_neighbours_leave_the_same_ledger() -> None:
    codes = np.random.default_rng(0).integers(0, 3, (ROWS, 2)).astype(np.int32)
    other = codes.copy()
    other[17] = (codes[17] + 1) % 3
    states = []
    for table in (codes, other):
        vault, ledger, entropy, _ = build(table, seed=9)
        found = vault.measure_histograms("h", {"a": LEVELS, "b": LEVELS})
        vault.measure_gradient_sum(
            "g", Mlp([1, 1]), lambda a: a[:, 0], lambda lot: torch.from_numpy(lot[:, :1] * 1.0).float(), 1.0
        )
        states.append((ledger.to_json(), entropy.drawn, {k: v.shape for k, v in found.items()}))
    assert states[0] == states[1]
