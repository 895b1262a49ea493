"""A question of the report with all that belongs to it. `questions.yaml` has those of this package, and sections
register them.

Thresholds, page one, the proposal and the tables of docs/report.md are built from the registered questions.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from typing import NamedTuple

from pydantic import ConfigDict, TypeAdapter

from ...schema.declared import bundled_yaml
from .verdict import Estimate, Outcome, Threshold, Thresholds, Verdict, compared

CONVENTION = "a convention of this report; set your own"
LARGER = "fit again with a larger epsilon, which protects patients less"
FEWER = f"Declare a schema with bounds and levels, leave out columns that nobody needs, or {LARGER}."


class Wording(NamedTuple):
    """A sentence with places for figures of the verdict. Each figure is shown as `scale` times itself plus `shift`.

    `decimals`: None means those of the verdict.
    """

    text: str
    scale: float = 1.0
    shift: float = 0.0
    decimals: int | None = None


OTHER = Wording("{measure}: {value}.{between} The limit is {limit}.")


@dataclass(frozen=True, kw_only=True)
class Question:
    """A question, the figure that answers it, and what follows from the answer.

    `key` is the name in thresholds files. `limit` and `source` are the default threshold. `cure`: what to do about a
    figure beyond the threshold. `topic`: what it is about, for lists of what failed. `uses`: what the answer allows or
    forbids (see `proposal`). `further_uses`: uses that it decides, too, but only if another question on the page brings
    them up.

    `plain` is the figure in a sentence that can be read aloud to people who know no statistics, and `unjudged` a reason
    of this kind. Page one prints them. `decimals` are those of the figure elsewhere.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    key: str
    words: str
    topic: str = ""
    measure: str
    limit: float
    source: str = CONVENTION
    cure: str = ""
    uses: tuple[str, ...] = ()
    further_uses: tuple[str, ...] = ()
    plain: Wording = OTHER
    unjudged: str = ""
    decimals: int = 3

    def threshold(self, given: Thresholds) -> Threshold:
        """Return the threshold: as it is given, else the default."""
        return given.root.get(self.key) or Threshold(limit=self.limit, source=self.source)

    def judge(
        self, estimate: Estimate, given: Thresholds, detail: str, *, instead: Outcome | None = None,
        advice: str | None = None, allowed: float | None = None,
    ) -> Verdict:  # fmt: skip
        """Return the verdict on `estimate`, by its interval: see `compared`.

        With `instead`, the verdict has that outcome and nothing is decided, but that "no guarantee" is not met.
        `advice`: what to do if it is not within; by default the cure, if it is beyond.
        """
        threshold = self.threshold(given)
        outcome = instead or compared(estimate, threshold.limit)
        advice = advice if advice is not None else self.cure if outcome == "beyond" else ""
        return Verdict(
            key=self.key,
            question=self.words,
            measure=self.measure,
            estimate=estimate,
            limit=threshold.limit,
            source=threshold.source,
            outcome=outcome,
            met={"within": True, "beyond": False, "no guarantee": False}.get(outcome),
            detail=detail.strip(),
            advice="" if outcome == "within" else advice,
            allowed=allowed,
            decimals=self.decimals,
        )

    def meaning(self, verdict: Verdict) -> str:
        """Return what the figure of a verdict means, or why it is not judged; "" if it passed or the verdict says it.

        >>> asked = Question(key="k", words="?", measure="m", limit=5, plain=Wording("Wrong: {value}.{between}"))
        >>> asked.meaning(asked.judge(Estimate(value=7, low=6, high=8), Thresholds(), ""))
        'Wrong: 7.000. With other patients it could be anything from 6.000 to 8.000.'
        """
        if verdict.outcome == "not judged":
            return self.unjudged
        if verdict.outcome not in ("beyond", "cannot tell"):
            return ""
        figure, wording = verdict.estimate, self.plain
        decimals = verdict.decimals if wording.decimals is None else wording.decimals

        def shown(number: float | None) -> str:
            return "?" if number is None else f"{wording.scale * number + wording.shift:,.{decimals}f}"

        between = ""
        if figure.low is not None and figure.high is not None and figure.low != figure.high:
            between = f" With other patients it could be anything from {shown(figure.low)} to {shown(figure.high)}."
        limit = f"{wording.scale * verdict.limit + wording.shift:,.6f}".rstrip("0").rstrip(".")
        return wording.text.format(value=shown(figure.value), between=between, limit=limit, detail=verdict.detail,
                                   measure=verdict.measure[:1].upper() + verdict.measure[1:])  # fmt: skip


def _questions() -> dict[str, Question]:
    """Return the questions that questions.yaml lists, by key."""
    text = (resources.files(__package__) / "questions.yaml").read_text(encoding="utf-8").replace("{fewer}", FEWER)
    found = TypeAdapter(tuple[Question, ...]).validate_python(bundled_yaml(text, "questions.yaml"))
    return {question.key: question for question in found}


QUESTIONS = _questions()
