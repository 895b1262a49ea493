"""A patient as one wide row, as methods for marginals of plain tables need it: the peer of patients_over_time.py.

A wide row has the first visit's columns, and for each later visit those that change and the gap before it, all as codes
of the panel's public grid; gaps in public bins. A visit that a patient does not have is a code of its own, and how many
visits there are is a column. Back from codes, a visit that should be there but has the code of none takes a value that
the column has in another synthetic patient.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from panel_bins import Codes, Grid

from medsynth.report.data.over_time import changing
from medsynth.schema import Schema

FIRST, VISITS, GAP = "first day", "visits", "gap"
Wide = tuple[pd.DataFrame, dict[str, int]]


class Flattened:
    """Wide rows of a table of patients, and back."""

    def __init__(self, schema: Schema, edges: list[float]) -> None:
        assert schema.unit and schema.order and schema.max_rows
        self.schema, self.unit, self.order, self.most = schema, schema.unit, schema.order, schema.max_rows
        self.edges = np.asarray(edges)
        self.later = changing(schema)
        self.names = [n for n, column in schema.columns.items() if column.modelled and n != self.order]
        self.grids = {name: Grid(schema.columns[name]) for name in self.names}

    def wide(self, frame: pd.DataFrame) -> Wide:
        """(patients, columns) of codes, and how many codes each column has."""
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
                column = np.full(len(visits), size)  # the code of no such visit
                column[patient[here]] = values[here]
                made[f"{name} {visit + 1}"], sizes[f"{name} {visit + 1}"] = column, size + 1
        return pd.DataFrame(made), sizes

    def visits(self, wide: pd.DataFrame, rng: np.random.Generator, start: NDArray[Any]) -> pd.DataFrame:
        """A table of visits from wide codes; first days are drawn from `start`, which no figure looks at."""
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
        """Codes of one visit, those of no visit replaced by others of the column."""
        known = codes[codes < size]
        return np.where(codes < size, codes, rng.choice(known if len(known) else np.zeros(1, np.int64), len(codes)))
