"""Benchmarks that others could run: the parity rule, and tests that find a real difference and no other."""

from __future__ import annotations

import numpy as np
import pytest

from tests.benchmarks import discoveries, parity


@pytest.mark.parametrize("features", [1, 2, 7])
def test_the_target_is_the_parity_of_signs_and_any_fewer_columns_do_not_show_it(features: int) -> None:
    """A correlation of 20,000 independent signs is beyond .035 with a chance of 1e-6. The seed is fixed."""
    frame = parity.xor(features, 20_000, 0)
    positive = (frame.drop(columns="target") > 0).to_numpy()
    wanted = np.logical_xor.reduce(positive, axis=1) if features % 2 else ~np.logical_xor.reduce(positive, axis=1)
    assert ((frame["target"] == "1") == wanted).all() and parity.parity(frame).eq(frame["target"] == "1").all()
    fewer = (~positive[:, 1:]).sum(axis=1) % 2
    if features > 1:
        assert abs(np.corrcoef(fewer, frame["target"] == "1")[0, 1]) < 0.035


def test_only_the_shifted_column_differs_between_groups() -> None:
    """Ten p-values of tables without a relation are all above 1e-5 but once in 1e-4. The seed is fixed."""
    found = discoveries.tested(discoveries.simulated(4_000, 1))
    for (_, null), chances in found.items():
        assert min(chances) > 1e-5 if null else max(chances) < 1e-9
