"""What the verdicts and the page say: of losses and gains, of patients and rows, of what somebody declared."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from medsynth_sample_data import simulate

import medsynth
from medsynth.errors import UsageError
from medsynth.report.build import build
from medsynth.report.data.tables import Tables
from medsynth.report.data.verdict import Estimate, Review, Thresholds, Verdict, check_failures, failing
from medsynth.report.page.render import page
from medsynth.report.sections import claim as claims
from medsynth.report.sections import utility
from medsynth.report.sections.registry import questions
from medsynth.report.sections.utility import NumericUtility
from medsynth.sampling.patients import ROWS_PER_PATIENT
from medsynth.schema import Schema


def utility_verdict(loss: float, best: float) -> Verdict:
    """The verdict on a target whose mean and best losses of R2 are these."""
    figure = Estimate(value=loss, low=loss - 0.01, high=loss + 0.01)
    found = NumericUtility(
        target="y", train_rows="", mean_real=figure, mean_synthetic=figure, mean_loss=figure,
        best_loss=Estimate(value=best), regressors=[],
    )  # fmt: skip
    return utility._verdicts(found, Thresholds())[0]


def test_a_large_gain_is_not_judged() -> None:
    """A loss of -0.135 was within: no threshold from above can see that the baseline is wrong."""
    line = utility_verdict(-0.135, -0.2)
    assert line.outcome == "not judged" and line.met is None and "Look for what is wrong" in line.advice
    assert utility_verdict(-0.02, -0.019).outcome == "within" and utility_verdict(0.2, 0.1).outcome == "beyond"


def test_a_loss_is_told_in_plain_words() -> None:
    assert "Best regressor: 0.019 lost." in utility_verdict(0.01, 0.019).detail
    better = utility_verdict(0.01, -0.019).detail
    assert "Best regressor: 0.019 better after training on synthetic rows." in better and "-0" not in better
    assert "Best regressor: nothing lost." in utility_verdict(0.01, -0.0001).detail


def test_delta_is_times_patients() -> None:
    """1,000 rows of patients of whom half have one and half three."""
    shares = {ROWS_PER_PATIENT: np.array([0.5, 0.0, 0.5])}
    model: Any = SimpleNamespace(rows=1000, tensors=shares, ledger=SimpleNamespace(max_rows=3))
    assert claims.units(model) == 500
    model.ledger.max_rows = None
    assert claims.units(model) == 1000


@pytest.mark.nightly
def test_rows_are_declared_only_where_somebody_declared_them(model: Any, synthetic: pd.DataFrame) -> None:
    from dataclasses import replace

    for declared in (True, False):
        given = replace(model, rows_declared=declared)
        made = build(synthetic=synthetic.head(60), real=None, model=given, drawn_by_model=True)
        source: Any = made.sections["source"]
        assert source.rows == 1000 and source.rows_declared is declared
        assert ("Rows, as declared" in page(made)) is declared and (
            "nobody declared a count" in page(made)
        ) is not declared


def test_fits_on_file_are_filled_in(model: Any, synthetic: pd.DataFrame) -> None:
    def tuning(fits: int | None, review: Review | None = None) -> Any:
        made = build(
            synthetic=synthetic.head(60), real=None, model=model, drawn_by_model=True, fits=fits, review=review
        )
        return made.sections["tuning"]

    assert (tuning(3).fits_on_this_table, tuning(3).counted) == (3, True)
    assert tuning(None).fits_on_this_table is None
    stated = tuning(3, Review(fits_on_this_table=5))
    assert (stated.fits_on_this_table, stated.counted) == (5, False)


def test_of_two_classes_the_rarer_is_shown_once() -> None:
    from medsynth.report.data.protocol import TaskPredictions

    rng = np.random.default_rng(0)
    frames = [pd.DataFrame({"x": rng.normal(size=90), "y": ["no", "no", "yes"] * 30}) for _ in range(3)]
    tables = Tables(frames[0], frames[1], frames[2], "y", frozenset({"x"}))
    found = utility.utility(TaskPredictions(tables), np.random.default_rng(0))
    assert [c.level for each in found.classifiers for c in each.classes] == ["yes"] * 4
    assert [curve.level for curve in (*found.roc, *found.calibration)] == ["yes", "yes"]


def verdict(key: str, outcome: Any) -> Verdict:
    return Verdict(
        key=key, question="q", measure="m", estimate=Estimate(value=1.0), limit=1.0, source="s",
        outcome=outcome, met=None, detail="",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("", ""),
        ("beyond", "b n"),
        ("undecided", "t j m"),
        ("beyond undecided", "b n t j m"),
        ("any", "b n t j m"),
        ("t", "t"),
        ("w", ""),
        ("w beyond j", "b n j"),
    ],
)
def test_what_a_failing_verdict_is(wanted: str, found: str) -> None:
    """An outcome by its word; a line by its key, unless it is within."""
    lines = [verdict("w", "within"), verdict("b", "beyond"), verdict("n", "no guarantee"),
             verdict("t", "cannot tell"), verdict("j", "not judged"), verdict("m", "not measured")]  # fmt: skip
    assert [v.key for v in failing(lines, wanted.split())] == found.split()


def test_an_unknown_word_is_refused_with_the_list() -> None:
    with pytest.raises(UsageError, match="nonsense.*beyond.*epsilon"):
        check_failures(["nonsense"], questions())


@pytest.mark.nightly
def test_the_default_delta_follows_the_public_row_count(quick: None) -> None:
    """By whole powers of ten: the declared number, else the table's own, which is public too."""
    from medsynth.fitting.planning import plan_fit
    from medsynth.fitting.settings import FitSettings
    from medsynth.privacy.accounting.limits import default_delta

    few, many = (plan_fit(rows, FitSettings(epsilon=3.7))[0] for rows in (3_772, 101_766))
    assert (few.delta, many.delta) == (1e-5, 1e-7)
    assert all(default_delta(rows) * rows <= 0.1 for rows in (2, 9_999, 10_000, 10_001, 99_999, 123_456_789))
    table = simulate.cohort(120, 1)
    schema = Schema.from_yaml(simulate.schema_text())
    for rows, delta in ((None, 1e-5), (20_000, 1e-6)):
        made = medsynth.fit(table, epsilon=3.7, schema=schema, rows=rows, method="independent")
        assert made.ledger.delta == delta
    many_rows = pd.concat([table] * 90, ignore_index=True)  # 10,800 rows
    for given, delta in ({}, 1e-6), ({"rows": 9_000}, 1e-5), ({"delta": 1e-4}, 1e-4):
        model = medsynth.fit(many_rows, epsilon=3.7, schema=schema, method="independent", **given)
        assert model.ledger.delta == delta
