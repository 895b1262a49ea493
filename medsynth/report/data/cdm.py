"""OMOP tables: what version 5.4 of the Common Data Model requires, and checks of OHDSI's DataQualityDashboard.

Names and limits of the checks are those of version 2.8.9 of the dashboard (Apache-2.0). Checks that need tables of the
vocabulary or the source are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pandas as pd

from ...io.table import MISSING_TOKENS
from ...schema.linked import LinkedTables
from .verdict import Record

Cells = Mapping[str, pd.DataFrame]  # texts by table
Line = tuple[str, str, float, pd.Series, pd.Series]  # a check, its column and limit, wrong rows, rows that could be
# The columns of an event's first day, its last day and its concept, by table.
EVENTS = {
    "visit_occurrence": ("visit_start_date", "visit_end_date", "visit_concept_id"),
    "condition_occurrence": ("condition_start_date", "condition_end_date", "condition_concept_id"),
    "drug_exposure": ("drug_exposure_start_date", "drug_exposure_end_date", "drug_concept_id"),
    "procedure_occurrence": ("procedure_date", "procedure_end_date", "procedure_concept_id"),
    "device_exposure": ("device_exposure_start_date", "device_exposure_end_date", "device_concept_id"),
    "measurement": ("measurement_date", "", "measurement_concept_id"),
    "observation": ("observation_date", "", "observation_concept_id"),
}
PERSON = ("gender_concept_id", "year_of_birth", "race_concept_id", "ethnicity_concept_id")  # required, next to the key
ENDS_REQUIRED = ("visit_occurrence", "drug_exposure")
AFTER_DEATH, AROUND_VISIT = 60, 7  # days that the dashboard allows


class CdmCheck(Record):
    """A check of one column: the share of rows that violate it, and the share that the dashboard allows.

    A share is None if no row could violate it.
    """

    check: str
    column: str
    limit: float
    real: float | None
    synthetic: float | None


def is_cdm(tables: LinkedTables) -> bool:
    """Return whether tables are OMOP's."""
    return tables.first == "person" and tables.key == "person_id"


def required(table: str) -> tuple[str, ...]:
    """Return the columns that a table must have, keys first; none if it is not one of those above."""
    if table not in EVENTS:
        return {"person": ("person_id", *PERSON), "death": ("person_id", "death_date")}.get(table, ())
    start, end, concept = EVENTS[table]
    ends = (end,) if table in ENDS_REQUIRED else ()
    return f"{table}_id", "person_id", concept, start, *ends, concept.replace("concept", "type_concept")


def days(cells: pd.DataFrame, column: str) -> pd.Series:
    """Return the days of a column, NaT for a missing one or without the column."""
    if column not in cells:
        return pd.Series(pd.NaT, cells.index, dtype="datetime64[ns]")
    return pd.to_datetime(cells[column].astype(str).str[:10], format="%Y-%m-%d", errors="coerce")


def cdm_checks(synthetic: Cells, real: Cells | None) -> list[CdmCheck]:
    """Return the checks of synthetic tables, next to the same of the real ones."""
    ours = {} if real is None else {(one, column): share for one, column, _, share in _shares(real)}
    return [
        CdmCheck(check=one, column=column, limit=limit, real=ours.get((one, column)), synthetic=share)
        for one, column, limit, share in _shares(synthetic)
    ]


def _shares(cells: Cells) -> Iterator[tuple[str, str, float, float | None]]:
    """Yield each check, its column, its limit, and the share of violating rows among those that could violate it."""
    of_persons = {table: rows for table, rows in cells.items() if "person_id" in rows}
    for table, rows in of_persons.items():
        for check, column, limit, wrong, able in (*_keys(cells, table, rows), *_dates(cells, table, rows)):
            whole = int(able.sum())
            yield check, f"{table}.{column}", limit, float((wrong & able).sum() / whole) if whole else None


def _keys(cells: Cells, table: str, rows: pd.DataFrame) -> Iterator[Line]:
    """Yield the checks of keys, of missing cells and of concepts. The last entry: the rows that can violate it."""
    everywhere = pd.Series(True, rows.index)
    for column in required(table):
        if column in rows:
            yield "isRequired", column, 0.0, _missing(rows[column]), everywhere
    key = "person_id" if table in ("person", "death") else f"{table}_id"
    if key in rows:
        yield "isPrimaryKey", key, 0.0, rows[key].duplicated(), everywhere
    for other, column in (("person", "person_id"), ("visit_occurrence", "visit_occurrence_id")):
        if table != other and column in rows and other in cells:
            there = rows[column].isin(cells[other][column])
            yield "isForeignKey", column, 0.0, ~there, ~_missing(rows[column])
    concept = EVENTS[table][2] if table in EVENTS else ""
    if concept in rows:
        yield "standardConceptRecordCompleteness", concept, 0.05, rows[concept].isin(["0", "0.0"]), everywhere


def _dates(cells: Cells, table: str, rows: pd.DataFrame) -> Iterator[Line]:
    """Yield the checks of an event's days: in order, within life, and near the visit."""
    names = EVENTS[table][:2] if table in EVENTS else ("death_date",) * (table == "death")
    known = {name: days(rows, name) for name in names if name in rows}
    if len(known) == 2:
        start, end = known.values()
        yield "plausibleStartBeforeEnd", names[0], 0.01, start > end, start.notna() & end.notna()
    person = cells["person"].drop_duplicates("person_id").set_index("person_id")
    if "year_of_birth" in person:
        born = rows["person_id"].map(pd.to_numeric(person["year_of_birth"], errors="coerce"))
        for name, day in known.items():
            yield "plausibleAfterBirth", name, 0.01, day.dt.year < born, day.notna() & born.notna()
    if "death" in cells and table != "death":
        dead = cells["death"]
        died = rows["person_id"].map(days(dead, "death_date").groupby(dead["person_id"]).min())
        for name, day in known.items():
            late = day > died + pd.Timedelta(AFTER_DEATH, "D")
            yield "plausibleBeforeDeath", name, 0.01, late, day.notna() & died.notna()
    if "visit_occurrence_id" in rows and "visit_occurrence" in cells and table != "visit_occurrence" and known:
        visits = cells["visit_occurrence"].drop_duplicates("visit_occurrence_id").set_index("visit_occurrence_id")
        first, last = (rows["visit_occurrence_id"].map(days(visits, name)) for name in EVENTS["visit_occurrence"][:2])
        day, week = known[names[0]], pd.Timedelta(AROUND_VISIT, "D")
        outside = (day < first - week) | (day > last + week)
        yield "withinVisitDates", names[0], 0.05, outside, day.notna() & first.notna()


def _missing(cells: pd.Series) -> pd.Series:
    return cells.isin(list(MISSING_TOKENS))
