"""Odd cells in files: what they change beside their own row is named; a planted fault is seen."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from medsynth.audit import inputs, pipeline
from medsynth.audit.inputs import ODD_CELLS, audit_inputs
from medsynth.audit.whole_fits import WholeFits
from medsynth.io import reader
from medsynth.rng import SeededEntropy
from medsynth.schema import Schema

EXAMPLE = Schema.from_dict(pipeline.EXAMPLE)


def test_under_a_schema_an_odd_cell_changes_its_own_row_or_is_refused() -> None:
    found = [f for f in audit_inputs(EXAMPLE) if f.mode == "schema"]
    assert len(found) == len(ODD_CELLS) * len(EXAMPLE.names)
    assert all(f.result in ("identical", "refused") for f in found)
    assert any(f.result == "identical" for f in found)


def test_a_cell_that_rewrites_others_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    true = reader.read

    def read(*arguments: Any) -> Any:
        found = true(*arguments)
        if (found.cells == "zq9").any(axis=None):
            found.cells.iloc[0, 0] = "0"
            found.cells.iloc[1, 0] = "9"
        return found

    monkeypatch.setattr(reader, "read", read)
    monkeypatch.setattr(inputs, "ODD_CELLS", {"a new level": ODD_CELLS["a new level"]})
    found = [f for f in audit_inputs(EXAMPLE) if f.mode == "none"]
    assert found and all("cells" in f.changed for f in found)


def test_the_simulated_table_is_as_the_schema_says() -> None:
    rows = pd.DataFrame(inputs.simulated(EXAMPLE))
    assert len(rows) == inputs.ROWS and tuple(rows) == EXAMPLE.names


def test_hierarchies_without_levels_dates_and_patients_are_simulated_too() -> None:
    found = pipeline.simulated_schema(
        Schema.from_dict(
            {
                "name": "visits",
                "target": "class",
                "unit": "patient",
                "max_rows": 3,
                "columns": {
                    "patient": {"kind": "identifier"},
                    "code": {"kind": "categorical", "hierarchy": "icd10", "unknown": "?"},
                    "day": {"kind": "date", "bounds": ["2000-01-01", "2001-01-01"], "missing": True},
                    "class": {"kind": "categorical", "levels": ["a", "b"]},
                },
            }
        )
    )
    results = audit_inputs(found)
    assert {f.result for f in results if f.column == "day" and f.cell == "missing"} == {"identical"}
    without, present, _ = WholeFits.of("independent", found).scores(SeededEntropy(1))
    assert np.isfinite([without, present]).all()
