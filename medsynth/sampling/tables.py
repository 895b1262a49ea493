"""Patients and their rows in several tables: first rows with the patient, then later rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..arrays import Codes, Mask, Whole
from ..artifact import Model
from ..errors import UsageError
from ..methods import registry
from ..patients.codes import Together, Wanted, columns_of_codes
from ..patients.stored import tensors_of
from ..rng import Stream, numpy_stream, stream_seed
from ..schema import Schema
from ..schema.codec import Range, Where, column_values, parse, related_values
from ..schema.linked import LinkedTables, chain_view, count_column, joint, name_in_joint, number_name, own, placed_by
from .balance import balanced
from .draw import Draw
from .patients import PatientRows
from .placing import view_of
from .rejection import REJECTION_ROUNDS, Sampler, broken, sample_again, widened
from .rules_across_rows import broken_next, completed
from .sampler import conditions, method_sampler, single_rows
from .visits import ChainView, visits


@dataclass(frozen=True, eq=False)
class FirstRows:
    """Codes of patients, (patients, columns of the joint schema), as first rows of each table."""

    tables: LinkedTables

    @cached_property
    def schema(self) -> Schema:
        """The schema of patients."""
        return joint(self.tables)

    def count(self, codes: Codes, table: str) -> Whole:
        """Return the number of rows of each patient in a table: (patients,)."""
        return codes[:, self.schema.names.index(count_column(table))].astype(np.int64)

    def core(self, codes: Codes, table: str) -> Codes:
        """Return the chain's columns of a table's first rows, (patients, core of its chain), if patients have any."""
        names = chain_view(self.tables, table).core.names
        mine = own(self.tables, table)
        places = [self.schema.names.index(name_in_joint(table, name) if name in mine else name) for name in names]
        return np.asarray(codes[:, places])

    def wanted(self, codes: Codes, together: Together, rng: Stream) -> dict[str, Wanted]:
        """Draw which modelled codes patients have in each table with a column of codes."""
        of_codes = columns_of_codes(self.tables)
        columns = {self.tables.others.index(name): name for name in of_codes}
        counts = {k: self.count(codes, name) for k, name in columns.items()}
        first = dict[int, Whole]()
        for k, name in columns.items():
            first[k] = codes[:, self.schema.names.index(name_in_joint(name, of_codes[name]))].astype(np.int64)
        found = together.draw(codes, self.schema, [*columns], counts, first, rng)
        return {columns[k]: Wanted(of_codes[columns[k]], levels, has) for k, (levels, has) in found.items()}

    def present(self, pattern: Mask) -> dict[str, Range]:
        """Return the codes of patients with rows in the tables of a pattern, (tables,), and in no others."""
        found = dict[str, Range]()
        for table, there in zip(self.tables.others, pattern, strict=True):
            found[count_column(table)] = (1, self.tables.tables[table].max_rows) if there else (0, 0)
            for name in own(self.tables, table) if there else ():
                column = chain_view(self.tables, table).columns[name]
                found[name_in_joint(table, name)] = (0, column.size + column.gaps - 1)
        return found

    def broken(self, codes: Codes) -> Mask:
        """Return which patients break a rule, lack a value in a first row, or have one that follows no row of another.

        Rules of rows that another table places are not checked yet: these rows have no date.
        """
        found = broken(codes, self.schema)
        for table in self.tables.others:
            counts = self.count(codes, table)
            other = placed_by(self.tables, table)
            some = np.flatnonzero(counts > 0)
            schema = chain_view(self.tables, table)
            core = self.core(codes[some], table)
            for k, column in enumerate(schema.core.columns.values()):
                found[some[core[:, k] >= column.size + column.gaps]] = True
            if other is not None:
                number = core[:, schema.core.names.index(number_name(other))]
                found[some[number > self.count(codes[some], other)]] = True
                continue
            whole = ~found[some]
            rows = completed(widened(core[whole], schema), None, schema)
            found[some[whole]] |= broken_next(rows, None, counts[some[whole]] == 1, schema)
        return found


def patients_of_tables(model: Model, draw: Draw, halved: bool) -> Callable[[int, int | None], dict[str, PatientRows]]:
    """Return a function that draws patients with their rows in all tables, of a number and a seed."""
    assert model.tables is not None
    tables = model.tables
    first = FirstRows(model.tables)
    schema = first.schema
    sampler = _sampler(model, first, draw.where)
    columns = len(tables.view(tables.first).columns)
    together = Together.restored(model.tensors, schema)

    def drawn(patients: int, seed: int | None) -> dict[str, PatientRows]:
        codes = single_rows(sampler, schema, patients, seed, halved=halved, bad=first.broken)
        if not halved:  # halved rows are in random order
            codes = balanced(codes, schema, patients, numpy_stream(seed, "balance"))
        found = {tables.first: PatientRows(codes[:, :columns].copy(), np.arange(patients))}
        wanted = {} if together is None else first.wanted(codes, together, numpy_stream(seed, "codes together"))
        for k, name in enumerate(tables.others):
            found[name] = _rows(model, first, codes, found, k, name, seed, draw.where, wanted.get(name))
        _end(found, tables)
        return found

    return drawn


def _sampler(model: Model, first: FirstRows, where: Where) -> Sampler:
    """Return the method's generator of patients, who have values in first rows exactly where they have rows.

    The number of rows of a patient comes from the model. Given the tables with rows, the method draws all columns, if
    it supports such conditions. The model links both nearly, but not for every patient: most of those who would be
    rejected have rows in many tables.
    """
    core = first.schema.core
    (conditions_of, apart) = conditions(model, where, False)
    plain = method_sampler(model, core, conditions_of, apart)
    if not registry.find(model.method, model.preset).conditional_sampling:
        return plain
    asked = tuple(parse(where, core)) if where else ()
    named = [table for table in first.tables.others if any(name.startswith(f"{table}.") for name in asked)]

    def drawn(patients: int, seed: int | None, fixed: Mapping[str, Codes] | None = None) -> Codes:
        codes = plain(patients, seed)
        places = [core.names.index(count_column(table)) for table in first.tables.others]
        there = codes[:, places] > 0
        there[:, [first.tables.others.index(table) for table in named]] = True
        patterns, which = np.unique(there, axis=0, return_inverse=True)
        for k, pattern in enumerate(patterns):
            some = np.flatnonzero(which == k)
            told = {**first.present(pattern), **conditions_of.get("where", {})}
            own = method_sampler(model, core, {"where": told, "balance": False}, apart)
            with suppress(UsageError):  # no values go with this pattern: its patients are rejected, and drawn again
                codes[some] = own(len(some), stream_seed(seed, f"tables {pattern.tolist()}"))
        return codes

    return drawn


def _rows(
    model: Model, first: FirstRows, codes: Codes, found: Mapping[str, PatientRows], number: int, name: str,
    seed: int | None, where: Where, wanted: Wanted | None,
) -> PatientRows:  # fmt: skip
    """Return the rows of a table: first ones as drawn with patients, then those that follow."""
    tables = first.tables
    schema = first.tables.view(name)
    counts = first.count(codes, name)
    who = np.flatnonzero(counts > 0)
    view = view_of(tables, name, found, who)
    rows, possible = _first_rows(view, first.core(codes[who], name), counts[who], own(tables, name), seed)
    lacking = np.zeros(len(counts), np.int64)
    lacking[who] = counts[who] - possible
    counts[who] = possible
    who, rows = who[possible > 0], rows[possible > 0]
    if not schema.order or not len(who):
        return PatientRows(rows, who, lacking)
    given = np.column_stack([rows, counts[who] - 1]).astype(np.int32)
    stream = numpy_stream(seed, f"later rows of {name}")
    conditions = parse(where, first.schema.core) if where else ()
    asked = {column for column in own(tables, name) if name_in_joint(name, column) in conditions}
    mine = None if wanted is None else wanted.of(who)
    drawn = visits(tensors_of(number, model.tensors), view_of(tables, name, found, who), given, stream, asked, mine)
    assert drawn.lacking is not None
    lacking[who] += drawn.lacking
    return PatientRows(drawn.codes, who[drawn.whose], lacking)


def _first_rows(
    view: ChainView, core: Codes, counts: Whole, columns: Collection[str], seed: int | None
) -> tuple[Codes, Whole]:
    """Return the table's first rows, (patients, columns), from the chain's, and how many rows patients can have
    with them: (patients,).

    They get their dates here, so rules can be checked. A row that breaks one gets the place in time of another
    patient's first row, for some rounds, and then all `columns` of that row. So no patient loses a table by a date. A
    row that can only be the last, such as a death, remains alone.
    """
    names = view.of_chain.core.names
    stream = numpy_stream(seed, f"first rows of {view.schema.name}")

    def dated(core: Codes, who: Whole, counts: Whole = counts) -> tuple[Codes, Mask]:
        rows, never = view.rows(view.possible(core, who), None, who)
        rows = completed(rows, None, view.schema)
        return rows, never | broken_next(rows, None, counts[who] == 1, view.schema)

    everyone = np.arange(len(core))
    broken = dated(core, everyone)[1]
    left, others = np.flatnonzero(broken), np.flatnonzero(~broken)
    for some in (view.times, columns) if len(others) else ():
        places = [names.index(name) for name in some]

        def again(who: Whole, places: Sequence[int] = places) -> Codes:
            found = core[who]
            found[:, places] = core[stream.choice(others, len(who))][:, places]
            return found

        left = sample_again(core, left, again, lambda found, who: dated(found, who)[1], REJECTION_ROUNDS)
    rows, never = dated(core, everyone, np.ones_like(counts))
    return rows, np.where(np.isin(everyone, left), ~never, counts)


def _end(found: Mapping[str, PatientRows], tables: LinkedTables) -> None:
    """Let what lasts longer than a row that `comes_last` end with it, such as a stay at a death; in place.

    This changes dates after the order of another table, unless a rule computes something from them or would break.
    """
    table = tables.others[-1]
    if not tables.tables[table].comes_last:
        return
    ends = np.full(found[tables.first].count, np.inf)
    ends[found[table].whose] = column_values(found[table].codes, tables.view(table), tables.tables[table].order or "")
    for name in tables.others[:-1]:
        rows, schema = found[name], tables.view(name)
        computed = set[str]().union(*(rule.columns for rule in schema.parsed_rules if rule.defines))
        for k, (key, column) in enumerate(schema.columns.items()):
            if schema.order in column.depends_on and key not in computed:
                late = np.flatnonzero(column_values(rows.codes, schema, key).astype(np.float64) > ends[rows.whose])
                own = rows.codes[late]
                own[:, k] = column.code_computed(ends[rows.whose[late]], related_values(own, schema, key))
                rows.codes[late] = np.where(broken(own, schema)[:, None], rows.codes[late], own)
