"""What is asked of a model: how many rows or patients, and under which conditions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from ..errors import UsageError
from ..schema.codec import Where

if TYPE_CHECKING:
    from ..artifact import Model


@dataclass(frozen=True, kw_only=True)
class Draw:
    """Rows to draw of a model. With a seed it is all that is needed to draw the same rows again.

    rows, patients: how many rows, or how many whole patients with all their rows; at most one of them is given, and
    rows are as many as the model's public row count where none is. where: conditions on rows, of models with an order
    on first rows. where_any: conditions that some row of each patient meets together. balance: as many rows a class.
    replicates: so many plausible models draw as much each; None where the model itself does. replicate: the number,
    from 1 on, of the only one of them whose rows are wanted, without a column that tells it.

    Raises UsageError for rows and patients together, for fewer than one, and for `balance` beside `where_any`.
    """

    rows: int | None = None
    patients: int | None = None
    seed: int | None = None
    where: Where = ()
    where_any: Where = ()
    balance: bool = False
    replicates: int | None = None
    replicate: int | None = None

    def __post_init__(self) -> None:
        if self.rows is not None and self.patients is not None:
            raise UsageError("`n` counts rows, `patients` whole patients. Give one of them.")
        for name, count in {"n": self.rows, "patients": self.patients}.items():
            if count is not None and count < 1:
                raise UsageError(f"`{name}` must be one or more.")
        if self.balance and self.where_any:
            raise UsageError(
                "`balance` draws the classes evenly, and choosing patients by `where_any` would undo it. Leave one out."
            )

    def of(self, model: Model) -> Self:
        """The same with a number of rows, where patients are not counted.

        Raises UsageError where a model without patients is asked for them.
        """
        for name, asked in {"patients": self.patients is not None, "where_any": bool(self.where_any)}.items():
            if asked and model.schema.unit is None:
                raise UsageError(
                    f"`{name}` needs a model of patients; in this one no column says whose each row is. Use "
                    f"{'`n`' if name == 'patients' else '`where`'} for rows, or fit again with `unit`."
                )
        return self if self.rows or self.patients else replace(self, rows=model.rows)
