"""What a person who may see a private table can see of it before a fit. No fit asks for it, and no noise covers it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import date
from itertools import combinations, permutations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..errors import SchemaError
from ..io.formats import USUAL, SavedAs
from ..io.table import MISSING_TOKENS, Table, is_number
from ..io.writer import WrittenText
from ..sampling.rules_across_rows import values
from ..schema import Schema
from ..schema.clinical import look_up
from ..schema.codec import encode
from ..schema.drafts import order_rule
from ..schema.inference import NARROW, by_start
from ..schema.looks import Look, look
from ..schema.rules import Rule, ValuesByName, Years, evaluate, in_rule
from .declarations import confirm_names
from .private_table import read_table
from .relations import ALMOST, SOME_ROWS, relations

SOME_CELLS = 1000  # of a column, to see how its numbers are written
MOST_RULES, MOST_WORDS = 100, 2000  # that are proposed; different words of a column that a rule reads
HALF, AGE = 0.5, "age"  # of a whole number, which a rule computes; a variable that is right within a year
CLOCK = ["1900-01-01", "1900-01-01"]  # bounds of times without a day
FAR, LARGE = (date(1800, 1, 1), date(2199, 12, 31)), 8  # bounds of dates, and digits of numbers, to look at rules
SOME_DIGITS = 4  # after the point, if nothing declares them
Entry = dict[str, Any]


def table_to_look_at(path: Path, saved: SavedAs = USUAL) -> Table:
    """Return a private table. Raise TableError for a header that looks like a row."""
    data = read_table(path, saved)
    confirm_names(data.header, data.where, saved)
    return data


def looks(data: Table) -> dict[str, Look]:
    """Return what the cells of each column look like."""
    comma = has_decimal_commas(data)
    return {name: look(data.cells[name], comma=comma) for name in data.header}


def has_decimal_commas(data: Table) -> bool:
    """Return whether numbers of a text file have decimal commas, which are read as points."""
    fields = data.written.fields if isinstance(data.written, WrittenText) else {}
    return data.file_form.delimiter != "," and any(
        is_number(str(cell)) and "," in str(text)
        for name, texts in fields.items()
        for cell, text in zip(data.cells[name][:SOME_CELLS], texts[:SOME_CELLS], strict=True)
    )


def rules_that_hold(data: Table, entries: Mapping[str, Entry], suggested: Sequence[str]) -> dict[str, int]:
    """Return the rules that hardly any row breaks, with the number of rows that do.

    They are suggested ones, dates in order, ages and days between dates, and `relations`. `entries`: what is declared
    of the columns. What they leave open is taken as wide as possible.
    """
    columns = _columns(data, entries)
    if not columns:
        return {}
    schema, read = _read(data, columns)
    closed = {name for name, entry in entries.items() if {"bounds", "levels"} & entry.keys()}
    dates = _dates(columns)
    orders = [order_rule(*ends) for a, b in combinations(dates, 2) for ends in ((a, b), (b, a))]
    whole = [in_rule(name) for name, one in columns.items() if name in closed and one["kind"] == "count"]
    since = [f"{number} = {text.format(*map(in_rule, ends))}" for ends in permutations(dates, 2)
             for number in whole for text in ("years({}, {})", "{1} - {0}")]  # fmt: skip
    found = dict[str, int]()
    for text in (*suggested, *orders, *since):
        with suppress(ValueError):  # such as a name with a backquote
            broken, known = _broken(schema.rule(text), schema, read)
            if known >= SOME_ROWS and broken <= ALMOST * known:
                found[text] = broken
    apart = {schema.rule(text).defines for text in found} | {name for name, one in entries.items() if "limits" in one}
    free = {name: column for name, column in schema.columns.items() if name not in apart}  # <0.5 has no number here
    found |= relations(free, read, closed, data.header[-1])
    kept = dict[str, int]()
    for text in [*found][:MOST_RULES]:
        with suppress(SchemaError):  # it defines a column that is open, or one that cannot be missing
            Schema.from_dict({"name": "look", "columns": entries, "rules": [*kept, text]})
            kept[text] = found[text]
    return kept


def dates_that_follow(data: Table, entries: Mapping[str, Entry]) -> dict[str, str]:
    """Return the dates that shortly follow another one, with that date: a fit can learn the days between.

    Hardly any row has them in the other order, and the days between span much less than the date's own.
    """
    columns = _columns(data, {name: entry for name, entry in entries.items() if entry["kind"] == "date"})
    dates = [name for name in _dates(columns) if columns[name].get("resolution", "day") == "day"]
    return by_start((first, second) for second in dates for first in _dates(columns)
                    if first != second and _follows(data, columns, first, second))  # fmt: skip


def _follows(data: Table, columns: Mapping[str, Entry], first: str, second: str) -> bool:
    """Return whether a day is shortly after another one, or on the same day, in nearly all rows that have both."""
    _, found = _read(data, {name: columns[name] for name in (first, second)})
    later = np.asarray(found[second], np.float64)
    apart = np.floor(later) - np.floor(np.asarray(found[first], np.float64))
    known = np.isfinite(apart)
    if known.sum() < SOME_ROWS or (apart[known] < 0).mean() > ALMOST:
        return False
    between, own = (np.diff(np.quantile(days[known], [ALMOST, 1 - ALMOST]))[0] for days in (apart, later))
    return bool(NARROW * (between + 1) <= own)


def _columns(data: Table, entries: Mapping[str, Entry]) -> dict[str, Entry]:
    """Return the entries that rules can read, as wide as possible, in the order of the header."""
    some = {name: _wide(entries[name], data.cells[name]) for name in data.header if name in entries}
    return {name: wide for name, wide in some.items() if wide is not None}


def _read(data: Table, columns: Mapping[str, Entry]) -> tuple[Schema, ValuesByName]:
    """Return the schema of some columns, and their values as rules compare them."""
    schema = Schema.from_dict({"name": "look", "columns": columns})
    part = replace(data, header=tuple(columns), cells=data.cells[[*columns]])
    return schema, values(encode(part, schema), schema, {*schema.names})


def _dates(columns: Mapping[str, Entry]) -> list[str]:
    """Return the dates, without times that have no day."""
    return [name for name, one in columns.items() if one["kind"] == "date" and one.get("bounds") != CLOCK]


def _wide(entry: Entry, cells: pd.Series) -> Entry | None:
    """Return an entry with bounds that are as wide as possible, or all levels; None for a column that no rule reads."""
    lost = ("seen", "missing", "unknown", "scale", "limits", "zeros")
    rest = {key: one for key, one in entry.items() if key not in lost}
    codes = entry.get("missing")
    rest |= {"missing": [*dict.fromkeys((*codes, ""))] if isinstance(codes, list) else True, "unknown": "missing"}
    if entry["kind"] == "date":
        return rest | {"bounds": entry.get("bounds", FAR)} if entry.get("resolution") != "second" else None
    if entry["kind"] in ("count", "continuous"):
        rest = ({"decimals": SOME_DIGITS} if entry["kind"] == "continuous" else {}) | rest
        places = max(0, rest.get("decimals", 0))
        end = 10 ** max(1, LARGE - places)
        return {"bounds": (-end, end)} | rest if places < LARGE else None  # sums of finer numbers are not looked for
    if entry["kind"] == "identifier" or "hierarchy" in entry:
        return None
    if "levels" in entry or "parts" in entry:
        return rest
    gone = {*MISSING_TOKENS, *map(str, codes if isinstance(codes, list) else ())}
    words = cells[~cells.isin(gone)].unique()
    return rest | {"kind": "categorical", "levels": [*words]} if 2 <= len(words) <= MOST_WORDS else None


def _broken(rule: Rule, schema: Schema, read: ValuesByName) -> tuple[int, int]:
    """Return the rows that break a rule, and those in which all of its columns are known."""
    names = rule.columns | ({rule.defines} if rule.defines else set())
    known = np.logical_and.reduce([pd.notna(read[name]) for name in names])
    if rule.defines is None or rule.formula is None:
        broken = rule.broken(read)
    else:
        places = schema.columns[rule.defines].places
        computed = np.asarray(evaluate(rule.formula, read), np.float64)
        apart = np.abs(computed - np.asarray(read[rule.defines], np.float64))
        near = isinstance(rule.formula, Years) and (known_as := look_up(rule.defines)) and known_as.name == AGE
        broken = apart > (10.0**-places if places or near else HALF)
    return int((broken & known).sum()), int(known.sum())
