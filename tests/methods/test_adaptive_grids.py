"""Fine grids that follow the rows: every value in one cell, frequent values alone, no mass where no rows are."""

import numpy as np
import pandas as pd
import pytest

import medsynth
from medsynth.methods.bins import grid_tensors, restored_grids
from medsynth.methods.marginals import smoothed
from medsynth.mixture.constants import BINS, COARSE, COARSE_CELLS, FINE_CELLS, TAIL_SHARE, VALUES
from medsynth.mixture.grids import Survey, _every_value, _frequent, coarse_grid, expected_beyond
from medsynth.schema import Continuous, Schema
from medsynth.schema.columns.grid import Grid, grid

ASSAY = Continuous(bounds=(0, 50), decimals=2, missing=True)
STD = 12.0


def surveyed(
    codes: np.ndarray, rng: np.random.Generator, frequent: tuple[int, ...] = (), column: Continuous = ASSAY
) -> Survey:
    """The survey of a column with those codes."""
    coarse = coarse_grid(column)
    counts = np.bincount(coarse.cell_of(codes), minlength=coarse.cells) + rng.normal(0, STD, coarse.cells)
    return Survey(coarse=coarse, counts=counts, std=STD, frequent=np.array(frequent, np.int64))


def assays(rows: int, rng: np.random.Generator) -> np.ndarray:
    """A narrow bulk near 8 within wide bounds, and a value that a tenth of the rows share."""
    codes = np.round(100 * np.clip(rng.normal(8, 1.2, rows), 0, 50)).astype(np.int32)
    codes[: rows // 10] = 850
    return codes


def test_every_value_lies_in_one_cell_and_a_frequent_one_alone(rng: np.random.Generator) -> None:
    fine = surveyed(assays(4000, rng), rng, (0, 850, 5000)).fine_grid()
    assert fine.edges[0] == 0 and fine.edges[-1] == ASSAY.size and (np.diff(fine.edges) > 0).all()
    widths = dict(zip(fine.edges.tolist(), np.diff(fine.edges).tolist(), strict=False))
    assert widths[850] == widths[0] == widths[5000] == 1
    assert COARSE_CELLS < fine.cells < COARSE_CELLS + 2 * FINE_CELLS
    inside = (fine.edges >= 450) & (fine.edges < 1150)
    assert inside.sum() > fine.cells / 2  # most cells where the rows are


@pytest.mark.statistical
def test_noise_makes_no_tail_where_no_rows_are(rng: np.random.Generator) -> None:
    """Beside an even grid with the noise of one measurement in place of two. The seed is fixed."""
    found, even_found = [], []
    for _ in range(10):
        codes = assays(4000, rng)
        survey = surveyed(codes, rng, (850,))
        fine = survey.fine_grid()
        counts = np.bincount(fine.cell_of(codes), minlength=fine.cells) + rng.normal(0, STD, fine.cells)
        shares = survey.shares(fine, counts, len(codes), STD)
        assert shares.sum() == pytest.approx(1) and (shares >= 0).all()
        assert shares[fine.cell_of(np.array([850]))[0]] == pytest.approx(0.1, abs=5 * STD / 4000)
        found.append(spread(fine, shares) / codes.std())
        even = grid(ASSAY, 256)
        counts = np.bincount(even.cell_of(codes), minlength=even.cells) + rng.normal(0, STD / 2**0.5, even.cells)
        even_found.append(spread(even, smoothed(counts, len(codes), STD / 2**0.5, ASSAY.gaps)) / codes.std())
    errors = [np.abs(np.log(ratios)).mean() for ratios in (found, even_found)]
    assert errors[0] < 0.1 and errors[0] < errors[1]


@pytest.mark.statistical
def test_a_few_rows_under_much_noise_are_spread_and_not_cut_off(rng: np.random.Generator) -> None:
    """Whatever the noise says: shares of a hundred such columns are shares. The seed is fixed."""
    for _ in range(100):
        codes = assays(20, rng)
        survey = surveyed(codes, rng)
        fine = survey.fine_grid()
        shares = survey.shares(fine, rng.normal(0, STD, fine.cells), 20, STD)
        assert shares.sum() == pytest.approx(1) and (shares >= 0).all()


@pytest.mark.statistical
def test_little_is_cut_off_a_small_table(rng: np.random.Generator) -> None:
    """400 rows under noise that hides each cell of their tails: of fifty columns a mean of at most 2 % of the rows is
    cut off at an end, where the cells that are clear alone left out 7 % each. The seed is fixed.
    """
    cut = []
    for _ in range(50):
        codes = np.round(100 * np.clip(rng.normal(20, 6, 400), 0, 50)).astype(np.int32)
        survey = surveyed(codes, rng)
        fine = survey.fine_grid()
        counts = np.bincount(fine.cell_of(codes), minlength=fine.cells) + rng.normal(0, STD, fine.cells)
        kept = np.flatnonzero(survey.shares(fine, counts, 400, STD)[: len(fine.edges) - 1])
        cut.append([(codes < fine.edges[kept[0]]).mean(), (codes >= fine.edges[kept[-1] + 1]).mean()])
    assert np.mean(cut, axis=0).max() < 0.02


def test_a_tail_ends_where_its_counts_do() -> None:
    """Without noise an evenly falling tail comes back; where nothing lies beyond, nothing is expected."""
    falling = np.array([80.0, 60.0, 40.0, 20.0, 0.0, 0.0])
    assert expected_beyond(falling, 100.0, 0.5) == pytest.approx([200, 120, 60, 20, 0, 0], abs=0.1)
    assert expected_beyond(np.zeros(6), 100.0, 1.0) == pytest.approx(np.zeros(6), abs=1e-6)
    assert len(expected_beyond(np.zeros(0), 100.0, 1.0)) == 0


def test_of_a_large_table_a_few_rows_alone_are_cut_off() -> None:
    """Three standard deviations of a cell's noise are 75 rows of 40,000, where a hundredth would be 400: of a tail of
    70, 50 and 30 rows, none of which its count shows by itself, no more than 75 are cut off.
    """
    counts = np.zeros(COARSE_CELLS + 1)
    counts[:14] = [*[4_000.0] * 9, 250, 150, 70, 50, 30]
    survey = Survey(coarse=grid(ASSAY, COARSE_CELLS), counts=counts, std=25.0, frequent=np.empty(0, np.int64))
    kept = survey._kept(counts, 25.0, 40_000)
    assert kept[:13].all() and not kept[13:COARSE_CELLS].any()


def test_more_noise_lets_a_tail_reach_farther() -> None:
    """What the noise cannot rule out is not cut off."""
    reach = [int((expected_beyond(np.zeros(20), 40.0, std) > TAIL_SHARE * 400).sum()) for std in (1.0, 10.0, 40.0)]
    assert reach == sorted(reach) and reach[0] == 0 and reach[-1] > 5


def spread(cells: Grid, shares: np.ndarray) -> float:
    """The standard deviation of values by shares of their cells, missing values left out."""
    values = shares[: len(cells.edges) - 1] / shares[: len(cells.edges) - 1].sum()
    middle = (cells.edges[:-1] + cells.edges[1:] - 1) / 2
    return float(np.sqrt(values @ (middle - values @ middle) ** 2))


def test_frequent_values_are_looked_for_while_all_values_fit_into_memory() -> None:
    """The columns with the fewest values first: a table of many wide columns is not measured value by value."""
    wide = {f"w{k}": Continuous(bounds=(0, 1), decimals=6) for k in range(9)}
    found = _every_value({**wide, "narrow": ASSAY})
    assert list(found) == ["narrow", "w0", "w1", "w2", "w3"]
    assert _every_value({"huge": Continuous(bounds=(0, 100), decimals=6)}) == {}


def test_each_of_many_rounded_values_stands_alone(rng: np.random.Generator) -> None:
    """An assay that is mostly told to a tenth, 60 values of 600: none shares a cell. The seed is fixed."""
    counts = np.where(np.arange(600) % 10 == 0, 100.0, 5.0) + rng.normal(0, 4.0, 600)
    found = _frequent(counts, 4.0)
    assert set(range(0, 600, 10)) <= set(found.tolist()) and len(found) < 65


def test_edges_come_back_from_a_model_file_exactly() -> None:
    """Codes of up to 2^31, which no float32 holds."""
    schema = Schema.from_dict({"name": "t", "columns": {"x": {"kind": "count", "bounds": [0, 2**31 - 10]}}})
    edges = np.array([0, 1, 2**24 + 1, 2**30 + 12345, 2**31 - 9])
    assert restored_grids(grid_tensors({"x": Grid(edges, 0)}), schema)["x"].edges.tolist() == edges.tolist()


def test_a_table_of_levels_alone_measures_what_is_planned(rng: np.random.Generator) -> None:
    """The plan knows no schema: it holds the measurements of numbers in any case."""
    table = pd.DataFrame({name: rng.choice(["a", "b"], 200) for name in ("x", "y", "z")})
    level = {"kind": "binary", "levels": ["a", "b"]}
    schema = Schema.from_dict({"name": "t", "target": "z", "columns": dict.fromkeys(table.columns, level)})
    model = medsynth.fit(table, epsilon=3.0, schema=schema, rows=200, method="independent")
    assert {COARSE, VALUES} <= {event.label for event in model.ledger.entries}
    assert set(medsynth.sample(model, 50)["x"]) <= {"a", "b"}


def test_coarse_cells_end_at_cut_points_and_are_at_most_half_wider_than_even_ones() -> None:
    points = [5.0, 7.25, 7.5, 20.0]
    column = ASSAY.model_copy(update={"cut_points": tuple(points)})
    found, even = coarse_grid(column), grid(ASSAY, BINS)
    assert set(column.cut_codes) <= set(found.edges.tolist())
    assert found.edges[0] == 0 and found.edges[-1] == ASSAY.size and (np.diff(found.edges) > 0).all()
    assert np.diff(found.edges).max() <= 1.5 * np.diff(even.edges).max()
    assert BINS <= len(found.edges) - 1 <= BINS + len(points)
    assert np.array_equal(coarse_grid(ASSAY).edges, grid(ASSAY, COARSE_CELLS).edges)


def test_even_cut_points_are_the_whole_coarse_grid() -> None:
    points = tuple(np.arange(2.5, 50, 2.5).tolist())
    column = ASSAY.model_copy(update={"cut_points": points})
    assert coarse_grid(column).edges.tolist() == [0, *column.cut_codes, ASSAY.size]


@pytest.mark.statistical
def test_shares_between_cut_points_are_nearer_to_the_rows(rng: np.random.Generator) -> None:
    """Of 30 columns of 4,000 rows, the mean error in the parts falls by a fifth at least. The seed is fixed."""
    points = (5.0, 6.5, 7.25, 8.0, 9.5, 11.0)
    errors: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(30):
        codes = assays(4000, rng)
        for cut, some in errors.items():
            column = ASSAY.model_copy(update={"cut_points": points if cut else ()})
            survey = surveyed(codes, rng, (850,), column)
            fine = survey.fine_grid()
            own = np.bincount(fine.cell_of(codes), minlength=fine.cells) + rng.normal(0, STD, fine.cells)
            shares = survey.shares(fine, own, len(codes), STD)
            ends = np.array([100 * point for point in points])
            each = np.repeat(shares[: len(fine.edges) - 1] / np.diff(fine.edges), np.diff(fine.edges))
            parts = np.searchsorted(ends, np.arange(len(each)), side="right")
            true = np.bincount(np.searchsorted(ends, codes, side="right"), minlength=7) / len(codes)
            some.append(float(np.abs(np.bincount(parts, each, 7) - true).sum() / 2))
    assert np.mean(errors[True]) < 0.8 * np.mean(errors[False])
