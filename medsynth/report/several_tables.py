"""The report on several tables: one page on patients, and one on the rows of each table that has an order.

It also checks whether rows of several tables belong together, whichever program wrote them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..artifact import Model
from ..errors import TableError
from ..fitting.private_tables import coded_tables, private_tables
from ..io.formats import OWN, SavedAs, named
from ..io.table import MISSING_TOKENS, Table
from ..sampling.rejection import widened
from ..sampling.rules_across_rows import completed
from ..schema import Schema
from ..schema.codec import csv_cells
from ..schema.linked import LinkedTables, joint
from .build import build
from .data.context import LinkedFacts, TableFacts
from .data.tables import read
from .data.verdict import Review, Thresholds
from .document import Report

Cells = Mapping[str, pd.DataFrame]  # By table.
Whole = NDArray[np.int64]
FEWEST_ROWS = 20  # Rows that a table needs to get a page.


def read_folder(tables: LinkedTables, folder: Path, saved: SavedAs = OWN) -> dict[str, pd.DataFrame]:
    """Read the declared columns of all tables in a folder. Raises TableError if one is missing."""
    found = {}
    for name, table in tables.tables.items():
        path = named(folder, name)
        if path is None:
            raise TableError(f"{folder} has no table {name!r}. Name the folder that contains all of them.")
        cells = read(path, saved).cells
        if lacking := [column for column in table.columns if column not in cells.columns]:
            raise TableError(f"{path} has no column {lacking[0]!r}, which {tables.name!r} declares. Add it.")
        found[name] = cells[list(table.columns)]
    return found


def report_tables(
    model: Model, synthetic: Cells, real: Cells | None = None, train: Cells | None = None, *, drawn_by_model: bool,
    disjoint: bool = False, fitted_rows: bool = False, title: str = "tables",
    page_of: Callable[[str], str] = lambda table: table, review: Review | None = None,
    thresholds: Thresholds | None = None, fits: int | None = None, commands: list[str] | None = None,
    step: Callable[[str], None] = lambda name: None,
) -> dict[str, Report]:  # fmt: skip
    """Return a report by table, that on patients first, as ""; shareable variants without real tables.

    `page_of`: the file name of a table's page. `step` receives the table and the section before it is
    computed. The other arguments are those of `medsynth.report.build.build`, whose errors are raised.
    """
    tables = model.tables
    assert tables is not None
    given = [side for side in (synthetic, real) if side is not None]
    in_order = [
        name for name in tables.others
        if tables.tables[name].order and all(len(_belonging(tables, side, name)) >= FEWEST_ROWS for side in given)
    ]  # fmt: skip
    left = [name for name in tables.others if tables.tables[name].order and name not in in_order]
    notes = [f"There is no page on {name!r}, because it has fewer than {FEWEST_ROWS} rows." for name in left]
    facts = linked_facts(tables, synthetic, real, {name: page_of(name) for name in in_order})

    def page(
        table: str, schema: Schema, rows: Callable[[Cells, str], Table], *,
        linked: LinkedFacts | None = None, notes: list[str] | None = None,
    ) -> Report:  # fmt: skip
        return build(
            synthetic=rows(synthetic, "synthetic"),
            real=None if real is None else rows(real, "real"),
            train=None if train is None else rows(train, "train"),
            model=replace(model, schema=schema, tables=None), title=f"{title}, {table}" if table else title,
            drawn_by_model=drawn_by_model, disjoint=disjoint, fitted_rows=fitted_rows, review=review,
            thresholds=thresholds, fits=fits, commands=commands, linked=linked, notes=notes,
            looks=1 + len(in_order), step=lambda name: step(f"{table or 'patients'}, {name}"),
        )  # fmt: skip

    schema = _patients_schema(tables)
    pages = {"": page("", schema, partial(_patients, tables, schema), linked=facts, notes=notes)}
    for name in in_order:
        own = tables.view(name).with_target(target_of(tables, name))
        pages[name] = page(name, own, partial(rows_beside_patients, tables, name))
    return pages


def target_of(tables: LinkedTables, name: str) -> str:
    """Return the column that a table's page predicts: its target, its last column of levels, or its last number."""
    table = tables.tables[name]
    core = tables.view(name).core.columns
    own = [one for one in table.columns if one in core and one != table.order and core[one].may_be_target]
    levels, numbers = [one for one in own if core[one].categorical], [one for one in own if not core[one].dated]
    return table.target or [*own, *numbers, *levels][-1]


def _patients_schema(tables: LinkedTables) -> Schema:
    schema = joint(tables)
    return schema.model_copy(update={"columns": {n: c for n, c in schema.columns.items() if n != tables.key}})


def _patients(tables: LinkedTables, schema: Schema, cells: Cells, where: str) -> Table:
    """Return one row per patient: the first table's columns and the columns of first rows in the other tables."""
    own = {name: _belonging(tables, cells, name) for name in tables.tables}
    read_tables = {name: Table(where, tuple(rows.columns), rows) for name, rows in own.items()}
    codes = coded_tables(private_tables(tables, read_tables)).patients
    texts = csv_cells(completed(widened(codes, schema), None, schema), schema)
    return Table(where, tuple(texts.columns), texts)


def _belonging(tables: LinkedTables, cells: Cells, name: str) -> pd.DataFrame:
    """Return the rows of a table that have a patient; of the first table, each patient's first row."""
    whose = patients(tables, cells, name)
    stay = whose >= 0
    if name == tables.first:
        stay = np.asarray(~pd.Series(whose).duplicated())
    return cells[name][stay].reset_index(drop=True)


def rows_beside_patients(tables: LinkedTables, name: str, cells: Cells, where: str) -> Table:
    """Return the rows of a table, each with its patient's columns."""
    first, rows = cells[tables.first].drop_duplicates(tables.key), _belonging(tables, cells, name)
    columns = [one for one in tables.view(name).names if one not in rows.columns]
    beside = first.set_index(tables.key)[columns].loc[rows[tables.key]].reset_index(drop=True)
    joined = pd.concat([rows, beside], axis=1)
    return Table(where, tuple(joined.columns), joined)


def linked_facts(tables: LinkedTables, synthetic: Cells, real: Cells | None, pages: Mapping[str, str]) -> LinkedFacts:
    """Return the facts about synthetic tables, compared with real ones if given. `pages`: file names by table."""
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
    """Return the patient of each row of a table, (rows,), by its key's first row in the first table; -1 for none."""
    keys = pd.Index(cells[tables.first][tables.key].unique())
    return np.asarray(keys.get_indexer(pd.Index(cells[name][tables.key])), np.int64)


def _without(whose: Whole, count: int) -> float:
    return 1 - len(np.unique(whose[whose >= 0])) / count


def _links(tables: LinkedTables, cells: Cells, name: str) -> tuple[int, int]:
    """Return the numbers of rows before the rows of their keys, and of keys to no row or to another patient's."""
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
