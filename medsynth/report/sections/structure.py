"""Structural differences: rows, columns, kinds, written form, levels, missing values and keys of both tables.

A program that was written for the synthetic table meets these differences in the real one. The section is one of the
four checks of Raab, McCall and Cavin (arXiv 2503.14211).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pandas as pd

from ...io import table as io_table
from ...schema import Schema
from ..data.context import Context
from ..data.proposal import listed
from ..data.verdict import Record
from .registry import Section

MOST_NAMED = 8  # Names in one cell of the page's table.
MOST_READ = 4_000  # Different texts of a column that are read for its written form.
MOST_LEVELS = 200  # Different texts of a column whose levels are compared.
FEWEST = 20  # Rows of a column whose values are keys because each occurs once.
KINDS = {"int": "whole numbers", "float": "numbers", "text": "text"}
NOTHING = "none"


class Difference(Record):
    """How both tables are in one respect, `what`. `column` is None for the whole table."""

    column: str | None
    what: str
    real: str
    synthetic: str


class Structure(Record):
    """The numbers of rows, the keys, and all other differences. `compared`: the number of columns that both have."""

    compared: int
    found: list[Difference]


def structure(
    real: Sequence[pd.DataFrame], synthetic: pd.DataFrame, numbers: frozenset[str], schema: Schema | None
) -> Structure:
    """Compare tables of text cells.

    Args:
        real: the held-out rows, and the training rows if they are given.
        synthetic: the synthetic rows.
        numbers: the columns that all sections compare as numbers; others have levels.
        schema: tells which columns are identifiers; an undeclared one is known by its values.
    """
    rows = pd.concat(real, ignore_index=True) if len(real) > 1 else real[0]
    shared = [str(name) for name in synthetic.columns if name in rows.columns]
    found = list(_whole(rows, synthetic))
    for name in shared:
        declared = None if schema is None else schema.columns.get(name)
        key = None if declared is None else not declared.modelled
        found += _column(name, (rows[name], synthetic[name]), key, name in numbers)
    return Structure(compared=len(shared), found=found)


def _whole(real: pd.DataFrame, synthetic: pd.DataFrame) -> Iterator[Difference]:
    """Yield the numbers of rows, and differences of the columns' names and order."""
    yield Difference(column=None, what="rows", real=f"{len(real):,}", synthetic=f"{len(synthetic):,}")
    names = [list(map(str, table.columns)) for table in (real, synthetic)]
    alone = [[n for n in own if n not in other] for own, other in (names, names[::-1])]
    if any(alone):
        yield _difference(None, "columns that the other lacks", map(_named, alone))
    order = [[n for n in own if n in other] for own, other in (names, names[::-1])]
    if order[0] != order[1]:
        yield _difference(None, "order of columns", map(_named, order))


def _column(name: str, sides: Sequence[pd.Series], key: bool | None, number: bool) -> Iterator[Difference]:
    """Yield the differences of one column's cells. `key`: whether it is declared as an identifier; None if unknown."""
    counts = [side.value_counts() for side in sides]
    gone = [own[own.index.isin(io_table.MISSING_TOKENS)] for own in counts]
    if set(gone[0].index) != set(gone[1].index):
        yield _difference(name, "missing values", map(_missing, gone, map(len, sides)))
    known = [own[~own.index.isin(io_table.MISSING_TOKENS)] for own in counts]
    if not all(len(own) for own in known):
        if any(len(own) for own in known):
            values = (f"{len(own):,} different" if len(own) else NOTHING for own in known)
            yield _difference(name, "values", values)
        return
    kinds = [io_table.dtypes(io_table.Table("", (name,), pd.DataFrame({name: own.index})))[name] for own in known]
    if kinds[0] != kinds[1]:
        yield _difference(name, "kind", (KINDS[kind] for kind in kinds))
    alone = bool((known[0] == 1).all()) and len(known[0]) == len(sides[0]) >= FEWEST
    if key or (key is None and alone and "float" not in kinds):
        both = int(known[1].index.isin(known[0].index).sum())
        real, made = (f"{len(own):,} different" for own in known)
        yield _difference(name, "keys", (real, f"{made}, {both:,} of them in the real table"))
    elif not number and len(known[0]) <= MOST_LEVELS:
        yield from _levels(name, known)
    elif kinds[0] == kinds[1]:
        forms = [_form(own, kinds[0]) for own in known]
        if forms[0] != forms[1]:
            yield _difference(name, forms[0][0], (form for _, form in forms))


def _difference(column: str | None, what: str, sides: Iterable[str]) -> Difference:
    real, synthetic = sides
    return Difference(column=column, what=what, real=real, synthetic=synthetic)


def _form(known: pd.Series, kind: str) -> tuple[str, str]:
    """Return in what respect texts have a form, and their form: most decimals, or the commonest pattern."""
    texts = pd.Series(known.index[:MOST_READ], dtype=str)
    if kind != "text":
        return "decimals", str(int(texts.str.partition(".")[2].str.len().max()))
    shapes = texts.str.replace(r"\d", "9", regex=True)
    dated = shapes[shapes.str.contains("9") & ~shapes.str.contains(r"[^\W\d_]", regex=True)]
    return "written as", str(dated.mode().iloc[0]) if len(dated) > len(texts) / 2 else ""


def _levels(name: str, counts: Sequence[pd.Series]) -> Iterator[Difference]:
    """Yield the levels of one table that the other lacks, from the rows with each level of both."""
    alone = [own[~own.index.isin(other.index)] for own, other in (counts, counts[::-1])]
    if any(len(own) for own in alone):
        shown = [
            f"{_named([str(level) for level in own.index])} ({own.sum() / of.sum():.2%} of rows)"
            if len(own)
            else NOTHING
            for own, of in zip(alone, counts, strict=True)
        ]
        yield _difference(name, "levels that the other lacks", shown)


def _missing(gone: pd.Series, rows: int) -> str:
    """Return the share of missing cells, and how they are written."""
    if not len(gone):
        return "never"
    return f"{gone.sum() / rows:.2%}, written as {listed([str(t) or 'an empty cell' for t in sorted(gone.index)])}"


def _named(names: Sequence[str]) -> str:
    """Return up to MOST_NAMED names, and how many more there are."""
    if not names:
        return NOTHING
    more = len(names) - MOST_NAMED
    return listed([*names[:MOST_NAMED], *([f"{more:,} more"] if more > 0 else [])])


def _structure(context: Context) -> Structure:
    real = [table for table in (context.real, context.train) if table is not None]
    return structure(real, context.synthetic, context.compared.numbers, context.schema)


STRUCTURE = Section(
    "structure", "Appendix: structural differences", _structure, Structure, needs=("real rows",)
)  # fmt: skip
