"""Do rows of several tables belong together? Counted on the cells, whoever wrote them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..io.table import MISSING_TOKENS
from ..report.data.linked_facts import LinkedFacts, TableFacts
from ..schema.linked import LinkedTables

Cells = Mapping[str, pd.DataFrame]
Whole = NDArray[np.int64]


def linked_facts(tables: LinkedTables, synthetic: Cells, real: Cells | None, pages: Mapping[str, str]) -> LinkedFacts:
    """What is known of synthetic tables, beside real ones where these are given. `pages`: of tables, by their names."""
    lines = []
    for name in tables.tables:
        whose, theirs = patients(tables, synthetic, name), None if real is None else patients(tables, real, name)
        count, of_real = len(synthetic[tables.first]), 0 if real is None else len(real[tables.first])
        early, apart = _links(tables, synthetic, name)
        lines.append(TableFacts(
            table=name,
            page=pages.get(name),
            rows=len(whose),
            rows_a_patient=float((whose >= 0).sum() / count),
            real_rows_a_patient=None if theirs is None else float((theirs >= 0).sum() / of_real),
            without=_without(whose, count),
            real_without=None if theirs is None else _without(theirs, of_real),
            orphans=int((whose < 0).sum()) + apart,
            too_early=early,
            beyond=int(np.maximum(np.bincount(whose[whose >= 0]) - tables.tables[name].max_rows, 0).sum()),
        ))  # fmt: skip
    broken = sum(line.orphans + line.too_early + line.beyond for line in lines)
    return LinkedFacts(patients=len(synthetic[tables.first]), tables=lines, broken=broken)


def patients(tables: LinkedTables, cells: Cells, name: str) -> Whole:
    """The patient of each row of a table, (rows,), by the first row of its key in the first table; -1 for none."""
    keys = pd.Index(cells[tables.first][tables.key].unique())
    return np.asarray(keys.get_indexer(pd.Index(cells[name][tables.key])), np.int64)


def _without(whose: Whole, count: int) -> float:
    return 1 - len(np.unique(whose[whose >= 0])) / count


def _links(tables: LinkedTables, cells: Cells, name: str) -> tuple[int, int]:
    """Rows before those whose keys they hold, and keys of no row of the other table, or of another patient's."""
    early = apart = 0
    order = tables.tables[name].order or ""
    for key, other in tables.tables[name].latest.items():
        held = cells[name][~cells[name][key].isin(list(MISSING_TOKENS))]
        theirs = cells[other].drop_duplicates(key).set_index(key)
        place = theirs.index.get_indexer(pd.Index(held[key]))
        there = place >= 0
        same = held[tables.key].to_numpy() == theirs[tables.key].to_numpy()[place]
        apart += int((~there | ~same).sum())
        of_other = tables.tables[other].order or ""
        mine = tables.tables[name].columns[order].ranks(held[order])
        before = tables.tables[other].columns[of_other].ranks(theirs[of_other])[place]
        early += int((there & (mine < before)).sum())
    return early, apart
