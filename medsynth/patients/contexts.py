"""The contexts that a column of a later row may depend on, and the maps from codes to groups of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..arrays import Codes, Whole
from ..privacy.queries.cells import Regrouped
from ..schema import Schema
from ..schema.columns.grid import Grid
from .split_rows import FIRST, GAP, LAST, LEFT, NOW, OF, ROWS, VISIT, later_columns, named
from .variables import Axis, Variable

Context = tuple[str, str]  # whose value, and of which column
EVERY: Context = (OF, "")  # the context without information
MOVED = "moved, given "  # prefix of "whose": the context and the column's own last value, for how the column moves
FACT_GROUPS = {LEFT: 3, VISIT: 4, ROWS: 6}  # of remaining rows, visits, a patient's rows; the last is "more"


def plain(context: Context) -> Context:
    """Return what a column's move depends on, in addition to its own last value."""
    return context[0].removeprefix(MOVED), context[1]


def moving(context: Context) -> bool:
    """Return whether the context is about how a column moves."""
    return context[0].startswith(MOVED)


@dataclass(frozen=True, eq=False)
class Contexts:
    """`variables`: those of the gap and of the columns that change, in the order in which a row gets them; `fixed`:
    those of the constant columns.
    """

    schema: Schema
    variables: Mapping[str, Variable]
    fixed: Mapping[str, Variable]

    def variable(self, name: str) -> Variable:
        """Return the variable of the column of that name."""
        return self.variables[name] if name in self.variables else self.fixed[name]

    def axis(self, context: Context, part: Whole | None = None) -> Axis:
        """Return the axis of a context in a contingency table, by its coarse groups or by those of `part`."""
        whose, name = plain(context)
        if whose == OF and name != GAP:
            assert self.schema.max_rows is not None
            most = self.schema.max_rows  # a fact about a row is less than that
            cells = min(FACT_GROUPS.get(name, 1), most)
            groups = np.minimum(np.arange(most), cells - 1)
            return named(whose, name or VISIT), Regrouped(Grid(np.arange(most + 1), 0), groups, cells)
        variable = self.variable(name)
        return named(whose, name), variable.map(variable.coarse if part is None else part)

    def ordered(self, context: Context) -> int:
        """Return the number of first coarse groups of a context that are neighbours in value."""
        whose, name = plain(context)
        if whose == OF and name != GAP:
            return self.axis(context)[1].cells
        return self.variable(name).ordered(self.variable(name).coarse)

    def of(self, name: str) -> list[Context]:
        """Return all that a column may depend on in addition to its own last value."""
        before = list(self.variables)[: list(self.variables).index(name)]
        found = [(OF, fact) for fact in FACT_GROUPS]
        found += [(FIRST, fixed) for fixed in self.fixed]
        found += [(OF if other == GAP else NOW, other) for other in before]
        found += [(LAST, other) for other in self.variables if other not in (name, GAP)]
        found += [(FIRST, name)] if name != GAP and (self.schema.max_rows or 0) > 2 else []
        return [context for context in found if self.axis(context)[1].cells > 1]

    def of_last(self, name: str) -> list[Context]:
        """Return all that a column of a patient's last row depends on: what is known of the row, and its last value."""
        found = [
            context for context in self.of(name) if context[0] != LAST and context not in ((OF, LEFT), (OF, VISIT))
        ]
        return [EVERY, (LAST, name), *found]

    def of_moves(self, name: str) -> list[Context]:
        """Return all that a number's move may depend on in addition to its own last value."""
        found = [(OF, GAP)] if GAP in self.variables else []
        found += [(OF, fact) for fact in FACT_GROUPS]
        found += [(FIRST, fixed) for fixed in self.fixed]
        return [(MOVED + whose, other) for whose, other in found if self.axis((whose, other))[1].cells > 1]

    @cached_property
    def place(self) -> dict[str, int]:
        """The index of each column of later rows; cached, since a schema parses its rules at each look at its core."""
        return {name: k for k, name in enumerate(later_columns(self.schema))}

    @cached_property
    def width(self) -> int:
        """The number of columns of the core."""
        return len(self.schema.core.columns)

    def cells(self, axis: Axis, rows: Codes) -> Whole:
        """Return the cell of each later row, (rows, `later_columns`), on an axis."""
        columns, cells = axis
        place = self.place[columns] if isinstance(columns, str) else [self.place[one] for one in columns]
        return np.asarray(cells.cell_of(rows[:, place]), np.int64)
