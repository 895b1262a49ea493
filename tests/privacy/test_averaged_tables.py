"""Tables of averaged rows: a patient's rows add one together, however many there are, and the noise is for one."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from medsynth.errors import BudgetError
from medsynth.privacy.accounting.calibration import Charge, make_plan
from medsynth.privacy.contribution import PrivacyUnits
from medsynth.privacy.queries.cells import Beside, EveryCode
from medsynth.privacy.queries.parts import RowsInMemory
from medsynth.privacy.queries.rows import Axes, CodedRows
from medsynth.privacy.queries.tables import WHOLE_PATIENT, Distances, Marginals
from medsynth.privacy.release import Releases
from medsynth.privacy.vault import Vault
from medsynth.rng import NoNoise, SeededEntropy

Codes = NDArray[np.int32]
NAMES = ("a", "b")
TABLES: dict[str, Axes] = {"a": [("a", EveryCode(3))], "ab": [("a", EveryCode(3)), ("b", EveryCode(3))]}
CAP = 5


def counted(codes: Codes, patients: list[int]) -> list[NDArray[np.int64]]:
    rows = CodedRows(codes, NAMES, np.zeros((len(codes), 0), np.uint64), PrivacyUnits(np.array(patients, int), CAP))
    return Marginals(TABLES, averaged=True).exact(rows)


def room(codes: Codes, units: PrivacyUnits | None, entropy: NoNoise | SeededEntropy) -> Vault:
    plan = make_plan([Charge(label="m", weight=1.0, times=400)], epsilon=2, delta=1e-5, rows=9,
                     max_rows=units.max_rows if units else None)  # fmt: skip
    return Vault(codes, NAMES, Releases(plan.ledger("x"), entropy), units)


def test_each_patient_adds_one_divided_among_the_rows() -> None:
    codes = np.array([[0, 0], [0, 1], [2, 2], [1, 1]], np.int32)
    one, both = (table / WHOLE_PATIENT for table in counted(codes, [0, 0, 0, 1]))
    assert one == pytest.approx([2 / 3, 1, 1 / 3], abs=1e-5)
    assert both[0, 0] == pytest.approx(1 / 3, abs=1e-5) and both.sum() == pytest.approx(2, abs=1e-5)


@given(st.lists(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=CAP), min_size=1, max_size=6))
def test_a_patient_changes_a_table_by_one_at_most(patients: list[list[tuple[int, int]]]) -> None:
    """In the L1 norm and so in the L2 norm, whatever the rows and in whichever order; reached by rows all alike."""
    rows = np.array([row for own in patients for row in own], np.int32).reshape(-1, 2)
    of_row = [k for k, own in enumerate(patients) for _ in own]
    less = [k for k in range(len(of_row)) if of_row[k] != 0]
    for whole, without in zip(counted(rows, of_row), counted(rows[less], [of_row[k] for k in less]), strict=True):
        change = np.abs(whole - without).sum()
        assert change <= WHOLE_PATIENT and np.sqrt(np.square(whole - without).sum()) <= WHOLE_PATIENT
    alike = counted(np.zeros((CAP, 2), np.int32), [0] * CAP)
    assert all(table.max() >= WHOLE_PATIENT - CAP for table in alike)


@pytest.mark.parametrize("rows", [1, 3, CAP])
def test_the_noise_is_that_of_one_row_whatever_the_cap(rows: int) -> None:
    for query in (
        Marginals(TABLES, averaged=True),
        Distances(TABLES, {"a": np.ones(3), "ab": np.ones((3, 3))}, averaged=True),
    ):
        assert query.sensitivity(rows) == pytest.approx(math.sqrt(2))
    assert Marginals(TABLES, {"a": 3.0, "ab": 1.0}, averaged=True).sensitivity(rows) == pytest.approx(math.sqrt(10))


@pytest.mark.statistical
@pytest.mark.parametrize("what", ["marginals", "distances"])
def test_every_averaged_number_has_the_noise_that_is_charged(what: str) -> None:
    """Released less exact numbers of 300 releases, by a Kolmogorov-Smirnov test. The seed is fixed."""
    units = PrivacyUnits(np.arange(30) // CAP, CAP)
    codes = np.random.default_rng(0).integers(0, 3, (30, 2)).astype(np.int32)

    def measured(vault: Vault) -> NDArray[np.float64]:
        if what == "marginals":
            found = vault.measure_marginals("m", TABLES, averaged=True)
            return np.concatenate([table.ravel() for table in found.values()])
        guesses = {"a": np.zeros(3), "ab": np.full((3, 3), 0.25)}
        return np.array(list(vault.measure_distances("m", TABLES, guesses, averaged=True).values()))

    exact, noisy = measured(room(codes, units, NoNoise())), room(codes, units, SeededEntropy(1))
    noise = np.concatenate([measured(noisy) - exact for _ in range(300)])
    plan = make_plan([Charge(label="m", weight=1.0, times=400)], epsilon=2, delta=1e-5, rows=9, max_rows=CAP)
    assert stats.kstest(noise / (plan.events["m"][0].multiplier * math.sqrt(2)), "norm").pvalue > 1e-4


def test_distances_of_averaged_tables_are_in_patients() -> None:
    units = PrivacyUnits(np.array([0, 0, 1]), CAP)
    vault = room(np.array([[0, 0], [1, 0], [2, 0]], np.int32), units, NoNoise())
    found = vault.measure_distances("m", {"a": TABLES["a"]}, {"a": np.array([0.0, 0.0, 1.0])}, averaged=True)
    assert found["a"] == pytest.approx(1.0)


def test_no_patient_is_averaged_in_parts() -> None:
    plan = make_plan([Charge(label="m", weight=1.0)], epsilon=2, delta=1e-5, rows=9, max_rows=CAP)
    parts = [RowsInMemory(np.zeros((2, 2), np.int32), NAMES) for _ in range(2)]
    ledger = plan.ledger("x")
    vault = Vault(parts, NAMES, Releases(ledger, NoNoise()), PrivacyUnits(np.zeros(4, np.int64), CAP))
    with pytest.raises(BudgetError, match="one part"):
        vault.measure_marginals("m", TABLES, averaged=True)
    assert not ledger.entries


def test_rows_without_patients_are_not_averaged() -> None:
    with pytest.raises(BudgetError, match="no patients"):
        room(np.zeros((2, 2), np.int32), None, NoNoise()).measure_marginals("m", TABLES, averaged=True)


def test_a_value_beside_the_last_has_the_cell_of_both() -> None:
    """Equal codes have cells of their own, although the map puts codes 0 and 1 together."""
    table = np.array([[0, 1], [2, 3]])
    cells = Beside(_Halves(), table, np.array([4, 5]), 6)
    found = cells.cell_of(np.array([[0, 0], [1, 0], [2, 0], [0, 3], [2, 3], [3, 3]], np.int32))
    assert found.tolist() == [4, 0, 1, 2, 3, 5]


class _Halves:
    """Codes 0 and 1, 2 and 3."""

    cells = 2

    def cell_of(self, codes: Codes) -> NDArray[np.int64]:
        """The half of each code."""
        return (codes // 2).astype(np.int64)
