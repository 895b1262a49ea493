"""Records, the review file's entries, and verdicts. `decide` contains the line that decides a verdict."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from ...errors import UsageError
from ...schema.declared import parse_yaml

Role = Literal["direct identifier", "quasi identifier", "sensitive", "target", "other"]
Outcome = Literal["within", "beyond", "no guarantee", "doubtful", "too few rows", "not judged", "not measured"]


class Record(BaseModel):
    """A record of the report. It refuses unknown fields and cannot change."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Estimate(Record):
    """An estimate and its 95 % interval, if it has one. The value is None if it cannot be computed."""

    value: float | None
    low: float | None = None
    high: float | None = None

    @field_validator("value", "low", "high", mode="before")
    @classmethod
    def _number(cls, value: float | None) -> float | None:
        """Return None for a number that is not finite, since JSON has no NaN."""
        return None if value is None or not math.isfinite(value) else float(value)

    def __str__(self) -> str:
        """Return the value with three decimals."""
        return "not known" if self.value is None else f"{self.value:.3f}"


def of_both(figure: str, sides: Sequence[Any]) -> dict[str, Any]:
    """Return a figure of real and of synthetic rows as two fields of a record: FIGURE_real and FIGURE_synthetic."""
    return {f"{figure}_real": sides[0], f"{figure}_synthetic": sides[1]}


class ReviewedRegression(Record):
    """The regression that matters to the recipient."""

    outcome: str | None = None
    predictors: list[str] | None = None


class CatalogueFacts(Record):
    """What a health data catalogue must state and only people know.

    `legislation` and `health_category` are addresses from the catalogue's lists. `access_body` is the body that grants
    access, and `access_body_contact` is its e-mail address or page. `access_url` is where the table is requested.
    """

    identifier: str | None = None
    access_url: str | None = None
    legislation: list[str] = []
    health_category: list[str] = []
    access_body: str | None = None
    access_body_contact: str | None = None
    publisher: str | None = None


class Review(Record):
    """Facts that only people know: purpose, source, roles, tuning. The page prints a blank line for a missing entry."""

    table: str | None = None
    period: str | None = None
    inclusion: str | None = None
    purpose: str | None = None
    recipient: str | None = None
    access: str | None = None
    licence: str | None = None
    contact: str | None = None
    review_date: str | None = None
    steward: str | None = None
    privacy_officer: str | None = None
    expert: str | None = None
    fits_on_this_table: int | None = None
    choices_looked_at_real_rows: bool | None = None
    roles: dict[str, Role] = {}
    regression: ReviewedRegression | None = None
    catalogue: CatalogueFacts = CatalogueFacts()


STANDARDISED = "standardised differences above 0.1 count as imbalance: Austin 2009, Statistics in Medicine 28"


class Threshold(Record):
    """A limit that an estimate must not exceed, and where the limit comes from."""

    limit: float
    source: str


class Thresholds(Record):
    """The thresholds of the verdicts. A file can set each one, together with its source."""

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
    last_row_share_gap: Threshold = Threshold(limit=0.1, source=STANDARDISED)
    time_to_last_row_gap: Threshold = Threshold(limit=0.05, source="a convention of this report; set your own")
    last_values_gap: Threshold = Threshold(limit=0.25, source="a convention of this report; set your own")
    rules_broken: Threshold = Threshold(limit=0.0, source="the schema")
    rows_apart: Threshold = Threshold(limit=0.0, source="the file that names the tables")


Kind = TypeVar("Kind", bound=Record)


def load(path: Path | None, kind: type[Kind]) -> Kind:
    """Read a Review or Thresholds from a YAML file, or return the default without a file. Raises UsageError."""
    if path is None:
        return kind()
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise UsageError(f"{path} cannot be read as a text file. Check its name and encoding.") from None
    try:
        return kind.model_validate(parse_yaml(text, str(path)) or {})
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "the file"
        known = ", ".join(kind.model_fields)
        raise UsageError(f"{path}: {place}: {first['msg']}. The keys are: {known}.") from None


class Verdict(Record):
    """A question, the estimate that answers it, and the threshold of that estimate.

    `key` is the threshold's name. `outcome` is the result, and `met` is the same as yes or no, or None without a
    decision. `judged` is the less favourable end of the interval, or the value itself. `decimals` are those shown.
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


# Words for outcomes that `failing` accepts in addition to the keys of verdicts.
FAILURES: dict[str, tuple[Outcome, ...]] = {
    "beyond": ("beyond", "no guarantee"),
    "doubtful": ("doubtful",),
    "undecided": ("too few rows", "not judged", "not measured"),
    "any": ("beyond", "no guarantee", "doubtful", "too few rows", "not judged", "not measured"),
}


def check_failures(wanted: Sequence[str], keys: Sequence[str]) -> None:
    """Raise UsageError for a word that is neither in FAILURES nor the key of a verdict."""
    if unknown := [word for word in wanted if word not in FAILURES and word not in keys]:
        raise UsageError(f"`fail_on` does not accept {', '.join(unknown)}. Use {', '.join([*FAILURES, *keys])}.")


def failing(verdicts: Sequence[Verdict], wanted: Sequence[str]) -> list[Verdict]:
    """Return the verdicts with an outcome in `wanted`, or with a key in it and an outcome other than `within`."""
    outcomes = {outcome for word in wanted for outcome in FAILURES.get(word, ())}
    return [v for v in verdicts if v.outcome in outcomes or (v.key in wanted and v.outcome != "within")]


def decide(
    key: str, question: str, measure: str, estimate: Estimate, threshold: Threshold, detail: str, *,
    instead: Outcome | None = None, decimals: int = 3,
) -> Verdict:  # fmt: skip
    """Return the verdict on `estimate`: within the threshold if the upper end of its interval is at most the limit.

    With `instead`, the verdict has that outcome and nothing is decided, but that "no guarantee" is not met.
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
        met=False if instead == "no guarantee" else met,
        detail=detail,
        decimals=decimals,
    )


def holding(found: Estimate, threshold: Threshold) -> Outcome | None:
    """Return "too few rows" if the interval contains the limit: it shows neither that it is met nor that it is not."""
    low, high = found.low, found.high
    return "too few rows" if low is not None and high is not None and low <= threshold.limit < high else None


def doubtful(loss: Estimate, threshold: Threshold) -> Outcome | None:
    """Return "doubtful" for a gain larger than the limit: a model cannot teach more than the real rows do."""
    return "doubtful" if -(loss.value or 0.0) > threshold.limit else None
