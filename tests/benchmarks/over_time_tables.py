"""Tables of patients over time, divided by patient, and patients as one wide row each for methods of plain tables.

`visits` is simulated; each run has its own patients. FOLDER/diabetes130 and FOLDER/pbc contain the public files.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from medsynth_sample_data import visits
from numpy.typing import NDArray

from medsynth.report.data.columns import cells_of
from medsynth.report.data.over_time import Sequences, changing, compared, ordered
from medsynth.report.data.tables import patient_numbers
from medsynth.schema import Schema
from tests.benchmarks.bins import Codes, Grid
from tests.benchmarks.tables import SCHEMAS, public, stays

NAMES = ("visits", "diabetes130", "pbc")
PATIENTS, HELD_OUT = 8_000, 0.25
VISITS, GAP = "visits", "gap"


def load(name: str, data: str | None, run: int) -> tuple[pd.DataFrame, pd.DataFrame | None, Schema]:
    """Return training rows, held-out rows or None, and the schema; `data` is the folder of public files."""
    if name == "visits":
        return visits.simulate(PATIENTS, 1000 + run), None, Schema.load(visits.SCHEMA)
    if name == "pbc":
        schema = Schema.load(SCHEMAS / "pbc_visits.yaml")
        frame = pd.read_csv(public(data, name) / "pbc2.csv.gz")
        frame["died"] = np.where(frame["status"] == "dead", "yes", "no")
        rounded = {n: frame[n].round(k) for n, k in (("age", 1), ("years", 2), ("year", 2))}
        return frame.assign(**rounded)[list(schema.names)], None, schema
    schema = Schema.load(SCHEMAS / "diabetes130_stays.yaml")
    train, held = parted(stays(public(data, name))[list(schema.names)], "patient_nbr", HELD_OUT, 0)
    return train, held, schema


def parted(frame: pd.DataFrame, unit: str, share: float, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the rows of most patients and those of a `share` of them, the same for equal arguments."""
    patients = frame[unit].unique()
    held = np.random.default_rng(seed).choice(patients, round(share * len(patients)), replace=False)
    out = frame[unit].isin(held).to_numpy()
    return frame[~out].reset_index(drop=True), frame[out].reset_index(drop=True)


def sequences_of(frame: pd.DataFrame, schema: Schema) -> Sequences:
    """Return a table's patients in order, as the report compares them."""
    cells = cells_of(frame)
    return ordered(cells, patient_numbers([cells], schema)[0], schema, compared(schema))


def without_order(schema: Schema) -> Schema:
    """Return the schema without order and rules across rows: later rows do not depend on earlier ones."""
    content: dict[str, Any] = {name: value for name, value in schema.to_dict().items() if name != "order"}
    alone = [rule.text for rule in schema.parsed_rules if not rule.across]
    return Schema.from_dict({**content, "rules": alone})


class Flattened:
    """Patients as wide rows of codes, and back.

    A wide row has the first visit's columns and, for each later visit, the columns that change and the gap before it.
    A visit that a patient does not have is a code of its own. The number of visits is a column. Back from codes, a
    visit that should exist but has that code takes a value of another synthetic patient.
    """

    def __init__(self, schema: Schema, edges: list[float]) -> None:
        assert schema.unit and schema.order and schema.max_rows
        self.schema, self.unit, self.order, self.most = schema, schema.unit, schema.order, schema.max_rows
        self.edges = np.asarray(edges)
        self.later = changing(schema)
        self.names = [n for n, column in schema.columns.items() if column.modelled and n != self.order]
        self.grids = {name: Grid(schema.columns[name]) for name in self.names}

    def wide(self, frame: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, int]]:
        """Return codes (patients, columns), and the number of codes of each column."""
        day = pd.to_datetime(frame[self.order]).to_numpy().astype("datetime64[D]").astype(np.int64)
        order = np.lexsort((day, pd.factorize(frame[self.unit])[0]))
        table, day = frame.iloc[order].reset_index(drop=True), day[order]
        patient = pd.factorize(table[self.unit])[0]
        place = np.arange(len(table)) - np.searchsorted(patient, patient)
        coded = {name: grid.codes(table[name]) for name, grid in self.grids.items()}
        gap = np.searchsorted(self.edges, np.diff(day, prepend=0), side="right") - 1
        visits = np.minimum(np.bincount(patient), self.most)
        made, sizes = {VISITS: visits - 1}, {VISITS: self.most}
        for name in self.names:
            made[f"{name} 1"], sizes[f"{name} 1"] = coded[name][place == 0], self.grids[name].size
        for visit in range(1, self.most):
            here = place == visit
            sources = {name: (coded[name], self.grids[name].size) for name in self.later}
            sources[GAP] = np.clip(gap, 0, len(self.edges) - 2), len(self.edges) - 1
            for name, (values, size) in sources.items():
                column = np.full(len(visits), size)  # The code of no such visit.
                column[patient[here]] = values[here]
                made[f"{name} {visit + 1}"], sizes[f"{name} {visit + 1}"] = column, size + 1
        return pd.DataFrame(made), sizes

    def visits(self, wide: pd.DataFrame, rng: np.random.Generator, start: NDArray[Any]) -> pd.DataFrame:
        """Return a table of visits from wide codes; first days are drawn from `start`, which no figure uses."""
        count = len(wide)
        day = rng.choice(start, count)
        number = wide[VISITS].to_numpy() + 1
        now = {name: wide[f"{name} 1"].to_numpy() for name in self.names}
        rows = []
        for visit in range(self.most):
            if visit:
                for name in self.later:
                    now[name] = self._there(wide[f"{name} {visit + 1}"].to_numpy(), self.grids[name].size, rng)
                bins = self._there(wide[f"{GAP} {visit + 1}"].to_numpy(), len(self.edges) - 1, rng)
                low, high = self.edges[bins], self.edges[bins + 1]
                day = day + np.floor(low + rng.random(count) * (high - low)).astype(np.int64)
            values = {name: grid.values(now[name], rng) for name, grid in self.grids.items()}
            frame = pd.DataFrame({self.unit: np.arange(count), self.order: day.astype("datetime64[D]"), **values})
            rows.append(frame[number > visit])
        table = pd.concat(rows).sort_values([self.unit, self.order], kind="stable").reset_index(drop=True)
        table[self.order] = table[self.order].dt.strftime("%Y-%m-%d")
        return table[[name for name in self.schema.names if name in table]]

    @staticmethod
    def _there(codes: Codes, size: int, rng: np.random.Generator) -> Codes:
        """Return codes of one visit; the code of no visit is replaced by other codes of the column."""
        known = codes[codes < size]
        return np.where(codes < size, codes, rng.choice(known if len(known) else np.zeros(1, np.int64), len(codes)))
