"""Compare a table with its schema, all at once, with exact counts: PRIVATE, for whoever writes the schema."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import SchemaError
from ..io import table as io_table
from ..sampling.rules_across_rows import in_order, values
from ..schema import Column, Schema
from ..schema.cells import CellKinds, is_code_of_a_number
from ..schema.codec import encode
from ..schema.header import person_keys
from ..schema.inference import NARROW, by_start
from .private_rows import patients
from .private_table import choose_schema, read_table

KEY_SHARE, KEY_ROWS = 0.95, 20  # share of distinct cells from which a column reads like a key; rows needed to judge
MUCH_CLIPPED, LITTLE_USED = 0.05, 0.02  # share of cells beyond the bounds; share of the bounds' width that cells use
MOSTLY = 0.8  # share of the cells of a column that a rule computes
MIDDLE = (0.05, 0.95)  # quantiles of the days between two dates that must be close together


@dataclass(frozen=True, kw_only=True)
class SchemaCheck:
    """The findings. `problems` stop a fit, each with its first row. `remarks` do not; they count rows exactly."""

    schema: Schema
    problems: tuple[str, ...]
    remarks: tuple[str, ...]


def check_schema(path: Path, schema: Path | None, encoding: str | None = None) -> SchemaCheck:
    """Compare a table with the schema that its fit would use. Raise SchemaError without one.

    NO NOISE: the counts are of rows, for the owner of the table, who writes its schema.
    """
    data = read_table(path, encoding)
    found = choose_schema(data, schema, path, lambda text: None)
    if found is None:
        raise SchemaError(f"{path}: no schema. Draft a schema and finish it, or set `schema`.")
    problems = [text for name in found.columns for text in _faults(data, found, name)]
    if found.unit:
        try:
            patients(data, found.unit)
        except SchemaError as error:
            problems.append(str(error))
    remarks = [text for name in found.columns for text in _remarks(data, found, name)]
    if not problems:
        codes = encode(data, found)
        remarks += [*_broken_rules(data, found, codes), *_computed_too_finely(data, found, codes)]
        remarks += [
            f"column {second!r}: nearly always some days after {first!r}. If the two belong together, declare "
            f"`after: {first}`, with bounds in days. Otherwise the model does not learn the time between them"
            for second, first in related_dates(data.cells, found).items()
        ]
    if found.unit is None and (keys := person_keys(data.header)):
        remarks.append(
            f"column {keys[0]!r} reads like a person's key: if rows share persons, declare the keys unit and max_rows"
        )
    return SchemaCheck(schema=found, problems=tuple(problems), remarks=tuple(remarks))


def related_dates(cells: pd.DataFrame, schema: Schema) -> dict[str, str]:
    """Return dates without `after` that usually follow shortly after another date, with that date. PRIVATE."""
    dates = {name: column for name, column in schema.columns.items() if column.dated and not column.depends_on}
    days = {name: np.floor(column.cell_values(cells[name]).astype(np.float64)) for name, column in dates.items()}
    starts = {name for column in schema.columns.values() for name in column.depends_on}
    pairs = []
    for first, second in itertools.permutations(dates, 2):
        between = days[second] - days[first]
        known = between[np.isfinite(between)]
        timed = getattr(dates[second], "per_day", 1) > 1  # `after` would drop its time
        if timed or second in starts or len(known) < KEY_ROWS:
            continue
        low, high = np.quantile(known, MIDDLE)
        if low >= 0 and NARROW * (high - low + 1) <= dates[second].size:
            pairs.append((first, second))
    return by_start(pairs)


def _read(data: io_table.Table, schema: Schema, name: str, column: Column) -> Iterator[tuple[str, str, int, int]]:
    """Yield the faults of a column: what is wrong, what to do, the first row, and the number of rows."""
    related = {other: (schema.columns[other], data.cells[other]) for other in column.depends_on}
    place, reading = column.read_rows(data.cells[name], related)
    for fault in reading.faults:
        rows = np.nonzero(fault.found[place])[0]
        if len(rows):
            yield fault.what, fault.cure, int(rows[0]) + 1, len(rows)


def _faults(data: io_table.Table, schema: Schema, name: str) -> Iterator[str]:
    for what, cure, row, _ in _read(data, schema, name, schema.columns[name]):
        yield f"{data.where}, column {name!r}, row {row}: {what}. {cure}"


def _remarks(data: io_table.Table, schema: Schema, name: str) -> Iterator[str]:
    """Yield what a fit would do silently: clipped cells, cells read as `unknown`, likely keys, codes, wide bounds."""
    column, cells, rows = schema.columns[name], data.cells[name], len(data.cells)
    if not column.modelled:
        return
    strict = column.model_copy(update={"out_of_range": "error"})
    clipped = sum(count for what, _, _, count in _read(data, schema, name, strict) if "outside" in what)
    if clipped:
        doubt = ": widen the bounds, or declare a missing code of missing values"
        yield f"column {name!r}: {clipped} cells are outside the bounds and are clipped" + (
            doubt if clipped > MUCH_CLIPPED * rows else ""
        )
    elif not column.categorical and not column.depends_on and (part := _used(column, cells)) < LITTLE_USED:
        yield f"column {name!r}: its cells use {part:.1%} of the bounds' width. Check the bounds"
    if column.reads_anything and getattr(column, "hierarchy", None) is None:
        plain = column.model_copy(update={"unknown": None})
        if stray := sum(count for what, _, _, count in _read(data, schema, name, plain) if "outside" not in what):
            yield f"column {name!r}: {stray} cells are read as `unknown`"
    known = cells[~cells.isin(io_table.MISSING_TOKENS)]
    whole = column.categorical or column.places == 0
    if whole and len(known) >= KEY_ROWS and known.nunique() > KEY_SHARE * len(known):
        yield f"column {name!r}: nearly all of its cells differ. If it is a key, declare `kind: identifier`"
    for code, count in _codes(column, cells):
        word = code if is_code_of_a_number(code) else f'"{code}"'
        yield (
            f"column {name!r}: {count} cells contain {code!r}, a usual code of missing values. If it is one, declare "
            f"`missing: [{word}]`"
        )


def _used(column: Column, cells: pd.Series) -> float:
    """Return the share of the bounds' width that a column's values use; 1 if it cannot be judged."""
    values = np.asarray(column.cell_values(cells), np.float64)
    values, (low, high) = values[np.isfinite(values)], column.units
    if column.scale == "log" or len(values) < KEY_ROWS or low == high:
        return 1.0
    width: float = (high - low) / 10**column.places / getattr(column, "per_day", 1)
    return float(np.ptp(values)) / width


def _codes(column: Column, cells: pd.Series) -> Iterator[tuple[str, int]]:
    """Yield usual codes of missing values in a column that its schema declares neither as missing nor as values."""
    counts = cells.value_counts()
    levels, (low, high) = {str(level) for level in column.levels}, column.units
    for code in CellKinds().codes:
        if code == "" or code in column.gap_words or code in levels or code not in counts.index:
            continue
        if is_code_of_a_number(code) and (column.categorical or low <= int(code) * 10**column.places <= high):
            continue
        if code in io_table.MISSING_TOKENS and column.missing is True:
            continue
        yield code, int(counts[code])


def _broken_rules(data: io_table.Table, schema: Schema, codes: NDArray[np.int32]) -> Iterator[str]:
    succession = in_order(data.cells, schema) if schema.has_rules_across_rows else None
    for rule in schema.parsed_rules:
        if rule.defines is None:
            position = succession.position(values(codes, schema, rule.before)) if succession else None
            if count := int(rule.broken(values(codes, schema, rule.columns), position).sum()):
                yield f"rule {rule.text!r}: {count} rows break it; sampled rows never do"


def _computed_too_finely(data: io_table.Table, schema: Schema, codes: NDArray[np.int32]) -> Iterator[str]:
    """Yield columns that a rule computes with more decimals than most of their cells: trees would spot such rows."""
    for name, definition in schema.core.definitions.items():
        column, inputs = definition.column, [schema.names.index(one) for one in definition.inputs]
        recorded = np.asarray(column.cell_values(data.cells[name]), np.float64)
        computed = np.asarray(column.values(definition.codes(codes[:, inputs]), {}), np.float64)
        for places in range(column.places):
            coarse = _share_with(places, recorded)
            if coarse > MOSTLY > _share_with(places, computed):
                yield (
                    f"column {name!r}: {coarse:.0%} of its cells have {places} decimals or fewer, but its rule "
                    f"computes {column.places}. Consider `decimals: {places}`"
                )
                break


def _share_with(places: int, numbers: NDArray[np.float64]) -> float:
    """Return the share of `numbers`, missing ones left out, with at most this number of decimals."""
    scaled = numbers[np.isfinite(numbers)] * 10.0**places
    return float(np.isclose(scaled, scaled.round(), rtol=0, atol=1e-6).mean()) if len(scaled) else 0.0
