"""The measurements of a fit of patients over time, in addition to its method's measurements of first rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..privacy.accounting.calibration import Charge, Plan, of_table

SEVERAL_SHARE = 0.5  # of the privacy loss, for later rows of several tables: half stays for first rows
LATER_SHARE = 0.4  # of the privacy loss, for later rows: patients with a single row are the most frequent case
ONE_WAY, PERSISTENCE = "later rows: one-way marginals", "later rows: persistence"
SELECTION, TWO_WAY = "later rows: two-way selection", "later rows: two-way marginals"
WITHIN = "later rows: pairs within a row"
LAST_ROWS = "later rows: last ones"
SHARES = {ONE_WAY: 0.15, PERSISTENCE: 0.35, WITHIN: 0.15, SELECTION: 0.07, TWO_WAY: 0.28}
LAST_SHARE = 0.2  # of the loss for a table's later rows, if a rule is about the last one


def shares(ending: bool) -> dict[str, float]:
    """Return the part of each measurement of a table's later rows. `ending`: whether a rule is about the last row."""
    rest = 1 - LAST_SHARE * ending
    return {label: rest * part for label, part in SHARES.items()} | ({LAST_ROWS: LAST_SHARE} if ending else {})


def queries(of_method: Sequence[Charge], tables: Mapping[str, bool]) -> list[Charge]:
    """Return the method's measurements, with their part of the privacy loss, and those of later rows in `tables`.

    For each table, by name: whether a rule is about the last row of a patient.
    """
    share = SEVERAL_SHARE if len(tables) > 1 else LATER_SHARE * len(tables)
    first = [replace(query, weight=query.weight * (1 - share) ** -0.5) for query in of_method]
    return first + [
        Charge(label=of_table(table, label), weight=(share / len(tables) * part) ** -0.5)
        for table, ending in tables.items()
        for label, part in shares(ending).items()
    ]


def plan_of_first_rows(plan: Plan, patients: int) -> Plan:
    """Return the plan for a method that measures one row of each of `patients` patients, an approximate number."""
    return replace(plan, max_rows=1, rows=patients, rows_std=None, planned_rows=plan.equivalent_rows)
