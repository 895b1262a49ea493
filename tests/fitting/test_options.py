"""The options of a fit are checked before the table is opened; messages name parameters, and no flag."""

import ast
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import medsynth
from medsynth.errors import UsageError
from medsynth.fitting.planning import plan_fit
from medsynth.fitting.settings import NO_DP_BUDGET, FitSettings, method_settings
from medsynth.schema import Schema

ROOT = Path(__file__).parents[2] / "medsynth"
OWN = [*(ROOT / "privacy").rglob("*.py"), ROOT / "artifact.py", ROOT / "budget.py", ROOT / "rng.py"]
OWN += [p for p in (ROOT / "fitting").glob("*.py") if p.name != "private_table.py"]


@pytest.mark.parametrize(
    "options, parameter",
    [
        ({}, "epsilon"),
        ({"epsilon": 1.0, "no_dp": True}, "no_dp"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"epsilon": 1.0, "delta": 0.0}, "delta"),
        ({"epsilon": 1.0, "rows": 1}, "rows"),
        ({"epsilon": 1.0, "device": "tpu"}, "device"),
        ({"epsilon": 1.0, "method": "magic"}, None),
    ],
)
def test_what_is_out_of_range_is_refused_before_the_table_is_opened(
    options: dict[str, Any], parameter: str | None
) -> None:
    with pytest.raises(UsageError) as error:
        medsynth.fit("no such table.csv", **options)
    assert parameter is None or f"`{parameter}`" in str(error.value)


def test_no_string_names_a_flag() -> None:
    for path in OWN:
        text = path.read_text()
        for node in ast.walk(ast.parse(text)) if "--" in text else ():
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert " --" not in f" {node.value}", (path, node.lineno)


def test_settings_of_a_method() -> None:
    def given(**settings: Any) -> dict[str, object]:
        public = settings.pop("public", False)
        return method_settings(FitSettings(epsilon=1.0, **settings), public=public)

    assert given() == {}
    assert given(settings={"lots": 3}, microbatches=4, public=True) == {"lots": 3, "microbatches": 4, "public": True}
    with pytest.raises(UsageError, match="`public`"):
        given(settings={"public": True})


def test_a_plan_is_the_one_that_a_fit_follows(
    quick: None, cohort: pd.DataFrame, clinic: Schema, tmp_path: Path
) -> None:
    cohort.to_csv(tmp_path / "t.csv", index=False)
    plan, notes, _ = plan_fit(
        tmp_path / "t.csv", FitSettings(epsilon=2.0, schema=clinic, method="independent", rows=300)
    )
    model = medsynth.fit(cohort, epsilon=2.0, schema=clinic, method="independent", rows=300)
    charged = {entry.label: (entry.event, entry.count) for entry in model.ledger.entries}
    assert charged == plan.events and model.epsilon == plan.epsilon and isinstance(notes, list)
    without = plan_fit(300, FitSettings(epsilon=2.0, method="independent"), columns=len(cohort.columns))[0]
    assert without.events == plan.events
    with pytest.raises(UsageError, match="two rows"):
        plan_fit(1, FitSettings(epsilon=2.0, method="independent"))


def test_a_large_delta_is_noted_and_the_public_count_is_named(quick: None) -> None:
    frame = pd.DataFrame({"a": np.arange(200) % 3, "y": np.where(np.arange(200) % 2, "no", "yes")})
    notices: list[str] = []
    medsynth.fit(frame, no_dp=True, delta=1e-2, method="independent", notice=notices.append)
    text = "\n".join(notices)
    assert "`delta` 0.01 is large for 200 rows" in text and "row count, 200, is public" in text
    assert "NOT DIFFERENTIALLY PRIVATE" in text and NO_DP_BUDGET > 100
