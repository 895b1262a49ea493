"""What a fit of patients over time measures beside its method's own measurements of first rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..privacy.accounting.calibration import Plan, Query

SEVERAL_SHARE = 0.5  # of the privacy loss, for later rows of several tables
LATER_SHARE = 0.4  # of the privacy loss, for later rows: patients with one row alone are the most frequent case
ONE_WAY, PERSISTENCE = "later rows: one-way marginals", "later rows: persistence"
SELECTION, TWO_WAY = "later rows: two-way selection", "later rows: two-way marginals"
SHARES = {ONE_WAY: 0.15, PERSISTENCE: 0.35, SELECTION: 0.1, TWO_WAY: 0.4}


def of_table(table: str, label: str) -> str:
    """The label of a measurement of one of several tables, by its name; of a single one, "", the label itself."""
    return f"{table}: {label}" if table else label


def queries(of_method: Sequence[Query], tables: Sequence[str] = ("",)) -> list[Query]:
    """The method's measurements, for their part of the privacy loss, and those of later rows in each of `tables`."""
    share = later_share(len(tables))
    first = [replace(query, weight=query.weight * (1 - share) ** -0.5) for query in of_method]
    return first + [
        Query(label=of_table(table, label), weight=(share / len(tables) * part) ** -0.5)
        for table in tables
        for label, part in SHARES.items()
    ]


def later_share(tables: int) -> float:
    """The part of the privacy loss of later rows in so many tables together; half of it stays for first rows."""
    return (0.0, LATER_SHARE)[tables] if tables < 2 else SEVERAL_SHARE


def plan_of_first_rows(plan: Plan, patients: int) -> Plan:
    """The plan as a method reads it that measures one row of each of so many patients, which need not be exact."""
    return replace(plan, max_rows=1, rows=patients, rows_std=None, planned_rows=plan.equivalent_rows)


def deviation(plan: Plan, label: str, tables: int) -> float:
    """The standard deviation of the noise of each of so many averaged tables."""
    return float(plan.events[label][0].multiplier * tables**0.5)
