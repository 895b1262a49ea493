"""A verdict: one question, what was measured, and the threshold that decides. The deciding line is in `decide`."""

from __future__ import annotations

from .records import Estimate, Record
from .review import Threshold


class Verdict(Record):
    """A question, what was measured, the threshold it is measured against. `met` is None where nothing was decided.

    `judged` is the end of the interval that counts against the table, or the value itself. `decimals` are those shown.
    """

    question: str
    measure: str
    estimate: Estimate
    judged: float | None
    limit: float
    source: str
    met: bool | None
    detail: str
    decimals: int = 3


def decide(
    question: str, measure: str, estimate: Estimate, threshold: Threshold, detail: str, *, judged: bool = True,
    decimals: int = 3,
) -> Verdict:  # fmt: skip
    """The verdict on `estimate`: within the threshold if the upper end of its interval is at most the limit.

    With `judged` false the estimate is shown, but nothing is decided.
    """
    against = estimate.value if estimate.high is None else estimate.high
    return Verdict(
        question=question,
        measure=measure,
        estimate=estimate,
        judged=against if judged else None,
        limit=threshold.limit,
        source=threshold.source,
        met=None if against is None or not judged else against <= threshold.limit,
        detail=detail,
        decimals=decimals,
    )
