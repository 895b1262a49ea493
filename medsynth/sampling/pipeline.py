"""Sample: draw synthetic rows from an artifact. It never needs the data, and costs no privacy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..arrays import Codes, Mask, Whole
from ..artifact import Model, load
from ..cores import in_order
from ..errors import UsageError, checked_keywords
from ..io.formats import FileForm
from ..io.table import is_number
from ..io.writer import csv_text, encoded, runs_as_formula
from ..methods import registry
from ..methods.registry import restored_settings
from ..patients.split_rows import with_rows_column
from ..rng import numpy_stream, stream_seed
from ..schema import Schema
from ..schema.codec import Range, Where, csv_cells, decode, hull, met, parse
from .balance import balanced, halvings
from .draw import Draw, with_mark
from .patients import ROWS_PER_PATIENT, PatientRows, give_keys, in_chunks, patients_of_rows, rows_of_a_patient
from .rejection import Sampler, rejection_sample, sample_again
from .replicates import broken_model
from .replicates import replicates as replicates_of
from .visits import ChainView, broken_firsts, visits

FEWEST_TO_JUDGE, EVEN = 1000, 0.8  # rows by which classes are judged; least part of the share that was asked for
RANGE_ROUNDS = 2_000  # of drawing rows again that are between the ranges of a condition
REPLICATE = "replicate"  # the column with the number of the replicate, from 1 on
CHUNK_ROWS = 100_000  # drawn at once while a file is written
CELLS_AT_ONCE = 1 << 23  # of rows drawn at once on several cores: more need more memory


def sample_codes(model: Model, draw: Draw) -> Codes:
    """Return the rows as codes, (rows, columns). Raise as `sample` does. Replicates draw from other models."""
    return np.concatenate(list(_chunks(model, draw)))


def _chunks(model: Model, draw: Draw, *, halved: bool = True) -> Iterator[Codes]:
    """Yield the rows as codes in chunks, with keys that no earlier row has; no patient is in two chunks.

    `halved`: whether more rows are drawn and halved, so that the tables stay the same; replicates go without.
    """
    if model.tables is not None:
        raise UsageError("This is a model of several tables. Use medsynth.sample_tables to draw their rows.")
    draw = draw.of(model)
    of_rows = model.schema if model.schema.order is None else with_rows_column(model.schema)
    sampler = method_sampler(model, of_rows.core, *conditions(model, draw.where, draw.balance))
    parts, halved = _patients if model.schema.unit else _rows, halved and not model.structure_only
    rows = patients = 0
    with broken_model():
        for found in parts(model, draw, sampler, of_rows, halved):
            give_keys(found, model.schema, rows, patients)  # after all rejection: no key comes twice
            yield found.codes
            rows, patients = rows + len(found.codes), patients + found.count


def _rows(model: Model, draw: Draw, sampler: Sampler, of_rows: Schema, halved: bool) -> Iterator[PatientRows]:
    """Yield the rows of a table with one row per patient."""
    rows, at_once = draw.rows or 0, CELLS_AT_ONCE // (CHUNK_ROWS * len(of_rows.columns))

    def chunk(start: int) -> PatientRows:
        seed = draw.seed if start == 0 or draw.seed is None else stream_seed(draw.seed, f"rows from {start}")
        count = min(CHUNK_ROWS, rows - start)
        codes = _single_rows(sampler, of_rows, count, seed, halved=halved, even=draw.balance)
        return PatientRows(codes, np.arange(1, len(codes) + 1, dtype=np.int32))

    yield from in_order((partial(chunk, start) for start in range(0, rows, CHUNK_ROWS)), at_once)


def _patients(model: Model, draw: Draw, sampler: Sampler, of_rows: Schema, halved: bool) -> Iterator[PatientRows]:
    """Yield whole patients, with rows in order or not. Patients selected by `where_any` are not halved: rejection needs
    independent draws.
    """
    schema, halved = model.schema, halved and not draw.where_any
    ranges = parse(draw.where_any, schema, "where_any")
    meets = partial(_meet, names=schema.names, ranges=ranges) if ranges else None
    asked = {*parse(draw.where, schema.core), *([schema.target or ""] * draw.balance)}

    def drawn(count: int, seed: int | None, most_rows: int | None) -> PatientRows:
        single = partial(_single_rows, sampler, of_rows, halved=halved, even=draw.balance)
        if schema.order is not None:
            stream = numpy_stream(seed, "later rows")
            return visits(model.tensors, ChainView(schema), single(count, seed), stream, asked)
        shares = model.tensors[ROWS_PER_PATIENT].astype(np.float64)
        return patients_of_rows(single, sampler, schema, shares, count, seed, most_rows)

    yield from in_chunks(drawn, draw, rows_of_a_patient(model.tensors), CHUNK_ROWS, meets)


def _single_rows(sampler: Sampler, of_rows: Schema, count: int, seed: int | None, *, halved: bool, even: bool) -> Codes:
    """Return rows that break no rule; with an order, first rows with the number of rows that follow.

    Raises UsageError if rules leave too few rows of a class for `even` classes.
    """
    bad = None if of_rows.order is None else partial(broken_firsts, schema=of_rows)
    times = 2 ** halvings(count, len(of_rows.columns)) if halved else 1
    codes = rejection_sample(sampler, of_rows, times * count, seed, bad)
    if even and len(codes) >= FEWEST_TO_JUDGE:
        asked = np.bincount(sampler(FEWEST_TO_JUDGE, seed)[:, of_rows.core.names.index(of_rows.target)])
        found = np.bincount(codes[:, of_rows.names.index(of_rows.target)], minlength=len(asked))[: len(asked)]
        if (found / len(codes) < EVEN * asked / FEWEST_TO_JUDGE).any():
            raise UsageError(
                "`balance` asks for as many rows of each class, but rows of some class nearly always break a rule. "
                "Leave out `balance`, or change the rules."
            )
    return balanced(codes, of_rows, count, numpy_stream(seed, "balance")) if halved else codes


def conditions(model: Model, where: Where, balance: bool) -> tuple[dict[str, Any], dict[str, tuple[Range, ...]]]:
    """Return the arguments of conditional sampling, and the columns with several allowed ranges.

    Raises UsageError for conditions that the model's method cannot meet.
    """
    if not where and not balance:
        return {}, {}
    ranges = parse(where, model.schema.core)
    conditions = {"where": {name: hull(some) for name, some in ranges.items()}, "balance": balance}
    apart = {name: some for name, some in ranges.items() if len(some) > 1}
    if not registry.find(model.method, model.preset).conditional_sampling:
        takers = ", ".join(name for name, other in registry.METHODS.items() if other.conditional_sampling)
        raise UsageError(f"`where` and `balance` need a model of {takers}. This one is of {model.method}.")
    return conditions, apart


def method_sampler(
    model: Model, core: Schema, conditions: dict[str, Any], apart: dict[str, tuple[Range, ...]]
) -> Sampler:
    """Return the method's generator of a `core` as a function of rows, seed and given columns, which enter its rows.

    It draws within single ranges. For a column in `apart`, with several ranges, it draws within their hull, and draws
    rows in between again.
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

        def again(places: Whole) -> Codes:
            given = {name: own[places] for name, own in (fixed or {}).items()}
            return drawn(len(places), int(stream.integers(2**62)), given or None)

        if len(sample_again(codes, np.flatnonzero(between(codes)), again, lambda rows, _: between(rows), RANGE_ROUNDS)):
            raise UsageError("Hardly any row meets these conditions together. Leave one out or widen a range.")
        return codes

    def between(codes: Codes) -> Mask:
        return ~_meet(codes, core.names, apart)

    return sampler if apart else drawn


def _meet(codes: Codes, names: Sequence[str], ranges: Mapping[str, tuple[Range, ...]]) -> Mask:
    """Return which rows of codes, (rows, columns with these names), are in the ranges of all columns: (rows,)."""
    return np.asarray(np.all([met(codes[:, names.index(name)], own) for name, own in ranges.items()], axis=0))


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
    `replicate`. `medsynth.combine` turns their estimates into one interval. Raises UsageError for counts below one,
    both `n` and `patients`, patients from a model without them, and conditions that hardly any row or patient meets;
    ArtifactError for a broken model.
    """
    draw = Draw(rows=n, patients=patients, seed=seed, where=where, where_any=where_any, balance=balance,
                replicates=replicates)  # fmt: skip
    model = model if isinstance(model, Model) else load(model)
    if replicates is not None:
        return pd.concat(frames(model, draw), ignore_index=True)
    return decode(sample_codes(model, draw), model.schema)


def sample_csv(model: Model, draw: Draw) -> str:
    """Return synthetic rows, as `sample` does, as CSV text with exact decimals."""
    return "".join(csv_chunks(model, draw))


def csv_chunks(model: Model, draw: Draw, form: FileForm | None = None) -> Iterator[str]:
    """Yield the rows as CSV text, a chunk at a time. `form`: the model's own if None."""
    for k, (number, codes) in enumerate(_numbered(model, draw)):
        yield _text(codes, model, draw, number, form or model.form, header=k == 0)


def csv_bytes(model: Model, draw: Draw, form: FileForm) -> Iterator[bytes]:
    """Yield the CSV text in the encoding of a form. Raise UsageError for a character that it does not have."""
    return encoded(csv_chunks(model, draw, form), form.encoding)


def _text(codes: Codes, model: Model, draw: Draw, number: int | None, form: FileForm, *, header: bool) -> str:
    """Return rows as text with the delimiter and decimal mark of a form."""
    cells = csv_cells(codes, model.schema)
    if form.decimal != ".":
        cells = cells.assign(**{name: _with_commas(cells[name]) for name in numbers_in_text(model.schema)})
    cells = with_mark(_beside(cells, number and str(number)), draw.mark, model)
    return csv_text(cells, header=header, delimiter=form.delimiter)


def numbers_in_text(schema: Schema) -> list[str]:
    """Return the columns of numbers, also of levels that are all numbers: their cells have a decimal mark."""
    return [
        name for name, column in schema.columns.items()
        if column.modelled and column.written and not column.dated and all(is_number(str(one)) for one in column.levels)
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


def frames(model: Model, draw: Draw) -> Iterator[pd.DataFrame]:
    """Yield synthetic rows as frames, chunk by chunk."""
    for number, codes in _numbered(model, draw):
        yield with_mark(_beside(decode(codes, model.schema), number), draw.mark, model)


def drawn_codes(model: Model, draw: Draw) -> Iterator[Codes]:
    """Yield synthetic rows as codes, chunk by chunk; those of replicates follow one another."""
    yield from (codes for _, codes in _numbered(model, draw))


def replicates_apart(
    model: Model, draw: Draw, form: FileForm
) -> Iterator[tuple[Draw, Iterator[pd.DataFrame], Iterator[str]]]:
    """Yield for each replicate its own draw, and its rows as frames and as text: read only one of the two."""
    for number, chunks in _each(model, draw):
        texts = (_text(codes, model, draw, None, form, header=k == 0) for k, codes in enumerate(chunks))
        rows = (with_mark(decode(codes, model.schema), draw.mark, model) for codes in chunks)
        yield replace(draw, replicate=number), rows, texts


def _beside(frame: pd.DataFrame, number: int | str | None) -> pd.DataFrame:
    """Return rows with the number of their replicate in a first column; without a number, unchanged."""
    if number is not None:
        frame.insert(0, REPLICATE, number)
    return frame


def _numbered(model: Model, draw: Draw) -> Iterator[tuple[int | None, Codes]]:
    """Yield rows in chunks, each with the number of its replicate for the first column, or None."""
    if draw.replicates is None:
        yield from ((None, codes) for codes in _chunks(model, draw))
        return
    if draw.replicate is None and REPLICATE in model.schema.names:
        raise UsageError(f"The table has a column {REPLICATE!r}, which replicates would add. Rename it, and fit again.")
    for number, chunks in _each(model, draw):
        yield from ((number if draw.replicate is None else None, codes) for codes in chunks)


def _each(model: Model, draw: Draw) -> Iterator[tuple[int, Iterator[Codes]]]:
    """Yield the number of each requested replicate, from 1 on, and its rows in chunks."""
    for number, one in enumerate(replicates_of(model, draw.replicates or 0, draw.seed), 1):
        if draw.replicate in (None, number):
            seed = None if draw.seed is None else stream_seed(draw.seed, f"replicate {number}")
            yield number, _chunks(one, replace(draw, seed=seed), halved=False)
        if draw.replicate == number:
            return
