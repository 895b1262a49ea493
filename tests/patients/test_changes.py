"""How numbers move: groups of changes, directions, and the smooth kernel that noisy counts of changes are held to."""

from __future__ import annotations

import numpy as np
import pytest

from medsynth.methods.bins import Bins
from medsynth.patients.changes import FINEST, STEPS, Changes, moved
from medsynth.patients.conditional import fitted
from medsynth.patients.tables import worthwhile
from medsynth.patients.variables import Variable
from medsynth.schema import Column, Schema

CELLS = 32


@pytest.fixture(scope="module")
def variable() -> Variable:
    """A number from 0 to 319 that may be missing, in even cells."""
    content = {"name": "t", "target": "y", "columns": {
        "x": {"kind": "count", "bounds": [0, 319], "missing": True}, "y": {"kind": "binary", "levels": ["a", "b"]},
    }}  # fmt: skip
    column: Column = Schema.from_dict(content).columns["x"]
    fine = Bins.of(column, None, None, CELLS)
    shares = np.ones(fine.grid.cells)
    shares[-1] = 10
    bins = Bins.of(column, shares / shares.sum(), None, CELLS)
    return Variable.of("x", column, bins, (4, 3), moves=True)


@pytest.fixture(scope="module")
def changes(variable: Variable) -> Changes:
    found = Changes.of(variable, 1000)
    assert found is not None
    return found


def test_groups_of_changes_are_by_size_and_where_they_begin(changes: Changes) -> None:
    one, sizes, middle = changes.groups, changes.sizes, len(STEPS)
    assert one.shape == (changes.ordered + 1, changes.ordered + 2)
    assert one[0, :6].tolist() == [middle + k for k in (0, 1, 2, 3, 3, 4)]  # 0, 1, 2, 3 to 4, 5 to 8 cells up
    assert one[3, 2] == middle - 1 and one[0, -1] == sizes - 1 and one[0, -2] == sizes - 2  # as before, missing
    assert (one[-1, :-1] == 3 * sizes + sizes - 2).all()  # from a missing value
    assert np.unique(changes.begins[:-1], return_counts=True)[1].min() >= changes.ordered // 3 - 1


def test_few_patients_have_fewer_groups(variable: Variable) -> None:
    found = [Changes.of(variable, most) for most in (45, 44, 15, 14, 0)]
    assert [(one.parts, one.steps) for one in found if one] == [
        FINEST[0],
        FINEST[1],
        FINEST[1],
        FINEST[2],
        FINEST[2],
    ]


def test_a_third_of_changes_is_about_the_same(changes: Changes) -> None:
    counts = np.zeros(changes.sizes)
    counts[len(STEPS) - 2 : len(STEPS) + 3] = [20, 20, 10, 20, 30]  # -2, -1, 0, 1, 2 cells
    found = changes.directions(counts)
    assert found[10, 8:13].tolist() == [0, 0, 1, 2, 2] or found[10, 8:13].tolist() == [0, 1, 1, 1, 2]
    counts[-1] = 50  # half are as before: no change of a cell is about the same
    found = changes.directions(counts)
    assert found[10, 8:13].tolist() == [0, 0, 1, 2, 2] and found[10, -1] == 1
    assert (found[-1] == 3).all() and (found[:, -2] == 3).all()


def test_a_kernel_is_what_counts_without_noise_say(changes: Changes) -> None:
    """Of an autoregression the correlation and the mean change come back, and so do their counts."""
    middle = np.arange(changes.ordered) / changes.ordered
    shares = changes.shares
    for width, drift in ((0.08, 0.0), (0.08, 0.03), (0.25, 0.0)):
        logs = -((middle - middle[:, None] - drift) ** 2) / (2 * width**2)
        truth = np.exp(logs)
        truth /= truth.sum(1, keepdims=True)
        size = changes.groups[: changes.ordered, : changes.ordered] % changes.sizes
        joint = (shares[:, None] * truth).ravel()
        counts = 1000 * np.bincount(size.ravel(), joint, changes.sizes).astype(np.float64)
        found = changes.kernel(counts, 1.0)
        np.testing.assert_allclose(found.sum(1), 1)
        wanted = (shares[:, None] * truth * (middle - middle[:, None])).sum()
        assert (shares[:, None] * found * (middle - middle[:, None])).sum() == pytest.approx(wanted, abs=0.004)
        sizes = changes.expected_sizes(found, counts / counts.sum())
        assert np.abs(sizes - counts / counts.sum()).sum() < 0.12


def test_values_follow_the_kernel_where_nothing_else_is_known(changes: Changes, variable: Variable) -> None:
    """The offset beside the base is the kernel; missing values and repeated ones are as likely as without it."""
    kernel = np.full((changes.ordered, changes.ordered), 0.2 / changes.ordered)
    kernel += 0.8 * np.eye(changes.ordered)
    chances = np.exp(variable.base + changes.offset(kernel))
    own = chances[: changes.ordered, : changes.ordered]
    np.testing.assert_allclose(own / own.sum(1, keepdims=True), kernel, rtol=1e-9)
    plain = np.exp(variable.base)
    np.testing.assert_allclose(own.sum(1), plain[: changes.ordered].sum(), rtol=1e-9)
    np.testing.assert_allclose(chances[:, changes.ordered :], np.tile(plain[changes.ordered :], (len(chances), 1)))
    table = np.full((5, 6), 10.0)
    found = changes.expected_values(kernel, table, variable.medium)
    groups = int(variable.medium[: changes.ordered].max()) + 1
    np.testing.assert_allclose(found.sum(1), table.sum(1))
    assert (np.diag(found)[:groups] > 20).all() and (found[groups:] == 10).all()


def test_directions_given_a_context_come_back(changes: Changes, variable: Variable) -> None:
    """Where one group of patients rises and one does not, fitted chances say so; values may begin anywhere."""
    rng = np.random.default_rng(0)
    directions = changes.directions(np.r_[np.ones(changes.sizes - 2), 0, 0])
    chances = moved(np.array([[30.0, 30, 30, 10], [10, 20, 60, 10]]), 0.01, directions)
    who, last = rng.integers(0, 2, 4000), rng.integers(0, changes.ordered, 4000)
    context = who * variable.values + last
    found = fitted(variable.base, [chances], [context], 200.0, np.ones(4000)).weights[0]
    logs = variable.base + found[context]
    drawn = np.exp(logs) / np.exp(logs).sum(1, keepdims=True)
    for group, wanted in ((0, 0.3), (1, 0.6)):
        ups = (drawn * (directions[last] == 2)).sum(1)[who == group].mean()
        assert ups == pytest.approx(wanted, abs=0.04)


def test_of_few_patients_only_clear_tables_join_those_that_are_always_measured() -> None:
    expected = {str(k): np.full((3, 3), 100 / 9) for k in range(4)}
    chance = np.sqrt(2 / np.pi) * 9 * np.sqrt(100 / 9)  # what the distance is by chance alone
    distances = {"0": 0.0, "1": chance + 34, "2": chance + 36, "3": chance + 90}
    assert worthwhile(distances, 10.0, expected, 0.1, 9, ["0"]) == ["0", "3", "2"]
    assert worthwhile(distances, 10.0, expected, 0.1, 9, []) == ["3", "2", "1"]
    assert worthwhile({"0": 0.0}, 10.0, expected, 0.1, 9, []) == ["0"]
