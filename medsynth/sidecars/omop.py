"""OMOP: synthetic tables completed to version 5.4 of the Common Data Model. No private row is read.

Observation periods and eras are computed from the synthetic events, and never fitted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import BinaryIO

import pandas as pd

from ..artifact import Model, claim
from ..errors import UsageError
from ..io.atomic import check_outputs, whole_folder, write_together
from ..report.data.cdm import ENDS_REQUIRED, EVENTS, days, is_cdm, required
from ..sampling.pipeline import drawn_parts
from ..sampling.provenance import Provenance
from ..schema.codec import csv_cells
from ..schema.columns.date import dates_in
from .facts import proven

Cells = dict[str, pd.DataFrame]  # texts by table; "" is a missing cell
ISO = "%Y-%m-%d"
VERSION = 756265  # the concept "OMOP CDM Version 5.4.0", as ETL scripts of CHoRUS (chorus-ai) have it
ERAS = {"condition_occurrence": "condition", "drug_exposure": "drug"}
WINDOW = pd.Timedelta(30, "D")  # between two events of one era, as OHDSI's scripts have it


@dataclass(kw_only=True)
class Repairs:
    """The numbers of deaths that were moved to a patient's last event, and of events that now end at death."""

    deaths: int = 0
    ends: int = 0

    @property
    def sentence(self) -> str:
        """Return what was moved; "" for nothing."""
        moved = f"Moved {self.deaths} deaths to the patient's last event, and {self.ends} ends of events to the death."
        return moved * bool(self.deaths or self.ends)


@dataclass(frozen=True, kw_only=True)
class Exported:
    """The files of a folder, and the numbers of rows or resources by name.

    `left_out`: columns for which no resource has an element; `uncoded`: concepts that are written as their ids.
    """

    files: list[Path]
    counts: dict[str, int]
    repairs: Repairs
    left_out: list[str] = field(default_factory=list)
    uncoded: list[str] = field(default_factory=list)


def check_cdm(model: Model) -> None:
    """Raise UsageError unless the model draws OMOP tables, with days as OMOP writes them."""
    if model.tables is None or not is_cdm(model.tables):
        raise UsageError("This needs OMOP tables, 'person' with 'person_id' first. The model has others.")
    for table, schema in model.written.items():
        for name, column in dates_in(schema.columns).items():
            if column.format != ISO and name.endswith("_date"):
                raise UsageError(
                    f"{table!r}, {name!r}: OMOP needs days such as 2020-12-31. Declare them, and fit again."
                )


def drawn_cells(model: Model, found: Provenance, repairs: Repairs) -> Iterator[Cells]:
    """Yield the tables that were drawn, in chunks of whole patients, drawn again as on file. No file of rows is parsed.

    Nothing happens after a patient's death: it is moved to the last event, and longer events end there.
    """
    for _, parts in drawn_parts(model, found.draw):
        cells = dict[str, pd.DataFrame]()
        for table, codes in parts.items():
            schema = model.written[table]
            cells[table] = csv_cells(codes, schema)
            for name in cells[table]:
                gone = schema.columns[name].gap_words if name in schema.columns else ()
                texts = cells[table][name].mask(cells[table][name].isin(gone), "")
                whole = str(name).endswith("_id") or name == "year_of_birth"
                cells[table][name] = texts.str.removesuffix(".0") if whole else texts
        _repair(cells, repairs)
        yield cells


def _repair(cells: Cells, repairs: Repairs) -> None:
    if "death" not in cells or not len(cells["death"]):
        return
    dead, events = cells["death"], {table: _event(cells, table) for table in EVENTS if table in cells}
    if events:
        last = dead["person_id"].map(pd.concat(events.values()).groupby("person_id")["start"].max())
        early = last > days(dead, "death_date")
        dead.loc[early, "death_date"] = _texts(last[early])
        repairs.deaths += int(early.sum())
    died = days(dead, "death_date").groupby(dead["person_id"]).min()
    for table, event in events.items():
        late = event["end"] > event["person_id"].map(died)
        if (name := EVENTS[table][1]) in cells[table]:
            cells[table].loc[late, name] = _texts(event["person_id"].map(died)[late])
            repairs.ends += int(late.sum())


def _event(cells: Cells, table: str) -> pd.DataFrame:
    """Return person, concept and days of a table's events. One without an end lasts a day."""
    start, end, concept = EVENTS[table]
    rows = cells[table]
    found = pd.DataFrame({"person_id": rows["person_id"], "start": days(rows, start), "end": days(rows, end)})
    found["concept"] = rows.get(concept, "")
    return found.assign(end=found["end"].fillna(found["start"]))


def _texts(moments: pd.Series) -> pd.Series:
    found: pd.Series = moments.dt.strftime(ISO).fillna("")
    return found


def write_omop(model: Model, model_path: Path, synthetic: Path, folder: Path, *, force: bool = False) -> Exported:
    """Write the OMOP tables in the folder `synthetic`, completed, as CSV files into `folder`, whole or not at all.

    Raises UsageError unless the model drew these tables, as `proven` does, or without a column that cannot be filled;
    MedsynthError for a folder with other files; OutputExists unless `force`.
    """
    check_cdm(model)
    found, repairs = proven(model, model_path, synthetic), Repairs()
    parts = list(drawn_cells(model, found, repairs))
    tables = completed({name: pd.concat([part[name] for part in parts], ignore_index=True) for name in parts[0]})
    day = date.today().isoformat()
    tables["cdm_source"] = pd.DataFrame([{
        "cdm_source_name": f"SYNTHETIC: drawn by medsynth from {found.model}", "cdm_source_abbreviation": "SYNTHETIC",
        "cdm_holder": "not stated", "source_description": claim(model), "source_release_date": day,
        "cdm_release_date": day, "cdm_version": "5.4", "cdm_version_concept_id": VERSION,
        "vocabulary_version": "not stated",
    }])  # fmt: skip
    files = {name: folder / f"{name}.csv" for name in tables}

    def write(opened: dict[str, BinaryIO]) -> None:
        for name, file in opened.items():
            file.write(tables[name].to_csv(index=False, lineterminator="\n").encode())

    with whole_folder(folder, [path.name for path in files.values()]):
        check_outputs(*files.values(), force=force)
        write_together(files, write, force=force)
    return Exported(files=[*files.values()], counts={name: len(one) for name, one in tables.items()}, repairs=repairs)


def completed(cells: Cells) -> Cells:
    """Return OMOP tables with all required columns, observation periods and eras.

    A concept that the tables lack is 0, "No matching concept"; an event without an end ends on its first day. Raises
    UsageError for another column that is required.
    """
    tables = {name: rows.copy() for name, rows in cells.items()}
    for table, rows in tables.items():
        for name in required(table):
            if name in rows:
                continue
            if table in ENDS_REQUIRED and name == EVENTS[table][1] and EVENTS[table][0] in rows:
                rows[name] = rows[EVENTS[table][0]]
            elif name.endswith("_concept_id"):
                rows[name] = "0"
            else:
                raise UsageError(f"{table!r} has no column {name!r}, which OMOP requires. Add it, and fit again.")
    events = {table: _event(tables, table) for table in EVENTS if table in tables}
    if events and "observation_period" not in tables:
        tables["observation_period"] = _periods(tables, pd.concat(events.values()))
    for table, name in ERAS.items():
        if table in events and f"{name}_era" not in tables:
            tables[f"{name}_era"] = _eras(events[table], name)
    return tables


def _periods(tables: Cells, events: pd.DataFrame) -> pd.DataFrame:
    """Return each patient's time from the first to the last day of any event, death included."""
    if "death" in tables:
        died = days(tables["death"], "death_date")
        events = pd.concat([events, tables["death"][["person_id"]].assign(start=died, end=died)])
    found = events.groupby("person_id", sort=False).agg(start=("start", "min"), end=("end", "max")).reset_index()
    return pd.DataFrame({
        "observation_period_id": range(1, len(found) + 1), "person_id": found["person_id"],
        "observation_period_start_date": _texts(found["start"]), "observation_period_end_date": _texts(found["end"]),
        "period_type_concept_id": 0,
    })  # fmt: skip


def _eras(events: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return the spans of one concept of a patient in which no two events are more than WINDOW apart."""
    rows = events[~events["concept"].isin(["0", ""])].sort_values(["person_id", "concept", "start"], kind="stable")
    of = [rows["person_id"], rows["concept"]]
    before = rows.groupby(["person_id", "concept"])["end"].cummax().groupby(of).shift()
    new = ~(rows["start"] <= before + WINDOW)
    gap = (rows["start"] - before).dt.days.clip(lower=0).where(~new, 0)
    era = rows.assign(gap=gap.fillna(0).astype(int)).groupby(new.cumsum(), sort=False)
    found = era.agg(person_id=("person_id", "first"), concept=("concept", "first"), start=("start", "min"),
                    end=("end", "max"), count=("start", "size"), gap=("gap", "sum")).reset_index(drop=True)  # fmt: skip
    counted = "drug_exposure_count" if name == "drug" else "condition_occurrence_count"
    return pd.DataFrame({
        f"{name}_era_id": range(1, len(found) + 1), "person_id": found["person_id"],
        f"{name}_concept_id": found["concept"], f"{name}_era_start_date": _texts(found["start"]),
        f"{name}_era_end_date": _texts(found["end"]), counted: found["count"],
        **({"gap_days": found["gap"]} if name == "drug" else {}),
    })  # fmt: skip
