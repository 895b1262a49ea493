"""The simulated patients over time: what the simulator says of its truth is so in what it draws."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from medsynth_sample_data import visits

from medsynth.io.table import from_frame
from medsynth.report.data.tables import read
from medsynth.report.sections.plausibility import plausibility
from medsynth.schema import Schema
from medsynth.schema.codec import encode

pytestmark = pytest.mark.statistical  # each seed is fixed: none can fail by chance


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    made: pd.DataFrame = visits.simulate(40_000, 0)
    return made


@pytest.fixture(scope="module")
def pairs(table: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Visits, and each one's next."""
    follows = table["patient_id"].eq(table["patient_id"].shift()).to_numpy()
    return table[np.append(follows[1:], False)].reset_index(drop=True), table[follows].reset_index(drop=True)


def test_it_meets_its_schema(table: pd.DataFrame, tmp_path: Path) -> None:
    schema = Schema.load(visits.SCHEMA)
    assert list(table) == list(schema.names) and schema.max_rows == visits.MOST_VISITS
    strict = {n: c.model_copy(update={"out_of_range": "error"}) if hasattr(c, "out_of_range") else c
              for n, c in schema.columns.items() if c.kind != "identifier"}  # fmt: skip
    table = table.head(5000)
    encode(from_frame(table), schema.model_copy(update={"columns": strict}))
    table.to_csv(tmp_path / "v.csv", index=False)
    assert plausibility(schema, None, read(tmp_path / "v.csv").cells).broken == 0
    for name, levels in visits.LEVELS.items():
        assert tuple(map(str, schema.columns[name].levels)) == levels


def test_rows_and_gaps_follow_their_laws(table: pd.DataFrame, pairs: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    rows = table.groupby("patient_id").size().value_counts(normalize=True).sort_index()
    assert np.abs(rows.to_numpy() - visits.rows_law()).max() < 0.006 and rows.idxmax() == 1
    gaps = (pd.to_datetime(pairs[1]["visit_date"]) - pd.to_datetime(pairs[0]["visit_date"])).dt.days
    edges = [1, 8, 31, 91, 181, 366, visits.LONGEST_GAP, visits.LONGEST_GAP + 1]
    assert np.abs(np.histogram(gaps, edges)[0] / len(gaps) - visits.gaps_law(edges)).max() < 0.006
    assert gaps.min() >= 1 and gaps.max() <= visits.LONGEST_GAP
    assert visits.rows_law().sum() == pytest.approx(1) and visits.gaps_law(edges).sum() == pytest.approx(1)
    by_severity = gaps.groupby(pairs[0]["severity"]).mean()
    assert by_severity["mild"] > 2 * by_severity["moderate"] > 4 * by_severity["severe"]


@pytest.mark.parametrize("name", visits.TRANSITIONS)
def test_levels_change_by_their_matrix(name: str, pairs: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    order = list(visits.LEVELS[name])
    found = pd.crosstab(pairs[0][name], pairs[1][name], normalize="index").loc[order, order].to_numpy()
    assert np.abs(found - visits.TRANSITIONS[name]).max() < 0.012
    assert (found[visits.TRANSITIONS[name] == 0] == 0).all()


def test_numbers_remember(pairs: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    last, now = pairs
    kept = last["haemoglobin_g_l"].corr(now["haemoglobin_g_l"])
    assert kept == pytest.approx(visits.haemoglobin_autocorrelation(), abs=0.01)
    # The score is of the last visit's haemoglobin: this visit's adds nothing to it.
    both = pd.concat([last["haemoglobin_g_l"], now["haemoglobin_g_l"]], axis=1).assign(one=1.0)
    there = both.notna().all(axis=1)
    slopes = np.linalg.lstsq(both[there].to_numpy(), now["fatigue_score"][there].to_numpy(float), rcond=None)[0]
    assert slopes[:2] == pytest.approx([visits.SCORE["slope"], 0.0], abs=0.01)
    assert (last["weight_kg"] == now["weight_kg"]).mean() == pytest.approx(visits.WEIGHT_COPIED, abs=0.02)
    assert now["haemoglobin_g_l"].isna().mean() == pytest.approx(visits.MISSING, abs=0.005)


def test_what_never_happens(table: pd.DataFrame, pairs: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    last, now = pairs
    assert (last["died"] == "no").all() and (table["died"] == "yes").mean() > 0.01
    for name in ("sex", "birth_year"):
        assert (last[name] == now[name]).all()
    high, on = now["creatinine_umol_l"] > visits.HIGH_CREATININE, last["metformin"] == "yes"
    assert (high & on).sum() > 500 and (now["metformin"][high] == "no").all()
    assert (now["metformin"][~high & on] == "yes").mean() == pytest.approx(visits.METFORMIN["stays"], abs=0.01)
    assert (now["metformin"][~high & ~on] == "yes").mean() == pytest.approx(visits.METFORMIN["begins"], abs=0.01)


def test_equal_arguments_give_equal_rows(tmp_path: Path) -> None:
    assert visits.simulate(300, 3).equals(visits.simulate(300, 3))
    assert not visits.simulate(300, 3).equals(visits.simulate(300, 4))
    with pytest.raises(ValueError, match="one or more"):
        visits.simulate(0)
    visits.main(["--patients", "50", "--output", str(tmp_path / "v.csv")])
    assert pd.read_csv(tmp_path / "v.csv")["patient_id"].nunique() == 50
    assert Schema.load(tmp_path / "v.schema.yaml").order == "visit_date"
