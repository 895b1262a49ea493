"""Draw later rows, one after another: in each the gap, then each column that changes, given the last row and the first.

`training.py` fits a `Chain`, `stored.py` writes and restores it, and `sampling/visits.py` draws from it. A later row is
one line of codes with the columns `later_columns`: the row itself (NOW), the row before it (LAST), the patient's first
row (FIRST), and facts: the gap, the rows left, the rows before LAST, and the patient's number of rows minus one. A
table whose order is a key has no gap.

For patients with 3 rows each, `later_rows` draws all second rows, then all third rows. For each of these two:

1. `blank` fills in what is known: LAST, FIRST and the facts. NOW and the gap are zero.
2. `begin` copies constant columns, such as sex, from FIRST to NOW.
3. `draw_column` draws the gap, which moves the date, and then each changing column, in the order in which it was
   fitted. Each has weights for its contexts, and log chances are their sum (`conditional.py`). For weight these may be
   the weight in LAST, the gap, and the severity in NOW, which was drawn before it.
4. The finished NOW becomes LAST of the next row.

Rules are met column by column (`possible`): a value that would break a rule gets no chance, unless all would. Then
`sampling/visits.py` draws the row again. A rule that depends on whether the row is the patient's final one, such as
death, has weights of its own for final rows (`ends`). `draw_ends` redraws such columns for patients with a single row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ..arrays import Codes, Floats, Mask, Whole
from ..rng import Stream
from ..schema import Schema
from .column_rules import ColumnRules
from .conditional import drawn, log_chances
from .contexts import Context, Contexts, moving
from .split_rows import FIRST, GAP, LAST, LEFT, NOW, OF, ROWS, named, only_rows


@dataclass(frozen=True, eq=False)
class Chain:
    """The model that later rows are drawn from. `weights`: for each column its contexts, in order, and their weights of
    its cells, (groups, cells). `ends`: the same for some columns, for a patient's last row. `only_rows_end`: whether
    these were fitted to patients with a single row, too.
    """

    contexts: Contexts
    weights: Mapping[str, Sequence[tuple[Context, Floats]]]
    ends: Mapping[str, Sequence[tuple[Context, Floats]]] = field(default_factory=dict)
    only_rows_end: bool = True

    @property
    def schema(self) -> Schema:
        """The schema of the whole table."""
        return self.contexts.schema

    def groups(self, name: str, context: Context, rows: Codes) -> Whole:
        """Return the group of a context of the column `name` in each of some later rows, (rows,). For the column's own
        last value the group is its cell.
        """
        values = self.contexts.variables[name].values
        own = np.arange(values) if context == (LAST, name) else None
        found = self.contexts.cells(self.contexts.axis(context, own), rows)
        return found * values + self.groups(name, (LAST, name), rows) if moving(context) else found

    @cached_property
    def rules(self) -> ColumnRules:
        """The rules that columns meet as they are drawn."""
        return ColumnRules.by_column(self.schema, list(self.contexts.variables), self.contexts.fixed)

    def possible(self, name: str, rows: Codes, rng: Stream) -> tuple[Codes, Mask] | None:
        """Return a value from each cell of a column for later rows, and whether it breaks no rule: (rows, cells) each.

        None if no rule is about the column. A row for which no value is possible allows all: whole rows are checked.
        """
        if name not in self.rules.of:
            return None
        variable = self.contexts.variables[name]
        trial = rows.copy()
        width = self.contexts.width
        # A rule reads values, and a cell has many: try one value of each cell, which is also the one that is drawn.
        codes = np.empty((len(rows), variable.cells), np.int32)
        allowed = np.empty(codes.shape, np.bool_)
        only = self.only(rows)
        last = self.last(rows)
        for cell in range(variable.cells):
            codes[:, cell] = variable.draw(np.full(len(rows), cell), self._before(name, rows), rng)
            self.put(name, trial, codes[:, cell])
            broken = self.rules.broken(name, self.now(trial), trial[:, width : 2 * width], only, last)
            allowed[:, cell] = ~broken
        allowed[~allowed.any(1)] = True  # the columns before left no value: the caller draws this row again
        return codes, allowed

    def draw_column(self, name: str, rows: Codes, rng: Stream) -> None:
        """Draw a column, or the gap, of later rows, (rows, `later_columns`), given the columns before it; in place."""
        variable, last = self.contexts.variables[name], self.last(rows) & (name in self.ends)
        logs = np.empty((len(rows), variable.cells))
        logs[~last] = self._logs(name, self.weights[name], rows[~last])
        logs[last] = self._logs(name, self.ends[name], rows[last]) if last.any() else 0.0
        if (values := self.possible(name, rows, rng)) is None:
            found = variable.draw(drawn(logs, rng), self._before(name, rows), rng)
        else:
            codes, allowed = values
            found = codes[np.arange(len(rows)), drawn(np.where(allowed, logs, -np.inf), rng)]
        self.put(name, rows, found)

    def code_chances(self, name: str, rows: Codes) -> Floats:
        """Return the chance of each code of a column of levels in later rows: (rows, codes)."""
        variable, last = self.contexts.variables[name], self.last(rows) & (name in self.ends)
        logs = self._logs(name, self.weights[name], rows)
        if last.any():
            logs[last] = self._logs(name, self.ends[name], rows[last])
        cells = np.exp(logs - logs.max(1, keepdims=True))
        cell = variable.group[variable.bins.cell_of(np.arange(len(variable.group), dtype=np.int32))]
        share = variable.shares + 1e-12
        found = cells[:, cell] * (share / np.bincount(cell, share)[cell])
        if variable.repeats:
            found[np.arange(len(rows)), self._before(name, rows)] += cells[:, -1]
        return np.asarray(found)

    def _logs(self, name: str, own: Sequence[tuple[Context, Floats]], rows: Codes) -> Floats:
        """Return the log chances of a column's cells in later rows, by weights: (rows, cells)."""
        groups = [self.groups(name, context, rows) for context, _ in own]
        return np.asarray(self.contexts.variables[name].base + log_chances([weight for _, weight in own], groups))

    def only(self, rows: Codes) -> Mask:
        """Return which rows are a patient's only one: (rows,)."""
        return np.asarray(rows[:, self.contexts.place[named(OF, ROWS)]] == 0)

    def last(self, rows: Codes) -> Mask:
        """Return which later rows are a patient's last: (rows,)."""
        return np.asarray(rows[:, self.contexts.place[named(OF, LEFT)]] == 0)

    def draw(self, rows: Codes, rng: Stream) -> None:
        """Draw all columns of later rows with given last and first row and facts; in place."""
        self.begin(rows)
        for name in self.contexts.variables:
            self.draw_column(name, rows, rng)

    def draw_ends(self, only: Codes, rng: Stream) -> Codes:
        """Return patients' only rows, (rows, core), with the columns that depend on whether a row is the last."""
        rows = only_rows(only, self.schema)
        for name in self.ends:
            self.draw_column(name, rows, rng)
        return self.now(rows)

    def begin(self, rows: Codes) -> None:
        """Copy constant columns from the first row; in place."""
        place = self.contexts.place
        for name in self.contexts.fixed:
            rows[:, place[named(NOW, name)]] = rows[:, place[named(FIRST, name)]]

    def _before(self, name: str, rows: Codes) -> Codes:
        """Return a column in the last row: (rows,); zero for the gap."""
        return np.zeros(len(rows), np.int32) if name == GAP else rows[:, self.contexts.place[named(LAST, name)]]

    def put(self, name: str, rows: Codes, found: Codes) -> None:
        """Write a column, (rows,); with the gap also the order, cut to its last value; in place."""
        place = self.contexts.place
        order = self.schema.order or ""
        rows[:, place[named(OF if name == GAP else NOW, name)]] = found
        if name == GAP:
            rows[:, place[named(NOW, order)]] = self.reached(rows).clip(max=self.schema.columns[order].size - 1)

    def reached(self, rows: Codes) -> Whole:
        """Return where the gap leads from the last row, in codes of the order, maybe beyond its end: (rows,)."""
        place = self.contexts.place
        return rows[:, place[named(LAST, self.schema.order or "")]].astype(np.int64) + rows[:, place[named(OF, GAP)]]

    def now(self, rows: Codes) -> Codes:
        """Return the rows themselves, (rows, columns of the core), from later rows with their previous rows."""
        return rows[:, : self.contexts.width]


def blank(last: Codes, first: Codes, visit: int, most: Codes) -> Codes:
    """Return later rows in which only these are known: the last row and the first, (rows, columns of the core), the
    number of rows before the last, and the patient's number of rows minus one, (rows,).
    """
    facts = [np.zeros_like(most), most - 1 - visit, np.full_like(most, visit), most]
    return np.column_stack([np.zeros_like(last), last, first, *facts]).astype(np.int32)


def later_rows(
    chain: Chain, first: Codes, counts: Whole, rng: Stream, draw: Callable[[Codes, Stream], None] | None = None
) -> Iterator[tuple[Whole, Codes]]:
    """Yield for the second rows of patients, the third and so on: their patients, (rows,), and (rows, `later_columns`).

    `first`: (patients, columns of the core); `counts`: (patients,) rows of each; `draw`: replaces the chain's own.
    """
    width = first.shape[1]
    last = first.copy()
    for visit in range(int(counts.max(initial=1)) - 1):
        who = np.flatnonzero(counts > visit + 1)
        most = (counts[who] - 1).astype(np.int32)
        rows = blank(last[who], first[who], visit, most)
        (draw or chain.draw)(rows, rng)
        last[who] = rows[:, :width]
        yield who, rows


def second_rows(first: Codes, counts: Whole) -> Codes:
    """Return the second rows of patients, (rows, `later_columns`), before anything is drawn."""
    return blank(first, first, 0, (counts - 1).astype(np.int32))
