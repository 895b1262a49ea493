"""What every phase of a fit may know of private tables, be it one or several that share their patients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ..methods.registry import Method
from ..privacy.accounting.calibration import Plan, Query
from ..privacy.contribution import PrivacyUnits
from ..rng import Entropy
from .settings import FitSettings


class Remark(NamedTuple):
    """A notice to a person before a fit measures, and a note in the ledger. Either may be empty."""

    notice: str = ""
    note: str = ""


class Private(Protocol):
    """What a fit is made on: one table or several, read and checked, and what is public of it."""

    @property
    def rows(self) -> int:
        """The number of rows, or of patients in several tables, that counts as public where none is declared."""

    @property
    def rows_std(self) -> float | None:
        """By how much `rows` is off, where secret draws left fewer; None where that is not known."""

    @property
    def max_rows(self) -> int | None:
        """The most rows of a patient, where the patient is the unit of privacy."""

    @property
    def columns(self) -> int:
        """How many columns the method learns."""

    def records(self, plan: Plan) -> int:
        """How many records the notes of a method are about."""

    def queries(self, module: Method, epsilon: float, config: Any, rows: int) -> list[Query]:
        """All measurements of a fit, each with its noise relative to the others'."""

    def public_facts(self, settings: FitSettings, rows: int) -> list[str]:
        """What no noise covers and neighbouring tables share, one phrase each."""

    def check_enough(self, plan: Plan) -> list[str]:
        """What a person should know of the noise. Raises BudgetError where nothing could be learned."""

    def remarks(self, settings: FitSettings, plan: Plan) -> Iterator[Remark]:
        """What is taken as public without a word from the user, and what is odd about the table's header."""

    def bounded_rows(self, entropy: Entropy) -> tuple[NDArray[np.int64] | None, PrivacyUnits | None]:
        """The positions of the rows that are learned from, and their patients; None of both where all rows are."""

    def facts(self) -> dict[str, object]:
        """What identifies it, by the names of the settings it came from: for the private checkpoint alone."""
