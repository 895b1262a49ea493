"""What sections are made of: frozen, checked records that become the JSON twin as they stand."""

from __future__ import annotations

import math

from pydantic import BaseModel, ConfigDict, field_validator


class Record(BaseModel):
    """A record of the report. Unknown fields are refused, and nothing changes after it was made."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Estimate(Record):
    """An estimate with its 95 % interval, where there is one. None: it cannot be computed here."""

    value: float | None
    low: float | None = None
    high: float | None = None

    @field_validator("value", "low", "high", mode="before")
    @classmethod
    def _number(cls, value: float | None) -> float | None:
        """JSON knows no NaN: what is no finite number is None."""
        return None if value is None or not math.isfinite(value) else float(value)

    def __str__(self) -> str:
        """The value in words, three decimals."""
        return "not known" if self.value is None else f"{self.value:.3f}"
