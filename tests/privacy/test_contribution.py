"""Contribution bounding: no patient keeps more rows than the cap, and the vault takes the ledger's patients alone."""

import numpy as np
import pandas as pd
import pytest
import torch

from medsynth.errors import BudgetError
from medsynth.privacy.accounting.calibration import Charge, make_plan
from medsynth.privacy.accounting.ledger import Ledger
from medsynth.privacy.contribution import PrivacyUnits, bound_contributions, first_in_order
from medsynth.privacy.networks import Mlp
from medsynth.privacy.release import Releases
from medsynth.privacy.vault import Vault
from medsynth.rng import NoNoise, SeededEntropy


def test_each_patient_keeps_the_cap_and_its_number() -> None:
    keys = pd.Series(["b", "a", "b", "b", "c", "a", "b"])
    for seed in range(20):
        stay, units = bound_contributions(keys, 2, SeededEntropy(seed))
        assert (np.diff(stay) > 0).all() and keys[stay].value_counts().to_dict() == {"a": 2, "b": 2, "c": 1}
        assert units.of_row.tolist() == [{"b": 0, "a": 1, "c": 2}[key] for key in keys[stay]]
        assert units.count == 3 and units.max_rows == 2
    assert PrivacyUnits(np.zeros(0, np.int64), 3).count == 0


def vault(units: PrivacyUnits | None, max_rows: int | None = 3) -> tuple[Vault, Ledger]:
    plan = make_plan([Charge(label="s", weight=1.0)], epsilon=2.0, delta=1e-5, rows=7, max_rows=max_rows)
    ledger = plan.ledger("x")
    return Vault(np.zeros((7, 1), np.int32), ("a",), Releases(ledger, NoNoise()), units), ledger


def test_rows_per_patient_are_counted_once_a_patient() -> None:
    rows, ledger = vault(PrivacyUnits(np.array([0, 0, 0, 1, 2, 3, 3]), 3))
    assert rows.measure_rows_per_patient("s").tolist() == [2, 1, 1]
    assert ledger.entries[0].sensitivity == 1.0 and ledger.protects == "one patient with up to 3 rows"


def test_where_the_row_is_the_unit_there_are_no_patients_to_count() -> None:
    rows, ledger = vault(None, max_rows=None)
    with pytest.raises(BudgetError, match="no patients"):
        rows.measure_rows_per_patient("s")
    assert not ledger.entries and ledger.protects.startswith("one row (")


@pytest.mark.parametrize(
    "units, max_rows",
    [(PrivacyUnits(np.zeros(7, np.int64), 3), 3), (PrivacyUnits(np.arange(7), 3), None), (None, 3),
     (PrivacyUnits(np.arange(7), 4), 3)],
)  # fmt: skip
def test_a_vault_refuses_patients_that_the_ledger_does_not_state(
    units: PrivacyUnits | None, max_rows: int | None
) -> None:
    with pytest.raises(BudgetError, match="do not match the ledger"):
        vault(units, max_rows)


@pytest.mark.statistical
def test_a_vault_may_be_empty() -> None:
    """Its noisy sums are noise, and charged like any other. The seed is fixed: it cannot fail by chance."""
    units = PrivacyUnits(np.zeros(0, np.int64), 3)
    plan = make_plan([Charge(label="g", weight=1.0)], epsilon=2.0, delta=1e-5, rows=7, max_rows=3)
    ledger = plan.ledger("x")
    rows = Vault(np.zeros((0, 1), np.int32), ("a",), Releases(ledger, SeededEntropy(0)), units)
    (found,) = rows.measure_gradient_sum(
        "g", Mlp([2, 1], bias=False), lambda out: out[:, 0], lambda lot: torch.zeros(len(lot), 2), 1.0
    )
    assert found.abs().min() > 0 and ledger.complete and ledger.entries[0].sensitivity == 3.0


def test_the_first_rows_in_order_stay() -> None:
    """Patient by patient and in order, rows of equal order as they were; no patient's depend on another's."""
    keys = np.array([7, 7, 4, 7, 4, 7])
    stay, units = first_in_order(keys, np.array([3, 1, 9, 1, 2, 0]), 3)
    assert stay.tolist() == [5, 1, 3, 4, 2]
    assert units.of_row.tolist() == [0, 0, 0, 1, 1] and units.max_rows == 3
    alone, _ = first_in_order(keys[keys == 4], np.array([9, 2]), 3)
    assert np.flatnonzero(keys == 4)[alone].tolist() == [4, 2]
