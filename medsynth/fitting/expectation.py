"""Estimate how close a fit's columns come to the table's, from public numbers and the noise of its plan alone.

Before a fit, tables of a public prior take the place of the private one: the code that learns a schema and counts
columns runs on them with the plan's noise. After a fit, rows of the model take that place. Nothing here reads a row.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from ..arrays import Codes, Floats, Texts
from ..errors import TargetError
from ..io.table import from_frame
from ..methods.bins import fine_grid
from ..methods.marginals import ONE_WAY, cleaned
from ..mixture.constants import BINS, BY_CLASS, COARSE
from ..mixture.one_way import LEVELS_OF, OneWayMarginals
from ..privacy import partition_selection
from ..privacy.accounting.calibration import Plan
from ..privacy.accounting.events import Event, Gaussian, Thresholded
from ..privacy.partition_selection import RawVault
from ..privacy.queries.rows import Axes, CodedRows
from ..privacy.queries.tables import Marginals
from ..privacy.release import Release, Releases
from ..rng import SeededEntropy, Stream, numpy_stream
from ..schema import Schema, open_schema
from ..schema.codec import encode
from ..schema.columns.categorical import Categorical
from ..schema.columns.column import Column, numbers_of
from ..schema.columns.number import Count
from ..similarity import cells_in, count_of, edges_of, similarity

Maker = Callable[[int, Stream], Texts]  # texts of a column of this number of rows
Size = tuple[int, int, bool]  # codes of values, kinds of missing values, and whether codes are levels
Planned = tuple[tuple[str, tuple[Event, int]], ...]
LIMIT = 0.7  # least one-way similarity with which a fit starts: below it, two-way similarity was below .5
MOST_ROWS, MOST_COLUMNS = 2000, 8  # of a simulated table; noise is scaled so that it hides as much of it
TABLES = 3  # simulated for an expectation
MOST_SIMULATED = 100  # columns of a model that are counted again after its fit, in a second or two
MOST_VALUES = 1000  # of a simulated number; the search for frequent values counts each of them
KNOWN = 1e-6  # noise multiplier of what is known
LEARNING = (partition_selection.KINDS, partition_selection.LEVELS, partition_selection.FORMATS)
CLASSES = 3  # typical classes of a target, over which counts by class are added up
FEW = 20  # columns of at most this many values are levels
POINTS = (np.arange(2000) + 0.5) / 2000  # quantiles at which a fitted distribution is compared


@dataclass(frozen=True, kw_only=True)
class Expectation:
    """What a fit should achieve: the mean similarity of columns, and the share of rows below which a level is lost.

    `one_way`: 1 minus the total variation between the fitted and the sampled distribution, the mean over columns.
    `level` is None if the levels are declared, `target_class` also without a target.
    """

    one_way: float
    level: float | None = None
    target_class: float | None = None

    @property
    def stops(self) -> bool:
        """Whether a fit stops before it spends anything, because most of its model would be noise."""
        return self.one_way < LIMIT

    def __str__(self) -> str:
        found = f"Expected: one-way similarity {self.one_way:.2f} (1 is perfect)"
        if self.level is not None:
            found += f"; levels below {_percent(self.level)} of the rows lost"
        if self.target_class is not None:
            found += f", classes of the target below {_percent(self.target_class)}"
        return found


def _percent(share: float) -> str:
    return f"{math.ceil(100 * min(share, 1.0))}%"


def counts_columns(plan: Plan) -> bool:
    """Return whether the plan counts single columns as the default method does."""
    return COARSE in plan.events and ONE_WAY in plan.events


def of_table(plan: Plan, schema: Schema) -> float:
    """Return the expected one-way similarity of a table: the mean over its declared and its open columns."""
    columns, learned = len(schema.core.columns), len(schema.core.open)
    events = tuple(plan.events.items())
    open_part = of_open_columns(events, plan.delta, plan.equivalent_rows, columns, learned) if learned else 0.0
    if learned == columns or not counts_columns(plan):
        return open_part
    return (learned * open_part + (columns - learned) * of_schema(plan, schema)) / columns


@functools.lru_cache(maxsize=256)
def of_open_columns(events: Planned, delta: float, rows: int, columns: int, learned: int) -> float:
    """Return the expected one-way similarity of `learned` open columns, the mean over simulated tables."""
    used, some = min(rows, MOST_ROWS), min(max(learned, 2), MOST_COLUMNS)
    # What is declared is known: its questions, which the plan lacks, are answered without noise.
    answered: dict[str, tuple[Event, int]] = {
        partition_selection.KINDS: (Gaussian(multiplier=KNOWN), 1),
        partition_selection.LEVELS: (Thresholded(multiplier=KNOWN, delta=delta), 1),
        partition_selection.FORMATS: (Gaussian(multiplier=KNOWN), 1),
    }
    plan = _scaled(answered | dict(events), delta, rows, columns, used, some, learned)
    found = list[float]()
    for number in range(TABLES):
        stream = numpy_stream(number, "expected table")
        frame = typical_table(used, some, number, stream)
        *others, target = _learned(plan, frame, number)
        found.append((target + (learned - 1) * float(np.mean(others))) / learned)
    return float(np.mean(found))


def of_schema(plan: Plan, schema: Schema) -> float:
    """Return the expected one-way similarity of a table with this schema: the mean over simulated tables."""
    names = [name for name in schema.core.names if name != schema.target and name not in schema.open]
    step = max(1, math.ceil(len(names) / MOST_COLUMNS))
    # A hierarchy has no levels before the fit selects them.
    sizes = tuple(_size(column) for name in names[::step] if (column := schema.core.columns[name]).size)
    if not sizes:
        return 1.0
    return _of_sizes(tuple(plan.events.items()), plan.delta, plan.equivalent_rows, len(schema.core.names), sizes)


@functools.lru_cache(maxsize=256)
def _of_sizes(
    events: Planned, delta: float, rows: int, columns: int,
    sizes: tuple[Size, ...],
) -> float:  # fmt: skip
    used = min(rows, MOST_ROWS)
    plan = _scaled(dict(events), delta, rows, columns, used, len(sizes))
    found = list[float]()
    for number in range(TABLES):
        stream = numpy_stream(number, "expected codes")
        codes = np.column_stack([_typical_codes(size, used, stream) for size in sizes])
        found += _counted(plan, codes, sizes, number)
    return float(np.mean(found))


def of_model(plan: Plan, core: Schema, codes: Codes) -> Floats:
    """Return what is expected of each column of a fitted model, (columns,), by `codes` of its own rows.

    They are counted again with the noise that the fit used. What differs is what the noise changes.
    """
    sizes = [_size(column) for column in core.columns.values()]
    rows = len(codes)
    flat = _scaled(plan.events, plan.delta, plan.equivalent_rows, len(sizes), rows, len(sizes))
    small = np.column_stack([_shrunk(codes[:, k], column) for k, column in enumerate(core.columns.values())])
    return np.array(_counted(flat, small, sizes, 0))


def _scaled(
    events: Mapping[str, tuple[Event, int]], delta: float, rows: int, columns: int, used: int, some: int,
    learned: int | None = None,
) -> Plan:  # fmt: skip
    """Return the plan for a table of `used` rows and `some` columns whose noise hides as much as in the whole table.
    `learned`: the number of open columns; all, if not given.

    Counts by class, added up over classes, count the columns again; the one-way marginals get their precision.
    """
    found = dict[str, tuple[Event, int]]()
    for label, (event, times) in events.items():
        of_all = (learned or columns) if label in LEARNING else columns
        scale = used / rows * (1.0 if label == partition_selection.TARGET else math.sqrt(of_all / some))
        own = replace(event, multiplier=event.multiplier * scale)
        if isinstance(own, Thresholded) and label != partition_selection.TARGET:
            own = replace(own, delta=min(own.delta * some / of_all, delta))
        found[label] = own, times
    if BY_CLASS in found:
        event, times = found[ONE_WAY]
        found[ONE_WAY] = replace(event, multiplier=of_one_way(found)), times
    return Plan(
        epsilon_asked=1.0, epsilon=1.0, delta=delta, rows=used, accountant="prv", events=found, rows_std=0.0
    )  # fmt: skip


def of_one_way(events: Mapping[str, tuple[Event, int]]) -> float:
    """Return the noise multiplier of one-way counts: those by class, added up over classes, count the columns again."""
    one = events[ONE_WAY][0].multiplier ** -2
    return float((one + (events[BY_CLASS][0].multiplier ** -2 / CLASSES if BY_CLASS in events else 0.0)) ** -0.5)


# A table without a schema: texts of typical columns, what is learned of them, and what is sampled.


def typical_table(rows: int, columns: int, shift: int, stream: Stream) -> pd.DataFrame:
    """Return texts of a typical table of patients. The last column is the target, with two classes.

    The columns are a public prior: no and yes, sex, a few stages, ages, laboratory values with one or two decimals,
    counts, some of them with missing values. `shift` rotates the kinds, so that small tables do not always begin with
    the same ones.
    """
    makers = _MAKERS[3 * shift % len(_MAKERS) :] + _MAKERS[: 3 * shift % len(_MAKERS)]
    made = {f"column {k}": makers[k % len(makers)](rows, stream) for k in range(columns - 1)}
    return pd.DataFrame({**made, "target": _levels(("no", "yes"), (0.7, 0.3))(rows, stream)}, dtype=object)


def _levels(words: tuple[str, ...], shares: tuple[float, ...], missing: float = 0.0) -> Maker:
    def make(rows: int, stream: Stream) -> Texts:
        found = stream.choice(np.array(words, dtype=object), rows, p=shares)
        return np.where(stream.random(rows) < missing, "", found)

    return make


def _numbers(
    middle: float, spread: float, places: int, log: bool = False, missing: float = 0.0, zeros: float = 0.0
) -> Maker:
    def make(rows: int, stream: Stream) -> Texts:
        scores = stream.normal(size=rows)
        values = middle * np.exp(spread * scores) if log else np.maximum(middle + spread * scores, 0)
        values = np.where(stream.random(rows) < zeros, 0.0, values)
        texts = np.array([f"{value:.{places}f}" for value in values], dtype=object)
        return np.where(stream.random(rows) < missing, "", texts)

    return make


_MAKERS = (
    _levels(("0", "1"), (0.8, 0.2)),
    _numbers(55, 16, 0),
    _numbers(4.2, 0.35, 1, log=True),
    _levels(("female", "male"), (0.55, 0.45)),
    _numbers(1.1, 0.6, 2, log=True, missing=0.1),
    _levels(("home", "ward", "clinic", "unit", "other"), (0.4, 0.25, 0.2, 0.1, 0.05), missing=0.05),
    _levels(tuple("1234567"), (0.05, 0.1, 0.2, 0.3, 0.2, 0.1, 0.05)),
    _numbers(240, 0.4, 0, log=True),
    _levels(("no", "yes"), (0.93, 0.07)),
    _numbers(90, 1.2, 2, log=True, zeros=0.3),
)


def _learned(plan: Plan, frame: pd.DataFrame, number: int) -> list[float]:
    """Return the similarity of each column after a schema was learned and the columns were counted by it."""
    entropy = SeededEntropy(number)
    table = from_frame(frame)
    releases = OfPublicRows(plan.ledger(entropy.source), entropy)
    target = "target" if partition_selection.TARGET in plan.events else None
    try:
        raw = RawVault(table, len(frame), releases, open_schema(map(str, frame), target), rows_std=0.0)
        schema = raw.measure_schema().schema
    except TargetError:
        return [0.0] * frame.shape[1]
    core = schema.core
    codes = encode(table, core)
    columns = list(core.columns.values())
    small = np.column_stack([_shrunk(codes[:, k], column) for k, column in enumerate(columns)])
    # Another method adds errors of its own. What a learned schema loses is lost in any case.
    drawn = list(small.T.astype(np.float64))
    if counts_columns(plan):
        drawn = _drawn(plan, small, [_size(column) for column in columns], number)
    found = list[float]()
    for name in frame:
        if name not in core.columns:  # read as a key
            found.append(0.0)
            continue
        k = core.names.index(name)
        column = core.columns[name]
        texts = column.csv_cells(_grown(drawn[k], column), {})
        found.append(of_texts(frame[name].to_numpy(object), texts.to_numpy(object)))
    return found


def of_texts(real: Texts, made: Texts) -> float:
    """Return 1 minus the total variation between two columns of texts.

    >>> of_texts(np.array(["a", "b", "a", "b"], object), np.array(["a", "a", "a", "b"], object))
    0.75
    """
    known = numbers_of(real[real != ""])
    if np.isfinite(known).all() and len(np.unique(known)) > FEW:
        return _of_numbers(numbers_of(real), numbers_of(made))
    both = np.unique(np.concatenate([real, made]).astype(str), return_inverse=True)[1]
    return similarity(both[: len(real)], both[len(real) :], int(both.max()) + 1)


def _of_numbers(real: Floats, made: Floats) -> float:
    """Return the similarity of two columns of numbers, (rows,), in cells of the real ones; NaN is missing."""
    edges = edges_of(real[~np.isnan(real)])
    return similarity(cells_in(real, edges), cells_in(made, edges), count_of(edges))


# Codes: counted with the plan's noise, and drawn again by the counts.


class OfPublicRows(Releases):
    """Releases of a simulated table: nothing is charged, because nobody's row is in it."""

    def release(self, label: str, sensitivity: float, draw: Callable[[Event], Release]) -> Release:
        """Return the noised measurement with the planned noise."""
        return draw(self.event(label))


class PublicCodes:
    """Simulated rows of codes, (rows, columns), which answer tables of counts with the plan's noise.

    They have no vault, which guards private rows and needs PyTorch.
    """

    def __init__(self, codes: Codes, names: tuple[str, ...], plan: Plan, stream: Stream) -> None:
        self._rows = CodedRows(codes, names, np.empty((len(codes), 0), np.uint64))
        self._plan, self._stream = plan, stream

    def measure_marginals(
        self, label: str, tables: dict[str, Axes], weights: Mapping[str, float] | None = None, *,
        centred: tuple[str, ...] = (),
    ) -> dict[str, Floats]:  # fmt: skip
        """Return noisy tables, as a vault does."""
        query = Marginals(tables, weights, False, centred)
        exact = query.finished(query.exact(self._rows))
        scales = query.scales(self._plan.noise(label) * query.sensitivity(None))
        noise = (self._stream.normal(0.0, scale.std, whole.shape) for whole, scale in zip(exact, scales, strict=True))
        return query.result([a * s.unit + n for a, s, n in zip(exact, scales, noise, strict=True)])


def _size(column: Column) -> Size:
    return min(column.size, MOST_VALUES) if column.ordered else column.size, column.gaps, not column.ordered


def _shrunk(codes: Codes, column: Column) -> Codes:
    """Return codes on MOST_VALUES even steps of the column's scale, if it has more."""
    size = column.size
    if size <= MOST_VALUES or not column.ordered:
        return codes
    place = codes / size if column.scale == "linear" else np.log1p(codes) / math.log1p(size)
    small = np.minimum(place * MOST_VALUES, MOST_VALUES - 1)
    return np.where(codes >= size, codes - size + MOST_VALUES, small).astype(np.int32)


def _grown(codes: Floats, column: Column) -> Codes:
    """Return a column's codes for codes and parts of a step on even steps of its scale."""
    size = column.size
    whole = np.floor(codes)
    if size <= MOST_VALUES or not column.ordered:
        return whole.astype(np.int32)
    place = codes / MOST_VALUES
    grown = place * size if column.scale == "linear" else np.expm1(place * math.log1p(size))
    return np.where(codes >= MOST_VALUES, whole - MOST_VALUES + size, np.minimum(grown, size - 1)).astype(np.int32)


def _drawn(plan: Plan, codes: Codes, sizes: Sequence[Size], number: int) -> list[Floats]:
    """Return codes of each column, at even quantiles of its distribution by the plan's noisy counts."""
    columns: dict[str, Column] = {}
    for k, (size, gaps, levels) in enumerate(sizes):
        missing = tuple(range(-1, -1 - gaps, -1)) or False
        columns[str(k)] = (
            Categorical(levels=tuple(range(size)), missing=missing) if levels
            else Count(bounds=(0, max(size - 1, 1)), missing=missing)
        )  # fmt: skip
    schema = Schema(name="expected", columns=columns)
    rows: Any = PublicCodes(codes, schema.names, plan, numpy_stream(number, "expected noise"))
    own = OneWayMarginals.measure(rows, schema, plan, BINS)
    found = list[Floats]()
    for name, column in columns.items():
        cells = own.grids.get(name) or fine_grid(column)
        shares = own.shares[name] if name in own.grids else cleaned(own.counts[LEVELS_OF + name], plan.rows)
        found.append(np.interp(POINTS, np.append(0.0, np.cumsum(shares) / shares.sum()), cells.ends))
    return found


def _counted(plan: Plan, codes: Codes, sizes: Sequence[Size], number: int) -> list[float]:
    """Return the similarity of each column of codes with what is drawn after the codes were counted."""
    drawn = _drawn(plan, codes, sizes, number)
    found = list[float]()
    for k, (size, _, levels) in enumerate(sizes):
        pair = codes[:, k].astype(np.int64), drawn[k].astype(np.int64)
        if not levels and len(np.unique(pair[0])) > FEW:
            found.append(_of_numbers(*(np.where(values < size, values, np.nan) for values in pair)))
        else:
            found.append(similarity(*pair, max(int(values.max()) for values in pair) + 1))
    return found


def _typical_codes(size: Size, rows: int, stream: Stream) -> Codes:
    """Return codes of a typical column of this size: levels of unequal shares, numbers in a part of their bounds."""
    values, gaps, levels = size
    if levels:
        shares = stream.dirichlet(np.full(values, 1.0))
        codes = stream.choice(values, rows, p=shares)
    else:
        codes = np.floor(values * stream.beta(3, 6, rows)).astype(np.int64)
    missing = stream.random(rows) < (0.05 if gaps else 0.0)
    return np.where(missing, values, np.minimum(codes, values - 1)).astype(np.int32)
