"""The interface of private tables for all phases of a fit: one table, or several that share their patients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ..methods.registry import Method
from ..privacy.accounting.calibration import Plan, Query
from ..privacy.contribution import PrivacyUnits
from ..rng import Entropy
from .expectation import Expectation
from .settings import FitSettings


class Remark(NamedTuple):
    """A notice to a person before a fit measures, and a note in the ledger. Either may be empty."""

    notice: str = ""
    note: str = ""


class Private(Protocol):
    """The input of a fit: one table or several, read and checked, and what is public about it."""

    @property
    def target(self) -> str | None:
        """The column to predict, if any."""

    @property
    def rows(self) -> int:
        """The number of rows, or of patients in several tables, that counts as public if none is declared."""

    @property
    def rows_std(self) -> float | None:
        """The standard deviation of `rows` if secret draws kept a part of them; None if it is not known."""

    @property
    def max_rows(self) -> int | None:
        """The most rows of a patient, if the patient is the unit of privacy."""

    @property
    def columns(self) -> int:
        """The number of columns that the method learns."""

    def records(self, plan: Plan) -> int:
        """Return the number of records that a method's notes are about."""

    def queries(self, module: Method, epsilon: float, config: Any, rows: int) -> list[Query]:
        """Return all measurements of a fit, each with its noise relative to the others'."""

    def public_facts(self, settings: FitSettings, rows: int) -> list[str]:
        """Return the facts that no noise covers and that neighbouring tables share, one phrase each."""

    def notes_on_noise(self, plan: Plan) -> list[str]:
        """Return notes about the noise for the user, from public numbers alone."""

    def expected(self, plan: Plan) -> Expectation | None:
        """Return what a fit by this plan should achieve, if it can be simulated."""

    def remarks(self, settings: FitSettings, plan: Plan) -> Iterator[Remark]:
        """Yield what becomes public without a declaration, and warnings about the table's header."""

    def bounded_rows(self, entropy: Entropy) -> tuple[NDArray[np.int64] | None, PrivacyUnits | None]:
        """Return the positions of the rows in use, and their patients; None for both if all rows are used."""

    def facts(self) -> dict[str, object]:
        """Return what identifies it, by the names of its settings: for the private checkpoint alone."""
