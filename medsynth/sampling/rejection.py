"""Rules held in every row: defined columns are computed, rows that break a constraint are drawn anew."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError
from ..rng import Stream, numpy_stream
from ..schema import Schema
from ..schema.constraints import Values, evaluate
from ..transforms.table_codec import column_values, related_values

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
            related = related_values(codes, schema, rule.defines)
            codes[:, schema.names.index(rule.defines)] = column.code_computed(result.astype(np.float64), related)
    return codes


def values(codes: Codes, schema: Schema, names: set[str]) -> Values:
    """What rules read of some columns: numbers with NaN for missing, levels as text with None."""
    return {name: column_values(codes, schema, name) for name in names}


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


def fresh_codes(schema: Schema, first: int, count: int) -> dict[str, Codes]:
    """Codes of the columns that no model learns, each (count,). Raises UsageError where one has too few."""
    found = {}
    for name, column in schema.columns.items():
        if not column.modelled:
            try:
                found[name] = column.fresh(first, count)
            except UsageError as error:
                raise UsageError(f"{name!r}: {error}") from None
    return found


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
    fresh = fresh_codes(schema, first, count)
    codes = complete(draw(count, seed), schema)
    bad = np.flatnonzero(broken(codes, schema))
    stream = numpy_stream(seed, "rules")
    for _ in range(TRIES):
        if not len(bad):
            break
        # More than are wanted, so that a rule that one row in ten meets is met within the tries.
        again = complete(draw(min(max(4 * len(bad), 256), max(count, 256)), int(stream.integers(2**62))), schema)
        good = again[~broken(again, schema)][: len(bad)]
        codes[bad[: len(good)]] = good
        bad = bad[len(good) :]
    good = np.setdiff1d(np.arange(count), bad)
    if not len(good):
        raise UsageError("No sampled row keeps the schema's rules: they contradict one another or what is asked for.")
    codes[bad] = codes[stream.choice(good, len(bad))]
    for name, own in fresh.items():
        codes[:, schema.names.index(name)] = own  # numbered after all redrawing: no key comes twice
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
    rest = [k for k, column in enumerate(schema.columns.values()) if column.modelled]
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
