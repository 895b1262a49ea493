"""Rules held in every row: defined columns are computed, rows that break a constraint are drawn anew."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError
from ..rng import Stream, numpy_stream
from ..schema import Binary, Categorical, Date, Identifier, Schema
from ..schema.constraints import Values, evaluate, level_text
from ..transforms.columns import Column
from ..transforms.dates import days
from ..transforms.table_codec import size

Codes = NDArray[np.int32]
Floats = NDArray[np.float64]
Draw = Callable[..., Codes]  # (rows, seed[, codes of some columns that each row is given]) to codes of the core
SIZES = "patients.sizes"  # the tensor that holds the shares of patients with one, two, ... rows
TRIES = 12  # draws of the rows that break a constraint; then they are copies of rows that break none


def complete(core: Codes, schema: Schema) -> Codes:
    """Codes of all columns, (rows, columns), from those of `schema.core`; defined columns are computed in order.

    A result beyond the bounds is cut to them. One that is no number is missing, or the lower bound where none may be.
    """
    codes = np.zeros((len(core), len(schema.columns)), np.int32)
    for k, name in enumerate(schema.core.names):
        codes[:, schema.names.index(name)] = core[:, k]
    for rule in schema.parsed_rules:
        if rule.defines and rule.formula:
            column = schema.columns[rule.defines]
            result = np.broadcast_to(evaluate(rule.formula, values(codes, schema, rule.columns)), len(core))
            codes[:, schema.names.index(rule.defines)] = _coded(result.astype(np.float64), column)
    return codes


def _coded(result: NDArray[np.float64], column: Column) -> Codes:
    assert not isinstance(column, Binary | Categorical | Identifier)
    low, high = column.units
    units = np.clip(np.rint(np.nan_to_num(result, posinf=np.inf, neginf=-np.inf) * 10.0**column.places), low, high)
    code = np.where(np.isfinite(result), units - low, size(column) if column.missing else 0)
    return code.astype(np.int32)


def values(codes: Codes, schema: Schema, names: set[str]) -> Values:
    """What rules read of some columns: numbers with NaN for missing, levels as text with None."""
    found: dict[str, NDArray[np.float64] | NDArray[np.object_]] = {}
    for name in names:
        column, code = schema.columns[name], codes[:, schema.names.index(name)]
        missing = code >= size(column)
        if isinstance(column, Binary | Categorical):
            levels = np.array([*map(level_text, column.levels), None], dtype=object)
            found[name] = levels[np.minimum(code, len(levels) - 1)]
        elif isinstance(column, Date):
            found[name] = days(codes, schema, name)
        else:
            found[name] = np.where(missing, np.nan, (code.astype(np.int64) + column.units[0]) / 10.0**column.places)
    return found


def broken(codes: Codes, schema: Schema) -> NDArray[np.bool_]:
    """Which rows break a constraint: (rows,)."""
    found = np.zeros(len(codes), np.bool_)
    for rule in schema.parsed_rules:
        if not rule.defines:
            found |= rule.broken(values(codes, schema, rule.columns))
    return found


def patients(sizes: Floats, count: int, rng: Stream) -> NDArray[np.int32]:
    """The patient of each of `count` rows, (rows,), numbered from one; `sizes`: shares of patients by their rows."""
    drawn = 1 + rng.choice(len(sizes), count, p=sizes / sizes.sum())
    return np.repeat(np.arange(1, count + 1), drawn)[:count].astype(np.int32)


def held(
    draw: Draw,
    schema: Schema,
    count: int,
    seed: int | None,
    sizes: Floats | None = None,
    first: int = 0,
) -> Codes:
    """`count` rows of `draw(count, seed)`, codes of `schema.core`, completed, none of which breaks a rule.

    With `sizes`, rows are given to patients by these shares. Keys are numbered after the `first`. Rows that break a
    rule are drawn anew, a fixed number of times; those that still do become copies of rows that do not. Raises
    UsageError where not one row keeps the rules.
    """
    for name, column in schema.columns.items():
        if isinstance(column, Identifier) and first + count >= column.capacity:
            rows = first + count
            raise UsageError(f"{name!r}: the shape {column.shape} has too few keys for {rows} rows. Give it more #.")
    codes = complete(draw(count, seed), schema)
    bad = np.flatnonzero(broken(codes, schema))
    stream = numpy_stream(seed, "rules")
    for _ in range(TRIES):
        if not len(bad):
            break
        # More than are wanted, so that a rule that one row in ten meets is met within the tries.
        fresh = complete(draw(min(max(4 * len(bad), 256), max(count, 256)), int(stream.integers(2**62))), schema)
        good = fresh[~broken(fresh, schema)][: len(bad)]
        codes[bad[: len(good)]] = good
        bad = bad[len(good) :]
    good = np.setdiff1d(np.arange(count), bad)
    if not len(good):
        raise UsageError("No sampled row keeps the schema's rules: they contradict one another or what is asked for.")
    codes[bad] = codes[stream.choice(good, len(bad))]
    for k, column in enumerate(schema.columns.values()):
        if isinstance(column, Identifier):
            codes[:, k] = first + np.arange(1, count + 1)  # numbered after all redrawing: no key comes twice
    if schema.unit and sizes is not None:
        who = patients(sizes, count, numpy_stream(seed, "patients"))
        if schema.constant:
            _agree(codes, who, draw, schema, stream)
        codes[:, schema.names.index(schema.unit)] = first + who
    return codes


def _agree(codes: Codes, who: Codes, draw: Draw, schema: Schema, stream: Stream) -> None:
    """Draw every patient's later rows anew, given what the first one says of the constant columns.

    Rows that break a rule are drawn again; those that still do become copies of their patient's first.
    """
    starts = np.unique(who, return_index=True)[1]
    left = np.setdiff1d(np.arange(len(codes)), starts)
    keys = [k for k, column in enumerate(schema.columns.values()) if isinstance(column, Identifier)]
    rest = [k for k in range(codes.shape[1]) if k not in keys]
    before = codes[starts[who - 1]]
    codes[left[:, None], rest] = before[left][:, rest]
    for _ in range(TRIES):
        if not len(left):
            break
        fixed = {name: before[left, schema.names.index(name)] for name in schema.constant}
        fresh = complete(draw(len(left), int(stream.integers(2**62)), fixed), schema)
        good = ~broken(fresh, schema)
        codes[left[good][:, None], rest] = fresh[good][:, rest]
        left = left[~good]
