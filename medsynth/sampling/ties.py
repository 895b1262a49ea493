"""Draw again only the columns that rules tie together, so that many rules cost little more than one.

Rows that break a rule could be drawn again as a whole, but then all rules must hold at once by chance: of thirty rules
hardly any row meets all. Columns of different ties are independent given a row's class and latent point. So a broken
row keeps these, and draws the columns of one tie again until its rules hold. A sum such as `a + b + c = 100` hardly
ever holds by chance: there one column, chosen at random, becomes what the others leave. If a value must not be present,
it becomes missing in half of the rows, and the other half draws again: else missing values would get rarer.

Both change shares of values a little. `Tilt` restores them, by the shares of the rows before (`free`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ..arrays import Codes, Mask, Whole
from ..methods.sampler import Again
from ..rng import Stream
from ..schema import Schema
from ..schema.columns.column import level_text
from ..schema.impossible import about_the_same
from ..schema.rules import Comparison, Constraint, evaluate, terms, yes_level
from .tilt import Tilt

AT_ONCE, MOST_TRIES = 2048, 8  # rows that are drawn again at once, and tries of a row
ROUNDS = 20  # of drawing the columns of a tie again; rows that still break a rule are then drawn as a whole
SOME_ROWS, PASSES = 4096, 2  # rows by which tilts are found, and how often
LARGEST_WEIGHT = 12.0  # of a tie's values, relative to the mean: draws for each accepted one
HALF = 0.5
EXACT = 1e-6  # of a unit: how far a value may be from a code


@dataclass(frozen=True)
class Sum:
    """A constraint that the columns of `signs`, 1 or -1 each, have a constant sum, or one of other columns."""

    constraint: Constraint
    comparison: Comparison
    signs: Mapping[str, float]

    @classmethod
    def of(cls, constraint: Constraint) -> Sum | None:
        """Return a constraint as a sum; None if it is not an equation in which columns are added."""
        rule = constraint.rule
        (one, *more) = rule.conclusion
        if rule.premise or more or not isinstance(one, Comparison) or one.sign != "=":
            return None
        left, right = terms(one.left), terms(one.right)
        signs = {name: sign for name, sign in left.items() if name not in right}
        signs |= {name: -sign for name, sign in right.items() if name not in left}
        return cls(constraint, one, {name: sign for name, sign in signs.items() if name in constraint.inputs})

    def solve(self, rows: Codes, at: Mapping[str, int], free: Collection[str], stream: Stream) -> None:
        """Change a random column of each row to what the others leave, if that is one of its values; in place."""
        names = [name for name in self.signs if name in free]
        chosen = stream.integers(0, max(len(names), 1), len(rows))
        values = {name: column.values(rows[:, at[name]], {}) for name, column in self.constraint.inputs.items()}
        sides = (evaluate(side, values) for side in (self.comparison.left, self.comparison.right))
        rest = np.subtract(*sides)
        for k, name in enumerate(names):
            places = np.flatnonzero((chosen == k) & (rest != 0) & np.isfinite(rest))
            column = self.constraint.inputs[name]
            steps = -self.signs[name] * rest[places] * 10**column.places
            yes = yes_level(column.levels)
            if yes is not None:
                steps = steps if yes == level_text(column.levels[1]) else -steps
            codes = rows[places, at[name]] + np.round(steps)
            last = column.number_units[1] - column.number_units[0] if yes is None else 1
            fits = (np.abs(steps - np.round(steps)) < EXACT) & (codes >= 0) & (codes <= last)
            rows[places[fits], at[name]] = codes[fits]


@dataclass(frozen=True)
class Tie:
    """Rules that share columns. `sums`: those of them that are sums; `names`: the columns that are drawn again."""

    rules: tuple[Constraint, ...]
    sums: tuple[Sum, ...]
    names: tuple[str, ...]

    @classmethod
    def of(cls, rules: Sequence[Constraint], core: Schema) -> Tie:
        """Return the tie of some rules. The target is never drawn again, since rows are drawn given their class."""
        names = {name for rule in rules for name in rule.inputs} - {core.target}
        sums = tuple(own for rule in rules if (own := Sum.of(rule)))
        return cls(tuple(rules), sums, tuple(name for name in core.names if name in names))

    def met(self, rows: Codes, at: Mapping[str, int]) -> Mask:
        """Return which rows of codes meet all rules: (rows,)."""
        return np.asarray(~np.any([_broken(rule, rows, at) for rule in self.rules], axis=0))

    def solve(self, rows: Codes, at: Mapping[str, int], free: Collection[str], stream: Stream) -> None:
        """Change `free` columns of broken rows to values that sums and presences leave, in place."""
        for one in self.sums:
            one.solve(rows, at, free, stream)
        for rule in self.rules:
            for name in rule.rule.present & set(free):
                column = rule.inputs[name]
                if column.gaps:
                    known = (rows[:, at[name]] < column.size) & (stream.random(len(rows)) < HALF)
                    rows[_broken(rule, rows, at) & known, at[name]] = column.empty_code


def _broken(rule: Constraint, rows: Codes, at: Mapping[str, int]) -> Mask:
    return rule.broken(rows[:, [at[name] for name in rule.inputs]])


@dataclass
class Ties:
    """The ties between the columns of a core schema. `free`: rows as the model draws them, before any column is drawn
    again. `tilts`: of each tie, by its own columns; known after the first rows.
    """

    core: Schema
    ties: tuple[Tie, ...]
    stream: Stream
    free: list[Codes] = field(default_factory=list)
    tilts: list[Tilt] = field(default_factory=list)

    @classmethod
    def of(cls, schema: Schema, stream: Stream) -> Ties:
        """Return the ties between the columns of a schema that a model learns."""
        core = schema.core
        ties = [Tie.of(rules, core) for rules in about_the_same(core.constraints)]
        return cls(core, tuple(tie for tie in ties if tie.names), stream)

    def mend(self, codes: Codes, again: Again, given: Collection[str]) -> None:
        """Draw the columns of broken ties again, in place. A sum changes no column that a condition is `given` of."""
        self.free.append(codes.copy())
        if not self.tilts:
            self._find_tilts(codes, again, given)
        for tie, tilt in zip(self.ties, self.tilts, strict=True):
            self._mend(tie, tilt, np.arange(len(codes)), codes, again, given)

    def _find_tilts(self, codes: Codes, again: Again, given: Collection[str]) -> None:
        """Find the tilt of each tie by mending some rows, first without one; then the rows become what they were."""
        places = np.arange(min(len(codes), SOME_ROWS))
        free = codes[places]
        for tie in self.ties:
            others = [name for name in self.core.names if name not in tie.names]
            tilt = untilted = None
            for _ in range(PASSES):
                self._mend(tie, tilt, places, codes, again, given)
                rows = codes[places]
                met = tie.met(rows, self._at)
                found = Tilt.of(rows, met if met.any() else ~met, self.core, others, free)
                untilted = rows if untilted is None else untilted
                tilt = found.times(tilt, untilted, LARGEST_WEIGHT)
                codes[places] = free
            assert tilt
            self.tilts.append(tilt)

    @cached_property
    def _at(self) -> Mapping[str, int]:
        return {name: k for k, name in enumerate(self.core.names)}

    def _mend(
        self, tie: Tie, tilt: Tilt | None, places: Whole, codes: Codes, again: Again, given: Collection[str]
    ) -> None:
        """Draw the columns of one tie again where its rules are broken or, by a tilt, its values are too frequent."""

        def good(rows: Codes) -> Mask:
            tie.solve(rows, self._at, set(tie.names) - set(given), self.stream)
            met = tie.met(rows, self._at)
            return met if tilt is None else met & tilt.accepted(rows, self.stream)

        rows = codes[places]
        left = places[~good(rows)]
        codes[places] = rows
        for _ in range(ROUNDS):
            if len(left):  # few rows try several times at once
                left = again(tie.names, np.repeat(left, min(MOST_TRIES, max(1, AT_ONCE // len(left)))), good)
