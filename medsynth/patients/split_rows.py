"""A patient's rows in order, as two tables: first rows, one per patient, and later rows with the rows before them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..arrays import Codes, Whole
from ..privacy.contribution import PrivacyUnits
from ..schema import Schema
from ..schema.columns.number import Count
from ..schema.rules import END_OF_ROWS

NOW, LAST, FIRST, OF = "now", "last", "first", "of"  # whose value of a column: this row's, the last's, the first's
GAP = "\0gap"  # between this row and the last, in codes of the order column; no column has such a name
LEFT, VISIT, ROWS = "left", "visit", "rows"  # rows after this one, rows before the last, the patient's rows


def named(whose: str, name: str) -> str:
    """Return the name of a column of later rows; no two columns of a table get the same name."""
    return f"{whose}:{name}"


def rows_column(schema: Schema) -> str:
    """Return an unused name for the column of first rows with the patient's number of rows."""
    name = "rows of the patient"
    while name in schema.columns:
        name += "'"
    return name


def with_rows_column(schema: Schema) -> Schema:
    """Return the schema of first rows, whose last column is the patient's number of rows."""
    assert schema.max_rows is not None
    counted = {**schema.columns, rows_column(schema): Count(bounds=(1, schema.max_rows))}
    return schema.model_copy(update={"columns": counted})


def gap_column(schema: Schema) -> Count | None:
    """Return the column of gaps between successive rows; None if keys are the order, which have no gaps."""
    column = schema.columns[schema.order or ""]
    return Count(bounds=(0, max(column.size - 1, 1)), scale="log") if column.modelled else None


def changing(schema: Schema) -> list[str]:
    """Return the columns that a later row gets anew, in the order in which it gets them: the target late, and last
    those that depend on whether the row is the last, so that they may depend on all others.
    """
    left = {*schema.constant, schema.order}
    ends = _ends(schema)
    found = [name for name in schema.core.names if name not in left]
    return sorted(found, key=lambda name: (name in ends, name == schema.target))


def ending(schema: Schema) -> list[str]:
    """Return the changing columns of which a rule depends on whether the row is the last, such as a patient's death."""
    ends = _ends(schema)
    return [name for name in changing(schema) if name in ends]


def _ends(schema: Schema) -> set[str]:
    """Return the columns that a rule compares in a row, if it reads whether that row is the last."""
    rules = (rule for rule in schema.parsed_rules if END_OF_ROWS in (*rule.premise, *rule.conclusion))
    return {word.name for rule in rules for word in rule.words() if not word.function}


def fixed(schema: Schema) -> list[str]:
    """Return the columns that a later row copies from the first one."""
    moving = changing(schema)
    return [name for name in schema.core.names if name not in moving and name != schema.order]


def later_columns(schema: Schema) -> tuple[str, ...]:
    """Return the columns of later rows, in order."""
    core = schema.core.names
    whose = [named(who, name) for who in (NOW, LAST, FIRST) for name in core]
    return (*whose, *(named(OF, fact) for fact in (GAP, LEFT, VISIT, ROWS)))


@dataclass(frozen=True, kw_only=True)
class SplitRows:
    """First rows, (patients, core of `with_rows_column`), and later ones, (rows, `later_columns`), with patients.

    `last`: each patient's last row, (patients, `later_columns`). Each row depends on one patient's rows alone.
    """

    first: Codes
    patients: PrivacyUnits
    later: Codes
    patients_of_later: PrivacyUnits
    last: Codes
    patients_of_last: PrivacyUnits


def split_rows(codes: Codes, units: PrivacyUnits, schema: Schema) -> SplitRows:
    """Split rows, (rows, columns of the schema's core), that come patient by patient and in each patient's order."""
    assert (np.diff(units.of_row) >= 0).all()
    starts = np.flatnonzero(np.diff(units.of_row, prepend=-1))
    rows = np.diff(np.append(starts, len(codes)))
    patient = np.repeat(np.arange(len(starts)), rows)
    place = np.arange(len(codes)) - starts[patient]
    here = np.flatnonzero(place > 0)
    now, last, first = codes[here], codes[here - 1], codes[starts[patient[here]]]
    counted = rows[patient[here]]
    facts = [
        gaps(now, last, schema),
        counted - 1 - place[here],
        place[here] - 1,
        counted - 1,
    ]
    most = units.max_rows - 1
    later = np.column_stack([now, last, first, *(fact.astype(np.int32) for fact in facts)])
    only = np.flatnonzero(rows == 1)
    ends = place[here] == counted - 1
    return SplitRows(
        first=np.column_stack([codes[starts], (rows - 1).astype(np.int32)]),
        patients=PrivacyUnits(np.arange(len(starts)), 1),
        later=later,
        patients_of_later=PrivacyUnits(patient[here], most, len(starts)),
        last=np.concatenate([later[ends], only_rows(codes[starts[only]], schema)]),
        patients_of_last=PrivacyUnits(np.concatenate([patient[here][ends], only]), 1, len(starts)),
    )


def only_rows(rows: Codes, schema: Schema) -> Codes:
    """Return the only rows of patients, (rows, core), as later ones, (rows, `later_columns`).

    The previous row and all facts are zeros. So is the first row, except for what stays the same over a patient's rows.
    """
    first = np.zeros_like(rows)
    places = [schema.core.names.index(name) for name in fixed(schema)]
    first[:, places] = rows[:, places]
    return np.column_stack([rows, np.zeros_like(rows), first, np.zeros((len(rows), 4), np.int32)]).astype(np.int32)


def gaps(now: Codes, last: Codes, schema: Schema) -> Whole:
    """Return the step of the order from the previous row to each row, (rows,); zero if keys are the order."""
    if schema.order not in schema.core.columns:
        return np.zeros(len(now), np.int64)
    k = schema.core.names.index(schema.order)
    return now[:, k].astype(np.int64) - last[:, k]
