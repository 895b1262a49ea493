"""A verdict: one question, what was measured, and the threshold that decides. The deciding line is in `decide`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from ...errors import UsageError
from .records import Estimate, Record
from .review import Threshold

Outcome = Literal["within", "beyond", "doubtful", "too few rows", "not judged", "not measured"]


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
