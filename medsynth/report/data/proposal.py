"""The public rule that turns verdicts into a proposal in words. Each question names the uses that it decides.

A use is unfit if one of its questions is beyond its threshold. The board decides about a use if one of its questions
has no answer. A use is fit if all of its questions on the page are within. A use that no question on the page brings up
is not mentioned. Without a guarantee the proposal first states that, and allows uses only where the real rows may be
used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from .question import Question
from .verdict import Record, Verdict

# Uses of synthetic rows, in words that continue "fit for". The first is about privacy, whatever the use.
PASSING_ON = "passing rows on"
TESTING = "testing software"
TEACHING = "teaching and training people"
EXPLORING = "exploring which columns go together"
PREDICTING = "training models that predict {target}"
CHANGING = "studying how patients change over time"
SURVIVING = "studying the time to an event"
ENDING = "studying how patients end"
USES = (TESTING, TEACHING, EXPLORING, PREDICTING, CHANGING, SURVIVING, ENDING)  # In the order of the page.
ESTIMATING = "estimating effects"
Fitness = Literal["fit", "not fit", "board decides"]


class JudgedUse(Record):
    """A use, whether the rows are fit for it, and the keys of the verdicts that prevent it."""

    use: str
    fitness: Fitness
    because: list[str]


Questions = Mapping[str, Question]  # By key.


def uses_of(questions: Questions) -> list[str]:
    """Return all uses except passing rows on: those of USES first, then those that only other packages know."""
    named = dict.fromkeys([*USES, *(use for question in questions.values() for use in question.uses)])
    return [use for use in named if use != PASSING_ON]


def deciding(use: str, questions: Questions) -> list[str]:
    """Return the keys of the questions that decide a use."""
    return [key for key, question in questions.items() if use in question.uses + question.further_uses]


def judged_uses(verdicts: Sequence[Verdict], questions: Questions, target: str | None) -> list[JudgedUse]:
    """Judge each use by its verdicts, and leave out a use that no verdict brings up."""
    found = []
    for use in uses_of(questions):
        asked = [one for one in verdicts if one.key in deciding(use, questions)]
        failed = [one.key for one in asked if one.met is False]
        unsettled = [one.key for one in asked if one.met is None]
        fitness: Fitness = "not fit" if failed else "board decides" if unsettled else "fit"
        if any(use in questions[one.key].uses for one in asked):
            name = use.format(target=target or "the target")
            found.append(JudgedUse(use=name, fitness=fitness, because=failed or unsettled))
    return found


def may_leave(verdicts: Sequence[Verdict], questions: Questions) -> str:
    """Return the sentence about passing rows on, from the verdicts on privacy."""
    asked = [one for one in verdicts if one.key in deciding(PASSING_ON, questions)]
    if any(one.outcome == "no guarantee" for one in asked):
        return "Do not pass these rows on as private: there is no guarantee."
    if failed := [one.question for one in asked if one.outcome == "beyond"]:
        return f"Do not pass these rows on yet. One answer was no: {_asked(failed)}"
    if unsettled := [one.question for one in asked if one.met is None]:
        return f"The guarantee is within its limits. The board decides what is still open: {_asked(unsettled)}"
    return "The guarantee is within its limits, so privacy does not forbid passing these rows on."


def _asked(questions: Sequence[str]) -> str:
    """Return questions as the end of a sentence."""
    first, *others = questions
    return " ".join([first[:1].lower() + first[1:], *others])


def sentences(leave: str, verdicts: Sequence[Verdict], uses: Sequence[JudgedUse], purpose: str | None) -> list[str]:
    """Return the proposal, one sentence each. `leave`: see `may_leave`. `purpose`: what was asked for, if known."""
    said = [leave]
    private = all(one.outcome != "no guarantee" for one in verdicts)
    for fitness, start in (
        ("fit", "The rows are fit for" if private else "Where the real rows may be used, these rows are fit for"),
        ("not fit", "They are not fit for"),
        ("board decides", "The board decides whether they are fit for"),
    ):
        if named := [one.use for one in uses if one.fitness == fitness]:
            said.append(f"{start} {listed(named)}.")
    if any(one.use == ESTIMATING and one.fitness == "not fit" for one in uses):
        said.append("To estimate an effect, declare it before the next fit.")
    if purpose:
        said.append(f"Compare these uses with what was asked for: {purpose}.")
    return [*said, "No decision about a patient may rest on these rows."]


def listed(words: Sequence[str]) -> str:
    """Return words as a list in a sentence.

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last
