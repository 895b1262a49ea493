"""Sample: from an artifact to synthetic rows. Runs where the data never was, and costs no privacy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..artifact import Model, load
from ..cores import in_order
from ..errors import UsageError
from ..io.writer import csv_text
from ..methods import registry
from ..methods.registry import restored_settings
from ..patients.successive_rows import with_rows_column
from ..rng import numpy_stream, stream_seed
from ..schema import Schema
from ..schema.codec import Range, Where, csv_cells, decode, hull, met, parse
from .balance import balanced, halvings
from .draw import Draw
from .patients import ROWS_PER_PATIENT, PatientRows, give_keys, in_chunks, patients_of_rows, rows_of_a_patient
from .rejection import Codes, Sampler, rejection_sample, sample_again
from .replicates import broken_model
from .replicates import replicates as replicates_of
from .visits import Form, broken_firsts, visits

RANGE_ROUNDS = 2_000  # of drawing anew the rows that lie between the ranges of a condition
REPLICATE = "replicate"  # the column that numbers replicates, from 1 on
CHUNK_ROWS = 100_000  # that are drawn at once while a file is written
CELLS_AT_ONCE = 1 << 23  # of rows that are drawn at a time on several cores: more need more memory


def sample_codes(model: Model, draw: Draw) -> Codes:
    """The rows as codes, (rows, columns). Raises as `sample` does; replicates are no rows of the model's own."""
    return np.concatenate(list(_chunks(model, draw)))


def _chunks(model: Model, draw: Draw, *, halved: bool = True) -> Iterator[Codes]:
    """The rows as codes in chunks, with keys that no row before has; no patient is in two chunks.

    `halved`: whether more are drawn, and halved so that their tables stay those of all; replicates do without.
    """
    if model.tables is not None:
        raise UsageError("This is a model of several tables: medsynth.sample_tables draws their rows.")
    draw = draw.of(model)
    of_rows = model.schema if model.schema.order is None else with_rows_column(model.schema)
    sampler = method_sampler(model, of_rows.core, *conditions(model, draw.where, draw.balance))
    parts = _patients if model.schema.unit else _rows
    rows = patients = 0
    with broken_model():
        for found in parts(model, draw, sampler, of_rows, halved):
            give_keys(found, model.schema, rows, patients)  # after all rejection: no key comes twice
            yield found.codes
            rows, patients = rows + len(found.codes), patients + found.count


def _rows(model: Model, draw: Draw, sampler: Sampler, of_rows: Schema, halved: bool) -> Iterator[PatientRows]:
    """Rows that are each a patient's only one."""
    rows, at_once = draw.rows or 0, CELLS_AT_ONCE // (CHUNK_ROWS * len(of_rows.columns))

    def chunk(start: int) -> PatientRows:
        seed = draw.seed if start == 0 or draw.seed is None else stream_seed(draw.seed, f"rows from {start}")
        codes = _single_rows(sampler, of_rows, min(CHUNK_ROWS, rows - start), seed, halved)
        return PatientRows(codes, np.arange(1, len(codes) + 1, dtype=np.int32))

    yield from in_order((partial(chunk, start) for start in range(0, rows, CHUNK_ROWS)), at_once)


def _patients(model: Model, draw: Draw, sampler: Sampler, of_rows: Schema, halved: bool) -> Iterator[PatientRows]:
    """Whole patients, with rows in order or not. Those who are chosen by `where_any` are not halved: they are the
    independent draws that rejection needs.
    """
    schema, halved = model.schema, halved and not draw.where_any
    ranges = parse(draw.where_any, schema, "where_any")

    def meets(codes: Codes) -> NDArray[np.bool_]:
        return np.asarray(np.all([met(codes[:, schema.names.index(n)], r) for n, r in ranges.items()], axis=0))

    def drawn(count: int, seed: int | None, most_rows: int | None) -> PatientRows:
        single = partial(_single_rows, sampler, of_rows, halved=halved)
        if schema.order is not None:
            return visits(model.tensors, Form(schema), single(count, seed), numpy_stream(seed, "later rows"))
        shares = model.tensors[ROWS_PER_PATIENT].astype(np.float64)
        return patients_of_rows(single, sampler, schema, shares, count, seed, most_rows)

    yield from in_chunks(drawn, draw, rows_of_a_patient(model.tensors), CHUNK_ROWS, meets if ranges else None)


def _single_rows(sampler: Sampler, of_rows: Schema, count: int, seed: int | None, halved: bool) -> Codes:
    """Rows that break no rule, one a patient where rows of patients follow one another: with how many follow it."""
    bad = None if of_rows.order is None else partial(broken_firsts, schema=of_rows)
    times = 2 ** halvings(count, len(of_rows.columns)) if halved else 1
    codes = rejection_sample(sampler, of_rows, times * count, seed, bad)
    return balanced(codes, of_rows, count, numpy_stream(seed, "balance")) if halved else codes


def conditions(model: Model, where: Where, balance: bool) -> tuple[dict[str, Any], dict[str, tuple[Range, ...]]]:
    """The arguments of conditional sampling, and the columns that may lie in one of several ranges.

    Raises UsageError for conditions that the model's method cannot meet.
    """
    if not where and not balance:
        return {}, {}
    ranges = parse(where, model.schema.core)
    conditions = {"where": {name: hull(some) for name, some in ranges.items()}, "balance": balance}
    apart = {name: some for name, some in ranges.items() if len(some) > 1}
    if not registry.find(model.method, model.preset).conditional_sampling:
        takers = ", ".join(name for name, other in registry.METHODS.items() if other.conditional_sampling)
        raise UsageError(f"`where` and `balance` need a model of {takers}; this is one of {model.method}.")
    return conditions, apart


def method_sampler(
    model: Model, core: Schema, conditions: dict[str, Any], apart: dict[str, tuple[Range, ...]]
) -> Sampler:
    """The method's generator of a `core` as a function of rows, seed and given columns, which are put into its rows.

    It draws within single ranges. Of a column with several, `apart`, it draws within all that they span, and rows in
    between are drawn anew.
    """
    method = registry.find(model.method, model.preset)
    module = method.load(model.preset)
    config = restored_settings(module.Config, model.config)

    def drawn(rows: int, seed: int | None, fixed: dict[str, Codes] | None = None) -> Codes:
        given = {**conditions, "fixed": fixed} if fixed and method.conditional_sampling else conditions
        codes: Codes = module.generate(model.tensors, config, core, model.rows, rows, seed, **given)
        for name, own in (fixed or {}).items():
            codes[:, core.names.index(name)] = own
        return codes

    def sampler(rows: int, seed: int | None, fixed: dict[str, Codes] | None = None) -> Codes:
        codes, stream = drawn(rows, seed, fixed), numpy_stream(seed, "ranges")

        def again(places: NDArray[np.int64]) -> Codes:
            given = {name: own[places] for name, own in (fixed or {}).items()}
            return drawn(len(places), int(stream.integers(2**62)), given or None)

        if len(sample_again(codes, np.flatnonzero(between(codes)), again, lambda rows, _: between(rows), RANGE_ROUNDS)):
            raise UsageError("Hardly a row meets these conditions together. Leave one out or widen a range.")
        return codes

    def between(codes: Codes) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = ~np.all([met(codes[:, core.names.index(n)], r) for n, r in apart.items()], axis=0)
        return found

    return sampler if apart else drawn


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
    """`n` synthetic rows (by default as many as the model's public row count), in the original's columns.

    Their dtypes are those that the schema declares, or its columns' kinds have.

    `patients`: in place of `n`, so many whole patients with all their rows, of a model of patients. Of `n` rows the
    last patient may be cut, where none fits.
    `seed` repeats the sample. `where`: a condition such as "sex=F", "age=40..60", "age=60.." or "sex=F,M", a list of
    them, or a mapping such as {"sex": ["F", "M"], "age": (60, None)}; in a model with an order they are about first
    rows. `where_any`: the same, for patients of whom at least one row, whichever, meets all of them together: patients
    are drawn until there are enough. `balance`: as many rows a class.
    `replicates`: so many plausible models, by the released measurements alone, draw as much each, below one another,
    with the number of the replicate, from 1 on, in a first column `replicate`; `medsynth.combine` makes one interval of
    their estimates.
    Raises UsageError for counts below one, `n` and `patients` together, patients of a model without them, and
    conditions that hardly a row or patient meets; ArtifactError for a broken model.
    """
    draw = Draw(rows=n, patients=patients, seed=seed, where=where, where_any=where_any, balance=balance,
                replicates=replicates)  # fmt: skip
    model = model if isinstance(model, Model) else load(model)
    if replicates is not None:
        return pd.concat(frames(model, draw), ignore_index=True)
    return decode(sample_codes(model, draw), model.schema)


def _check_name(model: Model) -> None:
    """Raises UsageError where a column of the table has the name of that of replicates."""
    if REPLICATE in model.schema.names:
        raise UsageError(f"The table has a column {REPLICATE!r}, as its replicates would. Rename it, and fit again.")


def sample_csv(model: Model, draw: Draw) -> str:
    """The same as CSV text, numbers with their exact decimals."""
    return "".join(csv_chunks(model, draw))


def csv_chunks(model: Model, draw: Draw) -> Iterator[str]:
    """That text in chunks, so that any number of rows is sampled in constant memory."""
    for k, (number, codes) in enumerate(_numbered(model, draw)):
        yield csv_text(_beside(csv_cells(codes, model.schema), number and str(number)), header=k == 0)


def frames(model: Model, draw: Draw) -> Iterator[pd.DataFrame]:
    """The same rows as frames, chunk by chunk."""
    for number, codes in _numbered(model, draw):
        yield _beside(decode(codes, model.schema), number)


def replicates_apart(model: Model, draw: Draw) -> Iterator[tuple[Draw, Iterator[pd.DataFrame], Iterator[str]]]:
    """Of each replicate the draw of its rows alone, these as frames, and as CSV text: one of the two may be read."""
    for number, chunks in _each(model, draw):
        texts = (csv_text(csv_cells(codes, model.schema), header=k == 0) for k, codes in enumerate(chunks))
        yield replace(draw, replicate=number), (decode(codes, model.schema) for codes in chunks), texts


def _beside(frame: pd.DataFrame, number: int | str | None) -> pd.DataFrame:
    """Rows with the number of their replicate in a first column; without one, as they are."""
    if number is not None:
        frame.insert(0, REPLICATE, number)
    return frame


def _numbered(model: Model, draw: Draw) -> Iterator[tuple[int | None, Codes]]:
    """Rows in chunks, with the number of the replicate that they are of, which stands beside them, or None."""
    if draw.replicates is None:
        yield from ((None, codes) for codes in _chunks(model, draw))
        return
    if draw.replicate is None:
        _check_name(model)
    for number, chunks in _each(model, draw):
        yield from ((number if draw.replicate is None else None, codes) for codes in chunks)


def _each(model: Model, draw: Draw) -> Iterator[tuple[int, Iterator[Codes]]]:
    """The number of each replicate that is wanted, from 1 on, and its rows in chunks."""
    for number, one in enumerate(replicates_of(model, draw.replicates or 0, draw.seed), 1):
        if draw.replicate in (None, number):
            seed = None if draw.seed is None else stream_seed(draw.seed, f"replicate {number}")
            yield number, _chunks(one, replace(draw, seed=seed), halved=False)
        if draw.replicate == number:
            return
