"""A request to a model: the number of rows or patients, and their conditions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

import numpy as np
import pandas as pd

from ..errors import UsageError
from ..schema.codec import Where

if TYPE_CHECKING:
    from ..artifact import Model

MARK = "synthetic"  # the last column of marked files
MARKED, STRUCTURE = "yes", "structure only"  # its only value: of rows of a fitted model, and of a schema


ONE_TABLE_ONLY = {  # what models of several tables refuse, each with what to do instead
    "where_any": "`where` accepts columns of first rows, such as stays.ward=heart. For conditions on any row, draw "
    "more patients, and select in the synthetic tables those whose rows meet them.",
    "balance": "Draw each class by itself with `where`, such as sex=F and then sex=M, and as many patients of each.",
    "replicates": "Make one table with one row per patient of these tables, fit it with `inference`, and draw "
    "replicates of that model.",
}


@dataclass(frozen=True, kw_only=True)
class Draw:
    """Rows to draw from a model. With a seed it contains all that is needed to draw the same rows again.

    rows, patients: the number of rows, or of whole patients with all their rows; at most one of them. Without either,
    the model's public row count. Of several tables, both count patients. where: conditions on rows; in models with an
    order, on first rows. where_any: conditions that some row of each patient meets together. balance: as many rows per
    class. replicates: this number of plausible models draw the same amount each; None if the model itself draws.
    replicate: draw only the replicate of this number, from 1 on, without a column that contains the number. mark: add a
    last column `synthetic`, always yes, or "structure only" without a fit.

    Raises UsageError for both rows and patients, for fewer than one, and for `balance` with `where_any`.
    """

    rows: int | None = None
    patients: int | None = None
    seed: int | None = None
    where: Where = ()
    where_any: Where = ()
    balance: bool = False
    replicates: int | None = None
    replicate: int | None = None
    mark: bool = False

    def __post_init__(self) -> None:
        if self.rows is not None and self.patients is not None:
            raise UsageError("`n` counts rows, `patients` whole patients. Set one of them.")
        for name, count in {"n": self.rows, "patients": self.patients}.items():
            if count is not None and (isinstance(count, bool) or not isinstance(count, int | np.integer)):
                raise UsageError(f"`{name}` must be a whole number.")
            if count is not None and count < 1:
                raise UsageError(f"`{name}` must be one or more.")
        if self.balance and self.where_any:
            raise UsageError(
                "`balance` draws the classes evenly, but selection by `where_any` would undo it. Leave one out."
            )

    def of(self, model: Model) -> Self:
        """Return the same request with a number of rows or, for several tables, of patients.

        Raises UsageError for what the model cannot draw.
        """
        if self.mark and any(MARK in schema.names for schema in model.written.values()):
            raise UsageError(f"The table has a column {MARK!r}, which `mark` would add. Leave `mark` out.")
        if model.tables is not None:
            for name, cure in ONE_TABLE_ONLY.items():
                if getattr(self, name):
                    raise UsageError(f"`{name}` works for one table only. {cure}")
            return replace(self, rows=None, patients=self.patients or self.rows or model.rows)
        for name, asked in {"patients": self.patients is not None, "where_any": bool(self.where_any)}.items():
            if asked and model.schema.unit is None:
                raise UsageError(
                    f"`{name}` needs a model of patients, but this one has no column of patients. Use "
                    f"{'`n`' if name == 'patients' else '`where`'} for rows, or fit again with `unit`."
                )
        return self if self.rows or self.patients else replace(self, rows=model.rows)


def with_mark(frame: pd.DataFrame, mark: bool, model: Model) -> pd.DataFrame:
    """Return rows of a model with the constant last column that marks them; without `mark`, unchanged."""
    if mark:
        frame.insert(frame.shape[1], MARK, STRUCTURE if model.structure_only else MARKED)
    return frame
