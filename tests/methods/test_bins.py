"""Bins, digit preference and conditionals: values come back as they are spread, and noise is not taken for rows."""

from typing import Any

import numpy as np
import pytest

from medsynth.methods.bins import Bins
from medsynth.methods.digit_preference import DigitKinds, draw_numbers, kind_shares, kinds_of, preferred_kinds
from medsynth.methods.marginals import cleaned, smoothed
from medsynth.schema import Continuous, Count, Schema

PRESSURE = Count(bounds=(50, 300))


def fitted(column: Any, codes: Any, most: int = 20) -> Any:
    """Bins of a column from exact histograms."""
    from medsynth.methods.marginals import GRID_CELLS
    from medsynth.schema.columns.grid import grid

    fine = grid(column, GRID_CELLS)
    shares = np.bincount(fine.cell_of(codes), minlength=fine.cells) / len(codes)
    kinds = kinds_of(column)
    digits = np.bincount(kinds.cell_of(codes), minlength=kinds.cells) / len(codes)
    return Bins.of(column, shares, digits, most)


def redrawn(bins: Any, codes: Any, rng: np.random.Generator) -> Any:
    """Codes drawn anew in the bins of `codes`, all of one class."""
    return bins.draw(bins.cell_of(codes), np.zeros(len(codes), np.int64), bins.shares[None] + 1e-12, rng)


@pytest.mark.statistical
@pytest.mark.parametrize("rounded", [True, False])
def test_preferred_digits_come_back_and_even_values_stay_even(rounded: bool, rng: np.random.Generator) -> None:
    """The seed is fixed: it cannot fail by chance."""
    values = np.clip(np.rint(rng.normal(130, 20, 20_000)), 50, 300).astype(np.int64)
    if rounded:
        values = np.where(rng.random(len(values)) < 0.8, np.round(values, -1), values)
    codes = (values - 50).astype(np.int32)
    drawn = redrawn(fitted(PRESSURE, codes), codes, rng)
    share = [np.mean((c + 50) % 10 == 0) for c in (codes, drawn)]
    assert abs(share[0] - share[1]) < 0.02
    near = [np.mean(c + 50 == 120) for c in (codes, drawn)]
    assert abs(near[0] - near[1]) < 0.02


@pytest.mark.statistical
def test_kinds_of_numbers_are_counted_and_drawn_exactly(rng: np.random.Generator) -> None:
    """The seed is fixed: it cannot fail by chance."""
    first, last = np.array([-7, 0, 13, 99, 9_990]), np.array([12, 0, 13, 1205, 10_010])
    kinds = DigitKinds(-50, 10**6)
    members = kinds.count(first, last)
    for j, (a, b) in enumerate(zip(first, last, strict=True)):
        found = kinds.cell_of(np.arange(a, b + 1) + 50)
        assert (members[:, j] == np.bincount(found, minlength=kinds.cells)[:-1]).all()
        assert members[:, j].sum() == b - a + 1
    weight = np.zeros(len(members))
    weight[[3, 9 + 1]] = 1.0  # last digit 4, or tens that end in 20
    drawn = draw_numbers(np.full(2000, 1), np.full(2000, 199), weight, kinds, rng)
    assert set(drawn) == {*range(4, 200, 10), 20, 120}
    assert abs(np.mean(drawn % 10 == 4) - 20 / 22) < 0.03  # 4.5 standard errors


def errors_of_kinds(values: Any, width: int, std: float, rng: np.random.Generator) -> Any:
    """Total variation of shares of kinds from the rows', found and by the noisy counts themselves: mean of 20 draws.

    The column's histogram, exact, has cells of so many values.
    """
    kinds = DigitKinds(PRESSURE.units[0], PRESSURE.size)
    true = np.bincount(kinds.cell_of((values - 50).astype(np.int32)), minlength=kinds.cells).astype(np.float64)
    edges = np.append(np.arange(50, 301, width), 301)
    shares = np.append(np.histogram(values, edges)[0], 0.0) / len(values)
    far = np.zeros(2)
    for _ in range(20):
        noisy = true + rng.normal(0, std, len(true))
        found = kind_shares(noisy, std, len(values), edges, shares, kinds)
        assert found.sum() == pytest.approx(1.0) and (found >= 0).all()
        far += [np.abs(some * len(values) - true).sum() for some in (found, noisy)]
    return far / 2 / 20 / len(values)


@pytest.mark.statistical
def test_noise_prefers_no_digit(rng: np.random.Generator) -> None:
    """Of values without preference hardly any of the noise is left, however few are of a kind. The seed is fixed."""
    values = np.clip(np.rint(rng.normal(130, 20, 4000)), 50, 300)
    found, noisy = errors_of_kinds(values, 2, 50.0, rng)
    assert found < 0.1 * noisy
    even, edges = np.append(np.full(251, 1 / 251), 0.0), np.arange(50, 302)
    kinds = kinds_of(PRESSURE)
    true = np.append(kinds.count(edges[:-1], edges[1:] - 1).sum(1), 0) * 4000 / 251
    noisy = true + 75.0 * (np.arange(38) == 18)
    assert (
        kind_shares(noisy, 50.0, 4000, edges, even, kinds)[18] < 1.5 / 251
    )  # 100, the one number of its kind: 3.7 times 20


@pytest.mark.statistical
def test_digits_that_are_preferred_clearly_stay_so(rng: np.random.Generator) -> None:
    """Even readings, and multiples of ten, lose at least half of the noise as well. The seed is fixed."""
    values = np.clip(np.rint(rng.normal(130, 20, 4000)), 50, 300)
    for preferred, width in (
        (values // 2 * 2, 2),
        (np.where(rng.random(4000) < 0.5, np.round(values, -1), values), 20),
    ):
        found, noisy = errors_of_kinds(preferred, width, 20.0, rng)
        assert found < 0.6 * noisy and found < 0.05


def test_missing_has_a_bin_of_its_own(rng: np.random.Generator) -> None:
    column = Continuous(bounds=(0, 100), decimals=1, missing=True)
    codes = np.where(rng.random(3000) < 0.3, column.size, rng.integers(0, 1001, 3000)).astype(np.int32)
    bins = fitted(column, codes)
    place = bins.cell_of(codes)
    assert set(place[codes == column.size]) == {bins.cells - 1}
    drawn = redrawn(bins, codes, rng)
    assert np.array_equal(drawn == column.size, codes == column.size) and drawn.max() <= column.size
    assert np.array_equal(bins.cell_of(drawn), place)


def test_merged_bins_are_neighbours_and_few() -> None:
    column = Continuous(bounds=(0, 100), decimals=1, missing=True)
    bins = Bins.of(column, np.full(129, 1 / 129), None, 20)
    part = bins.merged(8, np.full(bins.cells, 1 / bins.cells))
    assert part.max() + 1 <= 8 and np.all(np.diff(part) >= 0) and (part == part[-1]).sum() == 1


def test_overlap_of_a_span_with_cells() -> None:
    bins = Bins.of(Count(bounds=(0, 9)), None, None, 20)
    assert bins.overlap(0, 2).tolist() == [1.0] * 3 + [0.0] * 7
    assert bins.shares_of(np.ones((1, 10)), bins.overlap(9, 9))[0].tolist() == [0.0] * 9 + [1.0]


def test_digit_kinds_only_where_cells_are_wider_than_values() -> None:
    columns = {"a": {"kind": "count", "bounds": [0, 50]}, "b": {"kind": "continuous", "bounds": [0, 9], "decimals": 3}}
    assert set(preferred_kinds(Schema.from_dict({"name": "t", "columns": columns}))) == {"b"}


@pytest.mark.statistical
def test_a_tail_of_noise_is_cut_off() -> None:
    """A thousand rows in the first third, noise of ten a cell everywhere: the far end must not get rows.

    The seed is fixed: it cannot fail by chance.
    """
    rng, far = np.random.default_rng(0), []
    true = np.where(np.arange(128) < 40, 25.0, 0.0)
    for _ in range(20):
        counts = true + rng.normal(0, 10, 128)
        far.append((smoothed(counts, 1000, 10, False)[60:].sum(), cleaned(counts, 1000)[60:].sum()))
    ours, projected = np.mean(far, axis=0)
    assert ours < 0.04 and ours < projected / 3
    whole = smoothed(true + rng.normal(0, 0.1, 128), 1000, 0.1, False)
    assert np.abs(whole - true / 1000).max() < 2e-3
