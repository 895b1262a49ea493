"""Compare tables with their schema, all at once, with exact counts: PRIVATE, for whoever writes the schema.

A table is read as its fit reads it: a large one in pieces, from which only counts are kept.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pandas as pd

from ..arrays import Whole
from ..errors import NEEDS_SCHEMA, OUTSIDE, MedsynthError, Problem, SchemaError, UsageError
from ..io.formats import USUAL, SavedAs
from ..io.table import MISSING_TOKENS, LargeTable, Table, is_number
from ..sampling.rules_across_rows import in_order, values
from ..schema import Column, Schema
from ..schema.cells import CellKinds, is_code_of_a_number
from ..schema.codec import encode, fault_in, read_column
from ..schema.columns.column import Values
from ..schema.columns.open import Open
from ..schema.columns.parts import apart
from ..schema.header import person_keys
from ..schema.impossible import refuse_impossible_rules
from ..schema.inference import NARROW, by_start
from .declarations import choose_schema
from .planning import plan_fit
from .private_rows import order_of_rows, patients, refuse_floats
from .private_table import read_rows
from .private_tables import private_tables, read_tables, remarks_on_order, with_declared_columns
from .settings import FitSettings, TableSettings
from .source import find, is_linked

KEY_SHARE, KEY_ROWS = 0.95, 20  # share of distinct cells from which a column reads like a key; rows needed to judge
MUCH_CLIPPED, LITTLE_USED = 0.05, 0.02  # share of cells beyond the bounds; share of the bounds' width that cells use
MOSTLY_UNKNOWN = 0.95  # share of a column's cells: if more are unknown, the vocabulary is another one
MOSTLY = 0.8  # share of the cells of a column that a rule computes
FEW_WORDS = 0.25  # different words per row, at most, of a column with levels
MIDDLE = (0.05, 0.95)  # quantiles of the days between two dates that must be close together


@dataclass(frozen=True, kw_only=True)
class SchemaCheck:
    """The findings. `problems` make the table unfit for its schema. `remarks` do not; they count rows exactly.

    `name`: of the schema, or of the tables.
    """

    name: str
    problems: tuple[str, ...]
    remarks: tuple[str, ...]


def check_schema(path: Path, schema: Path | None, saved: SavedAs = USUAL, epsilon: float = 3.7) -> SchemaCheck:
    """Compare a table, or the tables of a folder or a file of tables, with the schema that their fit would use.

    NO NOISE: the counts are of rows, for the owner of the tables, who writes their schema. What is open loses rare
    levels in a fit of one table at `epsilon`. Raises SchemaError without a schema, UsageError for a `schema` next to
    several tables.
    """
    if is_linked(path):
        if schema is not None:
            raise UsageError(f"{path} names several tables, whose file declares the columns. Leave `schema` out.")
        return _check_tables(path, saved)
    data = read_rows(path, saved)
    chosen = choose_schema(data, TableSettings(schema=schema, **vars(saved)), path, lambda text: None)
    found = chosen.schema
    if chosen.bare:
        raise SchemaError(f"{path}: no schema. Draft a schema and finish it, or set `schema`.", NEEDS_SCHEMA)
    expected = None
    with suppress(MedsynthError):  # what stops a plan, such as no target, stops no comparison
        expected = plan_fit(path, FitSettings(epsilon=epsilon, schema=schema, **vars(saved)))[2] if found.open else None
    rare = dict.fromkeys(found.open, expected.level or 0.0) if expected else {}
    if expected and expected.target_class and (target := found.target or data.header[-1]) in rare:
        rare[target] = expected.target_class
    problems, remarks = _checked(data, found, rare)
    try:
        refuse_impossible_rules(found)
        refuse_floats(data, found.columns, [found.unit, found.order])
        if found.unit:
            patients(data, found.unit)
        if found.order and isinstance(data, LargeTable):
            order_of_rows(data, found)
    except (SchemaError, UsageError) as error:
        problems.append(str(error))
    if found.unit is None and (keys := person_keys(data.header)):
        remarks.append(
            f"column {keys[0]!r} reads like a person's key: if rows share persons, declare the keys unit and max_rows"
        )
    return SchemaCheck(name=found.name, problems=tuple(problems), remarks=tuple(remarks))


def _check_tables(path: Path, saved: SavedAs) -> SchemaCheck:
    """Compare several tables with the file that declares them: columns, keys and rules."""
    tables, read = read_tables(find(path), saved)
    cells = dict[str, Table]()
    problems, remarks = list[str](), list[str]()
    for name in tables.tables:
        schema = tables.alone(name)
        try:
            cells[name] = data = with_declared_columns(read[name], tables, name)
        except SchemaError as error:
            problems.append(str(error))
            continue
        found, more = _checked(data, schema.in_order(data.header))
        problems += found
        remarks += [f"table {name!r}: {text}" for text in more]
    if not problems:
        try:
            private = private_tables(tables, cells)
            for schema in private.declared_schemas:
                refuse_impossible_rules(schema)
        except SchemaError as error:
            problems.append(str(error))
        else:
            first = cells[tables.first].cells.drop(columns=tables.key)
            for name, data in cells.items():
                own_rules = tables.view(name)
                data = replace(data, cells=apart(data.cells, own_rules.columns))
                there = {n: c for n, c in own_rules.columns.items() if c.modelled or n in data.header}
                own_rules = own_rules.model_copy(update={"columns": there})
                if name != tables.first:  # its rules may read the patient's columns
                    of_patient = first.iloc[private.whose[name]].reset_index(drop=True)
                    data = replace(data, cells=pd.concat([data.cells, of_patient], axis=1))
                rules = _Rules(own_rules)
                rules.add(replace(data, cells=data.cells[[*own_rules.columns]]))
                remarks += [f"table {name!r}: {text}" for text in rules.remarks()]
    remarks += remarks_on_order(tables)
    return SchemaCheck(name=tables.name, problems=tuple(problems), remarks=tuple(remarks))


def _checked(
    data: Table | LargeTable, schema: Schema, rare: Mapping[str, float] = MappingProxyType({})
) -> tuple[list[str], list[str]]:
    """Return the problems and remarks of a table by its columns and rules, in one pass over its pieces.

    `rare`: by open column, the share of the rows below which a fit loses a level, if it is known.
    """
    columns = {name: _OfColumn(data.where, schema, name, data.rows) for name in schema.columns}
    rules = _Rules(schema)
    between = _BetweenDates(schema)
    problems = list[str]()
    across = schema.has_rules_across_rows and isinstance(data, LargeTable)  # its order is a problem of its own
    for piece in data.chunks():
        piece = replace(piece, cells=apart(piece.cells, schema.columns))
        for one in columns.values():
            one.add(piece)
        if not any(one.faults for one in columns.values()) and not across:
            rules.add(piece)
            between.add(piece)
    problems = [text for one in columns.values() for text in one.problems()]
    remarks = [text for one in columns.values() for text in one.remarks(rare.get(one.name, 0.0))]
    if not problems and not across:
        remarks += [*rules.remarks(), *(
            f"column {second!r}: nearly always some days after {first!r}. If the two belong together, declare "
            f"`after: {first}`, with bounds in days. Otherwise the model does not learn the time between them"
            for second, first in between.related().items()
        )]  # fmt: skip
    return problems, remarks


@dataclass
class _OfColumn:
    """What the pieces of a table show about one column. `rows`: of the whole table."""

    where: str
    schema: Schema
    name: str
    rows: int
    faults: dict[Problem, Problem] = field(default_factory=dict)  # by what is wrong: with the first row
    clipped: int = 0
    stray: int = 0
    known: int = 0
    finite: int = 0
    span: tuple[float, float] = (np.inf, -np.inf)  # the smallest and largest value
    distinct: pd.Index | None = field(default_factory=lambda: pd.Index([], dtype=np.uint64))
    codes: Counter[str] = field(default_factory=Counter)
    words: Counter[str] = field(default_factory=Counter)  # of an open column, rows by text

    def __post_init__(self) -> None:
        self.column = self.schema.columns[self.name]

    def add(self, piece: Table) -> None:
        """Count in a piece: faults, and what a fit would do silently."""
        column, cells = self.column, piece.cells[self.name]
        if isinstance(column, Open):
            counts = cells[~cells.isin(MISSING_TOKENS) & column.open_levels].value_counts()
            self.words.update({str(text): int(rows) for text, rows in counts.items() if not is_number(str(text))})
            return
        for one in read_column(piece, self.schema, self.name, column)[1]:
            self.faults.setdefault(replace(one, row=None), one)
        if not column.modelled:
            return
        strict = column.model_copy(update={"out_of_range": "error"})
        found = read_column(piece, self.schema, self.name, strict)[1]
        self.clipped += sum(count for one, count in found.items() if one.kind == OUTSIDE)
        if column.reads_anything and getattr(column, "hierarchy", None) is None:
            plain = column.model_copy(update={"unknown": None})
            found = read_column(piece, self.schema, self.name, plain)[1]
            self.stray += sum(count for one, count in found.items() if one.kind != OUTSIDE)
        if not column.categorical and not column.depends_on:
            number = np.asarray(column.cell_values(cells), np.float64)
            number = number[np.isfinite(number)]
            self.finite += len(number)
            if len(number):
                self.span = min(self.span[0], float(number.min())), max(self.span[1], float(number.max()))
        self._add_distinct(cells[~cells.isin(MISSING_TOKENS)])
        codes = cells[cells.isin(CellKinds().codes)].value_counts()
        self.codes.update({str(code): int(count) for code, count in codes.items()})

    def _add_distinct(self, known: pd.Series) -> None:
        """Count the cells that are there, and keep hashes of the distinct ones while they could be a key's."""
        self.known += len(known)
        if self.distinct is not None and (self.column.categorical or self.column.places == 0):
            texts = known.unique()
            hashes = pd.util.hash_array(np.asarray(texts, dtype=object), categorize=False)
            self.distinct = self.distinct.union(pd.Index(hashes), sort=False)
            if self.known - len(self.distinct) > (1 - KEY_SHARE) * self.rows:
                self.distinct = None  # too many cells repeat, whatever follows

    def problems(self) -> Iterator[str]:
        """Yield what stops a fit."""
        for one in self.faults.values():
            totals = " If this last row has totals, set `skip_last_rows=1`." if one.row == self.rows > 1 else ""
            yield fault_in(self.where, one) + totals
        if self.known >= KEY_ROWS and self.stray > MOSTLY_UNKNOWN * self.known:
            levels = "List the codes in `levels`, from the vocabulary's public file, or declare a `hierarchy`"
            form = "Declare how cells are written, by `text` or `format`, or let `schema draft` look at them"
            yield (
                f"{self.where}: column {self.name!r}: nearly all cells are read as `unknown`, so a model would learn "
                f"nothing of them. {levels if self.column.categorical else form}. A fit does not check this."
            )

    def remarks(self, rare: float) -> Iterator[str]:
        """Yield what a fit would do silently, and columns that look declared wrongly.

        `rare`: the share of the rows below which a fit loses a level.
        """
        if isinstance(self.column, Open):
            lost = [rows for rows in self.words.values() if rows < rare * self.rows]
            yield f"column {self.name!r}: {self.column.in_words} open. A fit learns this from noisy counts" + (
                f", and probably loses {len(lost)} of {len(self.words)} words, in {sum(lost)} rows"
                if lost and len(self.words) < FEW_WORDS * self.rows else ""
            )  # fmt: skip
            return
        if not self.column.modelled:
            return
        if self.clipped:
            doubt = ": widen the bounds, or declare a missing code of missing values"
            yield f"column {self.name!r}: {self.clipped} cells are outside the bounds and are clipped" + (
                doubt if self.clipped > MUCH_CLIPPED * self.rows else ""
            )
        elif not self.column.categorical and not self.column.depends_on and (part := self._used()) < LITTLE_USED:
            yield f"column {self.name!r}: its cells use {part:.1%} of the bounds' width. Check the bounds"
        if self.stray:
            yield f"column {self.name!r}: {self.stray} cells are read as `unknown`"
        whole = self.column.categorical or self.column.places == 0
        distinct = 0 if self.distinct is None else len(self.distinct)
        if whole and self.known >= KEY_ROWS and distinct > KEY_SHARE * self.known:
            yield f"column {self.name!r}: nearly all of its cells differ. If it is a key, declare `kind: identifier`"
        for code, count in _codes(self.column, self.codes):
            word = code if is_code_of_a_number(code) else f'"{code}"'
            yield (
                f"column {self.name!r}: {count} cells contain {code!r}, a usual code of missing values. If it is one, "
                f"declare `missing: [{word}]`"
            )

    def _used(self) -> float:
        """Return the share of the bounds' width that the column's values use; 1 if it cannot be judged."""
        low, high = self.column.units
        if self.column.scale == "log" or self.finite < KEY_ROWS or low == high:
            return 1.0
        width: float = (high - low) / 10**self.column.places / getattr(self.column, "per_day", 1)
        return (self.span[1] - self.span[0]) / width


def _codes(column: Column, counts: Counter[str]) -> Iterator[tuple[str, int]]:
    """Yield usual codes of missing values in a column that its schema declares neither as missing nor as values."""
    levels = {str(level) for level in column.levels}
    (low, high) = column.units
    for code in CellKinds().codes:
        if code == "" or code in column.gap_words or code in levels or code not in counts:
            continue
        if is_code_of_a_number(code) and (column.categorical or low <= int(code) * 10**column.places <= high):
            continue
        if code in MISSING_TOKENS and column.missing is True:
            continue
        yield code, counts[code]


class _BetweenDates:
    """The days between each two dates of a table, counted: {(first, second): rows by days}."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.dates = {
            name: one
            for name, one in schema.columns.items()
            if one.dated and not one.depends_on and name not in schema.open
        }
        self.days = {pair: Counter[int]() for pair in itertools.combinations(self.dates, 2)}

    def add(self, piece: Table) -> None:
        """Count in a piece."""
        if not self.days:
            return
        day = {
            name: np.floor(column.cell_values(piece.cells[name]).astype(np.float64))
            for name, column in self.dates.items()
        }
        for first, second in self.days:
            between = day[second] - day[first]
            found = np.unique(between[np.isfinite(between)].astype(np.int64), return_counts=True)
            self.days[first, second].update(dict(zip(*(one.tolist() for one in found), strict=True)))

    def related(self) -> dict[str, str]:
        """Return dates without `after` that usually follow shortly after another date, with that date. PRIVATE."""
        starts = {name for column in self.schema.columns.values() for name in column.depends_on}
        pairs = []
        for first, second in itertools.permutations(self.dates, 2):
            ahead = (first, second) in self.days
            counts = self.days[(first, second) if ahead else (second, first)]
            timed = getattr(self.dates[second], "per_day", 1) > 1  # `after` would drop its time
            if timed or second in starts or counts.total() < KEY_ROWS:
                continue
            days = np.array(sorted(counts), np.int64)
            rows = np.array([counts[int(day)] for day in days])
            days, rows = (days, rows) if ahead else (-days[::-1], rows[::-1])
            low, high = (_quantile(days, rows, share) for share in MIDDLE)
            if low >= 0 and NARROW * (high - low + 1) <= self.dates[second].size:
                pairs.append((first, second))
        return by_start(pairs)


def _quantile(ascending: Whole, counts: Whole, share: float) -> float:
    """Return the quantile of values that occur `counts` times each, as numpy interpolates it.

    >>> float(_quantile(np.array([1, 5]), np.array([2, 2]), 0.5))
    3.0
    """
    place = share * (counts.sum() - 1)
    below, above = ascending[np.searchsorted(counts.cumsum(), [np.floor(place), np.ceil(place)], side="right")]
    return float(below + (place - np.floor(place)) * (above - below))


class _Rules:
    """Rows that break the rules of a schema, and columns that a rule computes with too many decimals."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.broken = Counter[str]()
        self.numbers = Counter[tuple[str, bool]]()  # cells of a computed column that are numbers
        self.coarse = Counter[tuple[str, int, bool]]()  # its numbers with few decimals: recorded, or computed
        self.pairs = Counter[tuple[str, str, str]]()  # rows by a rule whose pairs are open, code and label

    def add(self, piece: Table) -> None:
        """Count in a piece, which is the whole table if a rule reads other rows."""
        schema = self.schema
        if not (schema.parsed_rules or schema.core.definitions):
            return
        codes = encode(piece, schema)
        succession = in_order(piece.cells, schema) if schema.has_rules_across_rows else None
        for rule in schema.parsed_rules:
            if rule.open:
                names = (rule.code or "", rule.defines or "")
                texts = [_texts(piece.cells[name], schema.columns[name]) for name in names]
                self.pairs.update((rule.text, *pair) for pair in zip(*texts, strict=True) if None not in pair)
            elif (rule.defines is None or rule.code) and not rule.columns & schema.open.keys():
                position = succession.position(values(codes, schema, rule.before)) if succession else None
                read = rule.columns | ({rule.defines} if rule.defines else set())
                self.broken[rule.text] += int(rule.broken(values(codes, schema, read), position).sum())
        for name, definition in schema.core.definitions.items():
            column = definition.column
            if column.categorical:
                continue
            inputs = [schema.names.index(one) for one in definition.inputs]
            recorded = np.asarray(column.cell_values(piece.cells[name]), np.float64)
            computed = np.asarray(column.values(definition.codes(codes[:, inputs]), {}), np.float64)
            for own, numbers in ((True, recorded), (False, computed)):
                self.numbers[name, own] += int(np.isfinite(numbers).sum())
                for places in range(column.places):
                    scaled = numbers[np.isfinite(numbers)] * 10.0**places
                    self.coarse[name, places, own] += int(np.isclose(scaled, scaled.round(), rtol=0, atol=1e-6).sum())

    def remarks(self) -> Iterator[str]:
        """Yield rules that rows break, and columns that a rule computes more finely than they are recorded."""
        most = Counter[tuple[str, str]]()
        for (text, code, _), count in self.pairs.items():
            most[text, code] = max(most[text, code], count)
            self.broken[text] += count
        for (text, _), count in most.items():
            self.broken[text] -= count  # rows with the commonest label of their code
        for text, count in self.broken.items():
            if count:
                yield f"rule {text!r}: {count} rows break it; sampled rows never do"
        for name, definition in self.schema.core.definitions.items():
            for places in range(definition.column.places):
                recorded, computed = (
                    self.coarse[name, places, own] / max(1, self.numbers[name, own]) for own in (True, False)
                )
                if recorded > MOSTLY > computed:  # trees would spot such rows
                    yield (
                        f"column {name!r}: {recorded:.0%} of its cells have {places} decimals or fewer, but its rule "
                        f"computes {definition.column.places}. Consider `decimals: {places}`"
                    )
                    break


def _texts(cells: pd.Series, column: Column) -> Values:
    """Return the levels in cells, None if missing; the texts of a column with open levels."""
    if isinstance(column, Open):
        return np.array([None if text in MISSING_TOKENS else text for text in cells], object)
    place, reading = column.read_rows(cells, {})
    return column.values(reading.codes[place].astype(np.int32), {})
