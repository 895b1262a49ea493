"""What is known of several tables that share patients: rows per patient, orphans, rows that come too early."""

from __future__ import annotations

from .records import Record


class TableFacts(Record):
    """One table. Rows a patient are means; shares are of its rows, or of patients where it says so.

    `without`: patients without a row. `orphans`: rows whose key no patient has, and keys of rows of other tables that
    point to no row, or to another patient's row. `too_early`: rows before the row of another table that they belong to.
    `beyond`: rows beyond the most that a patient may have.
    """

    table: str
    page: str | None
    rows: int
    rows_a_patient: float
    real_rows_a_patient: float | None
    without: float
    real_without: float | None
    orphans: int
    too_early: int
    beyond: int


class LinkedFacts(Record):
    """Several tables under one claim for one patient in all of them. `broken`: orphans, early rows and rows beyond."""

    patients: int
    tables: list[TableFacts]
    broken: int

    @property
    def of_real_rows(self) -> bool:
        """Whether a figure was computed from real rows."""
        figures = [(table.real_rows_a_patient, table.real_without) for table in self.tables]
        return any(figure is not None for pair in figures for figure in pair)
