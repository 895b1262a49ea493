"""Sample: from an artifact to synthetic rows. Runs where the data never was, and costs no privacy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..artifact import Model, load
from ..errors import UsageError
from ..io.writer import csv_text
from ..longitudinal.successive_rows import with_rows_column
from ..methods import registry
from ..methods.settings import restored_settings
from ..rng import numpy_stream, stream_seed
from ..schema import Schema
from ..transforms.conditions import Range, Where, hull, met, parse
from ..transforms.table_codec import csv_cells, decode
from .balance import balanced, halvings
from .patients import ROWS_PER_PATIENT, assign_patients, fresh_columns, rows_of_a_patient
from .rejection import Codes, Sampler, broken, rejection_sample, sample_again
from .replicates import broken_model
from .replicates import replicates as replicates_of
from .visits import broken_firsts, enough_visits

RANGE_ROUNDS = 2_000  # of drawing anew the rows that lie between the ranges of a condition
REPLICATE = "replicate"  # the column that numbers replicates, from 1 on
CHUNK_ROWS = 100_000  # rows in memory at once while a file is written


def sample_codes(
    model: Model,
    n: int | None = None,
    seed: int | None = None,
    where: Where = (),
    balance: bool = False,
    first: int = 0,
    halved: bool = True,
) -> Codes:
    """`n` synthetic rows as codes, (n, columns); `first` rows were sampled before, whose keys are not used again.

    `halved`: whether more are drawn, and halved so that their tables stay those of all; replicates do without.

    Raises UsageError unless n is positive and `where` can be met, ArtifactError for a broken model.
    """
    count = model.rows if n is None else n
    if count < 1:
        raise UsageError("`n` must be one or more.")
    if model.tables is not None:
        raise UsageError("This is a model of several tables: medsynth.sample_tables draws their rows.")
    schema = model.schema
    of_rows = schema if schema.order is None else with_rows_column(schema)
    sampler = method_sampler(model, of_rows.core, *conditions(model, where, balance))
    fresh = fresh_columns(schema, first, count)

    def bad(codes: Codes) -> NDArray[np.bool_]:
        return broken(codes, schema) if schema.order is None else broken_firsts(codes, schema)

    def drawn(rows: int) -> Codes:
        """Rows that break no rule, one a patient where rows of patients follow one another."""
        times = 2 ** halvings(rows, len(of_rows.columns)) if halved else 1
        codes = rejection_sample(sampler, of_rows, times * rows, seed, bad)
        return balanced(codes, of_rows, rows, numpy_stream(seed, "balance")) if halved else codes

    with broken_model():
        patients = None
        if schema.order is not None:
            mean = rows_of_a_patient(model.tensors)
            found = enough_visits(model.tensors, schema, drawn, count, mean, numpy_stream(seed, "later rows"))
            codes, patients = found.codes, found.patients
        else:
            codes = drawn(count)
        for name, keys in fresh.items():
            codes[:, schema.names.index(name)] = keys  # after all rejection: no key comes twice
        if patients is not None:
            codes[:, schema.names.index(schema.unit or "")] = first + patients
        elif schema.unit is not None:
            shares = model.tensors[ROWS_PER_PATIENT].astype(np.float64)
            assign_patients(codes, sampler, schema, seed, shares, first)
    return codes


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
) -> pd.DataFrame:
    """`n` synthetic rows (by default as many as the model's public row count), in the original's columns.

    Their dtypes are those that the schema declares, or its columns' kinds have.

    `seed` repeats the sample. `where`: a condition such as "sex=F", "age=40..60", "age=60.." or "sex=F,M", a list of
    them, or a mapping such as {"sex": ["F", "M"], "age": (60, None)}; `balance`: as many rows a class.
    `replicates`: so many plausible models, by the released measurements alone, draw `n` rows each, below one another,
    with the number of the replicate, from 1 on, in a first column `replicate`; `medsynth.combine` makes one interval of
    their estimates.
    Raises UsageError unless n is positive and the conditions can be met, ArtifactError for a broken model.
    """
    model = model if isinstance(model, Model) else load(model)
    if replicates is not None:
        return pd.concat(frames(model, n, seed, where, balance, replicates), ignore_index=True)
    return decode(sample_codes(model, n, seed, where, balance), model.schema)


def _check_name(model: Model) -> None:
    """Raises UsageError where a column of the table has the name of that of replicates."""
    if REPLICATE in model.schema.names:
        raise UsageError(f"The table has a column {REPLICATE!r}, as its replicates would. Rename it, and fit again.")


def sample_csv(
    model: Model, n: int | None = None, seed: int | None = None, where: Where = (), balance: bool = False
) -> str:
    """The same as CSV text, numbers with their exact decimals."""
    return "".join(csv_chunks(model, n, seed, where, balance))


def csv_chunks(
    model: Model, n: int | None = None, seed: int | None = None, where: Where = (), balance: bool = False,
    replicates: int | None = None,
) -> Iterator[str]:  # fmt: skip
    """That text in chunks, so that any number of rows is sampled in constant memory; or that of `replicates`."""
    for k, (number, codes) in enumerate(_numbered(model, n, seed, where, balance, replicates)):
        yield csv_text(_beside(csv_cells(codes, model.schema), number and str(number)), header=k == 0)


def frames(
    model: Model, n: int | None = None, seed: int | None = None, where: Where = (), balance: bool = False,
    replicates: int | None = None,
) -> Iterator[pd.DataFrame]:  # fmt: skip
    """The same rows as frames, chunk by chunk."""
    for number, codes in _numbered(model, n, seed, where, balance, replicates):
        yield _beside(decode(codes, model.schema), number)


def _beside(frame: pd.DataFrame, number: int | str | None) -> pd.DataFrame:
    """Rows with the number of their replicate in a first column; without one, as they are."""
    if number is not None:
        frame.insert(0, REPLICATE, number)
    return frame


def _numbered(
    model: Model, n: int | None, seed: int | None, where: Where, balance: bool, replicates: int | None
) -> Iterator[tuple[int | None, Codes]]:
    """Rows in chunks, with the number of the replicate that they are of, from 1 on, or None for the model's own."""
    if replicates is None:
        yield from ((None, codes) for codes in _chunks(model, n, seed, where, balance))
        return
    _check_name(model)
    for number, one in enumerate(replicates_of(model, replicates, seed), 1):
        own = None if seed is None else stream_seed(seed, f"replicate {number}")
        yield from ((number, codes) for codes in _chunks(one, n, own, where, balance, halved=False))


def _chunks(
    model: Model, n: int | None, seed: int | None, where: Where, balance: bool, *, halved: bool = True
) -> Iterator[Codes]:
    count = model.rows if n is None else n
    for start in range(0, max(count, 1), CHUNK_ROWS):
        own = seed if start == 0 or seed is None else stream_seed(seed, f"rows from {start}")
        yield sample_codes(model, min(CHUNK_ROWS, count - start), own, where, balance, start, halved)
