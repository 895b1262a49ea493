"""What a person who may see a private table can see of it before a fit. No fit asks for it, and no noise covers it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import date
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..errors import SchemaError
from ..io.formats import USUAL, SavedAs
from ..io.table import Table
from ..sampling.rules_across_rows import values
from ..schema import Schema
from ..schema.codec import encode
from ..schema.drafts import order_rule
from ..schema.inference import NARROW, by_start
from ..schema.looks import Look, look
from ..schema.rules import evaluate
from .declarations import confirm_names
from .private_table import read_table

ALMOST = 0.01  # of the rows may break a rule that a person is asked about
SOME_ROWS = 30  # in which two dates are known, to propose their order
FAR, LARGE = (date(1800, 1, 1), date(2199, 12, 31)), 8  # bounds of dates, and digits of numbers, to look at rules
Entry = dict[str, Any]


def table_to_look_at(path: Path, saved: SavedAs = USUAL) -> Table:
    """Return a private table. Raise TableError for a header that looks like a row."""
    data = read_table(path, saved)
    confirm_names(data.header, data.where, saved)
    return data


def looks(data: Table) -> dict[str, Look]:
    """Return what the cells of each column look like."""
    return {name: look(data.cells[name]) for name in data.header}


def rules_that_hold(data: Table, entries: Mapping[str, Entry], suggested: Sequence[str]) -> dict[str, int]:
    """Return the rules that hardly any row breaks, with the number of rows that do: suggested ones, and dates in order.

    `entries`: what is declared of the columns. What they leave open is taken as wide as possible.
    """
    columns = _columns(entries)
    found = dict[str, int]()
    for rule in (*suggested, *_orders(columns)):
        with suppress(SchemaError):
            schema = Schema.from_dict({"name": "look", "columns": columns, "rules": [rule]})
            broken, known = _broken(data, schema)
            if known >= SOME_ROWS and broken <= ALMOST * known:
                found[rule] = broken
    return found


def dates_that_follow(data: Table, entries: Mapping[str, Entry], held: Collection[str]) -> dict[str, tuple[str, str]]:
    """Return, of rules that hold, those by which a date shortly follows another: with this one, and the date.

    A fit then learns the days between. It learns them as `after`, which is of days alone.
    """
    columns = _columns(entries)
    ends = {ends: rule for rule, ends in _orders(columns).items() if rule in held and _follows(data, columns, *ends)}
    return {ends[first, second]: (first, second) for second, first in by_start(ends).items()}


def _follows(data: Table, columns: Mapping[str, Entry], first: str, second: str) -> bool:
    """Return whether the days from one date to another span much less than the other's own."""
    if columns[second].get("resolution", "day") != "day":
        return False
    schema = Schema.from_dict({"name": "look", "columns": {name: columns[name] for name in (first, second)}})
    part = replace(data, header=(first, second), cells=data.cells[[first, second]])
    found = values(encode(part, schema), schema, {first, second})
    later = np.asarray(found[second], np.float64)
    apart = np.floor(later) - np.floor(np.asarray(found[first], np.float64))
    between, own = (float(np.nanquantile(days, 0.99) - np.nanquantile(days, 0.01)) for days in (apart, later))
    return NARROW * (between + 1) <= own


def _columns(entries: Mapping[str, Entry]) -> dict[str, Entry]:
    """Return the entries that rules can read, as wide as possible."""
    return {name: wide for name, entry in entries.items() if (wide := _wide(entry)) is not None}


def _orders(columns: Mapping[str, Entry]) -> dict[str, tuple[str, str]]:
    """Return the rules that one date is not before another, in both orders, with the first and the second date."""
    dates = [name for name, entry in columns.items() if entry["kind"] == "date" and "%H" not in entry["format"][:2]]
    pairs = [*combinations(dates, 2), *((b, a) for a, b in combinations(dates, 2))]
    return {order_rule(first, second): (first, second) for first, second in pairs}


def _wide(entry: Entry) -> Entry | None:
    """Return an entry with bounds that are as wide as possible; None for a column that no rule reads."""
    rest = {key: one for key, one in entry.items() if key not in ("seen", "missing", "unknown", "scale")}
    rest |= {"missing": True, "unknown": "missing"}
    if entry["kind"] == "date":
        return rest | {"bounds": entry.get("bounds", FAR)} if entry.get("resolution") != "second" else None
    if entry["kind"] in ("count", "continuous"):
        end = 10 ** max(1, LARGE - max(0, entry.get("decimals", 0)))
        return rest | {"bounds": entry.get("bounds", (-end, end))}
    return rest if entry.get("levels") else None


def _broken(data: Table, schema: Schema) -> tuple[int, int]:
    """Return the rows that break the only rule of a schema, and those in which all of its columns are known."""
    rule = schema.parsed_rules[0]
    names = [name for name in schema.names if name in rule.columns or name == rule.defines]
    own = schema.model_copy(update={"columns": {name: schema.columns[name] for name in names}, "rules": ()})
    part = replace(data, header=tuple(names), cells=data.cells[names])
    found = values(encode(part, own), own, set(names))
    known = np.logical_and.reduce([pd.notna(found[name]) for name in names])
    if rule.defines is None or rule.formula is None:
        broken = rule.broken(found)
    else:
        unit = 10.0 ** -schema.columns[rule.defines].places
        computed = np.asarray(evaluate(rule.formula, found), np.float64)
        broken = np.abs(computed - np.asarray(found[rule.defines], np.float64)) > unit
    return int((broken & known).sum()), int(known.sum())
