"""Fit the model of later rows: bins, how values persist, and which columns depend on which others.

A later row is drawn column after column (`chain.py`). Each column is a regression on *contexts*: its own last value,
columns of this row that were drawn before it, columns of the last and first row, and facts such as the number of rows
left. Training decides which contexts a column has, and fits their weights. In names, `last` is the row before (LAST),
except in `last_rows` and `ends`: there it is a patient's final row. With columns `severity` and `weight`:

1. `measure_variables` counts each changing column and the gap between rows, and cuts them into cells. It merges these
   into medium groups (for the last value) and coarse groups (for other contexts), as many as the noise allows.
2. `measure_persistence` counts severity by last severity, and weight by last weight. For numbers it also counts by how
   many cells they move, because "about as before" is what most of them do. The gap has a table of its own, and the
   counts of 1 are used again. This also sets `moves`, which 5 needs.
3. `measure_last_rows`, only if a rule is about a patient's last row: counts such columns among last rows.
4. `run` fits a first chain to these tables and draws rows from it.
5. `measure_relations` asks for noisy distances between these rows and the real ones, for every candidate, such as
   (weight, severity now) or (how weight moves, gap). It counts the tables of the largest distances.
6. `run` fits again to all tables, in rounds: the weights of one column depend on the rows that others produce.

Fits see no private row. They use noisy tables, and rows that the chain before them draws for simulated first rows.
"averaged" tables count a patient's rows with the sum one, so that a patient of many rows needs no more noise. `Chances`
says which counts of a table belong to which cells of a column and groups of a context (`conditional.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np

from ..arrays import Codes, Floats, Whole
from ..methods.bins import Bins
from ..methods.digit_preference import preferred_kinds
from ..methods.marginals import cleaned, smoothed
from ..methods.registry import Progress
from ..privacy.accounting.calibration import Plan, of_table
from ..privacy.queries.measurements import Measurements
from ..privacy.queries.rows import Axes
from ..rng import Stream
from ..schema import Schema
from .chain import Chain, later_rows, second_rows
from .changes import DIRECTIONS, Changes, moved
from .conditional import Chances, fitted
from .contexts import EVERY, MOVED, Context, Contexts, moving, plain
from .plan import LAST_ROWS, ONE_WAY, PERSISTENCE, SELECTION, TWO_WAY, WITHIN
from .split_rows import FIRST, GAP, LAST, NOW, OF, VISIT, changing, ending, fixed, gap_column, named, only_rows
from .tables import CLEAR_DISTANCE, denoised, independent, later_shares, worthwhile
from .variables import Axis, Variable, fine_cells

CELLS = 32  # per number, at most
MOST_GROUPS, FEWEST_GROUPS = 12, 3  # per column in a two-way table
WIDE = 0.5  # the share of width in the criterion that cuts numbers into cells
CLEAR = 3.0  # standard deviations of noise that a cell of such a table should contain on average
GAP_WEIGHT = 2.0  # of the table of gaps relative to those of columns: no other table measures gaps
LEFT_OF_NOISE = 0.1  # the share of a table's noise that is assumed to remain after denoising
TABLES_A_COLUMN = 5  # two-way marginals per column, on average, at most
MOST_CANDIDATES = 4000
CHANGES_OF = "\0changes of "  # prefix of the table of a column's changes; no column has such a name
TELLING = 0.1  # of the patients: if a distance's noise is larger than this share, distances are not informative
LEAST = 0.5  # patients that a group is assumed to have
APART = 0.02  # of the patients: a pair's table that is closer to the chain's adds nothing to it
SIMULATED = 12_000  # later rows on which conditionals are fitted
ROUNDS = 2  # of fitting to all tables: each round simulates rows from the fit before


@dataclass(kw_only=True)
class ChainTraining:
    """A fit in progress. `first`: simulated first rows, (patients, core), `counts`: (patients,) rows of each.

    `patients`, `single`: the numbers of real patients with several rows and with one, by noisy counts. `table`: the
    name of one of several tables. `last`: all patients' last rows. `moves`: for numbers, the axis of how they move and
    the direction of each change. `ends`: what is known of columns of last rows that rules are about.
    """

    schema: Schema
    vault: Measurements
    last: Measurements
    plan: Plan
    patients: float
    single: float
    first: Codes
    counts: Whole
    rng: Stream
    progress: Progress
    table: str = ""
    moves: dict[str, tuple[Axis, Whole]] = field(default_factory=dict)
    ends: dict[str, list[tuple[Context, Chances]]] = field(default_factory=dict)

    def run(self) -> Chain:
        """Measure, fit a first chain, measure what it explains worst, and fit again. Return the chain."""
        contexts = self.measure_variables()
        names = list(contexts.variables)
        steps = (1 + ROUNDS) * len(names)
        wanted = self.measure_persistence(contexts)
        self.measure_last_rows(contexts)
        chain = Chain(contexts, {})
        points = dict[str, Floats]()
        for number in range(1 + ROUNDS):
            if number == 1:  # the chain of round 0 shows which relations persistence alone does not explain
                for (name, context), table in self.measure_relations(chain).items():
                    wanted[name].append((context, table))
            chain = self.fit(chain, wanted, points, partial(self._told, number * len(names), steps))
        return chain

    def _label(self, label: str) -> str:
        """Return the label of a measurement of this table."""
        return of_table(self.table, label)

    def _deviation(self, label: str, tables: int = 1) -> float:
        """Return the standard deviation of the noise of each of `tables` averaged tables."""
        return float(self.plan.events[self._label(label)][0].multiplier * tables**0.5)

    def _told(self, before: int, of: int, done: int) -> None:
        """Report how many columns are fitted, over all rounds."""
        self.progress(before + done, of)

    def measure_variables(self) -> Contexts:
        """Measure one-way marginals of the changing columns and the gap, and return the resulting cells and groups."""
        core = self.schema.core
        moving = changing(self.schema)
        gap = gap_column(self.schema)
        grids = {name: fine_cells(name, core.columns[name]) for name in moving}
        tables: dict[str, Axes] = {name: [(named(NOW, name), cells)] for name, cells in grids.items()}
        if gap:
            grids[GAP] = fine_cells(GAP, gap)
            tables[GAP] = [(named(OF, GAP), grids[GAP])]
        noisy = self.vault.measure_marginals(self._label(ONE_WAY), tables, averaged=True)
        std = self._deviation(ONE_WAY, len(tables))
        most = self._groups(PERSISTENCE, 2 * len(moving)), self._groups(TWO_WAY, TABLES_A_COLUMN * len(moving))
        found = {}
        if gap:
            bins = Bins.of(gap, smoothed(noisy[GAP], round(self.patients), std, 0), None, CELLS, grids[GAP], WIDE)
            found[GAP] = Variable.of(GAP, gap, bins, most, moves=False)
        for name in moving:
            shares = later_shares(noisy[name], std, self.before(name), self.patients, core.columns[name])
            found[name] = Variable.of(name, core.columns[name], self.bins(name, shares), most, moves=True)
        still = dict[str, Variable]()
        for name in fixed(self.schema):
            shares = (self.before(name) + 1e-9) / len(self.several)
            still[name] = Variable.of(name, core.columns[name], self.bins(name, shares), most, moves=False)
        return Contexts(self.schema, found, still)

    @cached_property
    def several(self) -> Codes:
        """The simulated first rows of patients who have more, (patients, core)."""
        return self.first[self.counts > 1]

    def before(self, name: str) -> Whole:
        """Return the number of these rows in each fine cell of a column: (cells,)."""
        core = self.schema.core
        cells = fine_cells(name, core.columns[name])
        return np.bincount(cells.cell_of(self.several[:, core.names.index(name)]), minlength=cells.cells)

    def bins(self, name: str, shares: Floats) -> Bins:
        """Return bins of a column by the `shares` of its fine cells. Its digits are those of first rows."""
        column = self.schema.core.columns[name]
        k = self.schema.core.names.index(name)
        if column.categorical:
            return replace(Bins.of(column, None, None, CELLS), shares=shares)
        kinds = preferred_kinds(self.schema.core).get(name)
        codes = self.several[:, k]
        digits = None if kinds is None else np.bincount(kinds.cell_of(codes), minlength=kinds.cells) / len(codes)
        return Bins.of(column, shares, digits, CELLS, wide=WIDE)

    def _groups(self, label: str, tables: int) -> int:
        """Return the number of groups per column in a two-way table, one of `tables`, whose cells exceed the noise."""
        clear = CLEAR * self._deviation(label, tables)
        return int(np.clip(math.sqrt(max(self.patients, 1.0) / clear), FEWEST_GROUPS, MOST_GROUPS))

    def measure_persistence(self, contexts: Contexts) -> dict[str, list[tuple[Context, Chances]]]:
        """Measure the tables of each column's cells by its last value, and of its changes; for the gap, its own."""
        axes, changes = dict[str, list[Axis]](), dict[str, Changes]()
        most = self.patients / (CLEAR * self._deviation(PERSISTENCE, 2 * len(contexts.variables)))
        for name, variable in contexts.variables.items():
            # A gap has no last gap to depend on, so its table has one axis, in all of its cells.
            before = [] if name == GAP else [contexts.axis((LAST, name), variable.medium)]
            axes[name] = [*before, variable.axis(variable.medium if before else np.arange(variable.values))]
            if name != GAP and (found := Changes.of(variable, most)) is not None:
                changes[name] = found
                axes[CHANGES_OF + name] = [found.axis(found.groups)]
        heavy = {name: GAP_WEIGHT if name == GAP else 1.0 for name in axes}
        noisy = self.vault.measure_marginals(self._label(PERSISTENCE), axes, heavy, averaged=True)
        std = self._deviation(PERSISTENCE) * math.hypot(*heavy.values())
        wanted = dict[str, list[tuple[Context, Chances]]]()
        for name, variable in contexts.variables.items():
            if name == GAP:
                noise, expected = std / GAP_WEIGHT, self.patients * np.exp(variable.base)
                counts = denoised(noisy[name][None], noise, (0, variable.values), self.patients, expected[None])
                wanted[name] = [(EVERY, Chances.by_group(counts, LEFT_OF_NOISE * noise, np.arange(variable.cells)))]
                continue
            wanted[name] = self.persistence(variable, noisy, std, changes.get(name))
            known = self.in_all_rows(variable, self._deviation(ONE_WAY, len(contexts.variables)))
            wanted[name].append(((LAST, name), known))
        return wanted

    def persistence(
        self, variable: Variable, noisy: Mapping[str, Floats], std: float, changes: Changes | None
    ) -> list[tuple[Context, Chances]]:  # fmt: skip
        """Return what the noisy tables of a column show about its values given its last value."""
        context, values = (LAST, variable.name), noisy[variable.name]
        likely = independent(values, self.patients)
        kernel = None
        found = list[tuple[Context, Chances]]()
        if changes is not None:
            # The table of moves has far less noise than that of all pairs of values: shrink the latter towards it.
            table = noisy[CHANGES_OF + variable.name].reshape(-1, changes.sizes)
            kernel = changes.kernel(table.sum(0), std * len(table) ** 0.5)
            likely = changes.expected_values(kernel, likely, variable.medium)
            parts, sizes = (cleaned(table.sum(axis), self.patients) for axis in (1, 0))
            smooth = self.patients * np.outer(parts, changes.expected_sizes(kernel, sizes))
            counts = denoised(table, std, (0, changes.sizes - 2), self.patients, smooth)
            by_part = Chances.by_group(counts, LEFT_OF_NOISE * std, np.arange(changes.sizes))
            found = [(context, replace(by_part, tie=changes.groups, region=changes.begins))]
            self.moves[variable.name] = changes.axis(directions := changes.directions(counts.sum(0))), directions
        ordered = (variable.ordered(variable.medium),) * 2
        counts = denoised(values, std, ordered, self.patients, likely)
        plain = Chances.by_group(counts, LEFT_OF_NOISE * std, variable.response(variable.medium))
        offset = None if kernel is None or changes is None else changes.offset(kernel)
        own = replace(plain, tie=plain.tie[variable.medium], region=variable.medium, offset=offset)
        return [(context, own), *found]

    def in_all_rows(self, variable: Variable, std: float) -> Chances:
        """Return what the one-way marginal, with noise of `std`, shows about a column's values in all later rows.

        Tables of two columns have more noise, and the noise of all cells with a value adds up.
        """
        each = np.arange(variable.values)
        zero = np.zeros(variable.values, np.int64)
        tie = np.tile(each, (variable.values, 1))
        tie = np.column_stack([tie, each]) if variable.repeats else tie  # "as in the last row" is the last value
        shares = np.bincount(variable.group, variable.shares, variable.values).astype(np.float64)
        return Chances(tie, self.patients * shares, LEFT_OF_NOISE * std, zero, zero)

    def measure_relations(self, chain: Chain) -> dict[tuple[str, Context], Chances]:
        """Measure the two-way marginals that the chain fits worst, by noisy L1 distances, of values and of moves.

        With few patients distances are not informative: then the moves that `sure` names are measured in any case.
        """
        contexts, rows, weights = chain.contexts, *self.simulated(chain)
        inside = self.within(contexts)
        keys = self.candidates(contexts, inside)
        sure = self.sure(contexts, len(keys))
        axes = self.axes(contexts, keys)
        scale = self.patients / weights.sum()

        def counted(own: Sequence[Axis]) -> Floats:
            shape = own[0][1].cells, own[1][1].cells
            place = contexts.cells(own[0], rows) * shape[1] + contexts.cells(own[1], rows)
            return np.asarray(scale * np.bincount(place, weights, shape[0] * shape[1]).reshape(shape), np.float64)

        expected = {k: counted(own) for k, own in axes.items()}
        distances = self.vault.measure_distances(self._label(SELECTION), axes, expected, averaged=True)
        always = [str(k) for k, key in enumerate(keys) if key in sure]
        chosen = worthwhile(
            distances,
            self._deviation(SELECTION, len(axes)),
            expected,
            self._deviation(TWO_WAY),
            TABLES_A_COLUMN * len(contexts.variables),
            always,
        )
        noisy = self.vault.measure_marginals(self._label(TWO_WAY), {k: axes[k] for k in chosen}, averaged=True)
        std = self._deviation(TWO_WAY, len(chosen))
        found = {}
        for k in chosen:
            name, context = keys[int(k)]
            variable = contexts.variables[name]
            # By noise all changes may count as about the same, or as down: then there are fewer directions.
            known = min(DIRECTIONS - 1, axes[k][1][1].cells)
            groups = known if moving(context) else variable.ordered(variable.coarse)
            # Shrink towards what the chain already expects, so that noise alone changes nothing.
            counts = denoised(noisy[k], std, (contexts.ordered(context), groups), self.patients, expected[k])
            if moving(context):  # shrinkage errors would add up over a patient's rows
                counts = np.maximum(noisy[k], LEAST) if k in always else counts
                found[name, context] = moved(counts, LEFT_OF_NOISE * std, self.moves[name][1])
            else:
                response = variable.response(variable.coarse)
                found[name, context] = Chances.by_group(counts, LEFT_OF_NOISE * std, response)
        return found | self.measure_within(contexts, inside, counted)

    def within(self, contexts: Contexts) -> list[tuple[str, Context]]:
        """Return the pairs of a row's columns, which are always measured.

        With few patients they are those of the target and of columns that depend on whether a row is the last.
        """
        names = [name for name in contexts.variables if name != GAP]
        how = {name: MOVED * contexts.variables[name].repeats for name in names}
        every = [(name, (how[name] + NOW, other)) for k, name in enumerate(names) for other in names[:k]]
        told = {self.schema.target, *ending(self.schema)}
        some = [pair for pair in every if not told.isdisjoint((pair[0], pair[1][1]))]
        found = every if self._deviation(WITHIN, len(every)) <= TELLING * self.patients else some
        return found or [(names[-1], (how[names[-1]] + OF, VISIT))]  # without a pair, anything

    def measure_within(
        self, contexts: Contexts, keys: Sequence[tuple[str, Context]], counted: Callable[[Sequence[Axis]], Floats]
    ) -> dict[tuple[str, Context], Chances]:
        """Measure pairs of a row's columns, whatever the chain makes of them. Return those that it fits worst.

        By its noise and by chance, the distance of a weak relation's table is no larger than that of independent
        columns. But the relation is in few waves of the table, which are clear of the noise.
        """
        axes = dict[str, list[Axis]]()
        for k, (name, context) in enumerate(keys):
            axes[str(k)] = [contexts.axis(context), contexts.axis((NOW, name))]
        noisy = self.vault.measure_marginals(self._label(WITHIN), axes, averaged=True)
        std = self._deviation(WITHIN, len(keys))
        found, apart = dict[tuple[str, Context], Chances](), dict[tuple[str, Context], float]()
        for (name, context), own in zip(keys, axes, strict=True):
            variable = contexts.variables[name]
            ordered = contexts.ordered(context), variable.ordered(variable.coarse)
            expected = counted(axes[own])
            counts = denoised(noisy[own], std, ordered, self.patients, expected)
            apart[name, context] = float(np.abs(counts - expected).sum())
            if moving(context):  # a repeated value counts as that value, so its group depends on the last one
                found[name, context] = moved(np.maximum(counts, LEAST), LEFT_OF_NOISE * std, variable.reached)
            else:
                found[name, context] = Chances.by_group(counts, LEFT_OF_NOISE * std, variable.coarse)
        worst = sorted(apart, key=apart.__getitem__, reverse=True)[: TABLES_A_COLUMN * len(contexts.variables)]
        return {key: found[key] for key in worst if apart[key] > APART * self.patients}

    def measure_last_rows(self, contexts: Contexts) -> None:
        """Measure how columns that depend on whether a row is the last, such as death, relate to last rows.

        Each patient counts once here, also with a single row. In the other tables a patient's last row counts less than
        a whole patient, and a single row is one of many first rows.
        """
        keys = [(name, context) for name in ending(self.schema) for context in contexts.of_last(name)]
        if not keys:
            return
        axes = self.axes(contexts, keys)
        noisy = self.last.measure_marginals(self._label(LAST_ROWS), axes)
        std = self._deviation(LAST_ROWS, len(keys))
        for (name, context), table in zip(keys, noisy.values(), strict=True):
            variable = contexts.variables[name]
            ordered = contexts.ordered(context), variable.ordered(variable.coarse)
            counts = denoised(table, std, ordered, self.patients + self.single)
            found = Chances.by_group(counts, LEFT_OF_NOISE * std, variable.response(variable.coarse))
            if context == (LAST, name):  # its groups are the cells of the last value, which were counted in coarse ones
                found = replace(found, tie=found.tie[variable.coarse], region=variable.coarse)
            self.ends.setdefault(name, []).append((context, found))

    def candidates(self, contexts: Contexts, inside: Sequence[tuple[str, Context]]) -> list[tuple[str, Context]]:
        """Return the pairs of a column and a context whose tables may be measured, without those `inside` a row."""
        moves = [(name, context) for name in self.moves for context in contexts.of_moves(name)]
        found = moves + [(name, context) for name in contexts.variables for context in contexts.of(name)]
        known = {(name, plain(context)) for name, context in inside}
        found = [pair for pair in found if pair not in known]
        if len(found) > MOST_CANDIDATES:
            found = [found[k] for k in np.sort(self.rng.permutation(len(found))[:MOST_CANDIDATES])]
        # With one changing column, in patients of two rows: its own last value again.
        return found or [(name, (LAST, name)) for name in contexts.variables][-1:]

    def sure(self, contexts: Contexts, candidates: int) -> set[tuple[str, Context]]:
        """Return the tables that are always measured: none if distances of `candidates` tables are informative."""
        if CLEAR_DISTANCE * self._deviation(SELECTION, candidates) <= TELLING * self.patients:
            return set()
        likely = {(OF, GAP), (OF, VISIT), (FIRST, self.schema.target)}
        moves = [(name, context) for name in self.moves for context in contexts.of_moves(name)]
        return {(name, context) for name, context in moves if plain(context) in likely}

    def axes(self, contexts: Contexts, keys: Sequence[tuple[str, Context]]) -> dict[str, list[Axis]]:
        """Return the axes of the table of each column and context: of the context, and of the column's coarse groups
        or of how it moves.
        """
        found = dict[str, list[Axis]]()
        for k, (name, context) in enumerate(keys):
            variable = contexts.variables[name]
            response = self.moves[name][0] if moving(context) else variable.axis(variable.coarse)
            found[str(k)] = [contexts.axis(context), response]
        return found

    def simulated(self, chain: Chain) -> tuple[Codes, Floats]:
        """Return later rows of the chain, (rows, `later_columns`), and their weights, with the sum one per patient."""
        parts = list(later_rows(chain, self.first, self.counts, self.rng))
        return np.concatenate([rows for _, rows in parts]), np.concatenate([
            1 / (self.counts[who] - 1) for who, _ in parts
        ])  # fmt: skip

    def fit(
        self, chain: Chain, wanted: Mapping[str, Sequence[tuple[Context, Chances]]], points: dict[str, Floats],
        step: Callable[[int], None],
    ) -> Chain:  # fmt: skip
        """Fit the chain again, column after column, to the wanted tables, on rows that the previous chain draws.

        `points`: the parameters of the last fit of each column, where the next fit starts; in place.
        """
        new = Chain(chain.contexts, weights := dict[str, list[tuple[Context, Floats]]](), ends := {})
        if chain.weights:
            rows, share = self.simulated(chain)
        else:  # nothing is known yet: last rows are first ones
            rows = second_rows(self.several, self.counts[self.counts > 1])
            share = np.ones(len(self.several))
        new.begin(rows)
        only = only_rows(self.first[self.counts == 1], self.schema)
        for k, name in enumerate(chain.contexts.variables):
            possible = new.possible(name, rows, self.rng)
            known = [new.groups(name, context, rows) for context, _ in wanted[name]]
            found = fitted(
                chain.contexts.variables[name].base,
                [one for _, one in wanted[name]],
                known,
                self.patients,
                share,
                points.get(name),
                possible and possible[1],
            )
            points[name] = found.point
            added = dict[Context, Floats]()
            # Several tables may have one context, such as a number's last value: their weights add up.
            for (context, _), weight in zip(wanted[name], found.weights, strict=True):
                added[context] = added.get(context, 0.0) + weight
            weights[name] = list(added.items())
            # Draw with the new weights, so that the next column is fitted to rows as they will be sampled.
            if name in self.ends:
                ends[name] = self.fit_end(new, name, np.concatenate([rows[new.last(rows)], only]))
                new.draw_column(name, only, self.rng)
            new.draw_column(name, rows, self.rng)
            step(k + 1)
        return new

    def fit_end(self, chain: Chain, name: str, last: Codes) -> list[tuple[Context, Floats]]:
        """Fit a column of patients' last rows to its own tables, on simulated ones; each patient counts once."""
        own = self.ends[name]
        only = chain.only(last)
        possible = chain.possible(name, last, self.rng)
        groups = [chain.groups(name, context, last) for context, _ in own]
        each = np.where(only, self.single / max(only.sum(), 1), self.patients / max((~only).sum(), 1))
        base, patients = chain.contexts.variables[name].base, self.patients + self.single
        known = [one for _, one in own]
        found = fitted(base, known, groups, patients, each, allowed=None if possible is None else possible[1])
        return [(context, weight) for (context, _), weight in zip(own, found.weights, strict=True)]
