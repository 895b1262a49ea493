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
CODES, CODE_PAIRS = "codes of patients", "pairs of codes of patients"
CODES_SHARE = {CODES: 0.03, CODE_PAIRS: 0.2}  # of the privacy loss, if several tables have columns of codes
SHARES = {ONE_WAY: 0.15, PERSISTENCE: 0.35, WITHIN: 0.15, SELECTION: 0.07, TWO_WAY: 0.28}
LAST_SHARE = 0.2  # of the loss for a table's later rows, if a rule is about the last one


def shares(ending: bool) -> dict[str, float]:
    """Return the part of each measurement of a table's later rows. `ending`: whether a rule is about the last row."""
    rest = 1 - LAST_SHARE * ending
    return {label: rest * part for label, part in SHARES.items()} | ({LAST_ROWS: LAST_SHARE} if ending else {})


def queries(of_method: Sequence[Charge], tables: Mapping[str, bool], *, codes: bool = False) -> list[Charge]:
    """Return the method's measurements, with their part of the privacy loss, and those of later rows in `tables`.

    For each table, by name: whether a rule is about the last row of a patient. `codes`: whether it is measured which
    codes a patient has, at the cost of all others.
    """
    share = SEVERAL_SHARE if len(tables) > 1 else LATER_SHARE * len(tables)
    first = [replace(query, weight=query.weight * (1 - share) ** -0.5) for query in of_method]
    later = [
        Charge(label=of_table(table, label), weight=(share / len(tables) * part) ** -0.5)
        for table, ending in tables.items()
        for label, part in shares(ending).items()
    ]
    if not codes:
        return first + later
    left = 1 - sum(CODES_SHARE.values())
    others = [replace(query, weight=query.weight * left**-0.5) for query in first + later]
    return others + [Charge(label=label, weight=part**-0.5) for label, part in CODES_SHARE.items()]


def plan_of_first_rows(plan: Plan, patients: int) -> Plan:
    """Return the plan for a method that measures one row of each of `patients` patients, an approximate number."""
    return replace(plan, max_rows=1, rows=patients, rows_std=None, planned_rows=plan.equivalent_rows)
