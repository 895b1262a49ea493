"""What people add to the report: purpose and sign-off in a review file, limits in a file of thresholds."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeVar

from pydantic import ValidationError

from ...errors import UsageError
from ...schema.declared import parse_yaml
from .records import Record

Role = Literal["direct identifier", "quasi identifier", "sensitive", "target", "other"]


class Regression(Record):
    """The regression that the recipient cares about."""

    outcome: str | None = None
    predictors: list[str] | None = None


class Review(Record):
    """Everything that only people know: purpose, source, roles, tuning. What is left out is printed as a blank line."""

    table: str | None = None
    period: str | None = None
    inclusion: str | None = None
    purpose: str | None = None
    recipient: str | None = None
    access: str | None = None
    licence: str | None = None
    review_date: str | None = None
    steward: str | None = None
    privacy_officer: str | None = None
    expert: str | None = None
    fits_on_this_table: int | None = None
    choices_looked_at_real_rows: bool | None = None
    roles: dict[str, Role] = {}
    regression: Regression | None = None


class Threshold(Record):
    """A limit that an estimate must not exceed, and where the limit comes from."""

    limit: float
    source: str


class Thresholds(Record):
    """The thresholds of the verdicts. Each can be set in a file, together with its source."""

    epsilon: Threshold = Threshold(
        limit=10.0, source="Ponomareva et al. 2023, How to DP-fy ML: tier 2, 'reasonable', ends at 10"
    )
    delta_times_rows: Threshold = Threshold(
        limit=0.1, source="delta well below one over the number of rows: NIST SP 800-226 (2025)"
    )
    attack_advantage: Threshold = Threshold(
        limit=0.09,
        source="by analogy with the re-identification limit 0.09 of EMA Policy 0070 and Health Canada's guidance",
    )
    mean_auroc_loss: Threshold = Threshold(limit=0.05, source="a convention of this report; set your own")
    mean_r2_loss: Threshold = Threshold(limit=0.1, source="a convention of this report; set your own")
    two_way_gap: Threshold = Threshold(limit=0.05, source="a convention of this report; set your own")
    propensity_auroc: Threshold = Threshold(limit=0.8, source="a convention of this report; set your own")
    lagged_gap: Threshold = Threshold(limit=0.05, source="a convention of this report; set your own")
    next_row_auroc_loss: Threshold = Threshold(limit=0.05, source="a convention of this report; set your own")
    rules_broken: Threshold = Threshold(limit=0.0, source="the schema")
    rows_apart: Threshold = Threshold(limit=0.0, source="the file that names the tables")


Kind = TypeVar("Kind", bound=Record)


def load(path: Path | None, kind: type[Kind]) -> Kind:
    """A Review or Thresholds from a YAML file; the default where there is none. Raises UsageError."""
    if path is None:
        return kind()
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise UsageError(f"{path} cannot be read as a text file. Check the name.") from None
    try:
        return kind.model_validate(parse_yaml(text, str(path)) or {})
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "the file"
        known = ", ".join(kind.model_fields)
        raise UsageError(f"{path}: {place}: {first['msg']}. The keys are: {known}.") from None
