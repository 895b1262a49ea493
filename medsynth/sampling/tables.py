"""Patients and their rows in several tables: first rows with the patient, then later rows; keys that match."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import pandas as pd

from ..arrays import Codes, Mask, Whole
from ..artifact import Model, load
from ..errors import UsageError, checked_keywords
from ..methods import registry
from ..patients.stored import tensors_of
from ..rng import numpy_stream, stream_seed
from ..schema import Schema
from ..schema.codec import Range, Where, column_values, decode, parse
from ..schema.linked import LinkedTables, chain_view, count_column, joint, name_in_joint, number_name, own, placed_by
from .balance import balanced, halvings
from .draw import ONE_TABLE_ONLY
from .pipeline import conditions, method_sampler
from .placing import Placed, TableRows, view_of
from .rejection import Sampler, broken, rejection_sample, widened
from .replicates import broken_model
from .rules_across_rows import broken_next, completed
from .visits import visits

CHUNK_PATIENTS = 20_000  # in memory at once while files are written


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
        names, mine = chain_view(self.tables, table).core.names, own(self.tables, table)
        places = [self.schema.names.index(name_in_joint(table, name) if name in mine else name) for name in names]
        return np.asarray(codes[:, places])

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
            counts, other = self.count(codes, table), placed_by(self.tables, table)
            some, schema = np.flatnonzero(counts > 0), chain_view(self.tables, table)
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


@partial(checked_keywords, cures={**ONE_TABLE_ONLY, "n": "It draws whole patients: set `patients`."})
def sample_tables(
    model: Model | Path | str, patients: int | None = None, seed: int | None = None, where: Where = ()
) -> dict[str, pd.DataFrame]:
    """Return synthetic tables by name, of this number of patients (by default the model's public number).

    `seed` repeats the sample. `where`: conditions on the first table's columns, or on those of first rows, such as
    "visits.ward=heart". Raises UsageError for a model of one table, or if conditions cannot be met.
    """
    model = model if isinstance(model, Model) else load(model)
    parts = list(table_frames(model, patients, seed, where))
    return {name: pd.concat([part[name] for part in parts], ignore_index=True) for name in parts[0]}


def table_frames(
    model: Model, patients: int | None = None, seed: int | None = None, where: Where = ()
) -> Iterator[dict[str, pd.DataFrame]]:
    """As `sample_tables`, but yield 20,000 patients at a time, so that memory stays constant."""
    tables = tables_of(model)
    for codes in table_codes(model, patients, seed, where):
        yield {n: decode(own_columns(tables, n, rows.codes), written(tables, n)) for n, rows in codes.items()}


def own_columns(tables: LinkedTables, name: str, codes: Codes) -> Codes:
    """Return from rows of a table's view the columns that the table has itself."""
    names = tables.view(name).names
    return np.asarray(codes[:, [names.index(one) for one in tables.tables[name].columns]])


def written(tables: LinkedTables, name: str) -> Schema:
    """Return the schema of a table's own columns, with keys of patients and of other tables written as in those."""
    schema = tables.alone(name)
    shapes = {tables.key: tables.tables[tables.first].columns[tables.key]}
    for key, other in tables.tables[name].latest.items():
        shapes[key] = tables.tables[other].columns[key].model_copy(update={"missing": True})
    return schema.model_copy(update={"columns": {**schema.columns, **shapes}})


def tables_of(model: Model) -> LinkedTables:
    """Return the tables that a model draws. Raise UsageError for a model of one table."""
    if model.tables is None:
        raise UsageError("This is a model of one table. Use medsynth.sample to draw its rows.")
    return model.tables


def table_codes(
    model: Model, patients: int | None = None, seed: int | None = None, where: Where = ()
) -> Iterator[dict[str, TableRows]]:
    """Yield rows of each table as codes, in parts; keys are fresh, and continue from part to part."""
    count = model.rows if patients is None else patients
    if count < 1:
        raise UsageError("`patients` must be one or more.")
    keys = dict[str, int]()
    for start in range(0, count, CHUNK_PATIENTS):
        own_seed = seed if start == 0 or seed is None else stream_seed(seed, f"patients from {start}")
        yield _part(model, min(CHUNK_PATIENTS, count - start), own_seed, where, keys)


def _part(model: Model, patients: int, seed: int | None, where: Where, keys: dict[str, int]) -> dict[str, TableRows]:
    """Return this number of patients with their rows. `keys`: the number of earlier rows of each table; in place."""
    tables = tables_of(model)
    first = FirstRows(tables)
    with broken_model():
        codes = _first_rows(model, first, patients, seed, where)
        found = {
            tables.first: TableRows(codes[:, : len(tables.view(tables.first).columns)].copy(), np.arange(patients))
        }
        for k, name in enumerate(tables.others):
            found[name] = _rows(model, first, codes, found, k, name, seed, where)
    _put_keys(found, tables, keys)
    for name, rows in found.items():
        keys[name] = keys.get(name, 0) + len(rows.codes)
    return found


def _first_rows(model: Model, first: FirstRows, patients: int, seed: int | None, where: Where) -> Codes:
    schema = first.schema
    more = 1 if model.structure_only else 2 ** halvings(patients, len(schema.columns))
    codes = rejection_sample(_sampler(model, first, where), schema, more * patients, seed, first.broken)
    return balanced(codes, schema, patients, numpy_stream(seed, "balance"))


def _sampler(model: Model, first: FirstRows, where: Where) -> Sampler:
    """Return the method's generator of patients, who have values in first rows exactly where they have rows.

    The number of rows of a patient comes from the model. Given the tables with rows, the method draws all columns, if
    it supports such conditions. The model links both nearly, but not for every patient: most of those who would be
    rejected have rows in many tables.
    """
    core, (conditions_of, apart) = first.schema.core, conditions(model, where, False)
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
    model: Model, first: FirstRows, codes: Codes, found: Mapping[str, TableRows], number: int, name: str,
    seed: int | None, where: Where,
) -> TableRows:  # fmt: skip
    """Return the rows of a table: first ones as drawn with patients, then those that follow.

    A patient has no rows if the first row breaks a rule once it has a date.
    """
    tables, schema, counts = first.tables, first.tables.view(name), first.count(codes, name)
    who = np.flatnonzero(counts > 0)
    view, core = view_of(tables, name, found, who), first.core(codes[who], name)
    core = view.possible(core, np.arange(len(who))) if isinstance(view, Placed) else core
    rows, never = view.rows(core, None, np.arange(len(who)))
    rows = completed(rows, None, schema)
    stay = ~(never | broken_next(rows, None, counts[who] == 1, schema))
    who, rows = who[stay], rows[stay]
    if not schema.order or not len(who):
        return TableRows(rows, who)
    given = np.column_stack([rows, counts[who] - 1]).astype(np.int32)
    stream = numpy_stream(seed, f"later rows of {name}")
    conditions = parse(where, first.schema.core) if where else ()
    asked = {column for column in own(tables, name) if name_in_joint(name, column) in conditions}
    drawn = visits(tensors_of(number, model.tensors), view_of(tables, name, found, who), given, stream, asked)
    return TableRows(drawn.codes, who[drawn.patients - 1])


def _put_keys(found: Mapping[str, TableRows], tables: LinkedTables, before: Mapping[str, int]) -> None:
    """Write fresh keys for patients and rows, and the keys of the latest rows of other tables; in place."""
    for name, rows in found.items():
        schema, links = tables.view(name), tables.tables[name].latest
        for key, column in schema.columns.items():
            place = schema.names.index(key)
            if key == tables.key:
                rows.codes[:, place] = before.get(tables.first, 0) + rows.whose + 1
            elif key in links:
                other, of_other = found[links[key]], tables.view(links[key])
                keys = np.append(other.codes[:, of_other.names.index(key)], column.size)  # the last is for no row there
                rows.codes[:, place] = keys[latest(rows, schema, other, of_other)]
            elif not column.modelled:
                rows.codes[:, place] = column.fresh(before.get(name, 0), len(rows.codes))


def latest(rows: TableRows, schema: Schema, other: TableRows, of_other: Schema) -> Whole:
    """Return the index of the patient's last row in another table that is not after each row, (rows,); -1 for none."""
    mine, theirs = (
        pd.DataFrame({
            "at": np.asarray(column_values(one.codes, own, own.order or ""), np.float64),
            "whose": np.asarray(one.whose, np.int64), "place": np.arange(len(one.whose)),
        }).sort_values("at", kind="stable")
        for one, own in ((rows, schema), (other, of_other))
    )  # fmt: skip
    found = pd.merge_asof(mine, theirs, on="at", by="whose", suffixes=("", "_there")).sort_values("place")
    return np.asarray(found["place_there"].fillna(-1), np.int64)
