"""OMOP tables completed to the Common Data Model: required columns, periods and eras, and nothing after death."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from commands import good, run

from medsynth.errors import UsageError
from medsynth.report.data.cdm import EVENTS, cdm_checks, days, required
from medsynth.sidecars.omop import Repairs, _repair, completed

LINES = "person_id drug_concept_id drug_exposure_start_date drug_exposure_end_date"
DRUGS = [
    "1 5 2020-01-01 2020-01-31", "1 5 2020-03-01 2020-03-02", "1 5 2020-01-20 2020-01-21", "1 5 2020-05-01 2020-05-02",
    "1 6 2020-01-01 2020-01-02", "2 5 2020-01-01 2020-01-02", "2 0 2020-01-01 2020-01-02",
]  # fmt: skip


def frame(header: str, lines: list[str]) -> pd.DataFrame:
    return pd.DataFrame(
        [["" if cell == "." else cell for cell in line.split()] for line in lines], columns=header.split()
    )


def small() -> dict[str, pd.DataFrame]:
    drugs = frame(LINES, DRUGS)
    drugs.insert(0, "drug_exposure_id", [str(k) for k in range(len(drugs))])
    conditions = "condition_occurrence_id person_id condition_concept_id condition_start_date"
    return {
        "person": frame("person_id year_of_birth", ["1 1950", "2 1960", "3 1970"]),
        "drug_exposure": drugs,
        "condition_occurrence": frame(conditions, ["1 1 9 2019-12-01", "2 1 9 2020-06-01"]),
        "death": frame("person_id death_date", ["1 2020-04-30"]),
    }


def read(folder: str) -> dict[str, pd.DataFrame]:
    return {path.stem: pd.read_csv(path, dtype=str, keep_default_na=False) for path in Path(folder).glob("*.csv")}


def test_eras_join_events_at_most_thirty_days_apart() -> None:
    """From 2020-01-31 to 2020-03-01 are 30 days, from 2020-03-02 to 2020-05-01 are 60."""
    found = completed(small())["drug_era"].astype(str)
    assert found.drop(columns="drug_era_id").to_numpy().tolist() == [
        ["1", "5", "2020-01-01", "2020-03-02", "3", "30"], ["1", "5", "2020-05-01", "2020-05-02", "1", "0"],
        ["1", "6", "2020-01-01", "2020-01-02", "1", "0"], ["2", "5", "2020-01-01", "2020-01-02", "1", "0"],
    ]  # fmt: skip
    eras = completed(small())["condition_era"]
    assert eras["condition_era_start_date"].tolist() == eras["condition_era_end_date"].tolist()
    assert eras["condition_occurrence_count"].tolist() == [1, 1]


def test_all_days_are_in_the_observation_period_and_no_required_column_lacks() -> None:
    tables = completed(small())
    periods = tables["observation_period"].set_index("person_id")
    assert periods.loc["1"].tolist()[1:3] == ["2019-12-01", "2020-06-01"] and list(periods.index) == ["1", "2"]
    for table in small():
        assert {*required(table)} <= {*tables[table]}
    assert tables["person"]["ethnicity_concept_id"].tolist() == ["0"] * 3
    assert "ethnicity_concept_id" not in small()["person"]
    lacking = small()
    del lacking["person"]["year_of_birth"]
    with pytest.raises(UsageError, match="'person' has no column 'year_of_birth'"):
        completed(lacking)


def test_tables_without_rows_are_completed() -> None:
    empty = {name: rows.head(0) for name, rows in small().items()}
    _repair(empty, Repairs())
    tables = completed(empty)
    assert all(not len(rows) for rows in tables.values()) and {"observation_period", "drug_era"} <= {*tables}


def test_nothing_happens_after_death() -> None:
    cells, repairs = small(), Repairs()
    _repair(cells, repairs)
    assert cells["death"]["death_date"].tolist() == ["2020-06-01"] and (repairs.deaths, repairs.ends) == (1, 0)
    cells["drug_exposure"].loc[0, "drug_exposure_end_date"] = "2021-01-01"
    _repair(cells, repairs)
    assert cells["drug_exposure"]["drug_exposure_end_date"][0] == "2020-06-01"
    assert (repairs.deaths, repairs.ends) == (1, 1)
    cells["drug_exposure"].loc[1, "drug_exposure_end_date"] = ""
    _repair(cells, repairs)
    assert cells["drug_exposure"]["drug_exposure_end_date"][1] == ""


@pytest.mark.nightly
def test_exported_tables_pass_all_checks(cdm: Path) -> None:
    facts = json.loads(good("export", "omop", "--json").stdout)
    tables = read("cdm.omop")
    assert facts["counts"] == {name: len(rows) for name, rows in tables.items()} and facts["claims"]
    assert facts["moved"] == {"deaths": 0, "ends": 0}  # they were drawn so
    assert {"observation_period", "condition_era", "drug_era", "cdm_source", "death"} <= {*tables}
    assert len(tables["death"]) and not tables["death"]["person_id"].duplicated().any()
    assert tables["cdm_source"]["cdm_source_name"][0].startswith("SYNTHETIC")
    failed = [one for one in cdm_checks(tables, None) if (one.synthetic or 0) > one.limit]
    assert {one.check for one in failed} <= {"standardConceptRecordCompleteness", "withinVisitDates"}, failed
    for table in EVENTS.keys() & tables.keys():
        assert {*required(table)} <= {*tables[table]}
        periods = tables["observation_period"].set_index("person_id").loc[tables[table]["person_id"]]
        for name in EVENTS[table][:2]:
            day = days(tables[table], name).to_numpy() if name in tables[table] else []
            assert all(day >= days(periods, "observation_period_start_date").to_numpy()) if len(day) else True
            assert all(day <= days(periods, "observation_period_end_date").to_numpy()) if len(day) else True


@pytest.mark.nightly
def test_only_tables_of_the_model_are_completed(cdm: Path) -> None:
    path = Path("cdm.synthetic/person.csv")
    path.write_text(path.read_text().replace(",1", ",2", 1))
    result = run("export", "omop")
    assert result.exit_code == 2 and "Nothing proves" in result.stderr and not Path("cdm.omop").exists()


def test_a_model_of_other_tables_is_refused(small: Path) -> None:
    result = run("export", "omop")
    assert result.exit_code == 2 and "OMOP" in result.stderr
