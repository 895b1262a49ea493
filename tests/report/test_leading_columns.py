"""The report's own regression is on the columns that lead in importance, as its page says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from medsynth.errors import UsageError
from medsynth.report.build import build
from medsynth.report.data.columns import cells_of
from medsynth.report.data.tables import Tables, gather
from medsynth.report.data.verdict import Review, ReviewedRegression
from medsynth.report.document import Report
from medsynth.report.page.render import page
from medsynth.report.sections.inference import MOST, Importance, Inference, inference

pytestmark = pytest.mark.usefixtures("few_trees")


def people(rows: int, seed: int) -> pd.DataFrame:
    """Fifteen columns of noise, then two on which the outcome depends."""
    rng = np.random.default_rng(seed)
    made = pd.DataFrame({f"noise_{k}": rng.normal(size=rows).round(2) for k in range(15)})
    weak, strong = rng.normal(size=(2, rows)).round(2)
    return made.assign(weak=weak, strong=strong, sick=np.where(weak + 3 * strong + rng.normal(size=rows) > 0, "y", "n"))


@pytest.fixture
def two_sections(some_sections: Callable[..., None]) -> None:
    """Reports of the two sections that matter here, with no classifier trained for another."""
    some_sections("importance", "inference")


def record(train: pd.DataFrame | None, **inputs: Any) -> tuple[Inference, Report]:
    made = build(real=people(150, 1), synthetic=people(200, 2), target="sick", disjoint=True, train=train, **inputs)
    found = made.sections["inference"]
    assert isinstance(found, Inference)
    return found, made


def names(found: Inference) -> list[str]:
    return [c.predictor.removesuffix(" (per standard deviation)") for c in found.coefficients]


def test_the_default_regression_is_on_the_leading_columns(two_sections: None) -> None:
    """By importance on real rows; without a training table by the synthetic rows, as the page then says."""
    train = people(200, 3)
    found, made = record(train)
    importance = made.sections["importance"]
    assert isinstance(importance, Importance)
    leading = [name for name, _, _ in importance.columns]
    assert leading[:2] == ["strong", "weak"] and names(found) == leading[:MOST]
    assert 'see <a href="#importance">' in page(made)
    unranked, made = record(None)
    assert names(unranked)[:2] == ["strong", "weak"] and len(names(unranked)) == MOST
    assert "V with the outcome in the synthetic rows" in page(made)
    stated, _ = record(train, review=Review(regression=ReviewedRegression(outcome="sick", predictors=["weak"])))
    assert names(stated) == ["weak"]


def compared(real: pd.DataFrame, synthetic: pd.DataFrame) -> Tables:
    return gather(cells_of(real), cells_of(synthetic), None, "sick", None, np.random.default_rng(0))


def test_what_is_not_estimable_is_named() -> None:
    """Declared columns without a predictor, and every column without two values; an outcome of one class."""
    rng = np.random.default_rng(0)
    rows = people(200, 1)[["strong", "sick"]].assign(
        empty="", constant="7", code=[f"c{k}" for k in rng.integers(0, 20, 200)], other=rng.choice(["a", "b", ""], 200)
    )
    tables = compared(rows, rows)
    found = inference(tables, None, [])
    assert found is not None
    estimated = {c.predictor: c.real.value is not None for c in found.coefficients}
    assert estimated == {
        "strong (per standard deviation)": True,
        "other = b": True,
        "empty": False,
        "constant": False,
    } or (estimated == {"strong (per standard deviation)": True, "other = a": True, "empty": False, "constant": False})
    declared = inference(tables, ReviewedRegression(outcome="sick", predictors=["code", "empty"]), [])
    assert declared is not None and [c.predictor for c in declared.coefficients] == ["code", "empty"]
    assert all(c.real.value is None and c.synthetic.value is None and c.overlap is None for c in declared.coefficients)
    one = inference(compared(rows, rows.assign(sick="y")), None, [])
    assert (
        one is not None and one.coefficients[0].real.value is not None and one.coefficients[0].synthetic.value is None
    )
    # Rows without the outcome are no class of their own.
    gaps = inference(tables, ReviewedRegression(outcome="other", predictors=["strong"]), [])
    known = inference(
        compared(rows[rows["other"] != ""], rows), ReviewedRegression(outcome="other", predictors=["strong"]), []
    )
    assert gaps is not None and known is not None
    assert gaps.coefficients[0].real.value == pytest.approx(known.coefficients[0].real.value)
    with pytest.raises(UsageError, match="do not have: nothing"):
        inference(tables, ReviewedRegression(predictors=["nothing"]), [])
