"""Rejection sampling under a schema's constraints: rows that break one are sampled again; defined columns are computed.

Rows count alone here; `rules_across_rows` handles rules across a patient's rows. Source: von Neumann 1951. `Tilt` keeps
the shares of values. The number of rounds is fixed; rows that are not accepted in any of them become copies.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from ..arrays import Codes, Mask, Whole
from ..errors import UsageError
from ..rng import numpy_stream
from ..schema import Schema
from ..schema.columns.parts import missing_alone
from .rules_across_rows import completed, values
from .ties import Ties
from .tilt import Tilt

Sampler = Callable[..., Codes]  # (rows, seed[, codes of some columns given for each row]) to codes of the core
Bad = Callable[[Codes], Mask]  # maps rows to which of them are bad
REJECTION_ROUNDS = 40  # of sampling rows that break a constraint; the rest become copies of rows that break none
MIN_SAMPLED = 8_192  # rows sampled at once, and to find the shares that the rules must not change
NEARLY_ALL = 0.98  # of the rows
SPARE = 1.1  # rows sampled, relative to the number of which enough should be accepted


def complete(core: Codes, schema: Schema) -> Codes:
    """Return codes of all columns, (rows, columns), from those of `schema.core`; defined columns are computed in order.

    A result beyond the bounds is clipped. NaN is missing, or the lower bound if the column has no missing values. What
    rules across rows define is that of first rows.
    """
    return completed(widened(core, schema), None, schema)


def widened(core: Codes, schema: Schema) -> Codes:
    """Return codes of all columns, (rows, columns), from those of `schema.core`: zero in all others."""
    codes = np.zeros((len(core), len(schema.columns)), np.int32)
    codes[:, [schema.names.index(name) for name in schema.core.names]] = core
    return codes


def broken(codes: Codes, schema: Schema) -> Mask:
    """Return which rows break a constraint by themselves, or have a part of a cell that is missing alone: (rows,)."""
    found = missing_alone(codes, schema.columns)
    for rule in schema.parsed_rules:
        if not rule.defines and not rule.across:
            found |= rule.broken(values(codes, schema, rule.columns))
    return found


def sample_again(
    codes: Codes, left: Whole, draw: Callable[[Whole], Codes], bad: Callable[[Codes, Whole], Mask], rounds: int
) -> Whole:
    """Sample the rows at the places `left` again, each for its own place, until none is `bad` there; in place.

    `draw` returns a row for each of its places. Returns the places whose rows were bad in all of the `rounds`.
    """
    for _ in range(rounds):
        if not len(left):
            break
        again = draw(left)
        good = ~bad(again, left)
        codes[left[good]] = again[good]
        left = left[~good]
    return left


def rejection_sample(
    sampler: Sampler, schema: Schema, count: int, seed: int | None, bad: Bad | None = None, *, mends: bool = False
) -> Codes:
    """Return `count` rows of `sampler(count, seed)`, codes of `schema.core`, completed, without `bad` rows: by default
    those that break a constraint by themselves. The shares of values stay as far as the constraints allow.

    `mends`: whether the sampler takes `ties`, and draws the columns of broken ones again.

    Raises UsageError if no row meets the constraints.
    """
    together = (column.part is not None and column.part.whole.together for column in schema.columns.values())
    if bad is None and not any(together) and all(rule.defines for rule in schema.parsed_rules):
        return complete(sampler(count, seed), schema)
    is_bad = bad or (lambda rows: broken(rows, schema))
    ties = Ties.of(schema, numpy_stream(seed, "ties"))
    draw = partial(sampler, ties=ties) if mends and ties.ties else sampler
    codes = complete(draw(max(count, MIN_SAMPLED), seed), schema)
    free = complete(np.concatenate(ties.free), schema) if ties.free else codes
    good = ~is_bad(codes)
    if not good.any():
        raise UsageError("No sampled row meets the schema's rules. Change contradictory rules or conditions.")
    if good.all() and len(codes) >= count:
        return codes[:count]
    # Ties keep shares by themselves, unless more rules than theirs reject rows.
    tilt = (
        None
        if ties.free and good.mean() > NEARLY_ALL
        else Tilt.of(codes, good, schema, free=free if ties.free else None)
    )
    stream = numpy_stream(seed, "rules")
    good &= tilt is None or tilt.accepted(codes, stream)
    found = [codes[good][:count]]
    rate = max(float(good.mean()), 1 / len(codes))
    for _ in range(REJECTION_ROUNDS):
        if not (left := count - sum(map(len, found))):
            break
        wanted = min(max(int(SPARE * left / rate), MIN_SAMPLED), max(count, MIN_SAMPLED))
        again = complete(draw(wanted, int(stream.integers(2**62))), schema)
        found.append(again[~is_bad(again) & (tilt is None or tilt.accepted(again, stream))][:left])
    met = np.concatenate(found)
    return np.concatenate([met, met[stream.choice(len(met), count - len(met))]])
