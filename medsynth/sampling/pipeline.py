"""Sample: draw synthetic rows from an artifact. It never needs the data, and costs no privacy.

A model draws one table or several. Both are rows by table, and one table is the first and only one.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
import pandas as pd

from ..arrays import Codes, Whole
from ..artifact import Model, load
from ..cores import in_order
from ..errors import UsageError, checked_keywords
from ..io.formats import FileForm
from ..io.table import is_number
from ..io.writer import csv_text, encoded, runs_as_formula
from ..methods import registry
from ..patients.split_rows import ending, with_rows_column
from ..rng import numpy_stream, stream_seed
from ..schema import Schema
from ..schema.codec import Where, column_values, csv_cells, day_ranges, decode, parse
from .draw import ONE_TABLE_ONLY, Draw, with_mark
from .patients import ROWS_PER_PATIENT, PatientRows, RowCounts, in_chunks, patients_of_rows, rows_of_a_patient
from .replicates import broken_model
from .replicates import replicates as replicates_of
from .sampler import conditions, meet, method_sampler, single_rows
from .tables import patients_of_tables
from .visits import ChainView, broken_firsts, visits

PATIENTS = "\0patients"  # among the numbers of earlier rows by table, that of patients; no table has such a name
REPLICATE = "replicate"  # the column with the number of the replicate, from 1 on
CHUNK_ROWS = 100_000  # drawn at once while a file is written
CHUNK_PATIENTS = 20_000  # the same, of several tables
CELLS_AT_ONCE = 1 << 23  # of rows drawn at once on several cores: more need more memory
T = TypeVar("T")
Tables = dict[str, T]  # what belongs to each table, by name
Parts = Iterator[tuple[int | None, Tables[Codes]]]  # rows in chunks, with the number of their replicate, if it is shown


def sample_codes(model: Model, draw: Draw, counts: RowCounts | None = None) -> Codes:
    """Return the rows of the first table as codes, (rows, columns). Raise as `sample` does.

    Replicates draw from other models.
    """
    return np.concatenate([next(iter(codes.values())) for codes in _chunks(model, draw, counts=counts)])


def _chunks(
    model: Model, draw: Draw, *, halved: bool = True, counts: RowCounts | None = None
) -> Iterator[Tables[Codes]]:
    """Yield the rows of each table as codes, in chunks, with keys that no earlier row has; no patient is in two chunks.

    `halved`: whether more rows are drawn and halved, so that the tables stay the same; replicates go without. `counts`:
    where rows of patients in order are counted.
    """
    draw = draw.of(model)
    halved = halved and not model.structure_only
    drawn = _tables if model.tables is not None else _patients if model.schema.unit else _rows
    views = model.views
    written = model.written
    before = Counter[str]()
    with broken_model():
        for found in drawn(model, draw, halved):
            give_keys(found, model, before)  # after all rejection: no key comes twice
            if counts is not None:
                counts.add(found)
            yield {
                name: rows.codes[:, [views[name].names.index(column) for column in written[name].names]]
                for name, rows in found.items()
            }


def _tables(model: Model, draw: Draw, halved: bool) -> Iterator[Tables[PatientRows]]:
    """Yield patients with their rows in several tables."""
    drawn = patients_of_tables(model, draw, halved)
    yield from _one_by_one(drawn, draw, "patients", draw.patients or 0, CHUNK_PATIENTS, at_once=1)


def _rows(model: Model, draw: Draw, halved: bool) -> Iterator[Tables[PatientRows]]:
    """Yield rows that are the only one of their patient."""
    core = model.schema.core
    sampler = method_sampler(model, core, *conditions(model, draw.where, draw.balance), day_ranges(draw.where, core))
    mends = registry.find(model.method, model.preset).conditional_sampling

    def drawn(count: int, seed: int | None) -> Tables[PatientRows]:
        codes = single_rows(sampler, model.schema, count, seed, halved=halved, even=draw.balance, mends=mends)
        return {model.name: PatientRows(codes, np.arange(len(codes)))}

    at_once = CELLS_AT_ONCE // (CHUNK_ROWS * len(model.schema.columns))
    yield from _one_by_one(drawn, draw, "rows", draw.rows or 0, CHUNK_ROWS, at_once)


def _one_by_one(
    drawn: Callable[[int, int | None], Tables[PatientRows]], draw: Draw, what: str, count: int, most: int, at_once: int
) -> Iterator[Tables[PatientRows]]:
    """Yield `count` rows or patients that do not depend on one another, in chunks of `most`, of which `at_once` run."""

    def chunk(start: int) -> Tables[PatientRows]:
        seed = draw.seed if start == 0 or draw.seed is None else stream_seed(draw.seed, f"{what} from {start}")
        return drawn(min(most, count - start), seed)

    yield from in_order((partial(chunk, start) for start in range(0, count, most)), at_once)


def _patients(model: Model, draw: Draw, halved: bool) -> Iterator[Tables[PatientRows]]:
    """Yield whole patients, with rows in order or not. Patients selected by `where_any` are not halved: rejection needs
    independent draws.
    """
    schema = model.schema
    if draw.balance and schema.order is not None and schema.target in ending(schema):
        raise UsageError(
            f"`balance` is about first rows, but a rule ties {schema.target!r} to the last row. Leave `balance` out, "
            "and draw the patients of each class with `where_any`."
        )
    halved = halved and not draw.where_any
    of_rows = schema if schema.order is None else with_rows_column(schema)
    bad = None if schema.order is None else partial(broken_firsts, schema=of_rows)
    asked_days = day_ranges(draw.where, of_rows.core)
    sampler = method_sampler(model, of_rows.core, *conditions(model, draw.where, draw.balance), asked_days)
    mends = registry.find(model.method, model.preset).conditional_sampling
    single = partial(single_rows, sampler, of_rows, halved=halved, even=draw.balance, bad=bad, mends=mends)
    ranges = parse(draw.where_any, schema, "where_any")
    meets = partial(meet, names=schema.names, ranges=ranges) if ranges else None
    asked = {*parse(draw.where, schema.core, days=True), *([schema.target or ""] * draw.balance)}

    def drawn(count: int, seed: int | None, most_rows: int | None) -> PatientRows:
        if schema.order is not None:
            stream = numpy_stream(seed, "later rows")
            return visits(model.tensors, ChainView(schema), single(count, seed), stream, asked)
        shares = model.tensors[ROWS_PER_PATIENT].astype(np.float64)
        return patients_of_rows(single, sampler, schema, shares, count, seed, most_rows)

    for found in in_chunks(drawn, draw, rows_of_a_patient(model.tensors), CHUNK_ROWS, meets):
        yield {model.name: found}


@checked_keywords
def sample(
    model: Model | Path | str,
    n: int | None = None,
    seed: int | None = None,
    where: Where = (),
    balance: bool = False,
    replicates: int | None = None,
    *,
    patients: int | None = None,
    where_any: Where = (),
) -> pd.DataFrame:
    """Return `n` synthetic rows (by default the model's public row count), in the original's columns.

    Their dtypes are those that the schema declares, or the usual ones of their kinds.

    `patients`: in place of `n`, this number of whole patients with all their rows, from a model of patients. Of `n`
    rows the last patient may be cut, if no patient fits. `seed` repeats the sample. `where`: a condition such as
    "sex=F", "age=40..60", "age=60.." or "sex=F,M", a list of conditions, or a mapping such as {"sex": ["F", "M"],
    "age": (60, None)}; in a model with an order they apply to first rows. `where_any`: the same, for patients with at
    least one row, whichever, that meets all of them together: patients are drawn until there are enough. `balance`: as
    many rows per class. `replicates`: this number of plausible models, from the released measurements alone, draw the
    same amount each. Their rows follow one another, with the number of the replicate, from 1 on, in a first column
    `replicate`. `medsynth.combine` turns their estimates into one interval. With an order `attrs["counts"]` contains
    the planned and the written rows, the patients, and those whom rules cut short; the logger "medsynth" warns of them.
    Raises UsageError for counts below one, both `n` and `patients`, patients from a model without them, and
    conditions that hardly any row or patient meets; ArtifactError for a broken model.
    """
    draw = Draw(rows=n, patients=patients, seed=seed, where=where, where_any=where_any, balance=balance,
                replicates=replicates)  # fmt: skip
    model = model if isinstance(model, Model) else load(model)
    if model.tables is not None:
        raise UsageError("This is a model of several tables. Use medsynth.sample_tables to draw their rows.")
    if replicates is not None:
        return pd.concat((rows for part in frames(model, draw) for rows in part.values()), ignore_index=True)
    rows = decode(sample_codes(model, draw, counts := RowCounts()), model.schema)
    return _counted({model.name: rows}, counts)[model.name]


@partial(checked_keywords, cures={**ONE_TABLE_ONLY, "n": "It draws whole patients: set `patients`."})
def sample_tables(
    model: Model | Path | str, patients: int | None = None, seed: int | None = None, where: Where = ()
) -> dict[str, pd.DataFrame]:
    """Return synthetic tables by name, of this number of patients (by default the model's public number).

    `seed` repeats the sample. `where`: conditions on the first table's columns, or on those of first rows, such as
    "visits.ward=heart". Tables with an order have counts, as in `sample`. Raises UsageError for a model of one table,
    or if conditions cannot be met.
    """
    model = model if isinstance(model, Model) else load(model)
    if model.tables is None:
        raise UsageError("This is a model of one table. Use medsynth.sample to draw its rows.")
    parts = list(frames(model, Draw(patients=patients, seed=seed, where=where), counts := RowCounts()))
    return _counted({name: pd.concat([part[name] for part in parts], ignore_index=True) for name in parts[0]}, counts)


def _counted(tables: Tables[pd.DataFrame], counts: RowCounts) -> Tables[pd.DataFrame]:
    """Return tables with the counts of their rows. The logger "medsynth" warns if patients were cut short."""
    for name, own in counts.items():
        tables[name].attrs["counts"] = dict(own)
    for text in counts.sentences:
        logging.getLogger("medsynth").warning(text)
    return tables


def sample_csv(model: Model, draw: Draw) -> str:
    """Return the rows of the first table as CSV text, with exact decimals."""
    return "".join(csv_chunks(model, draw))


def csv_chunks(model: Model, draw: Draw) -> Iterator[str]:
    """Yield that text in chunks, so that any number of rows needs constant memory."""
    return (next(iter(part.values())) for part in as_texts(drawn_parts(model, draw), model, draw, model.form))


def as_texts(parts: Parts, model: Model, draw: Draw, form: FileForm) -> Iterator[Tables[str]]:
    """Yield drawn rows as text with the delimiter and decimal mark of a form, and the header in the first part."""
    schemas = model.written
    for k, (number, tables) in enumerate(parts):
        cells = {name: csv_cells(codes, schemas[name]) for name, codes in tables.items()}
        if form.decimal != ".":
            for name, own in cells.items():
                cells[name] = own.assign(**{one: _with_commas(own[one]) for one in numbers_in_text(schemas[name])})
        number_text = None if number is None else str(number)
        yield {
            name: csv_text(_whole(own, number_text, model, draw), header=k == 0, delimiter=form.delimiter)
            for name, own in cells.items()
        }


def as_bytes(parts: Parts, model: Model, draw: Draw, form: FileForm) -> Iterator[Tables[bytes]]:
    """Yield the same in the encoding of the form. Raise UsageError for a character that it does not have."""
    return encoded(as_texts(parts, model, draw, form), form.encoding)


def numbers_in_text(schema: Schema) -> list[str]:
    """Return the columns of numbers, also of levels that are all numbers: their cells have a decimal mark."""
    return [
        name for name, column in schema.columns.items()
        if column.modelled and column.written and not column.dated and not column.part
        and not getattr(column, "examples", ()) and all(is_number(str(one)) for one in column.levels)
    ]  # fmt: skip


def formula_columns(schema: Schema) -> list[str]:
    """Return the columns whose name, levels or codes of missing values a spreadsheet would run as formulas.

    The words stay unchanged in the rows, since a changed cell is another cell; a warning names the columns instead.
    """
    return [
        name for name, column in schema.columns.items()
        if any(map(runs_as_formula, [name, *map(str, column.levels), *column.gap_words, getattr(column, "shape", "")]))
    ]  # fmt: skip


def _with_commas(cells: pd.Series) -> pd.Series:
    place, found = pd.factorize(cells)
    texts = [text.replace(".", ",") if is_number(text) else text for text in found]
    return pd.Series(np.array(texts, dtype=object)[place], dtype=object)


def frames(model: Model, draw: Draw, counts: RowCounts | None = None) -> Iterator[Tables[pd.DataFrame]]:
    """Yield the rows of each table as frames, chunk by chunk. `counts`: where rows of patients in order are counted."""
    return as_frames(drawn_parts(model, draw, counts), model, draw)


def as_frames(parts: Parts, model: Model, draw: Draw) -> Iterator[Tables[pd.DataFrame]]:
    """Yield drawn rows as frames."""
    schemas = model.written
    for number, tables in parts:
        yield {name: _whole(decode(codes, schemas[name]), number, model, draw) for name, codes in tables.items()}


def _whole(frame: pd.DataFrame, number: int | str | None, model: Model, draw: Draw) -> pd.DataFrame:
    """Return rows with the number of their replicate in a first column, and the mark in a last one, if asked for."""
    if number is not None:
        frame.insert(0, REPLICATE, number)
    return with_mark(frame, draw.mark, model)


def drawn_parts(model: Model, draw: Draw, counts: RowCounts | None = None) -> Parts:
    """Yield the rows as codes in chunks, each with the number of its replicate for the first column, or None.

    Those of replicates follow one another. `counts`: where rows of patients in order are counted.
    """
    if draw.replicates is None:
        yield from ((None, codes) for codes in _chunks(model, draw, counts=counts))
        return
    if draw.replicate is None and REPLICATE in model.schema.names:
        raise UsageError(f"The table has a column {REPLICATE!r}, which replicates would add. Rename it, and fit again.")
    for own, parts in replicates_apart(model, draw):
        yield from ((own.replicate if draw.replicate is None else None, codes) for _, codes in parts)


def replicates_apart(model: Model, draw: Draw) -> Iterator[tuple[Draw, Parts]]:
    """Yield for each requested replicate, from 1 on, its own draw and its rows."""
    for number, one in enumerate(replicates_of(model, draw.replicates or 0, draw.seed), 1):
        if draw.replicate in (None, number):
            seed = None if draw.seed is None else stream_seed(draw.seed, f"replicate {number}")
            chunks = _chunks(one, replace(draw, seed=seed), halved=False)
            yield replace(draw, replicate=number), ((None, codes) for codes in chunks)
        if draw.replicate == number:
            return


def give_keys(found: Mapping[str, PatientRows], model: Model, before: Counter[str]) -> None:
    """Write keys into all columns of keys; in place. The first table has all patients.

    before: the numbers of earlier patients and of earlier rows by table, after whose keys new ones follow; in place.
    Raises UsageError if a column has too few values.
    """
    views, written = model.views, model.written
    patients = next(iter(found.values())).count
    for name, rows in found.items():
        schema = views[name]
        links = model.links(name)
        for k, (key, column) in enumerate(schema.columns.items()):
            if column.modelled:
                continue
            try:
                if key == written[name].unit:
                    rows.codes[:, k] = column.fresh(before[PATIENTS], patients)[rows.whose]
                elif key in links:
                    there, theirs = links[key]
                    keys = found[there].codes[:, views[there].names.index(theirs)]
                    last = latest(rows, schema, found[there], views[there])
                    rows.codes[:, k] = np.append(keys, column.size)[last]  # the last code is for no row
                else:
                    rows.codes[:, k] = column.fresh(before[name], len(rows.codes))
            except UsageError as error:
                raise UsageError(f"{key!r}: {error}") from None
    before.update({PATIENTS: patients} | {name: len(rows.codes) for name, rows in found.items()})


def latest(rows: PatientRows, schema: Schema, other: PatientRows, of_other: Schema) -> Whole:
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
