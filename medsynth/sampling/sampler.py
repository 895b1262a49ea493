"""Draw rows one by one: the generator of a model's method, with conditions, rules and even classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, cast

import numpy as np

from ..arrays import Codes, Mask, Whole
from ..artifact import Model
from ..errors import UsageError
from ..methods import registry
from ..methods.registry import restored_settings
from ..rng import Stream, numpy_stream
from ..schema import Schema
from ..schema.codec import Range, Where, day_ranges, hull, met, parse, within_days
from ..schema.columns.date import Date
from .balance import balanced, halvings
from .rejection import Bad, Sampler, rejection_sample, sample_again
from .ties import Ties

FEWEST_TO_JUDGE, EVEN = 1000, 0.8  # rows by which classes are judged; least part of the share that was asked for
DAY_ROUNDS, MOST_AT_ONCE = 40, 100_000  # of drawing rows for conditions on days of a date that follows another
RANGE_ROUNDS = 2_000  # of drawing rows again that are between the ranges of a condition


def single_rows(
    sampler: Sampler, schema: Schema, count: int, seed: int | None, *, halved: bool, even: bool = False,
    bad: Bad | None = None, mends: bool = False,
) -> Codes:  # fmt: skip
    """Return rows that are not `bad`: by default, that break no rule by themselves.

    `halved`: more rows are drawn and halved, so that their tables are the model's. `mends`: as in `rejection_sample`.
    Raises UsageError if rules leave too few rows of a class for `even` classes.
    """
    times = 2 ** halvings(count, len(schema.columns)) if halved else 1
    codes = rejection_sample(sampler, schema, times * count, seed, bad, mends=mends)
    if even and len(codes) >= FEWEST_TO_JUDGE:
        asked = np.bincount(sampler(FEWEST_TO_JUDGE, seed)[:, schema.core.names.index(schema.target)])
        found = np.bincount(codes[:, schema.names.index(schema.target)], minlength=len(asked))[: len(asked)]
        if (found / len(codes) < EVEN * asked / FEWEST_TO_JUDGE).any():
            raise UsageError(
                "`balance` asks for as many rows of each class, but rows of some class nearly always break a rule. "
                "Leave out `balance`, or change the rules."
            )
    return balanced(codes, schema, count, numpy_stream(seed, "balance")) if halved else codes


def conditions(model: Model, where: Where, balance: bool) -> tuple[dict[str, Any], dict[str, tuple[Range, ...]]]:
    """Return the arguments of conditional sampling, and the columns with several allowed ranges.

    Raises UsageError for conditions that the model's method cannot meet.
    """
    if not where and not balance:
        return {}, {}
    core = model.schema.core
    ranges = parse(where, core, days=True)
    own = {name: hull(some) for name, some in ranges.items()}
    for name, days in day_ranges(where, core).items():
        column, other = cast(Date, core.columns[name]), core.columns[name].depends_on[0]
        if other in core.columns:  # few of its days lead to the days asked for
            anchor = cast(Date, core.columns[other])
            first, last = zip(column.anchor_codes(days, anchor), own.get(other, (0, anchor.size)), strict=True)
            own[other] = max(first), min(last)
            if max(first) > min(last):
                raise UsageError(
                    "No date before leads to the days of these conditions. Leave one out or widen a range."
                )
    conditions = {"where": own, "balance": balance}
    apart = {name: some for name, some in ranges.items() if len(some) > 1}
    if not registry.find(model.method, model.preset).conditional_sampling:
        takers = ", ".join(name for name, other in registry.METHODS.items() if other.conditional_sampling)
        raise UsageError(f"`where` and `balance` need a model of {takers}. This one is of {model.method}.")
    return conditions, apart


def method_sampler(
    model: Model,
    core: Schema,
    conditions: dict[str, Any],
    apart: dict[str, tuple[Range, ...]],
    days: Mapping[str, tuple[float, float]] = MappingProxyType({}),
) -> Sampler:
    """Return the method's generator of a `core` as a function of rows, seed and given columns, which enter its rows.

    It draws within single ranges. For a column in `apart`, with several ranges, it draws within their hull, and draws
    rows in between again. It also draws rows again that are outside the `days` of a date that follows another.
    """
    method = registry.find(model.method, model.preset)
    module = method.load(model.preset)
    config = restored_settings(module.Config, model.config)

    def drawn(rows: int, seed: int | None, fixed: dict[str, Codes] | None = None, ties: Ties | None = None) -> Codes:
        given = {**conditions, "fixed": fixed} if fixed and method.conditional_sampling else conditions
        if ties:
            given = {**given, "mend": partial(ties.mend, given={*conditions.get("where", ())})}
        codes: Codes = module.generate(model.tensors, config, core, model.rows, rows, seed, **given)
        for name, own in (fixed or {}).items():
            codes[:, core.names.index(name)] = own
        return codes

    def sampler(rows: int, seed: int | None, fixed: dict[str, Codes] | None = None, ties: Ties | None = None) -> Codes:
        codes = drawn(rows, seed, fixed, ties)
        if days and not fixed:  # a day can be rare: many rows at once
            codes = enough(codes, rows, numpy_stream(seed, "days"), ties)
        stream = numpy_stream(seed, "ranges")

        def again(places: Whole) -> Codes:
            given = {name: own[places] for name, own in (fixed or {}).items()}
            return drawn(len(places), int(stream.integers(2**62)), given or None, ties)

        if len(sample_again(codes, np.flatnonzero(between(codes)), again, lambda rows, _: between(rows), RANGE_ROUNDS)):
            raise UsageError("Hardly any row meets these conditions together. Leave one out or widen a range.")
        if ties:
            ties.free[:] = [rows[~between(rows)] for rows in ties.free]
        return codes

    def enough(codes: Codes, rows: int, stream: Stream, ties: Ties | None) -> Codes:
        """Return this number of rows within the days, or the rows as they are if hardly any is."""
        inside, tried = [codes[~between(codes)]], len(codes)
        for _ in range(DAY_ROUNDS):
            if (known := sum(map(len, inside))) >= rows:
                return np.concatenate(inside)[:rows]
            wanted = int(1.2 * (rows - known) * tried / max(known, 1)) + rows
            again = drawn(min(wanted, MOST_AT_ONCE), int(stream.integers(2**62)), None, ties)
            inside, tried = [*inside, again[~between(again)]], tried + len(again)
        return codes

    def between(codes: Codes) -> Mask:
        return ~(meet(codes, core.names, apart) & within_days(codes, core, days))

    return sampler if apart or days else drawn


def meet(codes: Codes, names: Sequence[str], ranges: Mapping[str, tuple[Range, ...]]) -> Mask:
    """Return which rows of codes, (rows, columns with these names), are in the ranges of all columns: (rows,)."""
    inside = [met(codes[:, names.index(name)], own) for name, own in ranges.items()]
    return np.asarray(np.all(inside, axis=0)) if inside else np.ones(len(codes), np.bool_)
