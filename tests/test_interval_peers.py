"""Baselines beside medsynth's intervals: private regressions against statsmodels, their budget, runs that resume."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from medsynth.privacy.accounting.accountant import gaussian_delta
from tests.benchmarks import dp_regression, intervals, studies

DELTA = 1e-5


@pytest.fixture(autouse=True)
def small_truth(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The truth is that of a small table here."""
    monkeypatch.setattr(studies, "TRUTH_ROWS", 20_000)
    studies.truth.cache_clear()
    yield
    studies.truth.cache_clear()


def test_private_regressions_are_statsmodels_where_noise_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Estimates, standard errors and interactions on the columns' own scales; and the budget is spent to its end.

    The noise is that of one seed: half a standard error is twice what three seeds gave.
    """
    made: list[dp_regression.Release] = []

    class Kept(dp_regression.Release):
        def __init__(self, epsilon: float, delta: float, rng: np.random.Generator) -> None:
            super().__init__(epsilon, delta, rng)
            made.append(self)

    monkeypatch.setattr(dp_regression, "Release", Kept)
    real = studies.simulated(6000, 3)
    wanted = intervals.STUDY.coefficients(real, studies.DECLARED)
    values, rng = studies.numbers(real), np.random.default_rng(0)
    found = dp_regression.fit(values, studies.DECLARED, intervals.bounds(), 300, DELTA, rng)
    assert set(found.index) == set(wanted.index) and any(":" in term for term in found.index)
    wanted = wanted.loc[found.index]
    assert ((found["estimate"] - wanted["estimate"]).abs() < 0.5 * wanted["std_error"]).all()
    assert (found["std_error"] / wanted["std_error"]).between(0.93, 1.07).all()
    assert len(made) == 1 and made[0].left == pytest.approx(0, abs=1e-9)


def test_more_noise_and_wider_intervals_with_less_budget() -> None:
    values, formulas = studies.numbers(studies.simulated(6000, 3)), studies.DECLARED
    one, other = (
        dp_regression.fit(values, formulas, intervals.bounds(), epsilon, DELTA, np.random.default_rng(0))
        for epsilon in (300, 1)
    )
    assert (other["std_error"] > 1.2 * one["std_error"]).all()


def test_a_release_is_the_gaussian_mechanism_of_the_budget() -> None:
    """Its noise follows from the norm and the part of mu^2; longer rows and more than the budget are refused."""
    release = dp_regression.Release(1.0, DELTA, np.random.default_rng(0))
    assert gaussian_delta(release.mu, 1.0) == pytest.approx(DELTA, rel=1e-4)
    rows = np.full((3, 2), 2.0)
    with pytest.raises(AssertionError):
        release.sum(rows, 2.0, 0.1)
    sums, noise = release.sum(np.zeros((3, 4000)), 2.0, 0.25)
    assert noise == pytest.approx(2.0 / (release.mu * 0.5))
    assert sums.std() == pytest.approx(noise, rel=0.1)
    with pytest.raises(AssertionError):
        release.sum(rows, 3.0, 0.7)


def test_bounds_are_those_of_the_columns_as_regressions_take_them() -> None:
    values, bounds = studies.numbers(studies.simulated(2000, 5)), intervals.bounds()
    for name in values.columns.intersection(list(bounds)):
        assert values[name].between(*bounds[name]).all(), name


def test_a_tool_is_told_the_pairs_of_declared_regressions() -> None:
    pairs = intervals.declared_pairs()
    assert ("age", "crp") in pairs and ("albumin", "crp") in pairs and len(pairs) == len(set(pairs))
    assert not {"ward"} & {name for pair in pairs for name in pair}


def test_runs_go_on_where_they_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A way's lines stand beside the real rows' of its run, in the form of interval-coverage."""

    ways, output = ["regression", "binned", "NAPSU-bins"], tmp_path / "a.csv"
    words = ["--ways", *ways, "--rows", "600", "--output", str(output)]
    intervals.of_peers([*words, "--runs", "1"])
    first, ran = output.read_text(), list[int]()
    one_run = intervals.one_run

    def counted(name: str, rows: int, epsilon: float, run: int, given: SimpleNamespace) -> pd.DataFrame:
        ran.append(run)
        return one_run(name, rows, epsilon, run, given)

    monkeypatch.setattr(intervals, "one_run", counted)
    intervals.of_peers([*words, "--runs", "2"])
    assert ran == [1, 1, 1] and output.read_text().startswith(first)
    printed = capsys.readouterr().out
    assert all(way in printed for way in ("DP regression", "binned, naive", "NAPSU-bins, naive", "real"))
