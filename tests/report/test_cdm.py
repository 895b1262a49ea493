"""Checks of OMOP tables: against tables with one mistake of each kind, and their verdict."""

from __future__ import annotations

import pandas as pd
from medsynth_sample_data import omop

from medsynth.report.data.cdm import cdm_checks
from medsynth.report.data.context import LinkedFacts
from medsynth.report.data.verdict import Thresholds
from medsynth.report.sections.plausibility import TABLES

Frames = dict[str, pd.DataFrame]


def clean() -> Frames:
    tables = {
        name: rows.astype(str).replace("nan", "").reset_index(drop=True) for name, rows in omop.simulate(60, 2).items()
    }
    dead = tables["death"]["person_id"]
    drugs = tables["drug_exposure"]
    drugs.loc[drugs["person_id"].isin(dead), "drug_exposure_end_date"] = drugs["drug_exposure_start_date"]
    return tables


def shares(tables: Frames, real: Frames | None = None) -> dict[str, float | None]:
    return {f"{one.check} {one.column}": one.synthetic for one in cdm_checks(tables, real)}


def test_a_clean_simulation_passes_and_each_mistake_is_counted() -> None:
    assert len(clean()["death"]) and not any(shares(clean()).values())
    bad = clean()
    dead = bad["death"].loc[0, "person_id"]
    visits, drugs, conditions = bad["visit_occurrence"], bad["drug_exposure"], bad["condition_occurrence"]
    visits.loc[0, "visit_start_date"] = "1900-01-01"
    visits.loc[visits.index[visits["person_id"] == dead][0], "visit_end_date"] = "2024-01-01"
    visits.loc[5, "visit_occurrence_id"] = visits.loc[6, "visit_occurrence_id"]
    visits.loc[7, "visit_concept_id"] = "0"
    drugs.loc[3, "drug_exposure_end_date"] = "2000-01-01"
    drugs.loc[4, "visit_occurrence_id"] = "none"
    conditions.loc[2, "condition_start_date"] = ""
    conditions.loc[3, "person_id"] = "stranger"
    bad["measurement"].loc[9, "measurement_date"] = "2025-12-30"
    bad["death"] = pd.concat([bad["death"], bad["death"].head(1)])
    found = {name for name, share in shares(bad).items() if share}
    assert found >= {
        "plausibleAfterBirth visit_occurrence.visit_start_date", "isPrimaryKey visit_occurrence.visit_occurrence_id",
        "plausibleBeforeDeath visit_occurrence.visit_end_date", "isForeignKey drug_exposure.visit_occurrence_id",
        "standardConceptRecordCompleteness visit_occurrence.visit_concept_id", "isPrimaryKey death.person_id",
        "plausibleStartBeforeEnd drug_exposure.drug_exposure_start_date",
        "withinVisitDates measurement.measurement_date",
        "isRequired condition_occurrence.condition_start_date", "isForeignKey condition_occurrence.person_id",
    }  # fmt: skip
    assert not {name for name in found if "gender" in name or "isRequired person" in name}


def test_the_verdict_counts_failed_checks_and_shows_both_sides() -> None:
    bad = clean()
    bad["visit_occurrence"].loc[0, "visit_start_date"] = ""
    facts = {"patients": 60, "tables": [], "broken": 0}
    found = LinkedFacts(**facts, checks=cdm_checks(bad, clean()))  # type: ignore[arg-type]
    line = {line.key: line for line in TABLES.verdicts(found, Thresholds())}["cdm_checks"]  # type: ignore[misc]
    assert line.outcome == "beyond" and line.estimate.value == 1
    one = next(one for one in found.checks if one.check == "isRequired" and one.synthetic)
    assert one.real == 0 and one.column == "visit_occurrence.visit_start_date"
    assert found.of_real_rows
    alone = LinkedFacts(**facts, checks=cdm_checks(bad, None))  # type: ignore[arg-type]
    assert not alone.of_real_rows and all(one.real is None for one in alone.checks)
