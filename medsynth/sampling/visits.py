"""Patients with rows in order: first rows by the model's method, later ones by its model of successive rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..arrays import Codes, Mask, Whole
from ..patients.chain import Chain, later_rows
from ..patients.split_rows import GAP
from ..patients.stored import restored
from ..rng import Stream
from ..schema import Schema
from .patients import PatientRows
from .rejection import REJECTION_ROUNDS, sample_again, widened
from .rules_across_rows import broken_next, completed


def broken_firsts(first: Codes, schema: Schema) -> Mask:
    """Return which first rows break a rule, (patients,), given the number of later rows in the last column."""
    return broken_next(first[:, :-1], None, first[:, -1] == 0, schema)


@dataclass(frozen=True, eq=False)
class ChainView:
    """Convert a chain's rows to rows of a table: unchanged, with unmodelled columns left empty."""

    schema: Schema

    @property
    def of_chain(self) -> Schema:
        """The schema whose core the chain draws."""
        return self.schema

    def core(self, rows: Codes, who: Whole) -> Codes:
        """Return the chain's columns, (rows, core of `of_chain`), of the table's rows, (rows, columns), by patient."""
        return np.asarray(rows[:, [self.schema.names.index(name) for name in self.schema.core.names]])

    def rows(self, core: Codes, before: Codes | None, who: Whole) -> tuple[Codes, Mask]:
        """Return the table's rows, not completed, and which are impossible; given the rows `before`, by patient."""
        return widened(core, self.schema), np.zeros(len(core), np.bool_)


@dataclass(frozen=True, eq=False)
class _Drawn:
    """Patients that are being drawn. `turns`: for first rows, second ones and so on, their patients and codes.

    `ends`: (patients,) the final number of rows of each.
    """

    view: ChainView
    chain: Chain
    counts: Whole
    ends: Whole
    turns: list[tuple[Whole, Codes]] = field(default_factory=list)

    @property
    def schema(self) -> Schema:
        """The schema of the whole table."""
        return self.view.schema

    def rows(self, turn: int, who: Whole) -> Codes:
        """Return the rows of some patients in a turn, completed."""
        whose, codes = self.turns[turn]
        return np.asarray(codes[np.searchsorted(whose, who)])

    def next_rows(self, rows: Codes, rng: Stream) -> None:
        """Draw the next turn, (rows, `later_columns`), in place; rows that break a rule again, for some rounds."""
        turn = len(self.turns)
        who = np.flatnonzero(self.counts > turn)
        last = self.counts[who] == turn + 1
        before = self.rows(turn - 1, who)
        self.chain.draw(rows, rng)

        def whole(found: Codes, places: Whole) -> tuple[Codes, Mask]:
            """Return the rows with all columns of the table, and which of them are impossible."""
            rows, never = self.view.rows(self.chain.now(found), before[places], who[places])
            return completed(rows, before[places], self.schema), never

        def again(places: Whole) -> Codes:
            found = rows[places]
            self.chain.draw(found, rng)
            return found

        def bad(found: Codes, places: Whole) -> Mask:
            rows, never = whole(found, places)
            return never | self._beyond(found) | broken_next(rows, before[places], last[places], self.schema)

        everyone = np.arange(len(rows))
        left = sample_again(rows, everyone[bad(rows, everyone)], again, bad, REJECTION_ROUNDS)
        self.ends[who[left]] = np.minimum(self.ends[who[left]], turn)
        self.turns.append((who, whole(rows, everyone)[0]))

    def _beyond(self, rows: Codes) -> Mask:
        """Return which later rows are beyond the last value of the order: (rows,)."""
        if GAP not in self.chain.contexts.variables:
            return np.zeros(len(rows), np.bool_)
        schema = self.chain.schema
        return np.asarray(self.chain.reached(rows) >= schema.columns[schema.order or ""].size)

    def shorten(self) -> None:
        """Remove last rows that may not be last, from patients who ended early; in place."""
        early = np.flatnonzero(self.ends < self.counts)
        for end in range(len(self.turns), 0, -1):
            who = early[self.ends[early] == end]
            before = self.rows(end - 2, who) if end > 1 else None
            broken = broken_next(self.rows(end - 1, who), before, np.ones(len(who), np.bool_), self.schema)
            self.ends[who[broken]] = end - 1


def only_rows_end(chain: Chain, view: ChainView, first: Codes, counts: Whole, rng: Stream) -> None:
    """Draw the columns that depend on whether a row is the last again in only rows, by the chain; in place.

    The model of first rows knows too little of them: few of many patients die at their first visit. A row stays as it
    is if it would break a rule. `first`: (patients, columns), `counts`: (patients,) rows of each.
    """
    who = np.flatnonzero(counts == 1)
    if chain.ends and len(who):
        rows, never = view.rows(chain.draw_ends(view.core(first[who], who), rng), None, who)
        rows = completed(rows, None, view.schema)
        stays = ~(never | broken_next(rows, None, np.ones(len(who), np.bool_), view.schema))
        first[who[stays]] = rows[stays]


def visits(
    tensors: Mapping[str, NDArray[np.float32]], view: ChainView, first: Codes, rng: Stream, asked: Collection[str] = ()
) -> PatientRows:
    """Return all rows of patients with given first rows, (patients, columns of the schema and number of later rows).

    `asked`: the columns that conditions on first rows read; they stay. A row that breaks a rule or the bounds of the
    order is drawn again; if that fails, the patient ends with the previous row. A patient without a possible last row
    has no rows; the others keep their numbers.
    """
    who = np.arange(len(first))
    counts = first[:, -1].astype(np.int64) + 1
    chain = restored(tensors, view.of_chain)
    first = first[:, :-1].copy()
    if chain.only_rows_end and chain.ends.keys().isdisjoint(asked):
        only_rows_end(chain, view, first, counts, rng)
    drawn = _Drawn(view, chain, counts, counts.copy(), [(who, first)])
    for _ in later_rows(chain, view.core(first, who), counts, rng, drawn.next_rows):
        pass  # each turn stores its rows
    drawn.shorten()
    stays = [drawn.ends[who] > turn for turn, (who, _) in enumerate(drawn.turns)]
    patient = np.concatenate([who[stay] for stay, (who, _) in zip(stays, drawn.turns, strict=True)])
    turn = np.repeat(np.arange(len(stays)), [int(stay.sum()) for stay in stays])
    order = np.lexsort((turn, patient))
    codes = np.concatenate([codes[stay] for stay, (_, codes) in zip(stays, drawn.turns, strict=True)])
    return PatientRows(codes[order], patient[order])
