"""The likely number of rows, and fits whose declared number is wrong: shares follow counts, and the user is told."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from medsynth_sample_data import simulate

import medsynth
from medsynth import rng
from medsynth.io.reader import read
from medsynth.io.split import split
from medsynth.io.table import Table
from medsynth.row_count import BY_COINS, COUNTED_ROWS, EXACT, ROUGHLY, NoisyTotal, likely_rows
from medsynth.schema import Schema

ROWS = 600


def by_integration(public: int, counted: float, std: float, prior: list[tuple[float, float]]) -> float:
    """The posterior mean on a fine grid of numbers of rows. `prior`: weights and standard deviations of its parts."""
    rows = np.arange(0.0, 4 * public, 0.05)
    likely = np.exp(-(((counted - rows) / std) ** 2) / 2)
    found, weighted = np.zeros(1), np.zeros(1)
    for weight, own in prior:
        spread = max(own, 0.1)
        part = weight * np.exp(-(((rows - public) / spread) ** 2) / 2) / (spread * np.sqrt(2 * np.pi)) * 0.05
        found, weighted = found + (part * likely).sum(), weighted + (part * likely * rows).sum()
    return float((weighted / found)[0])


@pytest.mark.parametrize(("counted", "std"), [(1000, 20), (1015, 10), (1040, 10), (970, 40), (1200, 30), (600, 15)])
def test_the_likely_number_is_the_mean_over_what_a_public_one_may_be(counted: float, std: float) -> None:
    declared = [(EXACT, 0.0), (BY_COINS, 0.5 * 1000**0.5), (ROUGHLY, 200.0)]
    for off, prior in ((None, declared), (15.0, [(1.0, 15.0)])):
        found = likely_rows(1000, [NoisyTotal(counted, std)], off)
        assert found == pytest.approx(by_integration(1000, counted, std, prior), abs=0.1)
    assert likely_rows(1000, [NoisyTotal(counted, std)], 0.0) == 1000


def test_several_tables_count_by_their_noise() -> None:
    """A table of four cells has twice the noise of one; the second one's total tells four times as much."""
    first = NoisyTotal.of(np.array([[100.0, 200.0], [300.0, 600.0]]), 10.0)
    assert first == (1200.0, 20.0)
    both = [first, NoisyTotal(1100.0, 10.0)]
    together = NoisyTotal((1200 * 1 + 1100 * 4) / 5, (1 / 400 + 1 / 100) ** -0.5)
    assert likely_rows(1000, both, None) == pytest.approx(likely_rows(1000, [together], None))


def test_without_a_count_the_declared_number_stands_and_without_noise_the_count() -> None:
    assert likely_rows(1000, [], None) == 1000.0
    assert likely_rows(1000, [NoisyTotal(1000.0, 0.0)], None) == 1000.0
    assert likely_rows(1000, [NoisyTotal(1500.0, 0.0)], None) == pytest.approx(1500.0, abs=0.01)
    assert likely_rows(10, [NoisyTotal(-500.0, 0.0)], None) == 1.0


@pytest.fixture(scope="module")
def patients() -> pd.DataFrame:
    made: pd.DataFrame = simulate.cohort(ROWS, 5)
    return made


def fit(
    patients: pd.DataFrame | Table,
    monkeypatch: pytest.MonkeyPatch,
    notices: list[str],
    epsilon: float = 40,
    **options: Any,
) -> Any:
    seeded = rng.SeededEntropy(7)
    monkeypatch.setattr(rng, "system_entropy", lambda: seeded)
    schema = Schema.from_yaml(simulate.schema_text())
    return medsynth.fit(patients, epsilon=epsilon, schema=schema, seed=1, notice=notices.append, **options)


@pytest.mark.nightly_for("dp-gan-0.5", "dp-gan-2.0")
@pytest.mark.statistical
@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("times", [0.5, 2.0])
@pytest.mark.parametrize("method", ["mixture", "independent", "dp-cgan", "dp-merf", "dp-gan", "gs-wgan"])
def test_shares_of_classes_are_right_where_the_declared_number_is_not(
    method: str, times: float, patients: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At an epsilon that leaves hardly any noise. Taken for exact, twice the number would give each of three classes a
    sixth of the rows too many or too few. The seeds are fixed: it cannot fail by chance.
    """
    notices: list[str] = []
    model = fit(patients, monkeypatch, notices, method=method, rows=round(times * ROWS))
    real = patients[model.schema.target].astype(str).value_counts(normalize=True)
    levels = [str(level) for level in model.schema.columns[model.schema.target].levels]
    assert np.abs(model.tensors["prior"] / model.tensors["prior"].sum() - real[levels]).max() < 0.02
    assert model.tensors[COUNTED_ROWS][0] == pytest.approx(ROWS, rel=0.04)
    assert any(
        "By noisy counts the table has" in text and f"count is {round(times * ROWS)}" in text for text in notices
    )
    assert any("By noisy counts the table has" in text for text in model.ledger.notes)


@pytest.mark.statistical
@pytest.mark.usefixtures("quick")
def test_levels_and_numbers_follow_the_counts_too(patients: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    """The seeds are fixed: it cannot fail by chance."""
    model = fit(patients, monkeypatch, [], rows=2 * ROWS)
    drawn = medsynth.sample(model, ROWS, seed=1)
    for name in ("sex_at_birth", "levothyroxine", "referral_source"):
        shares = [frame[name].astype(str).value_counts(normalize=True) for frame in (patients, drawn)]
        assert shares[0].sub(shares[1], fill_value=0).abs().sum() / 2 < 0.05, name
    quartiles = patients["age_years"].quantile([0.25, 0.5, 0.75])
    parts = [np.searchsorted(quartiles, frame["age_years"]) for frame in (patients, drawn)]
    first, second = (np.bincount(part, minlength=4) / ROWS for part in parts)
    assert np.abs(first - second).sum() / 2 < 0.05


@pytest.mark.matrix
@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("rows", [ROWS, round(1.02 * ROWS), None])
def test_a_number_that_is_nearly_right_is_not_told_of(
    rows: int | None, patients: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    notices: list[str] = []
    model = fit(patients, monkeypatch, notices, rows=rows)
    assert not any("By noisy counts" in text for text in [*notices, *model.ledger.notes])


@pytest.mark.nightly
@pytest.mark.statistical
@pytest.mark.usefixtures("quick")
def test_of_a_part_the_counts_are_believed_sooner(
    patients: pd.DataFrame, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Coins keep a quarter of the rows out: the expected number is off by them, and a replicate follows from the same
    one. The seeds are fixed: it cannot fail by chance.
    """
    seeded = rng.SeededEntropy(3)
    monkeypatch.setattr(rng, "system_entropy", lambda: seeded)
    source = tmp_path / "p.csv"
    patients.to_csv(source, index=False)
    kept = split(read(source), 0.25, tmp_path / "train.csv", tmp_path / "held.csv", force=False)
    assert kept.expected_rows == 450 and kept.expected_std == pytest.approx((600 * 0.25 * 0.75) ** 0.5)
    assert read(source).expected_std == 0.0
    plain = fit(kept.cells, monkeypatch, [], epsilon=8, rows=450)
    known = fit(kept, monkeypatch, [], epsilon=8)
    off = [abs(float(model.tensors[COUNTED_ROWS][0]) - kept.rows) for model in (plain, known)]
    assert abs(kept.rows - 450) > 5 and off[1] < off[0]
    assert [len(medsynth.sample(one, 50, seed=1)) for one in known.replicates(2, seed=1)] == [50, 50]
