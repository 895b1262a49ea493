"""Store the model of later rows as tensors of an artifact, and restore it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..arrays import Arrays, Floats, Whole
from ..methods.bins import Bins
from ..schema import Schema
from .chain import Chain
from .contexts import EVERY, FACT_GROUPS, MOVED, Context, Contexts, plain
from .split_rows import FIRST, GAP, LAST, NOW, OF, changing, fixed, gap_column
from .variables import Variable, fine_cells

WHOSE = (NOW, LAST, FIRST, OF, *(MOVED + whose for whose in (NOW, LAST, FIRST, OF)))
FACTS = (EVERY[1], *FACT_GROUPS, GAP)
PREFIX, PARTS = "later.", ("group", "shares", "medium", "coarse")
GIVEN, ENDS = "given", "last"  # weights of all later rows, and of a patient's last one
ORDER = PREFIX + "order"  # the tensor with the order in which columns are drawn


@dataclass(frozen=True)
class _Names:
    """Columns of later rows by number: those of the schema's core, then the facts about a row."""

    core: tuple[str, ...]

    def number(self, context: Context) -> tuple[int, int]:
        """Return a context as two numbers."""
        whose, name = context
        place = FACTS.index(name) if plain(context)[0] == OF else self.core.index(name)
        return WHOSE.index(whose), place

    def context(self, whose: int, place: int) -> Context:
        """Return the context of two numbers."""
        facts = plain((WHOSE[whose], ""))[0] == OF
        return WHOSE[whose], FACTS[place] if facts else self.core[place]

    def key(self, name: str) -> str:
        """Return the prefix of the tensors of a column."""
        return PREFIX + ("gap" if name == GAP else str(self.core.index(name)))


def of_table(number: int, tensors: Arrays) -> Arrays:
    """Return the tensors of one of several tables' models, by its number, under names of its own."""
    return {f"table.{number}.{key}": value for key, value in tensors.items()}


def tensors_of(number: int, tensors: Arrays) -> Arrays:
    """Return the tensors of one of several tables' models, by its number, under their original names."""
    prefix = f"table.{number}."
    return {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}


def tensors(chain: Chain) -> Arrays:
    """Return the chain's tensors, under names that no method uses."""
    names = _Names(chain.schema.core.names)
    found = dict[str, Floats | Whole]()
    found[ORDER] = np.array([names.core.index(name) for name in chain.contexts.variables if name != GAP], np.int64)
    for name, variable in {**chain.contexts.variables, **chain.contexts.fixed}.items():
        key = names.key(name)
        found |= {f"{key}.place": variable.bins.place, f"{key}.fine": variable.bins.shares}
        found |= {f"{key}.{part}": getattr(variable, part) for part in PARTS}
        found |= {} if variable.bins.digits is None else {f"{key}.digits": variable.bins.digits}
    for part, by_name in {GIVEN: chain.weights, ENDS: chain.ends}.items():
        for name, weights in by_name.items():
            for k, (context, weight) in enumerate(weights):
                key = f"{names.key(name)}.{part}.{k}"
                found |= {f"{key}.of": np.array(names.number(context)), f"{key}.weights": weight}
    return {key: np.asarray(value, np.float32) for key, value in found.items()}


def restored(kept: Mapping[str, NDArray[np.float32]], schema: Schema) -> Chain:
    """Return the chain that tensors were made from.

    Earlier models do not state an order: they drew the target last, and knew nothing of the ends of only rows.
    """
    core = schema.core
    gap = gap_column(schema)
    names = _Names(core.names)
    current = ORDER in kept
    order = sorted(changing(schema), key=lambda name: (name == schema.target, core.names.index(name)))
    order = [core.names[k] for k in kept[ORDER].astype(int)] if current else order
    moving = [*([GAP] if gap else []), *order]

    def variable(name: str) -> Variable:
        column = gap if name == GAP and gap else core.columns[name]
        key = names.key(name)
        digits = kept.get(f"{key}.digits")
        bins = Bins(
            column, fine_cells(name, column),
            kept[f"{key}.place"].astype(np.int64), kept[f"{key}.fine"].astype(np.float64),
            None if digits is None else digits.astype(np.float64),
        )  # fmt: skip
        group, shares, medium, coarse = (kept[f"{key}.{part}"].astype(np.float64) for part in PARTS)
        moves = name in moving and name != GAP
        return Variable(
            name, bins, group.astype(np.int64), shares, medium.astype(np.int64), coarse.astype(np.int64),
            repeats=moves and Variable.blurs(column, medium),
        )  # fmt: skip

    def weights(name: str, part: str) -> list[tuple[Context, Floats]]:
        key = names.key(name)
        found = list[tuple[Context, Floats]]()
        while f"{key}.{part}.{len(found)}.of" in kept:
            own = f"{key}.{part}.{len(found)}"
            whose, place = kept[f"{own}.of"].astype(int).tolist()
            found.append((names.context(whose, place), kept[f"{own}.weights"].astype(np.float64)))
        return found

    contexts = Contexts(
        schema, {name: variable(name) for name in moving}, {name: variable(name) for name in fixed(schema)}
    )
    ends = {name: own for name in moving if (own := weights(name, ENDS))}
    return Chain(contexts, {name: weights(name, GIVEN) for name in moving}, ends, only_rows_end=current)
