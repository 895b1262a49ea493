"""How do patients end? Shares of the states in last rows, the time to them, and last values by state.

A state is a level that a rule ties to the last row, as in `died = yes implies last row`, or a level of the target. Real
held-out patients are compared with synthetic ones. Whole patients are resampled, in both tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd

from ...arrays import Floats, Mask
from ...rng import Stream
from ...schema import Schema
from ...schema.columns.column import level_text
from ...schema.rules import END_OF_ROWS, Rule, ValuesByName
from ..data.over_time import Sequences
from ..data.question import QUESTIONS
from ..data.statistics import largest, resampled, weighted_means, worst
from ..data.survival import Survival, Times, drawn, largest_gap
from ..data.verdict import Estimate, Record, Thresholds, Verdict
from .over_time import FEWEST, MOST_SHOWN
from .registry import Section

MOST_PATIENTS = 10_000  # Patients of each table. More change no figure and cost seconds.
EVERY = "any state"
NO_STATE = (
    "No state is compared: no rule ties a level to the last row, as `died = yes implies last row` does, and the target "
    "has no levels. Declare such a rule to compare shares of states and the time to them."
)
TOO_FEW = "At least {} real and {} synthetic patients are needed. Hold out more patients."


class State(Record):
    """One state in last rows. `rule`: the rule that ties it to the last row; None for a level of the target.

    Real figures of fewer than FEWEST patients are None. `difference`: synthetic less real share, in standard deviations
    of the two shares. `time_gap`: largest difference of the curves of the time to the state.
    """

    name: str
    rule: str | None
    share_real: float | None
    share_synthetic: float
    difference: float | None
    time_gap: Estimate
    curve: Survival


class LastValue(Record):
    """A column in the last rows of patients in one state: its mean, or the share of one of its levels.

    `difference`: synthetic less real, in standard deviations over all real last rows.
    """

    state: str
    column: str
    level: str | None
    real: float
    synthetic: float
    difference: float


class Outcomes(Record):
    """Last rows of patients. `unit`: of the time from the first to the last row; "rows" if the order has no distances.

    Each gap is the largest absolute difference, with an interval for all of them together. `reason`: why a figure is
    lacking.
    """

    unit: str
    patients_real: int | None
    patients_synthetic: int
    fewest: int
    states: list[State]
    last_values: list[LastValue]
    share_gap: Estimate
    time_gap: Estimate
    values_gap: Estimate
    reason: str | None


@dataclass(frozen=True)
class Ends:
    """The last rows of some patients: rows (patients, columns), and the time from the first row, (patients,)."""

    rows: Sequences
    time: Floats

    @classmethod
    def of(cls, made: Sequences) -> Ends:
        """Return the last rows of the sequences."""
        last = np.cumsum(made.sizes) - 1
        flags = np.zeros(len(made.patient), np.bool_)
        flags[last] = True
        first = last - made.sizes + 1
        time = (made.sizes - 1).astype(np.float64) if made.time is None else made.time[last] - made.time[first]
        return cls(made.of(flags), np.asarray(time, np.float64))

    @property
    def count(self) -> int:
        """Return the number of patients."""
        return len(self.time)


@dataclass(frozen=True)
class NamedState:
    """A state by name: a level of a column, or the whole premise of a rule."""

    name: str
    rule: Rule | None
    column: str | None = None
    level: str | None = None

    def met(self, ends: Ends, schema: Schema) -> Mask:
        """Return which patients are in the state in their last row: (patients,)."""
        if self.column is not None:
            return (ends.rows.rows[self.column] == self.level).to_numpy(np.bool_)
        assert self.rule is not None
        values = {name: _values(ends, schema, name) for name in self.rule.columns}
        truths = [condition.truth(values) == 1 for condition in self.rule.premise]
        return np.asarray(np.all(np.broadcast_arrays(*truths, np.ones(ends.count, np.bool_)), axis=0))


def _values(ends: Ends, schema: Schema, name: str) -> Floats:
    """Return a column's values as rules read them: numbers on their own scale, levels as text."""
    values = ends.rows.rows[name].to_numpy()
    column = schema.columns[name]
    if name not in ends.rows.numbers:
        return np.asarray(values, object)
    plain = np.exp(values.astype(np.float64)) if getattr(column, "scale", None) == "log" else values
    return np.asarray(np.round(plain.astype(np.float64), column.places), np.float64)


def conditions(schema: Schema, target: str | None, names: Sequence[str]) -> list[NamedState]:
    """Return the states that rules tie to the last row, then the levels of the target: of the columns `names`."""
    found: dict[str, NamedState] = {}
    for rule in schema.parsed_rules:
        premise = Rule(rule.text, rule.premise, ())
        read = premise.columns
        if END_OF_ROWS not in rule.conclusion or premise.across or not read or not read <= set(names):
            continue
        if any(schema.columns[column].dated for column in read):
            continue
        if len(read) == 1 and schema.columns[column := min(read)].categorical:
            found |= {one.name: one for one in _levels(schema, column, premise) if one.name not in found}
        else:
            text = rule.text.partition("implies")[0].strip()
            found.setdefault(text, NamedState(text, premise))
    ended = {one.column for one in found.values()}
    if target is not None and target in {*names} - ended and schema.columns[target].categorical:
        found |= {one.name: one for one in _levels(schema, target, None)}
    return list(found.values())[:MOST_SHOWN]


def _levels(schema: Schema, column: str, rule: Rule | None) -> list[NamedState]:
    """Return a state for each declared level of a column, or only for those that meet the premise of a rule."""
    texts = [level_text(level) for level in schema.columns[column].levels]
    met = np.ones(len(texts), np.bool_)
    if rule is not None:
        values: ValuesByName = {column: np.array(texts, dtype=object)}
        met = np.all([one.truth(values) == 1 for one in rule.premise], axis=0)
    return [NamedState(f"{column} = {text}", rule, column, text) for text, kept in zip(texts, met, strict=True) if kept]


def outcomes(found: Mapping[str, Sequences], schema: Schema, target: str | None, rng: Stream) -> Outcomes | None:
    """Return every figure of the section; None without sequences. Without real ones only synthetic rows are described.

    found: the tables' sequences by name (`data.over_time.sequences`).
    """
    if not found:
        return None
    assert schema.order is not None
    made = Ends.of(found["synthetic"].some(MOST_PATIENTS, rng))
    real = Ends.of(found["real"].some(MOST_PATIENTS, rng)) if "real" in found else None
    states = conditions(schema, target, list(made.rows.rows.columns))
    order = schema.columns[schema.order]
    unit = "days" if order.dated else getattr(order, "unit", None) or schema.order
    reason = None if states else NO_STATE
    few = real is not None and min(real.count, made.count) < FEWEST
    if few:
        reason = TOO_FEW.format(FEWEST, FEWEST)
    both = None if real is None or few else (real, made)
    flags = [[state.met(side, schema) for state in states] for side in (made, *([real] if real else []))]
    nothing = Estimate(value=None)
    gaps, apart = _shares(flags[1], flags[0], rng) if both and states else (nothing, [None] * len(states))
    lines = [
        _state(state, k, flags, (made, real), apart[k], rng, compare=both is not None) for k, state in enumerate(states)
    ]
    values, values_gap = _last_values(both, states, flags, rng) if both else ([], nothing)
    return Outcomes(
        unit="rows" if made.rows.time is None else unit, patients_real=real.count if real else None,
        patients_synthetic=made.count, fewest=FEWEST, states=lines, last_values=values, share_gap=gaps,
        time_gap=worst([line.time_gap for line in lines]), values_gap=values_gap, reason=reason,
    )  # fmt: skip


def _shares(real: Sequence[Mask], made: Sequence[Mask], rng: Stream) -> tuple[Estimate, list[float | None]]:
    """Return the largest standardised difference of the shares of states, and that of each state."""
    sides = [np.stack(flags, 1).astype(np.float64) for flags in (real, made)]
    p, q = (side.mean(0) for side in sides)
    spread = np.sqrt((p * (1 - p) + q * (1 - q)) / 2)
    spread[spread == 0] = np.inf  # All patients of both tables, or none: the shares are equal, or 0 and 1.
    spread[np.abs(q - p) == 1] = 1.0
    draws = [resampled(len(side), rng, partial(weighted_means, side)) for side in sides]
    apart = (q - p) / spread
    return largest(apart, (draws[1] - draws[0]) / spread), apart.tolist()


def _state(
    state: NamedState, k: int, flags: Sequence[Sequence[Mask]], sides: tuple[Ends, Ends | None],
    apart: float | None, rng: Stream, *, compare: bool,
) -> State:  # fmt: skip
    """Return one state's figures; `flags` and `sides` are of the synthetic and the real patients."""
    times = [Times(side.time, flag[k]).known() for side, flag in zip(sides, flags, strict=False) if side is not None]
    real = times[1] if len(times) > 1 else None
    gap = Estimate(value=None)
    if compare and real is not None and (real.event.any() or times[0].event.any()):
        gap = largest_gap(real, times[0], FEWEST, rng)
    hits = int(flags[1][k].sum()) if len(flags) > 1 else 0
    return State(
        name=state.name,
        rule=state.rule.text if state.rule else None,
        share_real=float(flags[1][k].mean()) if hits >= FEWEST else None,
        share_synthetic=float(flags[0][k].mean()) if len(flags[0][k]) else 0.0,
        difference=apart,
        time_gap=gap,
        curve=drawn(real, times[0], FEWEST),
    )


def _last_values(
    both: tuple[Ends, Ends], states: Sequence[NamedState], flags: Sequence[Sequence[Mask]], rng: Stream
) -> tuple[list[LastValue], Estimate]:
    """Return every column's last values by state, worst first, and their largest standardised difference."""
    labels, (real, made) = _features(both)
    if not labels:
        return [], Estimate(value=None)
    spread = np.nanstd(real, axis=0)
    groups = [(state.name, state.column, (flags[1][k], flags[0][k])) for k, state in enumerate(states)]
    groups = groups or [(EVERY, None, (np.ones(len(real), np.bool_), np.ones(len(made), np.bool_)))]
    found, values, draws = list[LastValue](), list[Floats](), list[Floats]()
    for name, own, masks in groups:
        sides = [side[mask] for side, mask in zip((real, made), masks, strict=True)]
        enough = np.min([np.isfinite(side).sum(0) for side in sides], axis=0) >= FEWEST
        kept = np.flatnonzero(enough & (spread > 0) & [label[0] != own for label in labels])
        if not len(kept):
            continue
        sides = [side[:, kept] / spread[kept] for side in sides]
        p, q = (np.nanmean(side, axis=0) for side in sides)
        values.append(q - p)
        drawn_sides = [resampled(len(side), rng, partial(weighted_means, side)) for side in sides]
        draws.append(drawn_sides[1] - drawn_sides[0])
        found += [
            LastValue(
                state=name, column=labels[j][0], level=labels[j][1], difference=float(q[i] - p[i]),
                real=float(p[i] * spread[j]), synthetic=float(q[i] * spread[j]),
            )
            for i, j in enumerate(kept)
        ]  # fmt: skip
    if not found:
        return [], Estimate(value=None)
    found.sort(key=lambda one: -abs(one.difference))
    return found, largest(np.concatenate(values), np.concatenate(draws, axis=1))


def _features(both: tuple[Ends, Ends]) -> tuple[list[tuple[str, str | None]], list[Floats]]:
    """Return the name and level of each feature of last rows, and the features of both tables, (patients, features).

    A number is itself, if FEWEST patients of each table have a value. A level that at least FEWEST real patients have,
    missing values included, is an indicator.
    """
    labels = list[tuple[str, str | None]]()
    sides = (list[Floats](), list[Floats]())
    for name in both[0].rows.changing:
        columns = [side.rows.rows[name] for side in both]
        found = list[tuple[str | None, list[pd.Series]]]()
        if name not in both[0].rows.numbers:
            counts = columns[0].value_counts()
            common = counts.index[counts >= FEWEST][:MOST_SHOWN]
            found += [(str(level), [column == level for column in columns]) for level in common]
        elif min(column.count() for column in columns) >= FEWEST:
            found.append((None, columns))
        if columns[0].isna().sum() >= FEWEST:
            found.append(("missing", [column.isna() for column in columns]))
        for level, values in found:
            labels.append((name, level))
            for side, column in zip(sides, values, strict=True):
                side.append(column.to_numpy(np.float64))
    return labels, [np.stack(side, 1) if side else np.zeros((0, 0)) for side in sides]


SHARES = QUESTIONS["last_row_share_gap"]
TIMES = QUESTIONS["time_to_last_row_gap"]
VALUES = QUESTIONS["last_values_gap"]


def _verdicts(found: Outcomes | None, thresholds: Thresholds) -> Sequence[Verdict]:
    if found is None or found.patients_real is None:
        return []
    lines = list[Verdict]()
    reason = found.reason or ""
    if found.states:
        detail = reason
        shown = [state for state in found.states if state.share_real is not None]
        apart = max(shown, key=lambda state: abs(state.difference or 0.0), default=None)
        if apart is not None and apart.share_real is not None:
            detail = (
                f"Farthest apart: {apart.name}, {apart.share_real:.1%} of real patients and "
                f"{apart.share_synthetic:.1%} of synthetic ones. {reason}"
            )
        lines.append(SHARES.judge(found.share_gap, thresholds, detail))
        lines.append(TIMES.judge(found.time_gap, thresholds, reason))
    detail = reason
    if found.last_values:
        one = found.last_values[0]
        level = f" = {one.level}" if one.level else ""
        figures = f"real {one.real:.3g}, synthetic {one.synthetic:.3g}"
        detail = f"Farthest apart: {one.column}{level} in {one.state}, {figures}."
    return [*lines, VALUES.judge(found.values_gap, thresholds, detail)]


OUTCOMES = Section(
    "outcomes", "How patients end", lambda c: outcomes(c.sequences, c.declared, c.target, c.rng), Outcomes,
    needs=("schema",), questions=(SHARES, TIMES, VALUES), verdicts=_verdicts,
)  # fmt: skip
