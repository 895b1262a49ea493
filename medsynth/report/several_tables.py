"""The pages of a report: one on a single table. For several, one on patients and one on each table with an order.

It also checks whether rows of several tables belong together, whichever program wrote them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from ..arrays import Whole
from ..artifact import Model
from ..errors import TableError
from ..fitting.private_tables import coded_tables, private_tables
from ..io.formats import OWN, SavedAs, named
from ..io.table import MISSING_TOKENS, Table
from ..rng import numpy_stream
from ..sampling.rejection import widened
from ..sampling.rules_across_rows import completed
from ..schema import Schema
from ..schema.codec import csv_cells
from ..schema.linked import LinkedTables, joint
from .build import build
from .data.cdm import cdm_checks, is_cdm
from .data.context import LinkedFacts, TableFacts
from .data.statistics import lost_relations
from .data.tables import read
from .data.verdict import Estimate
from .document import Report

Cells = Mapping[str, pd.DataFrame]  # By table.
FEWEST_ROWS = 20  # Rows that a table needs to get a page; patients with, and without, a code that is compared.
MOST_CODES = 40  # Codes that are compared, the most frequent.


def read_tables(tables: LinkedTables | None, path: Path, saved: SavedAs = OWN) -> dict[str, pd.DataFrame]:
    """Read the declared columns of all tables in a folder, or a single table, as "", from a file.

    Raises TableError if a table or a column is missing.
    """
    if tables is None:
        return {"": read(path, saved).cells}
    found = {}
    for name, table in tables.tables.items():
        file = named(path, name)
        if file is None:
            raise TableError(f"{path} has no table {name!r}. Name the folder that contains all of them.")
        cells = read(file, saved).cells
        wanted = [column for column, one in table.columns.items() if one.written]
        if lacking := [column for column in wanted if column not in cells.columns]:
            raise TableError(f"{file} has no column {lacking[0]!r}, which {tables.name!r} declares. Add it.")
        found[name] = cells[wanted]
    return found


class _Page(NamedTuple):
    """The table that a page is about, its model, and the function that makes its rows from the cells of all tables."""

    table: str
    model: Model | None
    rows: Callable[[Cells, str], Table]
    linked: LinkedFacts | None = None


def reports(
    model: Model | None, synthetic: Cells, real: Cells | None = None, train: Cells | None = None, *,
    title: str = "tables", notes: Sequence[str] = (), make: Callable[..., Report] = build,
    page_of: Callable[[str], str] = lambda table: table, step: Callable[[str], None] = lambda name: None,
) -> dict[str, Report]:  # fmt: skip
    """Return a report by table: that on patients, or on a single table, as "". Shareable variants without real tables.

    `make`: `medsynth.report.build.build` with what all pages share, whose errors are raised. `notes`: for the first
    page. `page_of`: the file name of a table's page. `step` receives the section before it is computed, and the table
    if there are several.
    """
    pages = [_Page("", model, lambda cells, where: _table(where, cells[""]))]
    left = list[str]()
    if model is not None and model.tables is not None:
        pages, left = _pages(model, synthetic, real, page_of)
    notes = [f"There is no page on {name!r}, because it has fewer than {FEWEST_ROWS} rows." for name in left] + [*notes]
    made = {}
    for page in pages:
        of = f"{page.table or 'patients'}, " if len(pages) > 1 else ""
        sides = {"synthetic": synthetic, "real": real, "train": train}
        made[page.table] = make(
            **{where: None if cells is None else page.rows(cells, where) for where, cells in sides.items()},
            model=page.model, title=f"{title}, {page.table}" if page.table else title, linked=page.linked,
            notes=[] if page.table else notes, looks=len(pages), step=lambda name, of=of: step(of + name),
        )  # fmt: skip
    return made


def _table(where: str, rows: pd.DataFrame) -> Table:
    return Table(where, tuple(rows.columns), rows)


def _pages(
    model: Model, synthetic: Cells, real: Cells | None, page_of: Callable[[str], str]
) -> tuple[list[_Page], list[str]]:
    """Return the pages on several tables, that on patients first, and the ordered tables with too few rows for one."""
    tables = model.tables
    assert tables is not None
    ordered = [name for name in tables.others if tables.tables[name].order]
    given = [cells for cells in (synthetic, real) if cells is not None]
    left = [name for name in ordered if any(len(_belonging(tables, cells, name)) < FEWEST_ROWS for cells in given)]
    shown = [name for name in ordered if name not in left]
    schema = joint(tables)
    schema = schema.model_copy(update={"columns": {n: c for n, c in schema.columns.items() if n != tables.key}})
    facts = linked_facts(tables, synthetic, real, {n: page_of(n) for n in shown})
    pages = [_Page("", replace(model, schema=schema, tables=None), partial(_patients, tables, schema), facts)]
    for name in shown:
        own = tables.view(name).with_target(target_of(tables, name))
        pages.append(_Page(name, replace(model, schema=own, tables=None), partial(rows_beside_patients, tables, name)))
    return pages, left


def target_of(tables: LinkedTables, name: str) -> str:
    """Return the column that a table's page predicts: its target, its last column of levels, or its last number."""
    table = tables.tables[name]
    core = tables.view(name).core.columns
    own = [one for one in table.columns if one in core and one != table.order and core[one].may_be_target]
    levels, numbers = [one for one in own if core[one].categorical], [one for one in own if not core[one].dated]
    return table.target or [*own, *numbers, *levels][-1]


def _patients(tables: LinkedTables, schema: Schema, cells: Cells, where: str) -> Table:
    """Return one row per patient: the first table's columns and the columns of first rows in the other tables."""
    own = {name: _belonging(tables, cells, name) for name in tables.tables}
    codes = coded_tables(private_tables(tables, {name: _table(where, rows) for name, rows in own.items()})).patients
    return _table(where, csv_cells(completed(widened(codes, schema), None, schema), schema))


def _belonging(tables: LinkedTables, cells: Cells, name: str) -> pd.DataFrame:
    """Return the rows of a table that have a patient; of the first table, each patient's first row."""
    whose = patients(tables, cells, name)
    stay = whose >= 0
    if name == tables.first:
        stay = np.asarray(~pd.Series(whose).duplicated())
    return cells[name][stay].reset_index(drop=True)


def rows_beside_patients(tables: LinkedTables, name: str, cells: Cells, where: str) -> Table:
    """Return the rows of a table, each with its patient's columns."""
    first = cells[tables.first].drop_duplicates(tables.key)
    rows = _belonging(tables, cells, name)
    columns = [one for one in tables.view(name).names if one not in rows.columns and one in first.columns]
    beside = first.set_index(tables.key)[columns].loc[rows[tables.key]].reset_index(drop=True)
    return _table(where, pd.concat([rows, beside], axis=1))


def linked_facts(tables: LinkedTables, synthetic: Cells, real: Cells | None, pages: Mapping[str, str]) -> LinkedFacts:
    """Return the facts about synthetic tables, compared with real ones if given. `pages`: file names by table."""
    lines = []
    for name in tables.tables:
        whose = patients(tables, synthetic, name)
        theirs = None if real is None else patients(tables, real, name)
        count = len(synthetic[tables.first])
        of_real = 0 if real is None else len(real[tables.first])
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
    lost = Estimate(value=None) if real is None else _codes_lost(tables, synthetic, real)
    checks = cdm_checks(synthetic, real) if is_cdm(tables) else []
    patients_of = len(synthetic[tables.first])
    return LinkedFacts(patients=patients_of, tables=lines, broken=broken, codes_lost=lost, checks=checks)


def _codes_lost(tables: LinkedTables, synthetic: Cells, real: Cells) -> Estimate:
    """Return the part of the relations between codes of a patient that is lost, by which codes each patient has."""
    frames = [_codes(tables, cells) for cells in (real, synthetic)]
    counts = frames[0].sum()
    names = counts[(counts >= FEWEST_ROWS) & (counts <= len(frames[0]) - FEWEST_ROWS)].nlargest(MOST_CODES).index
    own, made = (frame.reindex(columns=names, fill_value=False).to_numpy(np.int64) for frame in frames)
    order = numpy_stream(0, "halves of patients").permutation(len(own))
    return lost_relations([own[order[::2]], made, own[order[1::2]]], [2] * len(names), [None] * 3)


def _codes(tables: LinkedTables, cells: Cells) -> pd.DataFrame:
    """Return whether each patient has each level of each column of levels in some row: (patients, levels)."""
    parts = [pd.DataFrame(index=range(len(cells[tables.first])))]
    for name in tables.others:
        whose = patients(tables, cells, name)
        for column in tables.tables[name].columns:
            if tables.view(name).columns[column].categorical:
                place, levels = pd.factorize(cells[name][column].where(whose >= 0))
                has = np.zeros((len(parts[0]), len(levels)), np.bool_)
                has[whose[place >= 0], place[place >= 0]] = True
                parts.append(pd.DataFrame(has, columns=[f"{name}.{column}={level}" for level in levels]))
    return pd.concat(parts, axis=1)


def patients(tables: LinkedTables, cells: Cells, name: str) -> Whole:
    """Return the patient of each row of a table, (rows,), by its key's first row in the first table; -1 for none."""
    keys = pd.Index(cells[tables.first][tables.key].unique())
    return np.asarray(keys.get_indexer(pd.Index(cells[name][tables.key])), np.int64)


def _without(whose: Whole, count: int) -> float:
    return 1 - len(np.unique(whose[whose >= 0])) / count


def _links(tables: LinkedTables, cells: Cells, name: str) -> tuple[int, int]:
    """Return the numbers of rows that come too early, and of keys to no row or to another patient's.

    Too early are rows before the row of a key, and in a table that `comes_last` before another row of the patient.
    """
    early = apart = 0
    order = tables.tables[name].order or ""
    for other, table in tables.tables.items() if tables.tables[name].comes_last else ():
        if table.order and other != name:
            moments = pd.Series(table.columns[table.order].ranks(cells[other][table.order]))
            last = moments.groupby(cells[other][tables.key].to_numpy()).max()
            own = tables.tables[name].columns[order].ranks(cells[name][order])
            early += int((own < cells[name][tables.key].map(last).to_numpy()).sum())
    for key, other in tables.tables[name].latest.items():
        if key not in cells[name]:  # synthetic rows lack it
            continue
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
