"""Combining: against numbers worked out by hand, and coverage by simulation of each rule's own setting."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from medsynth_cli.main import app
from typer.testing import CliRunner

import medsynth
from medsynth.combining import RULES, combine
from medsynth.errors import UsageError

# Five estimates of mean 10 and variance 2.5, with variances of mean 1.
ESTIMATES, VARIANCES = [8.0, 9.0, 10.0, 11.0, 12.0], [0.8, 0.9, 1.0, 1.1, 1.2]


def test_between_by_hand() -> None:
    found = medsynth.combine(ESTIMATES)
    assert found.estimate == 10 and found.degrees == 4 and found.std_error == pytest.approx(3.0**0.5)
    assert found.high - 10 == pytest.approx(2.7764 * 3.0**0.5, rel=1e-4)  # t of 4 degrees at 0.975, from a table


def test_fully_by_hand() -> None:
    """Raghunathan, Reiter and Rubin (2003): T = 1.2 * 2.5 - 1 = 2 and 4 * (1 - 1/3)^2 = 1.778 degrees of freedom."""
    found = combine(ESTIMATES, VARIANCES, rule="fully")
    assert found.std_error**2 == pytest.approx(2.0) and found.degrees == pytest.approx(16 / 9) and not found.cured


@pytest.mark.parametrize(
    "estimate, within, between, total, degrees, low, high, p_value",
    [
        (-0.02071539, 0.0008125695, 0.001763004, 0.001126735, 3.038045, -0.1267874, 0.08535658, 0.5803156),
        (2.96593502, 0.0016251389, 0.004203106, 0.002998278, 3.784951, 2.8104386, 3.12143146, 1.304839e-06),
    ],
)
def test_fully_gives_published_numbers(
    estimate: float, within: float, between: float, total: float, degrees: float, low: float, high: float,
    p_value: float,
) -> None:  # fmt: skip
    """The worked example of R's gFormulaMI 1.0.0 (reference page of syntheticPool): ten tables, two coefficients.

    The page prints mean, variances, degrees, interval and p-value of the rules of Raghunathan, Reiter and Rubin (2003),
    not the ten estimates: ten of that mean and variance stand for them, since the rules read nothing else.
    """
    spread = np.arange(10) - 4.5
    found = combine((estimate + spread * (between / spread.var(ddof=1)) ** 0.5).tolist(), [within] * 10, rule="fully")
    assert found.estimate == pytest.approx(estimate) and not found.cured
    assert found.std_error**2 == pytest.approx(total, rel=1e-6) and found.degrees == pytest.approx(degrees, rel=1e-6)
    assert (found.low, found.high) == pytest.approx((low, high), rel=1e-6)
    assert found.p_value == pytest.approx(p_value, rel=1e-6)


def test_a_negative_variance_is_replaced() -> None:
    """Reiter (2002): by u-bar times the ratio of rows."""
    found = combine(ESTIMATES, [4.0] * 5, rule="fully", rows_ratio=2.0)
    assert found.cured and found.std_error**2 == pytest.approx(8.0)


def test_raab_by_hand() -> None:
    """Raab, Nowok and Dibben (2016), T_s = (k/n + 1/m) u-bar."""
    found = combine(ESTIMATES, VARIANCES, rule="raab", rows_ratio=0.5)
    assert found.std_error**2 == pytest.approx(0.7)
    assert found.high - found.estimate == pytest.approx(1.959964 * 0.7**0.5)


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=30), st.floats(0.1, 1e3), st.floats(-1e3, 1e3))
def test_units_do_not_matter(values: list[float], factor: float, shift: float) -> None:
    """An estimate in other units has its interval in these."""
    one, other = combine(values), combine([factor * v + shift for v in values])
    size = max(map(abs, values)) * factor + abs(shift) + 1
    assert other.estimate == pytest.approx(factor * one.estimate + shift, abs=1e-9 * size)
    assert other.std_error == pytest.approx(factor * one.std_error, rel=1e-6, abs=1e-7 * size)


@pytest.mark.nightly
@pytest.mark.parametrize("rule, independent", [("between", True), ("between", False), ("fully", True)])
def test_intervals_cover_in_the_setting_of_the_rule(rule: Any, independent: bool) -> None:
    """Data of known mean, replicates from its posterior, rows drawn independently or in strata: at least 93 % cover.

    2,000 intervals of true coverage 0.95 or more fall below 0.93 with a chance below 1e-4.
    """
    rng, runs, m, n = np.random.default_rng(4), 2000, 10, 100
    covered = 0
    for centre in rng.standard_normal(runs) / n**0.5:  # the estimate that real rows give, about a truth of zero
        draws = centre + rng.standard_normal(m) / n**0.5
        draws += rng.standard_normal(m) / n**0.5 * (1.0 if independent else 0.3)
        found = combine(draws.tolist(), [1 / n] * m, rule=rule)
        covered += found.low <= 0 <= found.high
    assert covered >= 0.93 * runs


@pytest.mark.parametrize(
    "estimates, variances, options",
    [
        ([1.0], None, {}),
        ([1.0, float("nan")], None, {}),
        ([1.0, 2.0], [1.0], {}),
        ([1.0, 2.0], [1.0, -1.0], {}),
        ([1.0, 2.0], None, {"rule": "fully"}),
        ([1.0, 2.0], None, {"rule": "other"}),
        ([1.0, 2.0], None, {"level": 1.0}),
        ([1.0, 2.0], [1.0, 1.0], {"rule": "raab", "rows_ratio": 0.0}),
    ],
)
def test_what_cannot_be_combined_is_refused(estimates: Any, variances: Any, options: Any) -> None:
    with pytest.raises(UsageError):
        combine(estimates, variances, **options)


def test_equal_estimates_have_no_width() -> None:
    assert combine([2.0, 2.0]).p_value == 0 and combine([0.0, 0.0]).p_value == 1


def test_the_command_combines_a_file(tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    lines = [f"age,{k},{q},{u**0.5}" for k, (q, u) in enumerate(zip(ESTIMATES, VARIANCES, strict=True))]
    path.write_text("\n".join(["term,replicate,estimate,std_error", *lines, *(f"sex,{k},1,0.1" for k in range(5))]))
    for rule in RULES:
        done = CliRunner().invoke(app, ["combine", str(path), "--rule", rule])
        assert done.exit_code == 0 and "age" in done.stdout and "sex" in done.stdout, done.output
    done = CliRunner().invoke(app, ["combine", str(path), "--rule", "raab", "--json"])
    assert '"degrees": null' in done.stdout
    done = CliRunner().invoke(app, ["combine", str(path), "--rule", "fully"])
    assert "negative variance was replaced: sex" in done.stdout


@pytest.mark.parametrize(
    "text, word",
    [
        ("term,replicate,estimate\na,1,x\n", "must be numbers"),
        ("term,estimate\na,1\n", "lacks the column 'replicate'"),
        ("term,replicate,estimate\na,1,1\na,1,2\n", "twice"),
        ("term,replicate,estimate\na,1,1\n", "term 'a'"),
        ("term,replicate,estimate\n", "no rows"),
    ],
)
def test_a_file_of_results_with_a_mistake_is_refused(tmp_path: Path, text: str, word: str) -> None:
    path = tmp_path / "results.csv"
    path.write_text(text)
    done = CliRunner().invoke(app, ["combine", str(path)])
    assert done.exit_code == 2 and word in done.output
