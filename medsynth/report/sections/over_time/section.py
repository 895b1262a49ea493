"""Do synthetic patients change over time as real ones do? Every figure stands beside a second real sample's."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....rng import Stream
from ....schema import Schema
from ...data.cells import Cells
from ...data.context import Context
from ...data.over_time import successive
from ...data.over_time.sequences import Sequences
from ...data.records import Estimate
from ...data.review import Thresholds
from ...data.statistics import Whole, halves
from ...data.tables import Tables
from ...data.verdict import Outcome, Verdict, decide
from ..registry import Section
from .curves import FEWEST, enough, gap_bars, rows_a_patient, trajectory, transitions, waiting
from .next_row import next_row
from .records import Change, OverTime, Transitions
from .slopes import Unit, slopes

DAYS_OF_YEAR = 365.25
MOST_COLUMNS = 40  # that are compared; a table of pairs of columns for each two of them


class _Compared:
    """The samples that are compared, as sequences and as cells: real, a second real one (both may be lacking), made."""

    def __init__(self, found: dict[str, Sequences], rng: Stream) -> None:
        made = found["synthetic"].capped(rng)
        self.real: Sequences | None = None
        self.second: Sequences | None = None
        if "real" in found:
            self.real, self.second = _two_real_samples(found, rng)
            patients = min(len(self.second.sizes), len(made.sizes))
            self.second, made = self.second.some(patients, rng), made.some(patients, rng)
        self.made = made
        self.names = list(made.changing)[:MOST_COLUMNS]
        first = made if self.real is None else self.real
        frames = [None if one is None else one.rows[self.names] for one in (self.real, self.second, made)]
        base = Tables(first.rows[self.names], made.rows[self.names], frames[1], self.names[0], made.numbers)
        self.cells = Cells.of(base)
        self.codes = [None if frame is None else self.cells.table(frame) for frame in frames]
        self.sizes = [self.cells.count(name) for name in self.names]

    def code(self, side: int, column: int) -> Whole | None:
        """The cells of a column in one of the three samples."""
        coded = self.codes[side]
        return None if coded is None else coded[:, column]


def _two_real_samples(found: dict[str, Sequences], rng: Stream) -> tuple[Sequences, Sequences]:
    """The held-out patients, and those of the training table or, without one, the other half of them."""
    real = found["real"].capped(rng)
    if "train" in found:
        return real, found["train"].capped(rng)
    first, _ = halves(len(real.patient), rng, real.patient)
    inside = np.isin(np.arange(len(real.patient)), first)
    return real.of(inside), real.of(~inside)


def over_time(found: dict[str, Sequences], schema: Schema, target: str, rng: Stream) -> OverTime | None:
    """Every figure of the section; None where there is no sequence or no column that changes.

    found: the tables' sequences by name (`data.over_time.sequences`). Without real ones the synthetic patients alone
    are described.
    """
    if not found or not found["synthetic"].changing:
        return None
    assert schema.order is not None and schema.max_rows is not None
    samples = _Compared(found, rng)
    real, second, made, most = samples.real, samples.second, samples.made, schema.max_rows
    lagged = [_lagged(samples, side) for side in (2, 1)]
    order, timed = schema.columns[schema.order], made.time is not None
    logarithms = frozenset(n for n in samples.names if getattr(schema.columns[n], "scale", None) == "log")
    shown = [_transitions(samples, k) for k, name in enumerate(samples.names) if name not in made.numbers]
    every = [one for one in (found.get("real"), found.get("train")) if one is not None]
    unit = Unit(DAYS_OF_YEAR, "year") if order.dated else Unit(1.0, getattr(order, "unit", None) or schema.order)
    return OverTime(
        order=schema.order,
        unit=("days" if order.dated else unit.name) if timed else None,
        most_rows=most,
        fewest=FEWEST,
        patients=len(made.sizes),
        lagged=None if lagged[0] is None else float(np.mean(lagged[0][0])),
        lagged_ceiling=None if lagged[1] is None else float(np.mean(lagged[1][0])),
        across=None if lagged[0] is None else lagged[0][1],
        across_ceiling=None if lagged[1] is None else lagged[1][1],
        columns=[_change(samples, k, lagged) for k in range(len(samples.names))],
        rows=rows_a_patient(real, second, made, most),
        gaps=gap_bars(real, second, made),
        waiting=waiting(real, made),
        transitions=[one for one in shown if one is not None],
        trajectories=[trajectory(n, n in logarithms, real, made, most) for n in samples.names if n in made.numbers],
        next_row=None if real is None or second is None else next_row(second, made, real, target, rng),
        slopes=slopes(every[-1], made, unit, logarithms, rng) if every else None,
    )


def _lagged(samples: _Compared, side: int) -> tuple[list[float], float] | None:
    """Similarity of pairs of successive rows of one sample to the real one's: by column, and across columns."""
    other = (samples.real, samples.second, samples.made)[side]
    codes = samples.codes[0], samples.codes[side]
    if samples.real is None or other is None or codes[0] is None or codes[1] is None:
        return None
    if not enough(samples.real):
        return None
    own, across = successive.lagged(samples.real, other, (codes[0], codes[1]), samples.sizes)
    return own.tolist(), across


def _change(samples: _Compared, k: int, lagged: Sequence[tuple[list[float], float] | None]) -> Change:
    """The figures of one column."""
    name, made = samples.names[k], samples.made
    number = name in made.numbers
    real, second = (samples.real, samples.second) if enough(samples.real) else (None, None)
    sides = (real, second, made)
    kept = [None if one is None or not number else successive.autocorrelation(one, name) for one in sides]
    counts = []
    for side, one in enumerate(sides):
        code = samples.code(side, k)
        counts.append(None if one is None or code is None else successive.transitions(one, code, samples.sizes[k]))
    apart = [
        None if number or counts[0] is None or other is None else successive.transition_distance(counts[0], other)
        for other in (counts[2], counts[1])
    ]
    return Change(
        name=name,
        kind="number" if number else "levels",
        similarity=None if lagged[0] is None else lagged[0][0][k],
        ceiling=None if lagged[1] is None else lagged[1][0][k],
        autocorrelation_real=kept[0],
        autocorrelation_second=kept[1],
        autocorrelation_synthetic=kept[2],
        transitions=apart[0],
        transitions_second=apart[1],
        unchanged_real=None if real is None else successive.unchanged(real, name),
        unchanged_synthetic=successive.unchanged(made, name),
    )


def _transitions(samples: _Compared, k: int) -> Transitions | None:
    name = samples.names[k]
    codes = [samples.code(0, k), samples.code(2, k)]
    return transitions(name, samples.cells.levels[name], samples.real, samples.made, codes, samples.sizes[k])


def _verdicts(found: OverTime | None, thresholds: Thresholds) -> Sequence[Verdict]:
    if found is None or found.lagged is None or found.lagged_ceiling is None:
        return []
    lines = [
        decide(
            "lagged_gap",
            "Do successive rows of a patient look real?",
            "similarity of successive rows below a second real sample's",
            Estimate(value=found.lagged_ceiling - found.lagged),
            thresholds.lagged_gap,
            f"Synthetic patients score {found.lagged:.3f}, a second real sample {found.lagged_ceiling:.3f}.",
        )
    ]
    if (ahead := found.next_row) is not None:
        gained, limit = -(ahead.loss.value or 0.0), thresholds.next_row_auroc_loss
        outcome: Outcome | None = "doubtful" if gained > limit.limit else None
        lines.append(
            decide(
                "next_row_auroc_loss",
                "Do models learn what comes next?",
                "loss of AuROC, target of the next row",
                ahead.loss,
                limit,
                f"By {ahead.real} after real patients, {ahead.synthetic} after synthetic ones.",
                instead=outcome,
            )
        )
    return lines


def _compute(context: Context) -> OverTime | None:
    if context.schema is None:
        return None
    return over_time(dict(context.sequences), context.schema, context.target, context.rng)


SECTION = Section(id="over_time", title="Patients over time", compute=_compute, record=OverTime, verdicts=_verdicts)
