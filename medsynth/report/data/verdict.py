"""Records, what people add to them in a review file, and verdicts. The line that decides a verdict is in `decide`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from ...errors import UsageError
from ...schema.declared import parse_yaml

Role = Literal["direct identifier", "quasi identifier", "sensitive", "target", "other"]
Outcome = Literal["within", "beyond", "doubtful", "too few rows", "not judged", "not measured"]


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


def of_both(figure: str, sides: Sequence[Any]) -> dict[str, Any]:
    """Return a figure of real and of synthetic rows as two fields of a record: FIGURE_real and FIGURE_synthetic."""
    return {f"{figure}_real": sides[0], f"{figure}_synthetic": sides[1]}


class ReviewedRegression(Record):
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
    regression: ReviewedRegression | None = None


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


class Verdict(Record):
    """A question, what was measured, the threshold it is measured against.

    `key` is the threshold's name. `outcome` is what came of it; `met` the same as yes or no, None where nothing was
    decided. `judged` is the end of the interval that counts against the table, or the value itself. `decimals` are
    those shown.
    """

    key: str
    question: str
    measure: str
    estimate: Estimate
    judged: float | None
    limit: float
    source: str
    outcome: Outcome
    met: bool | None
    detail: str
    decimals: int = 3


# What `failing` takes beside the keys of verdicts: the outcomes that each of these words stands for.
FAILURES: dict[str, tuple[Outcome, ...]] = {
    "beyond": ("beyond",),
    "doubtful": ("doubtful",),
    "undecided": ("too few rows", "not judged", "not measured"),
    "any": ("beyond", "doubtful", "too few rows", "not judged", "not measured"),
}


def check_failures(wanted: Sequence[str], keys: Sequence[str]) -> None:
    """Raises UsageError for a word that is neither of FAILURES nor the key of a verdict."""
    if unknown := [word for word in wanted if word not in FAILURES and word not in keys]:
        raise UsageError(f"`fail_on` knows no {', '.join(unknown)}. It takes {', '.join([*FAILURES, *keys])}.")


def failing(verdicts: Sequence[Verdict], wanted: Sequence[str]) -> list[Verdict]:
    """The verdicts with an outcome that `wanted` names, or with a key in it and any outcome but `within`."""
    outcomes = {outcome for word in wanted for outcome in FAILURES.get(word, ())}
    return [v for v in verdicts if v.outcome in outcomes or (v.key in wanted and v.outcome != "within")]


def decide(
    key: str, question: str, measure: str, estimate: Estimate, threshold: Threshold, detail: str, *,
    instead: Outcome | None = None, decimals: int = 3,
) -> Verdict:  # fmt: skip
    """The verdict on `estimate`: within the threshold if the upper end of its interval is at most the limit.

    With `instead` the estimate is shown with that outcome, and nothing is decided.
    """
    against = estimate.value if estimate.high is None else estimate.high
    met = None if against is None or instead else against <= threshold.limit
    decided: Outcome = "not measured" if against is None else "within" if met else "beyond"
    return Verdict(
        key=key,
        question=question,
        measure=measure,
        estimate=estimate,
        judged=None if instead else against,
        limit=threshold.limit,
        source=threshold.source,
        outcome=instead or decided,
        met=met,
        detail=detail,
        decimals=decimals,
    )


def doubtful(loss: Estimate, threshold: Threshold) -> Outcome | None:
    """The outcome of a loss below zero by more than the limit: no model can teach more than the real rows do."""
    return "doubtful" if -(loss.value or 0.0) > threshold.limit else None
