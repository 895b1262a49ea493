"""Date a table's rows by the patient's latest row in another table, such as an event by its visit.

Events at a visit have the visit's date. A model that draws both dates separately would scatter them. So the chain of
events has two other columns in place of the date (`schema.linked.chain_view`): the number of visits so far, and the
days since the last one, which is nearly always zero. With visits on days 10 and 50, an event on day 52 is

    table:  day 52           chain:  visits so far 2, day after visits 2

This module converts between both, for rows of simulated patients. `sampling/tables.py` uses it in this order:

1. Visits are drawn first. `view_of` collects their days per patient in `starts`, padded with NEVER.
2. First events were drawn with the patients, in the chain's columns. `Placed.possible` moves them to places that exist:
   a patient with one visit cannot have two visits before an event. If several visits have one time, only the last of
   them can come before one. `Placed.rows` converts events to days. If a first event breaks a rule there, it gets the
   place of another patient's first event, for some rounds, and then all of that event's values.
3. `sampling/visits.py` draws later events. `Placed.core` converts first events back to the chain's columns, the chain
   draws the next ones, and `Placed.rows` converts these to days. It marks rows that contradict their number, such as an
   event "after visit 1" that lies after visit 2. Those are drawn again, and then moved to the day of the event before
   (`Placed.moved`). An event before the previous one gets its day. Before the first visit the number is 0, and the
   distance counts from the start of time.

Deaths are rows of a table that `comes_last`. They follow the patient's last visit, at the distance that was drawn. If
another table has a later row of the patient, they move to its time (`floor`).

Fitting uses the same columns, of the real rows (`fitting/private_tables.py`). Without a table that places the rows,
`view_of` returns a plain `ChainView`, which changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..arrays import Codes, Mask, Whole
from ..schema import Schema
from ..schema.linked import LinkedTables, chain_view, distance_name, number_name, placed_by
from .patients import PatientRows
from .rejection import widened
from .visits import ChainView

NEVER = np.iinfo(np.int64).max // 2  # later than any row


@dataclass(frozen=True, eq=False)
class Placed(ChainView):
    """The chain's view of a table's rows that the rows of another table place in time.

    `starts`: the times of these, (patients, max_rows of that table), in codes of this table's order, ascending, and
    NEVER if there is no row.
    """

    tables: LinkedTables
    table: str
    other: str
    starts: Whole

    @cached_property
    def of_chain(self) -> Schema:
        """With the number of the other table's rows so far and the distance from the last one in place of the order."""
        return chain_view(self.tables, self.table)

    @property
    def times(self) -> tuple[str, ...]:
        """The columns that place a row: the number and the distance."""
        return self.number, self.distance

    @property
    def number(self) -> str:
        """The column with the number of the other table's rows so far."""
        return number_name(self.other)

    @property
    def distance(self) -> str:
        """The column with the distance of a row from the last of them."""
        return distance_name(self.schema.order or "", self.other)

    def core(self, rows: Codes, who: Whole) -> Codes:
        """Return the chain's columns of rows of the table."""
        at = rows[:, self.schema.names.index(self.schema.order or "")].astype(np.int64)
        # NEVER is later than any row, so padding is not counted.
        number = (self.starts[who] <= at[:, None]).sum(1)
        names = dict(zip(self.schema.names, rows.T, strict=True))
        # A row of the other table may come before this table's bounds, farther away than the column can represent.
        most = self.of_chain.columns[self.distance].size - 1
        names |= {self.number: number, self.distance: np.minimum(at - self._of(number, who), most)}
        return np.column_stack([names[name] for name in self.of_chain.core.names]).astype(np.int32)

    def rows(self, core: Codes, before: Codes | None, who: Whole) -> tuple[Codes, Mask]:
        """Return the rows of the table, and which of them are impossible: those after the other table's next row, or
        after the end of time. A row before the previous one gets its date.
        """
        order = self.schema.order or ""
        columns = dict(zip(self.of_chain.core.names, core.T, strict=True))
        number = columns[self.number].astype(np.int64)
        at = self._of(number, who) + columns[self.distance]
        if before is not None:  # drawing such a row again would move all dates towards the end of time
            at = np.maximum(at, before[:, self.schema.names.index(order)])
        never = (at >= self._of(number + 1, who)) | (at < 0)
        at = at if self.floor is None else np.maximum(at, self.floor[who])
        never |= at >= self.schema.columns[order].size
        columns[order] = np.where(never, 0, at).astype(np.int32)
        return widened(np.column_stack([columns[name] for name in self.schema.core.names]), self.schema), never

    def _of(self, number: Whole, who: Whole) -> Whole:
        """Return the time of the other table's row of that number, from one on; number zero is the start of time."""
        # A start of time before the first row and NEVER after the last, so that each number has a time.
        padded = np.column_stack([np.zeros(len(self.starts), np.int64), self.starts, np.full(len(self.starts), NEVER)])
        return np.asarray(padded[who, np.minimum(number, padded.shape[1] - 1)])

    def possible(self, core: Codes, who: Whole) -> Codes:
        """Move rows of the chain to possible places: to an existing row of the other table, and before the next one.

        Among rows of one time that is the last of them.
        """
        names = self.of_chain.core.names
        a = names.index(self.number)
        b = names.index(self.distance)
        top = self.schema.columns[self.schema.order or ""].size - 1
        found = core.copy()
        count = (self.starts[who] < NEVER).sum(1)
        number = np.minimum(core[:, a], count) if self.floor is None else np.where(core[:, a] > 0, count, 0)
        number = np.where((number == 0) & (self.starts[who].min(1) <= 0), 1, number)  # nothing comes before the start
        number = np.where(number > 0, (self.starts[who] <= self._of(number, who)[:, None]).sum(1), 0)
        room = np.minimum(self._of(number + 1, who) - 1, top) - self._of(number, who)
        found[:, a] = number
        found[:, b] = np.clip(core[:, b], 0, np.maximum(room, 0))
        return found

    def moved(self, core: Codes, before: Codes, who: Whole) -> Codes:
        """Return rows of the chain at the time of the rows `before`, (rows, columns of the table)."""
        names = self.of_chain.core.names
        there = self.core(before, who)
        found = core.copy()
        for name in self.times:
            found[:, names.index(name)] = there[:, names.index(name)]
        return found


def starts_of(codes: Codes, whose: Whole, patients: int, tables: LinkedTables, table: str, other: str) -> Whole:
    """Return the times of patients' rows in the other table, in codes of this table's order: (patients, its max_rows).

    `codes`: (rows, columns of that table's view), patient by patient and in order; `whose`: (rows,).
    """
    schema = tables.view(other)
    mine = tables.view(table).columns[tables.tables[table].order or ""]
    theirs = schema.columns[schema.order or ""]
    at = codes[:, schema.names.index(schema.order or "")].astype(np.int64) + theirs.units[0] - mine.units[0]
    found = np.full((patients, tables.tables[other].max_rows), NEVER, np.int64)
    turn = np.arange(len(whose)) - np.searchsorted(whose, whose)
    found[whose, turn] = at
    return found


def view_of(tables: LinkedTables, table: str, found: Mapping[str, PatientRows], patients: Whole) -> ChainView:
    """Return the chain's view of a table's rows for `patients`, by number, given the rows `found` of earlier tables."""
    schema, other, floor = tables.view(table), placed_by(tables, table), None

    def starts(other: str) -> Whole:
        rows = found[other]
        count = int(max(rows.whose.max(initial=-1), patients.max(initial=-1))) + 1
        return starts_of(rows.codes, rows.whose, count, tables, table, other)[patients]

    if tables.tables[table].comes_last:
        earlier = [starts(name) for name in tables.others if name != table and tables.tables[name].order]
        floor = np.max([np.zeros(len(patients), np.int64), *(np.where(at < NEVER, at, 0).max(1) for at in earlier)], 0)
    if other is None:
        return ChainView(schema, floor=floor)
    return Placed(schema, tables, table, other, starts(other), floor=floor)
