"""What a person who may see a private table can see of it before a fit. No fit asks for it, and no noise covers it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from ..io.table import Table, is_number
from ..io.writer import WrittenText
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
SOME_CELLS = 1000  # of a column, to see how its numbers are written
SOME_ROWS = 30  # in which two dates are known, to propose their order
CLOCK = ["1900-01-01", "1900-01-01"]  # bounds of times without a day
FAR, LARGE = (date(1800, 1, 1), date(2199, 12, 31)), 8  # bounds of dates, and digits of numbers, to look at rules
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
    """Return the rules that hardly any row breaks, with the number of rows that do: suggested ones, and dates in order.

    `entries`: what is declared of the columns. What they leave open is taken as wide as possible.
    """
    columns = _columns(entries)
    found = dict[str, int]()
    pairs = [*combinations(_dates(columns), 2)]
    for rule in (*suggested, *(order_rule(*ends) for a, b in pairs for ends in ((a, b), (b, a)))):
        with suppress(SchemaError):
            schema = Schema.from_dict({"name": "look", "columns": columns, "rules": [rule]})
            broken, known = _broken(data, schema)
            if known >= SOME_ROWS and broken <= ALMOST * known:
                found[rule] = broken
    return found


def dates_that_follow(data: Table, entries: Mapping[str, Entry]) -> dict[str, str]:
    """Return the dates that shortly follow another one, with that date: a fit can learn the days between.

    Hardly any row has them in the other order, and the days between span much less than the date's own.
    """
    columns = _columns(entries)
    dates = [name for name in _dates(columns) if columns[name].get("resolution", "day") == "day"]
    return by_start((first, second) for second in dates for first in _dates(columns)
                    if first != second and _follows(data, columns, first, second))  # fmt: skip


def _follows(data: Table, columns: Mapping[str, Entry], first: str, second: str) -> bool:
    """Return whether a day is shortly after another one, or on the same day, in nearly all rows that have both."""
    schema = Schema.from_dict({"name": "look", "columns": {name: columns[name] for name in (first, second)}})
    part = replace(data, header=(first, second), cells=data.cells[[first, second]])
    found = values(encode(part, schema), schema, {first, second})
    later = np.asarray(found[second], np.float64)
    apart = np.floor(later) - np.floor(np.asarray(found[first], np.float64))
    known = np.isfinite(apart)
    if known.sum() < SOME_ROWS or (apart[known] < 0).mean() > ALMOST:
        return False
    between, own = (np.diff(np.quantile(days[known], [ALMOST, 1 - ALMOST]))[0] for days in (apart, later))
    return bool(NARROW * (between + 1) <= own)


def _columns(entries: Mapping[str, Entry]) -> dict[str, Entry]:
    """Return the entries that rules can read, as wide as possible."""
    return {name: wide for name, entry in entries.items() if (wide := _wide(entry)) is not None}


def _dates(columns: Mapping[str, Entry]) -> list[str]:
    """Return the dates, without times that have no day."""
    return [name for name, one in columns.items() if one["kind"] == "date" and one.get("bounds") != CLOCK]


def _wide(entry: Entry) -> Entry | None:
    """Return an entry with bounds that are as wide as possible; None for a column that no rule reads."""
    rest = {key: one for key, one in entry.items() if key not in ("seen", "missing", "unknown", "scale", "limits")}
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
