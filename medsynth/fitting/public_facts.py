"""What a fit takes as public without measuring it: listed for a person before anything is spent, and in the ledger; and
whether by these numbers and the planned noise the rows are enough to learn a schema from.
"""

from __future__ import annotations

import math

from ..errors import BudgetError
from ..privacy import partition_selection as selection
from ..privacy.accounting.calibration import Plan
from ..privacy.accounting.events import Thresholded, rows_of
from ..privacy.noise import rarely_exceeded
from ..schema.magnitudes import CLEAR_STDS
from .private_table import PrivateTable, PublicRows

SURELY_STDS = 1.65  # standard deviations that a count must exceed a threshold by to pass it in 95 of 100 fits
RARE_SHARE = 0.05  # of the rows: a class as rare as this may be what the table is about


def public_facts(
    private: PrivateTable,
    rows: int,
    public_rows: PublicRows | None,
    *,
    declared_rows: bool,
    one_row_a_patient: bool = False,
) -> list[str]:
    """The facts that no noise covers and that neighbouring tables share, one phrase each.

    They come from declarations, from the header line and the file's form; none but the row count changes with a row.
    `rows`: the count that the plan is made for; `declared_rows`: whether the user gave it.
    """
    table, schema = private.data, private.declared
    facts = [f"the header: {len(table.header)} columns, their names and their order"]
    facts.append(f"the form of the input: {table.form or 'commas and UTF-8, Parquet or a frame'}")
    if declared_rows:
        facts.append(f"the number of rows, {rows}, as `rows` declares it")
    elif table.expected_rows is None:
        facts.append(f"the number of rows, {rows}, the table's own")
    else:
        facts.append(f"the number of rows, {rows}: the whole table's own, times the share that is kept for training")
    if schema is None:
        facts.append("that no schema is declared: kinds, levels and bounds are measured, and charged")
        if private.learning.na_values:
            facts.append(f"codes of missing values that `na_values` adds: {', '.join(private.learning.na_values)}")
        if private.keys_by_name:
            facts.append(f"that these columns are keys, by their names: {', '.join(private.keys_by_name)}")
    else:
        facts.append(f"the schema {schema.name!r} with all that it declares, and that the table meets it")
    facts.append(f"the target, {private.target!r}")
    if private.max_rows is not None:
        facts.append(
            f"that {private.unit!r} names the patient of each row, and that a patient counts with at most "
            f"{rows_of(private.max_rows)}, whichever they are"
        )
    if one_row_a_patient:
        facts.append("that no two rows share a patient, as `one_row_a_patient` declares")
    if public_rows is not None:
        facts.append("the rows of `public`")
    return [*facts, "`epsilon`, `delta`, the method and its settings"]


def smallest_level(plan: Plan, label: str, columns: int) -> float:
    """The number of rows that a level needs to come out of a measurement in 95 of 100 fits: public, by the plan."""
    event, std, most = plan.events[label][0], plan.noise(label) * math.sqrt(columns), plan.max_rows or 1
    delta = event.delta if isinstance(event, Thresholded) else 0.5
    return most + rarely_exceeded(std, delta / (columns * most)) + SURELY_STDS * std


def check_enough_rows(private: PrivateTable, plan: Plan) -> list[str]:
    """What a person should know of the noise before anything is spent, where no schema is declared.

    By declared numbers and planned noise alone. Raises BudgetError where nothing could be learned.
    """
    if private.declared is not None:
        return []
    columns = private.columns
    rare, level = (smallest_level(plan, selection.TARGET, 1), smallest_level(plan, selection.LEVELS, columns))
    needed = max(CLEAR_STDS * plan.noise(selection.KINDS) * math.sqrt(columns), 2 * rare)
    if plan.rows < needed:
        raise BudgetError(
            f"{plan.rows} rows are too few to learn what {columns} columns are made of at this budget: about "
            f"{needed:.0f} would be needed, and nothing was spent. Draft a schema and declare it, which costs nothing; "
            "or give a larger `epsilon`, or a table of more rows or fewer columns."
            + (" A smaller `max_rows` has less noise." if (plan.max_rows or 1) > 1 else "")
        )
    notes = [
        f"By the planned noise, a class of {private.target!r} comes out for certain only if about {rare:.0f} rows have "
        f"it, and a level of another column if about {level:.0f} have it: {rare / plan.rows:.1%} and "
        f"{level / plan.rows:.1%} of the rows. What is rarer is merged; less will do for usual levels beside a common "
        "one, as 1 beside 0 or yes beside no. A declared schema names all, for nothing."
    ]
    if rare > RARE_SHARE * plan.rows:
        notes.insert(
            0, f"FEW ROWS: classes of {private.target!r} that are rarer than {rare / plan.rows:.0%} may be lost."
        )
    return notes
