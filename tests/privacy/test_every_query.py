"""Every query, map, loss and grid, with hostile content: it is refused when it is made, or a row counts for
itself alone and for no more than is charged (docs/decisions/0059).
"""

import dataclasses
import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fuzzed_queries as fuzzed
import numpy as np
import pytest
import torch
from fuzzed_queries import CASES, NAMES, SIZES

from medsynth.errors import BudgetError, MedsynthError, QueryError
from medsynth.methods.encoded_rows import Encoding
from medsynth.privacy.accounting.events import Gaussian
from medsynth.privacy.accounting.ledger import Ledger
from medsynth.privacy.clipping import Groups, LocalTraining
from medsynth.privacy.contribution import PrivacyUnits
from medsynth.privacy.queries.cells import EveryCode
from medsynth.privacy.queries.gradients import GradientSum, NormsBelow, PairGradientSum
from medsynth.privacy.queries.measurements import queries
from medsynth.privacy.queries.moments import SecondMoments
from medsynth.privacy.queries.parts import RowsInMemory
from medsynth.privacy.queries.query import added
from medsynth.privacy.queries.rows import CodedRows, Lot, cells_of, column_of, encoded
from medsynth.privacy.queries.stored_rows import StoredCodes
from medsynth.privacy.queries.tables import Distances, Marginals, RowsPerPatient, _Tables
from medsynth.privacy.queries.vectors import VectorSum
from medsynth.privacy.release import Releases
from medsynth.privacy.shards import CriticConfig, Shards, UpstreamSum
from medsynth.rng import NoNoise, SeededEntropy
from medsynth.schema.columns import grid as grids
from medsynth.schema.columns.grid import Grid

COUNTS = (0, 1, 3, 7, 40, 42, 300)  # of rows: fewer and more than a column has codes, and as many
FEW = (2, 42)
PATIENTS = 12
QUICK = [name for name in CASES if name not in ("pair gradients", "norms below")]
LARGE = 100_000  # numbers of an answer whose parts are not added up here: a single one takes seconds
SLOW = (PairGradientSum, NormsBelow)  # one row takes a hundred times as long as one of the others


def pool(query: Any, rng: np.random.Generator, count: int) -> CodedRows:
    """Rows at random and at both ends of every column, each with its own draws, and patients for a query of these."""
    codes = np.stack([rng.integers(0, size, count) for size in SIZES], 1).astype(np.int32)
    codes[0], codes[1] = 0, np.array(SIZES) - 1
    draws = rng.integers(0, 2**64, (count, query.draws), np.uint64)
    units = PrivacyUnits(rng.integers(0, PATIENTS, count), count, PATIENTS) if query.of_patients else None
    return CodedRows(codes, NAMES, draws, units)


def at(rows: CodedRows, index: Any) -> CodedRows:
    """Rows of the pool, in this order, some of them several times."""
    units = rows.units and PrivacyUnits(rows.units.of_row[index], rows.units.max_rows, rows.units.count)
    return CodedRows(rows.codes[index], rows.names, rows.draws[index], units)


def bits(found: Any) -> Any:
    """Numbers as they lie in memory, so that -0 and NaN are themselves."""
    array = found.numpy() if isinstance(found, torch.Tensor) else np.asarray(found)
    return np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8)


def check_rows_apart(function: Any, codes: Any, rng: np.random.Generator, counts: Any, what: str) -> None:
    """`f(rows)[k] == f(rows[k:k+1])`, bit for bit, for every row and every order and number of rows."""
    alone = np.stack([bits(function(codes[k : k + 1])) for k in range(len(codes))])
    for count in counts:
        index = rng.integers(0, len(codes), count)
        assert np.array_equal(bits(function(codes[index])), alone[index].ravel()), (what, count)


def answer(query: Any, rows: CodedRows) -> list[Any]:
    """The exact answer, in which the two words of a long sum are one number."""
    found = query.exact(rows)
    if isinstance(query, VectorSum) or (isinstance(query, GradientSum) and query.microbatches is None):
        return [(high << 32) + low for high, low in zip(found[::2], found[1::2], strict=True)]
    return list(found)


def check_maps(query: Any, rows: CodedRows, rng: np.random.Generator, counts: Any, what: str) -> None:
    if isinstance(query, _Tables):
        for name, cells in (axis for axes in query.tables.values() for axis in axes):
            codes = column_of(rows.codes, NAMES, name)
            check_rows_apart(lambda own, cells=cells: cells_of(cells, own), codes, rng, counts, what)
    for name in ("features", "vectors"):
        if hasattr(query, name):
            check_rows_apart(getattr(query, name), rows.codes, rng, counts, what)


def check_sums(query: Any, rows: CodedRows, rng: np.random.Generator, counts: Any, what: str) -> None:
    """The exact answer over rows is the sum of each row's, or of each patient's: whole numbers, equal in every bit."""
    if rows.units is not None:
        whole = [answer(query, rows.some(rows.units.of_row == k)) for k in range(PATIENTS)]
        assert all(map(np.array_equal, added(whole), answer(query, rows))), what
        return
    alone = [answer(query, at(rows, [k])) for k in range(len(rows.codes))]
    each = [np.stack(arrays) for arrays in zip(*alone, strict=True)]
    for count in counts:
        index = rng.integers(0, len(rows.codes), count)
        sums = [array[index].sum(0) for array in each]
        assert all(map(np.array_equal, sums, answer(query, at(rows, index)))), (what, count)


def distance(query: Any, one: Any, other: Any) -> float:
    """How far two answers lie apart, as the noise weighs them: in units of noise of one."""
    total = 0.0
    pairs = zip(query.finished(one), query.finished(other), query.scales(1.0), strict=True)
    for a, b, scale in pairs:
        assert a.dtype == b.dtype == np.int64
        total += float(np.square((a - b).astype(np.float64) * (scale.unit / scale.std)).sum())
    return math.sqrt(total)


def check_neighbours(query: Any, rows: CodedRows, rng: np.random.Generator, what: str) -> None:
    """Without one row, or one patient, the answer moves by no more than the query states."""
    max_rows = len(rows.codes) if rows.units is not None else None
    most = query.sensitivity(max_rows)
    assert 0 < most < math.inf, what
    for count in (1, 2, 7):
        some = at(rows, rng.integers(0, len(rows.codes), count))
        whose = np.arange(count) if some.units is None else some.units.of_row
        less = some.some(whose != whose[rng.integers(count)])
        assert distance(query, query.exact(some), query.exact(less)) <= most * (1 + 1e-9), what


def check(query: Any, rng: np.random.Generator, what: str, counts: Any) -> None:
    rows = pool(query, rng, 3 if isinstance(query, SLOW) else 6 if isinstance(query, GradientSum) else 16)
    check_maps(query, rows, rng, counts, what)
    check_sums(query, rows, rng, counts, what)
    check_neighbours(query, rows, rng, what)


def try_made(make: Callable[[], Any], rng: np.random.Generator, what: str) -> bool:
    """Whether a query can be made and public rows answer it; then all of the above holds."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            query = fuzzed.tried(make())
    except Exception:  # of whatever kind: no private row was read
        return False
    if sum(array.size for array in query.exact(at(pool(query, rng, 2), []))) > LARGE:
        return True
    check(query, rng, what, FEW)
    return True


def test_every_kind_is_tried() -> None:
    """A new map, loss or query needs a query here that holds it."""
    tried = set().union(*map(fuzzed.held, CASES.values()))
    ours = fuzzed.kinds() | set(queries()) | {Groups, LocalTraining}
    assert len(ours) > 18 and ours - tried == set()


@pytest.mark.nightly_for("pair gradients")
@pytest.mark.parametrize("name", CASES)
def test_a_row_counts_for_itself(name: str) -> None:
    """As it is, and as it is made anew."""
    rng = np.random.default_rng(0)
    check(CASES[name], rng, name, COUNTS if name in QUICK else FEW)
    assert try_made(lambda: dataclasses.replace(CASES[name]), rng, name)


@pytest.mark.nightly_for(
    "random features",
    "products by class",
    "distances",
    "averaged distances",
    "scaled rows",
    "products",
    "long products",
    "averaged marginals",
)
@pytest.mark.parametrize("name", QUICK)
def test_a_row_counts_for_itself_whatever_arrays_hold(name: str) -> None:
    """Each array of each query: out of order, repeated, beyond its table, too large, of another shape or type."""
    rng = np.random.default_rng(1)
    found = {what: try_made(make, rng, what) for what, make in fuzzed.changed_arrays(CASES[name], critic=False)}
    assert not found or not all(found.values())


@pytest.mark.parametrize("name", QUICK)
def test_a_row_counts_for_itself_whatever_a_query_holds(name: str) -> None:
    """Some of its numbers, words and lists replaced; a longer run at night."""
    rng = np.random.default_rng(2)
    for what, make in fuzzed.changed_leaves(CASES[name], 15, rng):
        try_made(make, rng, what)


@pytest.mark.nightly
@pytest.mark.parametrize("name", CASES)
def test_a_row_counts_for_itself_in_many_trials(name: str) -> None:
    """Arrays and leaves, with other rows each time. Seeds are fixed."""
    for seed in range(1 if name not in QUICK else 6):
        rng = np.random.default_rng(100 + seed)
        for what, make in fuzzed.changed_leaves(CASES[name], 100, rng):
            try_made(make, rng, f"{what} (seed {seed})")
        for what, make in fuzzed.changed_arrays(CASES[name], critic=True) if seed < 3 else ():
            try_made(make, rng, f"{what} (seed {seed})")


def test_answers_of_too_many_numbers_are_refused_before_they_are_made() -> None:
    wide: Any = {"a": [("a", EveryCode(2**20)), ("b", EveryCode(2**20))]}
    vectors: Any = fuzzed.SCORES
    for made, says in (
        (lambda: Marginals(wide), "too many numbers"),
        (lambda: Distances(wide, {"a": np.zeros((1, 1))}), "too many numbers"),
        (lambda: SecondMoments(vectors, ("t", fuzzed.LEVELS), 2**20), "too many numbers"),
        (lambda: RowsPerPatient(2**40), "rows of a patient"),
        (lambda: VectorSum(vectors, 2**21), "numbers of a vector"),
    ):
        with pytest.raises(QueryError, match=says):
            made()


def test_pairs_without_a_pool_or_with_other_groups_are_refused() -> None:
    pairs = CASES["norms below"]
    for pool in (torch.zeros(0, 2), torch.zeros(2)):
        with pytest.raises(BudgetError, match="pool"):
            dataclasses.replace(pairs, pool=pool)
    with pytest.raises(BudgetError, match="needs a group"):
        dataclasses.replace(pairs, groups=Groups(torch.arange(5) % 2, (0.3, 2.0)))


GRID, SPAN, LINE = Grid(np.array([0, 2, 3, 7]), 1), fuzzed.ENCODING.spans[0], fuzzed.EDGES
NEVER: list[tuple[Any, dict[str, Any], str]] = [
    (GRID, {"edges": np.array([0, 2, 2, 7])}, "ascend strictly"),
    (GRID, {"edges": np.array([0, 3, 2, 7])}, "ascend strictly"),
    (GRID, {"edges": np.array([1, 2, 3, 7])}, "first of them zero"),
    (GRID, {"edges": np.array([0, 2**63 - 1, -2, 7])}, "ascend strictly"),
    (GRID, {"edges": np.array([0, 2**40])}, "range of codes"),
    (GRID, {"edges": np.array([0])}, "two or more edges"),
    (GRID, {"edges": np.array([0, 2], np.int32)}, "64-bit"),
    (GRID, {"gaps": -1}, "range of codes"),
    (GRID, {"gaps": 2**40}, "range of codes"),
    (fuzzed.HALVES, {"place": np.array([0, 1, 1, 0, 2, 4])}, "place is outside"),
    (fuzzed.HALVES, {"place": np.array([0, 1, 1, 0, 2, -1])}, "place is outside"),
    (fuzzed.HALVES, {"place": np.array([0, 1, 1, 0, 2])}, "shape"),
    (fuzzed.HALVES, {"cells": 0}, "cells of a map"),
    (fuzzed.LEVELS, {"cells": 0}, "codes of a map"),
    (fuzzed.PAIR, {"table": np.full((3, 3), 7)}, "place is outside"),
    (fuzzed.PAIR, {"table": np.zeros((3, 2), np.int64)}, "shape"),
    (fuzzed.PAIR, {"equal": np.array([4, 0, -1])}, "place is outside"),
    (fuzzed.PAIR, {"map": fuzzed.PAIR}, "one column"),
    (fuzzed.SUMS, {"map": fuzzed.SUMS}, "one column"),
    (SPAN, {"edges": LINE[::-1].copy()}, "first of them zero"),
    (SPAN, {"edges": np.array([0, 10, 3, 11, 25, 40])}, "ascend strictly"),
    (SPAN, {"size": 41}, "end where its codes end"),
    (SPAN, {"cdf": np.array([0, 0.4, 0.1, 0.5, 0.9, 1.0])}, "rise from zero to one"),
    (SPAN, {"cdf": np.array([0, 0.1, 0.4, 0.5, 0.9, 0.99])}, "rise from zero to one"),
    (SPAN, {"cdf": np.array([0, 0.1, np.nan, 0.5, 0.9, 1.0])}, "finite"),
    (SPAN, {"cdf": np.array([0, 0.1, 1.0])}, "shape"),
    (SPAN, {"index": -1}, "must not be negative"),
    (SPAN, {"flag": -1}, "must not be negative"),
    (SPAN, {"kind": "words"}, "kind of an encoded column"),
    (fuzzed.ENCODING, {"width": 5}, "outside the row"),
    (fuzzed.FOURIER, {"turns": fuzzed.TURNS + 0.25}, "whole parts"),
    (fuzzed.FOURIER, {"turns": fuzzed.TURNS * 2.0**30}, "finite, or larger"),
    (fuzzed.FOURIER, {"turns": torch.full_like(fuzzed.TURNS, 2.0**38)}, "exact products"),
    (fuzzed.FOURIER, {"turns": fuzzed.TURNS.float()}, "float64"),
    (fuzzed.FOURIER, {"centre": torch.tensor([5, -(2**62)])}, "finite, or larger"),
    (fuzzed.FOURIER, {"index": -1}, "need a target"),
    (fuzzed.SCALED, {"numbers": (np.ones(7), np.full(41, np.inf))}, "finite"),
    (fuzzed.SCALED, {"numbers": (np.ones(7), np.empty(0))}, "expected 1 to"),
    (fuzzed.SCALED, {"indices": (0, -2)}, "needs a place"),
    (fuzzed.SCALED, {"classes": 2**40}, "classes of the target"),
    (fuzzed.PRODUCTS, {"factors": torch.tensor([[0, 1, 0], [2, 3, 4]])}, "place is outside"),
    (fuzzed.PRODUCTS, {"tables": {**fuzzed.FEATURES, "n": torch.zeros(3, 2)}}, "shape"),
    (fuzzed.PRODUCTS, {"tables": {**fuzzed.FEATURES, "n": torch.full((4, 2), torch.inf)}}, "finite"),
    (fuzzed.PRODUCTS, {"scales": torch.ones(2)}, "shape"),
    (fuzzed.SCORES, {"tables": {"a": np.zeros((3, 3)), "n": np.zeros((3, 3))}}, "shape"),
    (fuzzed.INDICATORS, {"cells": {"a": Grid(np.array([0, 2**30]), 0), "n": EveryCode(2**30)}}, "indicators"),
    (fuzzed.PAIR_LOSS, {"penalty": 1e300}, "penalty"),
    (fuzzed.PAIR_LOSS, {"weights": torch.tensor([1e30])}, "larger than"),
    (fuzzed.TABLES["digits"][0][1], {"low": 2**62}, "too large"),
    (CASES["marginals"], {"weights": {**fuzzed.WEIGHTS, "n": np.inf}}, "weights of tables"),
    (CASES["marginals"], {"weights": {**fuzzed.WEIGHTS, "n": 1e-30}}, "weights of tables"),
    (CASES["marginals"], {"tables": {}}, "no table"),
    (CASES["marginals"], {"tables": {**fuzzed.TABLES, "n": []}}, "no axis"),
    (CASES["averaged marginals"], {
        "tables": {"n": [("n", EveryCode(2**13))]}, "centred": ("n",),
    }, "too many cells"),
    (CASES["distances"], {"guesses": {**fuzzed.GUESSES, "rows": np.array([2.0**33])}}, "guess"),
]  # fmt: skip


def test_what_a_query_may_not_hold() -> None:
    """Each rule of the page by itself: the error is our own, and names the rule."""
    for value, changes, says in NEVER:
        dataclasses.replace(value)
        with pytest.raises(QueryError, match=says):
            dataclasses.replace(value, **changes)


def test_bounds_leave_room_for_whole_numbers() -> None:
    """A clipping norm, a rate or a number of groups beyond what 64 bits hold."""
    sums, pairs = CASES["random features"], CASES["pair gradients"]
    for value, change in (
        (sums, {"bound": 1e-300}), (sums, {"bound": 1e300}), (sums, {"bound": math.inf}), (sums, {"bound": math.nan}),
        (sums, {"microbatches": 2**20}), (pairs.local, {"rate": 1e300}), (pairs.local, {"steps": 65}),
        (pairs.groups, {"bounds": (1.0, 1e-320)}), (pairs.groups, {"of": pairs.groups.of.int()}),
        (pairs, {"groups": dataclasses.replace(pairs.groups, of=pairs.groups.of[:-1])}),
        (UpstreamSum(torch.ones(2, 3), 1, 1.0), {"bound": math.inf}),
        (UpstreamSum(torch.ones(2, 3), 1, 1.0), {"classes": 3}),
        (UpstreamSum(torch.ones(2, 3), 1, 1.0), {"fakes": torch.full((2, 3), torch.nan)}),
    ):  # fmt: skip
        with pytest.raises(MedsynthError):
            dataclasses.replace(value, **change)


def test_the_way_through_a_grid_does_not_depend_on_the_number_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells are those of a loop over edges, for grids with a table of codes and without, and codes past both ends."""
    rng = np.random.default_rng(0)
    for trial in range(40):
        monkeypatch.setattr(grids, "TABLE_CODES", 0 if trial % 2 else 1 << 16)
        made = Grid(np.concatenate([[0], np.cumsum(rng.integers(1, 5, rng.integers(1, 9)))]), int(rng.integers(3)))
        codes = np.arange(made.ends[-1] + 3, dtype=np.int32)
        cell = [max(sum(int(end) <= code for end in made.ends[:-1]) - 1, 0) for code in codes]
        for count in (1, len(codes) - 1, len(codes), len(codes) + 1, 1000):
            index = rng.integers(0, len(codes), count)
            assert made.cell_of(codes[index]).tolist() == [cell[k] for k in index]


class Fails:
    """A map that fails on one code, as a fault in a map would."""

    cells = 7

    def cell_of(self, codes: Any) -> Any:
        if (codes == 4).any():
            raise ValueError("a word about a row")
        return codes


@dataclasses.dataclass(frozen=True)
class FailingEncoding:
    """Features that fail on one code of the first column."""

    encoding: Encoding

    def __call__(self, codes: Any) -> torch.Tensor:
        if (codes[:, 0] == 4).any():
            raise MemoryError
        return self.encoding(codes)


def parts_of(codes: Any, folder: Path) -> list[Any]:
    """The rows in memory and in a file."""
    stored = StoredCodes(SIZES, folder)
    stored.append(codes)
    return [RowsInMemory(codes, NAMES), *stored.parts(NAMES)]


def test_a_row_on_which_a_query_fails_adds_nothing(tmp_path: Path) -> None:
    """The reply is that over the other rows, or over the other patients, in every part and of every kind of query."""
    rng = np.random.default_rng(3)
    failing: Any = Fails()
    axes: Any = {"a": [("a", failing), ("t", fuzzed.LEVELS)]}
    net = fuzzed.critic(6)
    for query in (
        Marginals(axes),
        Marginals(axes, averaged=True),
        dataclasses.replace(CASES["distances"], tables=axes, guesses={"a": np.zeros((7, 3))}),
        dataclasses.replace(CASES["second moments"], given=("a", failing), vectors=lambda own: own[:, :2] / 9.0),
        VectorSum(FailingEncoding(fuzzed.ENCODING), 6),
        dataclasses.replace(CASES["random features"], critic=net, features=FailingEncoding(fuzzed.ENCODING)),
        dataclasses.replace(CASES["scaled rows"], critic=net, features=FailingEncoding(fuzzed.ENCODING)),
    ):
        rows = pool(query, rng, 30)
        whose = rows.codes[:, 0] if rows.units is None else rows.units.of_row
        gone = np.isin(whose, whose[rows.codes[:, 0] == 4])
        assert 0 < gone.sum() < len(gone)
        expected = answer(query, rows.some(~gone))
        for part in parts_of(rows.codes, tmp_path):
            found = part.exact(query, Lot(None, rows.draws, rows.units))
            if len(found) > len(expected):  # two words a number
                found = [(high << 32) + low for high, low in zip(found[::2], found[1::2], strict=True)]
            assert all(map(np.array_equal, found, expected)), type(query)


def test_features_on_which_a_map_fails_are_zero(tmp_path: Path) -> None:
    codes = pool(CASES["marginals"], np.random.default_rng(4), 30).codes
    fails = codes[:, 0] == 4
    for part in parts_of(codes, tmp_path):
        found = part.encoded(FailingEncoding(fuzzed.ENCODING))
        assert not found[fails].any() and torch.equal(found[~fails], fuzzed.ENCODING(codes[~fails]))


def test_a_query_that_fails_on_every_row_is_an_error() -> None:
    """It says nothing of a row, and its author is told."""
    rows = pool(CASES["marginals"], np.random.default_rng(5), 9)
    absent: Any = {"a": [("not a column", fuzzed.LEVELS)]}
    many: Any = {"a": [(("a", "b"), fuzzed.LEVELS)]}
    for tables, kind in ((absent, ValueError), (many, QueryError)):
        with pytest.raises(kind) as caught:
            RowsInMemory(rows.codes, NAMES).exact(Marginals(tables), Lot(None, rows.draws))
        assert caught.value.__context__ is None
    with pytest.raises(IndexError):
        encoded(lambda codes: torch.from_numpy(codes[:, [9]]), rows.codes)


def test_one_shard_moves_an_upstream_sum_by_no_more_than_it_states() -> None:
    """Generated rows and bounds of any size: the critics of one shard are trained on other rows, near and far out."""
    rng = np.random.default_rng(6)
    for trial in range(8):
        classes, width, count = (int(rng.integers(1, most)) for most in (4, 4, 6))
        fakes = torch.from_numpy(rng.normal(size=(count, width + classes)) * 10.0 ** rng.integers(-30, 30)).float()
        query = UpstreamSum(fakes, classes, float(2.0 ** rng.integers(-60, 60)), bool(trial % 2))
        answers = []
        for other in (0.0, 1e4, -1e30):
            rows = torch.cat([torch.ones(6, width), torch.eye(classes)[np.arange(6) % classes]], 1)
            rows[2:4, :width] = other
            allowance: Any = {"s": (Gaussian(multiplier=1.0), 1)}
            ledger = Ledger(delta=1e-5, accountant="prv", random_source="t", allowance=allowance)
            releases = Releases(ledger, SeededEntropy(trial))
            shards = Shards(rows, np.arange(6) // 2, 3, classes, CriticConfig(), releases)
            for _ in range(3):
                shards.train(torch.ones(classes, 4, width + classes))
            releases.entropy = NoNoise()
            answers.append(shards.release("s", query).arrays[0])
        for one in answers:
            assert np.linalg.norm(one - answers[0]) <= query.sensitivity(None)
