"""Patients with rows in order: first rows by the model's method, later ones by its model of successive rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ..arrays import Codes, Floats, Mask, Whole
from ..methods.stratified import choose_each
from ..patients.chain import Chain, blank, later_rows
from ..patients.codes import Wanted
from ..patients.split_rows import GAP, OF, ending, gaps, named
from ..patients.stored import restored
from ..rng import Stream
from ..schema import Schema
from .patients import PatientRows
from .rejection import REJECTION_ROUNDS, sample_again, widened
from .rules_across_rows import broken_next, completed

REDRAWS = 4  # rounds in which patients whose rows break off are drawn again, from their second row on
FEW_ROUNDS = 5  # of drawing each of their rows again: a patient's earlier rows may leave no room for this one


def broken_firsts(first: Codes, schema: Schema) -> Mask:
    """Return which first rows break a rule, (patients,), given the number of later rows in the last column."""
    return broken_next(first[:, :-1], None, first[:, -1] == 0, schema)


@dataclass(frozen=True, eq=False)
class ChainView:
    """Convert a chain's rows to rows of a table: unchanged, with unmodelled columns left empty.

    `floor`: (patients,) the code of the order before which no row comes; None without one. Earlier rows move there.
    """

    schema: Schema
    floor: Whole | None = field(default=None, kw_only=True)

    @property
    def of_chain(self) -> Schema:
        """The schema whose core the chain draws."""
        return self.schema

    def core(self, rows: Codes, who: Whole) -> Codes:
        """Return the chain's columns, (rows, core of `of_chain`), of the table's rows, (rows, columns), by patient."""
        return np.asarray(rows[:, [self.schema.names.index(name) for name in self.schema.core.names]])

    def rows(self, core: Codes, before: Codes | None, who: Whole) -> tuple[Codes, Mask]:
        """Return the table's rows, not completed, and which are impossible; given the rows `before`, by patient."""
        rows = widened(core, self.schema)
        if self.floor is None:
            return rows, np.zeros(len(core), np.bool_)
        order = self.schema.order or ""
        at = rows[:, self.schema.names.index(order)]
        np.maximum(at, self.floor[who], out=at, casting="unsafe")
        return rows, self.floor[who] >= self.schema.columns[order].size

    @property
    def times(self) -> tuple[str, ...]:
        """The chain's columns that place a row by rows of another table; without such a table none."""
        return ()

    def possible(self, core: Codes, who: Whole) -> Codes:
        """Return first rows of the chain at places that exist."""
        return core

    def moved(self, core: Codes, before: Codes, who: Whole) -> Codes:
        """Return rows of the chain at the time of the rows `before`, if another table places them."""
        return core


@dataclass(frozen=True, eq=False)
class CodesLeft:
    """Draw later rows whose codes are those that their patient has (`patients/codes.py`).

    `left`: (patients, modelled codes), which of them a patient still lacks; `rows`: (patients,) the rows to come.
    `index`: of each level, its place among the modelled codes, or their number. `repeats`: (modelled codes,) how
    likely a code comes again, relative to its chance in any row. `again`: (patients,) the share of later rows without
    a modelled code that is new.
    """

    chain: Chain
    wanted: Wanted
    left: Mask
    rows: Whole
    index: Whole
    repeats: Floats
    again: Floats

    @classmethod
    def of(cls, chain: Chain, wanted: Wanted, first: Codes, counts: Whole) -> CodesLeft:
        """Begin with patients of these first rows, (patients, core), and numbers of rows, (patients,)."""
        variable = chain.contexts.variables[wanted.column]
        index = np.full(len(variable.group), len(wanted.levels))
        index[wanted.levels] = np.arange(len(wanted.levels))
        shares = variable.shares[wanted.levels] / variable.shares.sum()
        later = counts - 1
        found = cls(chain, wanted, wanted.has.copy(), counts.copy(), index, shares, np.ones(len(counts)))
        found.note(first, np.arange(len(first)))
        # As many later rows as the model has, less those in which a patient has the code for the first time.
        repeats = np.clip(1 - found.left.mean(0) / np.maximum(later.mean() * shares, 1e-9), 0, 1)
        again = np.clip(1 - found.left.sum(1) / np.maximum(later, 1), 1e-9, 1)
        return replace(found, repeats=repeats, again=again)

    def note(self, rows: Codes, who: Whole) -> None:
        """Note the drawn rows of the patients `who`, (rows, core): they no longer lack these codes; in place."""
        at = self.index[rows[:, self.chain.schema.core.names.index(self.wanted.column)]]
        known = at < self.left.shape[1]
        self.left[who[known], at[known]] = False
        self.rows[who] -= 1

    def draw(self, rows: Codes, who: Whole, rng: Stream) -> None:
        """Draw all columns of later rows, (rows, `later_columns`), of the patients `who`; in place."""
        self.chain.begin(rows)
        for name in self.chain.contexts.variables:
            if name == self.wanted.column:
                self._draw_codes(rows, who, rng)
            else:
                self.chain.draw_column(name, rows, rng)

    def _draw_codes(self, rows: Codes, who: Whole, rng: Stream) -> None:
        """Draw a code that the patient still lacks as often as such rows are left, else one that is not modelled, or
        one that comes again; in place.

        Codes that are not modelled keep their share of all rows, since noise alone may make a code's repeats rare.
        """
        lacks = self.left[who]
        new = rng.random(len(who)) * self.rows[who] < lacks.sum(1)
        chances = self.chain.code_chances(self.wanted.column, rows)
        free = chances[:, self.index == lacks.shape[1]].sum(1) / np.maximum(chances.sum(1), 1e-300)
        other = ~new & (rng.random(len(who)) * self.again[who] < free)
        again = np.where(self.wanted.has[who] & ~lacks & ~other[:, None], self.repeats, 0.0)
        factor = np.column_stack([np.where(new[:, None], lacks, again), other])
        chosen = chances * factor[:, self.index]
        nothing = chosen.sum(1) <= 0
        chosen[nothing] = (
            chances[nothing] * np.column_stack([self.wanted.has[who], np.ones(len(who))])[nothing][:, self.index]
        )
        chosen[chosen.sum(1) <= 0] = 1.0
        self.chain.put(self.wanted.column, rows, choose_each(chosen, rng).astype(np.int32))


@dataclass(frozen=True, eq=False)
class _Drawn:
    """Patients that are being drawn. `turns`: for first rows, second ones and so on, their patients and codes.

    `numbers`: (patients,) of each in the view. `ends`: (patients,) the final number of rows of each. `rounds`: of
    drawing a row that breaks a rule again.
    """

    view: ChainView
    chain: Chain
    numbers: Whole
    counts: Whole
    ends: Whole
    turns: list[tuple[Whole, Codes]]
    rounds: int
    codes: CodesLeft | None = None

    @classmethod
    def of(
        cls, view: ChainView, chain: Chain, numbers: Whole, first: Codes, counts: Whole, rng: Stream, rounds: int,
        wanted: Wanted | None = None,
    ) -> _Drawn:  # fmt: skip
        """Draw all rows of patients, given their first ones, (patients, columns), and numbers of rows, (patients,)."""
        who = np.arange(len(first))
        codes = None if wanted is None else CodesLeft.of(chain, wanted, view.core(first, numbers), counts)
        drawn = cls(view, chain, numbers, counts, counts.copy(), [(who, first)], rounds, codes)
        for _ in later_rows(chain, view.core(first, numbers), counts, rng, drawn.next_rows):
            pass  # each turn stores its rows
        return drawn

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
        if self.codes is None:
            self.chain.draw(rows, rng)
        else:
            self.codes.draw(rows, who, rng)
        left, whole = self._drawn_again(rows, who, turn, last, self.chain.draw, rng, self.codes)
        self.ends[who[left]] = np.minimum(self.ends[who[left]], turn)
        self.turns.append((who, whole))
        if self.codes is not None:
            self.codes.note(self.chain.now(rows), who)

    def _drawn_again(
        self, rows: Codes, who: Whole, turn: int, last: Mask, draw: Callable[[Codes, Stream], None], rng: Stream,
        codes: CodesLeft | None = None,
    ) -> tuple[Whole, Codes]:  # fmt: skip
        """Draw later rows of a turn that break a rule again, in place. Return the places of those that still do, and
        the rows with all columns of the table.

        `codes`: some rounds draw these. A code may be what breaks the rule, so later rounds draw without them.
        """
        before = self.rows(turn - 1, who)

        def whole(found: Codes, places: Whole) -> tuple[Codes, Mask]:
            """Return the rows with all columns of the table, and which of them are impossible."""
            rows, never = self.view.rows(self.chain.now(found), before[places], self.numbers[who[places]])
            return completed(rows, before[places], self.schema), never

        def again(places: Whole, codes: CodesLeft | None = None) -> Codes:
            found = rows[places]
            if codes is None:
                draw(found, rng)
            else:
                codes.draw(found, who[places], rng)
            return found

        def moved(places: Whole, codes: CodesLeft | None = None) -> Codes:
            found = again(places, codes)
            place = self.chain.contexts.place
            now = self.view.moved(self.chain.now(found), before[places], self.numbers[who[places]])
            found[:, : now.shape[1]] = now
            found[:, place[named(OF, GAP)]] = 0  # as many rows of the other table
            return found

        def bad(found: Codes, places: Whole) -> Mask:
            rows, never = whole(found, places)
            return never | self._beyond(found) | broken_next(rows, before[places], last[places], self.schema)

        some = np.flatnonzero(self.ends[who] >= turn)  # nobody who ended earlier
        left = some[bad(rows[some], some)]
        for draws in [again, moved] if self.view.times and codes else [again] if codes else []:
            left = sample_again(rows, left, partial(draws, codes=codes), bad, FEW_ROUNDS)
        left = sample_again(rows, left, again, bad, self.rounds)
        if self.view.times:
            left = sample_again(rows, left, moved, bad, self.rounds)
        return left, whole(rows, np.arange(len(rows)))[0]

    def _beyond(self, rows: Codes) -> Mask:
        """Return which later rows are beyond the last value of the order: (rows,)."""
        if GAP not in self.chain.contexts.variables:
            return np.zeros(len(rows), np.bool_)
        schema = self.chain.schema
        return np.asarray(self.chain.reached(rows) >= schema.columns[schema.order or ""].size)

    def shorten(self, early: Whole, free: bool, rng: Stream) -> None:
        """Let the patients `early`, whose rows break off, end with the row before; in place.

        That row was drawn as one that others follow, so nobody dies there. What depends on whether a row is the last is
        drawn again, as in other last rows; in first rows only if it is `free`. A row that may not be last is removed.
        """
        for end in range(len(self.turns), 0, -1):
            who = early[self.ends[early] == end]
            if not len(who):
                continue
            whose, codes = self.turns[end - 1]
            places = np.searchsorted(whose, who)
            if end == 1:
                found = codes[places]
                if free:
                    only_rows_end(self.chain, self.view, found, np.ones(len(who), np.int64), self.numbers[who], rng)
                broken = broken_next(found, None, np.ones(len(who), np.bool_), self.schema)
            else:
                found, broken = self._last_again(end, who, rng)
            codes[places[~broken]] = found[~broken]
            self.ends[who[broken]] = end - 1

    def _last_again(self, end: int, who: Whole, rng: Stream) -> tuple[Codes, Mask]:
        """Return later rows that become last ones, (rows, columns), and which of them may not be last: (rows,)."""
        core = [self.view.core(self.rows(turn, who), self.numbers[who]) for turn in (end - 1, end - 2, 0)]
        rows = blank(core[1], core[2], end - 2, np.full(len(who), end - 1, np.int32))
        rows[:, : self.chain.contexts.width] = core[0]
        rows[:, self.chain.contexts.place[named(OF, GAP)]] = gaps(core[0], core[1], self.chain.schema)

        def draw(rows: Codes, rng: Stream) -> None:
            for name in ending(self.schema):  # in their order, as the chain draws them
                self.chain.draw_column(name, rows, rng)

        draw(rows, rng)
        left, whole = self._drawn_again(rows, who, end - 1, np.ones(len(who), np.bool_), draw, rng)
        return whole, np.isin(np.arange(len(who)), left)


def only_rows_end(chain: Chain, view: ChainView, first: Codes, counts: Whole, numbers: Whole, rng: Stream) -> None:
    """Draw the columns that depend on whether a row is the last again in only rows, by the chain; in place.

    The model of first rows knows too little of them: few of many patients die at their first visit. A row stays as it
    is if it would break a rule. `first`: (patients, columns), `counts`: (patients,) rows of each, `numbers`: in `view`.
    """
    who = np.flatnonzero(counts == 1)
    if chain.ends and len(who):
        rows, never = view.rows(chain.draw_ends(view.core(first[who], numbers[who]), rng), None, numbers[who])
        rows = completed(rows, None, view.schema)
        stays = ~(never | broken_next(rows, None, np.ones(len(who), np.bool_), view.schema))
        first[who[stays]] = rows[stays]


def visits(
    tensors: Mapping[str, NDArray[np.float32]], view: ChainView, first: Codes, rng: Stream,
    asked: Collection[str] = (), wanted: Wanted | None = None,
) -> PatientRows:  # fmt: skip
    """Return all rows of patients with given first rows, (patients, columns of the schema and number of later rows).

    `asked`: the columns that conditions on first rows read; they stay. `wanted`: the codes that patients have.

    A row that breaks a rule or the bounds of the order is drawn again. If that fails, all later rows of the patient are
    drawn again, for `REDRAWS` rounds. If that fails, too, or nothing fits after the first row, the patient ends with
    the previous row. A patient without a possible last row has no rows; the others keep their numbers.
    """
    numbers = np.arange(len(first))
    counts = first[:, -1].astype(np.int64) + 1
    chain = restored(tensors, view.of_chain)
    first = first[:, :-1].copy()
    free = chain.only_rows_end and chain.ends.keys().isdisjoint(asked)
    if free:
        only_rows_end(chain, view, first, counts, numbers, rng)
    found = list[tuple[Codes, Whole, Whole]]()  # codes, patients and turns
    lacking = np.zeros(len(first), np.int64)
    for round in range(REDRAWS + 1):
        rounds = FEW_ROUNDS if round else REJECTION_ROUNDS
        own = None if wanted is None else wanted.of(numbers)
        drawn = _Drawn.of(view, chain, numbers, first[numbers], counts[numbers], rng, rounds, own)
        again = (drawn.ends < drawn.counts) & (drawn.ends > 1) & (round < REDRAWS)
        drawn.shorten(np.flatnonzero((drawn.ends < drawn.counts) & ~again), free, rng)
        lacking[numbers] = drawn.counts - drawn.ends
        for turn, (who, codes) in enumerate(drawn.turns):
            stay = (drawn.ends[who] > turn) & ~again[who]
            found.append((codes[stay], numbers[who[stay]], np.full(int(stay.sum()), turn)))
        numbers = numbers[again]
        if not len(numbers):
            break
    rows, patient, turns = (np.concatenate(part) for part in zip(*found, strict=True))
    order = np.lexsort((turns, patient))
    return PatientRows(rows[order], patient[order], lacking)
