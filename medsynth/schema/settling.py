"""Settle open columns: what is declared of them goes before what was learned, and nothing here can end a fit."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from ..io.table import whole_text
from .cells import is_timed
from .columns.column import Column, Level, level_text
from .columns.date import Date
from .columns.number import numbers_in
from .columns.open import BOUNDS, FORMAT, LEVELS, LIMITS, Open, OpenDates, OpenLevels, OpenNumbers, entries
from .columns.registry import KINDS
from .inference import ISO, with_empty
from .learned import EMPTY, ColumnKind, LearnedColumn

# In this order an entry gives way if what was learned contradicts it.
YIELDING = ("cut_points", "value_labels", "unknown", "whole_from", "zeros", "scale", "decimals", "dtype", "spelling",
            "missing", "resolution", FORMAT, BOUNDS)  # fmt: skip


def kind_of(column: Open, measured: ColumnKind | None) -> ColumnKind:
    """Return what the cells of an open column are read as: as declared, else as noisy counts showed it."""
    given = column.given
    if isinstance(column, OpenLevels):
        return ColumnKind(cells="word")
    if isinstance(column, OpenNumbers):
        # Words among the numbers are asked for if they may be limits.
        return ColumnKind(cells="whole" if given["kind"] == "count" else "decimal", words=float(column.open_levels))
    if not isinstance(column, OpenDates):
        assert measured is not None  # the kind is measured wherever it is open
        return measured
    found = measured if measured is not None and measured.cells == "date" else ColumnKind(cells="date", form=ISO)
    found = found if given.get(FORMAT) is None else replace(found, form=str(given[FORMAT]))
    return replace(found, seconds=given["resolution"] == "second") if "resolution" in given else found


def with_declared_bounds(column: Open, kind: ColumnKind) -> LearnedColumn:
    """Return a column of dates of which only the format was open: the noisy counts of its kinds show it."""
    resolution = ("second" if kind.seconds else "minute") if is_timed(kind.form) else "day"
    given = {"bounds": column.given[BOUNDS], "missing": with_empty(kind.codes), "unknown": "missing"}
    found = Date.model_validate({"format": kind.form, "resolution": resolution, **given})
    return LearnedColumn(kind=kind, column=found)


def settled_column(column: Open, learned: LearnedColumn) -> LearnedColumn:
    """Return what a fit learned of an open column, with what is declared of it."""
    assert learned.column is not None  # each column that is read as numbers was measured as such
    if not column.given:
        return learned
    found = _settled(column, learned.column)
    return replace(learned, column=found, gaps={word: n for word, n in learned.gaps.items() if word in found.gap_words})


def _settled(column: Open, found: Column) -> Column:
    """Return a learned column with what is declared.

    A declared entry that contradicts what was learned is left out, since the budget is spent: such as bounds of which
    the lower one is above all values.
    """
    given = {key: value for key, value in column.given.items() if value is not None and key not in ("kind", "others")}
    if isinstance(column, OpenLevels):
        own, learned = _levels(column, found)
    elif isinstance(column, OpenNumbers | OpenDates) and found.categorical:  # no number or date was found
        ends = ["1900-01-01", "2099-12-31"] if isinstance(column, OpenDates) else [0, 1]
        own, learned = KINDS[column.given["kind"]], {"missing": True, "unknown": "missing", BOUNDS: ends}
    else:
        own, learned = type(found), found.to_dict()
    given = {key: value for key, value in given.items() if key in entries(own) and key != LEVELS}
    if BOUNDS in given:
        given[BOUNDS] = _joined(given[BOUNDS], learned[BOUNDS])
    if LIMITS in column.given:
        learned = _with_limits(learned, given)
    if "missing" in given:
        given["missing"] = _both(given["missing"], learned.get("missing", False))
    tried = [
        given,
        *({key: value for key, value in given.items() if key != one} for one in YIELDING if one in given),
        {},
    ]
    for some in tried:
        with suppress(ValidationError):
            return own.model_validate({**learned, **some})
    return found


def _with_limits(learned: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Return what was learned, with the words among numbers that are limits, and bounds that end there."""
    words = [*learned["missing"]] if isinstance(learned.get("missing"), list | tuple) else []
    signs = {"below": ("<", "≤"), "above": (">", "≥")}
    found = {side: [word for word in words if str(word).startswith(own)] for side, own in signs.items()}
    stated = {side: numbers_in(own) for side, own in found.items()}
    low, high = learned[BOUNDS]
    ends = [min(stated["below"], default=low), max(stated["above"], default=high)]
    if not any(stated.values()) or not ends[0] < ends[1]:
        return learned
    left = [word for word in words if word not in (*found["below"], *found["above"])]
    given.setdefault(BOUNDS, [int(end) if float(end).is_integer() else end for end in ends])
    limits = {side: sorted(own, key=lambda word: numbers_in([word])) for side, own in found.items() if stated[side]}
    return {**learned, "missing": left or False, **limits}


def _joined(given: list[Any], learned: list[Any]) -> list[Any]:
    """Return the declared bounds, with a learned one in place of an open one unless it lies on the wrong side."""
    low, high = (other if own is None else own for own, other in zip(given, learned, strict=True))
    if isinstance(low, str) or low < high:
        return [low, high]
    width = learned[1] - learned[0]
    return [low, low + width] if given[0] is not None else [high - width, high]


def _levels(column: OpenLevels, found: Column) -> tuple[type[Column], dict[str, Any]]:
    """Return the class of a column with the declared levels, then the learned ones; and its entries."""
    declared: list[Level] = list(column.given.get(LEVELS, ()))
    learned: list[Level] = [one for one in found.levels if level_text(one) not in column.declared_levels]
    content = found.to_dict()
    if found.levels == EMPTY and declared:
        learned, content = [], {"missing": True, "unknown": "missing"}
    if not declared and all(isinstance(one, str) and whole_text(one) == one for one in learned):
        learned = sorted(int(one) for one in learned)
        other = content.get("unknown")
        content["unknown"] = other if other in (None, "missing") else int(str(other))
    names = [*declared, *learned]
    kind = column.given["kind"] if len(names) == 2 or column.given["kind"] != "binary" else "categorical"
    return KINDS[kind], {**content, "kind": kind, LEVELS: names}


def _both(declared: Any, learned: Any) -> Any:
    """Return the codes of missing values of two declarations together."""
    if not learned or not declared:
        return learned or declared
    words = [*(declared if isinstance(declared, list) else [""]), *(learned if isinstance(learned, list) else [""])]
    codes = list({str(word): word for word in words}.values())
    return True if codes == [""] else codes
