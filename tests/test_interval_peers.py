"""Baselines beside medsynth's intervals: private regressions against statsmodels, their budget, runs that resume."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from medsynth.privacy.accounting.accountant import gaussian_delta

DELTA = 1e-5


@pytest.fixture(autouse=True)
def scripts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Benchmarks are scripts that import one another by their bare names; their truth is that of a small table here."""
    monkeypatch.syspath_prepend(Path(__file__).parent / "benchmarks")
    import study_data

    monkeypatch.setattr(study_data, "TRUTH_ROWS", 20_000)
    study_data.truth.cache_clear()
    yield
    study_data.truth.cache_clear()


def test_private_regressions_are_statsmodels_where_noise_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Estimates, standard errors and interactions on the columns' own scales; and the budget is spent to its end.

    The noise is that of one seed: half a standard error is twice what three seeds gave.
    """
    import dp_regression
    import interval_peers
    import study_data

    made: list[dp_regression.Release] = []

    class Kept(dp_regression.Release):
        def __init__(self, epsilon: float, delta: float, rng: np.random.Generator) -> None:
            super().__init__(epsilon, delta, rng)
            made.append(self)

    monkeypatch.setattr(dp_regression, "Release", Kept)
    real = study_data.study(6000, 3)
    wanted = study_data.coefficients(real, study_data.DECLARED)
    values, rng = study_data.numbers(real), np.random.default_rng(0)
    found = dp_regression.fit(values, study_data.DECLARED, interval_peers.bounds(), 300, DELTA, rng)
    assert set(found.index) == set(wanted.index) and any(":" in term for term in found.index)
    wanted = wanted.loc[found.index]
    assert ((found["estimate"] - wanted["estimate"]).abs() < 0.5 * wanted["std_error"]).all()
    assert (found["std_error"] / wanted["std_error"]).between(0.93, 1.07).all()
    assert len(made) == 1 and made[0].left == pytest.approx(0, abs=1e-9)


def test_more_noise_and_wider_intervals_with_less_budget() -> None:
    import dp_regression
    import interval_peers
    import study_data

    values, formulas = study_data.numbers(study_data.study(6000, 3)), study_data.DECLARED
    one, other = (
        dp_regression.fit(values, formulas, interval_peers.bounds(), epsilon, DELTA, np.random.default_rng(0))
        for epsilon in (300, 1)
    )
    assert (other["std_error"] > 1.2 * one["std_error"]).all()


def test_a_release_is_the_gaussian_mechanism_of_the_budget() -> None:
    """Its noise follows from the norm and the part of mu^2; longer rows and more than the budget are refused."""
    import dp_regression

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
    import interval_peers
    import study_data

    values, bounds = study_data.numbers(study_data.study(2000, 5)), interval_peers.bounds()
    for name in values.columns.intersection(list(bounds)):
        assert values[name].between(*bounds[name]).all(), name


def test_a_tool_is_told_the_pairs_of_declared_regressions() -> None:
    import interval_peers

    pairs = interval_peers.declared_pairs()
    assert ("age", "crp") in pairs and ("albumin", "crp") in pairs and len(pairs) == len(set(pairs))
    assert not {"ward"} & {name for pair in pairs for name in pair}


def test_runs_go_on_where_they_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A way's lines stand beside the real rows' of its run, in the form that interval_coverage.py reads."""
    import interval_peers

    ways, output = ["regression", "binned", "NAPSU-bins"], tmp_path / "a.csv"
    words = ["interval_peers.py", "--ways", *ways, "--rows", "600", "--output", str(output)]
    monkeypatch.setattr("sys.argv", [*words, "--runs", "1"])
    interval_peers.main()
    first, ran = output.read_text(), list[int]()
    one_run = interval_peers.one_run

    def counted(name: str, rows: int, epsilon: float, run: int, given: SimpleNamespace) -> pd.DataFrame:
        ran.append(run)
        return one_run(name, rows, epsilon, run, given)

    monkeypatch.setattr(interval_peers, "one_run", counted)
    monkeypatch.setattr("sys.argv", [*words, "--runs", "2"])
    interval_peers.main()
    assert ran == [1, 1, 1] and output.read_text().startswith(first)
    printed = capsys.readouterr().out
    assert all(way in printed for way in ("DP regression", "binned, naive", "NAPSU-bins, naive", "real"))
