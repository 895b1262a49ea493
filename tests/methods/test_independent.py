"""The baseline measures marginals by class alone, whatever the table's size."""

import pytest

from medsynth.fitting.planning import plan_fit
from medsynth.fitting.settings import FitSettings


@pytest.mark.parametrize("rows", [300, 10_000, 1_000_000])
def test_it_plans_no_pairs(rows: int) -> None:
    made, notes, _ = plan_fit(rows, FitSettings(epsilon=3.7, method="independent"))
    assert all("marginals" in label or label == "frequent values" for label in made.events) and not notes
