"""Balanced rows: tables nearer to the candidates' than independent rows', each candidate kept as often as any other."""

import numpy as np
import pytest

from medsynth.sampling import balance
from medsynth.schema import Schema

LEVELS = {"kind": "categorical", "levels": ["a", "b", "c"]}
TABLE = Schema.from_dict({
    "name": "t", "target": "y",
    "columns": {"age": {"kind": "count", "bounds": [0, 90]}, "ward": LEVELS, "key": {"kind": "identifier"},
                "y": {"kind": "binary", "levels": [0, 1]}},
})  # fmt: skip


def candidates(rows: int, rng: np.random.Generator) -> np.ndarray:
    """Rows of columns that depend on one another."""
    y = rng.random(rows) < 0.3
    age = np.clip(rng.normal(40 + 20 * y, 15), 0, 90)
    ward = (rng.random(rows) * (2 + y)).astype(int)
    return np.stack([age, ward, np.arange(rows), y], 1).astype(np.int32)


def squared_error(some: np.ndarray, all_of_them: np.ndarray) -> float:
    """Of the shares in the table of ward by target by age in bins of ten years."""
    cells = [
        np.bincount((c[:, 0] // 10) * 6 + c[:, 1] * 2 + c[:, 3], minlength=60) / len(c) for c in (some, all_of_them)
    ]
    return float(((cells[0] - cells[1]) ** 2).sum())


@pytest.mark.statistical
def test_balanced_rows_are_nearer_to_their_candidates_than_independent_rows(rng: np.random.Generator) -> None:
    """Even the three-way table, which is not balanced itself. The seed is fixed: it cannot fail by chance."""
    table = candidates(16_000, rng)
    chosen = balance.balanced(table, TABLE, 1000, rng)
    assert len(np.unique(chosen[:, 2])) == 1000  # no candidate twice
    independent = np.mean([squared_error(table[rng.choice(16_000, 1000, False)], table) for _ in range(20)])
    assert squared_error(chosen, table) < independent / 2
    margins = [np.bincount(c[:, 3], minlength=2) / len(c) for c in (chosen, table)]
    assert abs(margins[0] - margins[1]).max() < 0.002


@pytest.mark.statistical
def test_every_candidate_is_kept_as_often_as_any_other(rng: np.random.Generator) -> None:
    """An odd row (the only one of its ward) among 32 is one of 16 kept in half of 700 runs: 4.4 standard errors.

    The seed is fixed: it cannot fail by chance.
    """
    table = candidates(32, rng)
    table[:, 1] = 0
    table[7, 1] = 2
    kept = np.mean([7 in balance.balanced(table, TABLE, 16, rng)[:, 2] for _ in range(700)])
    assert abs(kept - 0.5) < 0.083


@pytest.mark.nightly
@pytest.mark.statistical
def test_exchanges_bring_tables_nearer_and_leave_what_is_rare(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside halvings alone: nine tenths of the squared error of all two-way tables, and as many rows of one in 2,000.

    Ten samples of 1,000 rows, five rare ones expected: four standard errors are nine. The seed is fixed.
    """
    wide = Schema.from_dict({"name": "t", "columns": {f"c{k}": {"kind": "count", "bounds": [0, 9]} for k in range(6)}})
    table = (rng.random((16_000, 6)) * (5 + 5 * rng.random((16_000, 1)))).astype(np.int32)
    table[:8, 0], table[8:, 0] = 9, np.minimum(table[8:, 0], 8)
    pairs = [(a, b) for a in range(6) for b in range(a)]
    tables = [np.bincount(table[:, a] * 10 + table[:, b], minlength=100) / 16 for a, b in pairs]
    rare, errors = [0, 0], [0.0, 0.0]
    for k in range(10):
        for j, sweeps in enumerate((2, 0)):
            monkeypatch.setattr(balance, "MOST_SWEEPS", sweeps)
            chosen = balance.balanced(table, wide, 1000, np.random.default_rng(k))
            rare[j] += int((chosen[:, 0] == 9).sum())
            found = [np.bincount(chosen[:, a] * 10 + chosen[:, b], minlength=100) for a, b in pairs]
            errors[j] += sum(float(((f - t) ** 2).sum()) for f, t in zip(found, tables, strict=True))
    assert errors[0] < 0.9 * errors[1]
    assert max(abs(count - 5) for count in rare) < 9


@pytest.mark.statistical
def test_values_inside_bins_and_levels_that_share_one_are_balanced_too(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A number in a hundred bins and each of forty levels: a third of the squared error that coarse tables leave.

    Means of five samples of 1,000 rows. The seed is fixed: it cannot fail by chance.
    """
    wide = Schema.from_dict({"name": "t", "columns": {
        "assay": {"kind": "count", "bounds": [0, 9999]},
        "drug": {"kind": "categorical", "levels": [f"d{k}" for k in range(40)]}}})  # fmt: skip
    table = np.stack([rng.integers(0, 10_000, 16_000), rng.geometric(0.05, 16_000).clip(1, 40) - 1], 1)
    table = table.astype(np.int32)

    def shares(codes: np.ndarray) -> np.ndarray:
        counts = [np.bincount(codes[:, 0] // 100, minlength=100), np.bincount(codes[:, 1], minlength=40)]
        return np.concatenate(counts) / len(codes)

    errors = [0.0, 0.0]
    for k in range(5):
        for j, most in enumerate((balance.MOST_FINE, 1)):
            with monkeypatch.context() as changed:
                changed.setattr(balance, "MOST_FINE", most)
                chosen = balance.balanced(table, wide, 1000, np.random.default_rng(k))
            errors[j] += float(((shares(chosen) - shares(table)) ** 2).sum())
    assert errors[0] < errors[1] / 3


def test_halvings_keep_the_number_of_candidates_bounded() -> None:
    """Sixteen times as many for small samples, none where rows or columns are many."""
    assert [balance.halvings(n, 22) for n in (1, 5000, 5001, 10_000, 40_000, 40_001, 10**6)] == [4, 4, 3, 3, 1, 0, 0]
    assert [balance.halvings(n, 785) for n in (300, 2000, 10_000)] == [4, 1, 0]


def test_candidates_must_be_a_power_of_two_times_as_many(rng: np.random.Generator) -> None:
    """Three times as many cannot be halved."""
    with pytest.raises(ValueError, match="power of two"):
        balance.balanced(candidates(300, rng), TABLE, 100, rng)


def test_pairs_with_the_target_come_first_in_a_wide_table(rng: np.random.Generator) -> None:
    """Of 4,950 pairs 600 are balanced, the 99 with the target among them, and others each time."""
    one, other = (balance._pairs(100, 99, rng) for _ in range(2))
    assert len(one) == 600
    assert (one == 99).any(1).sum() == (other == 99).any(1).sum() == 99
    assert not np.array_equal(np.sort(one, 0), np.sort(other, 0))


def test_rows_have_their_cell_in_each_table(rng: np.random.Generator) -> None:
    """Two rows share a cell of a table if they agree in its columns; all are counted."""
    bins, fine = (rng.integers(0, most, (60, 4)) for most in (3, 9))
    pairs = np.array([[0, 1], [1, 3], [2, 3]])
    tables = balance._CountedTables(bins, fine, pairs)
    cells = tables.of(np.arange(60).reshape(2, 30)).reshape(60, -1)
    keys = [*(bins[:, pair] for pair in pairs), *bins.T[:, :, None], *fine.T[:, :, None]]
    assert len(keys) == cells.shape[1]
    for own, key in zip(cells.T, keys, strict=True):
        assert ((own[:, None] == own) == (key[:, None] == key).all(2)).all()
    assert all(len({*one} & {*other}) == 0 for k, one in enumerate(cells.T) for other in cells.T[:k])
    assert (tables.counts(np.arange(60)) == np.bincount(cells.ravel(), minlength=tables.cells)).all()


def test_no_candidate_is_chosen_twice_by_rows_that_are_exchanged_together(rng: np.random.Generator) -> None:
    """Rows looked at together want the same few candidates."""
    table = np.zeros((20_480, 4), np.int32)
    table[:, 2] = np.arange(20_480)
    table[rng.permutation(20_480)[:40], :2] = 2
    chosen = balance.balanced(table, TABLE, 2560, rng)
    assert len(np.unique(chosen[:, 2])) == 2560
