"""Who a row is: the unit of privacy as it was declared, and its words. Each place that states a claim asks here."""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import EARLIER
from .events import rows_of

SEVERAL_ROWS = "a patient with several rows is protected less"


@dataclass(frozen=True)
class PrivacyUnit:
    """One patient with at most `max_rows` rows, one patient who has one row, or one row if nothing was declared.

    >>> PrivacyUnit(3).protects, PrivacyUnit(None, True).protects, PrivacyUnit().noun
    ('one patient with up to 3 rows', 'one patient, declared to have one row', 'row')
    """

    max_rows: int | None = None
    one_row_a_patient: bool = False

    @property
    def declared(self) -> bool:
        """Whether it was declared whose rows these are, so that the claim is for patients."""
        return self.max_rows is not None or self.one_row_a_patient

    @property
    def noun(self) -> str:
        """The word for the unit."""
        return "patient" if self.declared else "row"

    @property
    def protects(self) -> str:
        """The unit whose change the claim covers, and what that means for a patient with several rows."""
        if self.max_rows is not None:
            return f"one patient with up to {rows_of(self.max_rows)}"
        return "one patient, declared to have one row" if self.declared else f"one row ({SEVERAL_ROWS})"

    @property
    def brief(self) -> str:
        """The unit in a list of fits."""
        if self.max_rows is not None:
            return f"patient, up to {rows_of(self.max_rows)}"
        return "patient, one row" if self.declared else "row"


def beyond(patients: str, citation: str) -> str:
    """Return the end of a unit's words if public rows are of the same `patients`: "some" or "these", not "other"."""
    return "" if patients in ("other", EARLIER) else f", beyond what {citation} shows"
