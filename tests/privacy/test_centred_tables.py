"""Centred tables: differences from the means are released, and the sensitivity is that of no more."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from medsynth.errors import QueryError
from medsynth.privacy.accounting.calibration import Charge, make_plan
from medsynth.privacy.contribution import PrivacyUnits
from medsynth.privacy.queries.cells import EveryCode
from medsynth.privacy.queries.rows import Axes, CodedRows
from medsynth.privacy.queries.tables import Marginals, centred_norm
from medsynth.privacy.release import Releases
from medsynth.privacy.vault import Vault
from medsynth.rng import NoNoise, SeededEntropy

Codes = NDArray[np.int32]
NAMES, LEVELS, CAP, TIMES = ("a", "b"), EveryCode(3), 4, 300
TABLES: dict[str, Axes] = {
    "a": [("a", LEVELS)], "a b": [("a", LEVELS), ("b", EveryCode(5))], "b": [("b", EveryCode(5))],
}  # fmt: skip
WEIGHTS = {"a": 2.0, "a b": 0.5, "b": 1.0}
CENTRED = ("a", "a b")
ROWS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 4)), max_size=CAP)


def query(*, averaged: bool = False) -> Marginals:
    return Marginals(TABLES, WEIGHTS, averaged, CENTRED)


def weighted(found: Marginals, codes: Codes, owner: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
    """All exact numbers of a query in standard deviations of noise whose scale is one, in which a row moves them by the
    sensitivity.
    """
    units = None if owner is None else PrivacyUnits(owner, CAP)
    arrays = found.exact(CodedRows(codes, NAMES, np.zeros((len(codes), 0), np.uint64), units))
    return np.concatenate([
        array.ravel() * scale.unit / scale.std for array, scale in zip(arrays, found.scales(1.0), strict=True)
    ])  # fmt: skip


def vault(codes: Codes, entropy: NoNoise | SeededEntropy, units: PrivacyUnits | None = None) -> Vault:
    plan = make_plan([Charge(label="m", weight=1.0, times=TIMES)], epsilon=2, delta=1e-5, rows=9,
                     max_rows=units.max_rows if units else None)  # fmt: skip
    return Vault(codes, NAMES, Releases(plan.ledger("x"), entropy), units)


def test_every_row_moves_the_tables_by_the_sensitivity_exactly() -> None:
    none = weighted(query(), np.zeros((0, 2), np.int32))
    for codes in product(range(3), range(5)):
        moved = weighted(query(), np.array([codes], np.int32)) - none
        assert np.linalg.norm(moved) == pytest.approx(query().sensitivity(None), rel=1e-12)
    assert query().sensitivity(None) == pytest.approx(math.sqrt(4 * 2 / 3 + 0.25 * 4 / 5 + 1))


@given(ROWS, st.booleans())
def test_a_patient_moves_the_tables_by_the_sensitivity_at_most(own: list[tuple[int, int]], averaged: bool) -> None:
    """Whatever the rows: as far as all rows alike do."""
    codes = np.array([(0, 0), *own], np.int32)
    owner = np.minimum(np.arange(len(codes)), 1)
    found = query(averaged=averaged)
    moved = weighted(found, codes, owner) - weighted(found, codes[:1], owner[:1])
    assert np.linalg.norm(moved) <= found.sensitivity(CAP) * (1 + 1e-12)
    alike = np.array([(0, 0), *[(2, 1)] * CAP], np.int32)
    most = weighted(found, alike, np.array([0, *[1] * CAP])) - weighted(found, codes[:1], owner[:1])
    assert np.linalg.norm(most) == pytest.approx(found.sensitivity(CAP), rel=1e-5)  # averaged rows are rounded down


def test_what_is_told_is_how_far_counts_are_from_their_mean() -> None:
    codes = np.random.default_rng(0).integers(0, (3, 5), (70, 2)).astype(np.int32)
    room = vault(codes, NoNoise())
    plain, found = room.measure_marginals("m", TABLES), room.measure_marginals("m", TABLES, WEIGHTS, centred=CENTRED)
    for name, table in plain.items():
        mean = table.mean(-1, keepdims=True) if name in CENTRED else 0.0
        assert np.allclose(found[name], table - mean, atol=1e-9)


def test_the_mean_is_not_told() -> None:
    """A row for each cell of the last axis moves nothing."""
    codes = np.random.default_rng(1).integers(0, (3, 5), (20, 2)).astype(np.int32)
    more = np.concatenate([codes, [(1, b) for b in range(5)]]).astype(np.int32)
    assert np.array_equal(weighted(query(), codes)[3:18], weighted(query(), more)[3:18])


def test_tables_of_two_columns_by_class_are_centred_along_both() -> None:
    """The exact answer is the table, multiplied from both sides by what subtracts means; so is what one row adds."""
    sizes = (2, 3, 4)
    axes = [(name, EveryCode(size)) for name, size in zip("abc", sizes, strict=True)]
    found = Marginals({"t": axes}, centred=("t",))
    codes = np.random.default_rng(2).integers(0, sizes, (60, 3)).astype(np.int32)
    one, other = (np.eye(size) - 1 / size for size in sizes[1:])
    for rows in (codes, *codes[:5, None]):
        table = np.zeros(sizes)
        np.add.at(table, tuple(rows.T), 1.0)
        (exact,) = found.exact(CodedRows(rows, ("a", "b", "c"), np.zeros((len(rows), 0), np.uint64)))
        (scale,) = found.scales(1.0)
        assert np.allclose(exact * scale.unit, one @ table @ other, atol=1e-12)
        if len(rows) == 1:
            assert np.linalg.norm(exact * scale.unit) == pytest.approx(found.sensitivity(None), rel=1e-12)


@pytest.mark.statistical
@pytest.mark.parametrize("cap", [None, CAP])
def test_every_number_has_the_noise_that_is_charged(cap: int | None) -> None:
    """Released less exact numbers of 300 releases, by a Kolmogorov-Smirnov test. The seed is fixed."""
    codes = np.random.default_rng(0).integers(0, (3, 5), (40, 2)).astype(np.int32)
    units = PrivacyUnits(np.arange(40) // cap, cap) if cap else None
    exact, noisy = vault(codes, NoNoise(), units), vault(codes, SeededEntropy(3), units)

    def measured(room: Vault) -> NDArray[np.float64]:
        found = room.measure_marginals("m", TABLES, WEIGHTS, centred=CENTRED)
        return np.concatenate([WEIGHTS[name] * table.ravel() for name, table in found.items()])

    plan = make_plan([Charge(label="m", weight=1.0, times=TIMES)], epsilon=2, delta=1e-5, rows=9, max_rows=cap)
    without = measured(exact)
    noise = np.concatenate([measured(noisy) - without for _ in range(TIMES)])
    std = plan.events["m"][0].multiplier * (cap or 1) * math.sqrt(4 * 2 / 3 + 0.25 * 4 / 5 + 1)
    assert stats.kstest(noise / std, "norm").pvalue > 1e-4


def test_a_table_of_one_cell_has_nothing_to_tell() -> None:
    with pytest.raises(QueryError, match="two cells"):
        Marginals({"one": [("a", EveryCode(1))]}, centred=("one",))
    with pytest.raises(QueryError, match="not among"):
        Marginals(TABLES, centred=("no such table",))
    assert centred_norm(2) == pytest.approx(math.sqrt(0.5))
