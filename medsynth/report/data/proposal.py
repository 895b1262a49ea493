"""The public rule that turns verdicts into a proposal in words. Each question names the uses that it decides.

A use is unfit if one of its questions is beyond its threshold. The board decides about a use if one of its questions
has no answer. A use is fit if all of its questions on the page are within. A use that no question on the page brings up
is not mentioned. Without a guarantee the proposal first states that, and allows uses only where the real rows may be
used. The claim protects, and attacks can only show a leak: an attack whose figure is within its limit, but whose
interval is not, is a limit of the proposal and no question for the board if there is a claim.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, get_args

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


def sentences(
    verdicts: Sequence[Verdict], questions: Questions, uses: Sequence[JudgedUse], purpose: str | None
) -> list[str]:
    """Return the proposal: the answer in one sentence, then its limits. `purpose`: what was asked for, if known."""
    asked = [one for one in verdicts if one.key in deciding(PASSING_ON, questions)]
    by = {fitness: [one for one in uses if one.fitness == fitness] for fitness in get_args(Fitness)}
    named = {fitness: listed([one.use for one in own]) for fitness, own in by.items()}
    fit = named["fit"]
    unsure = named["board decides"]
    said = list[str]()
    if any(one.outcome == "no guarantee" for one in asked):
        said.append("Share these rows: no, because nothing limits what they reveal about a person.")
        said += [f"Where the real rows may be used, these rows are fit for {fit}."] if fit else []
    elif failed := [one for one in asked if one.outcome == "beyond"]:
        said.append(f"Share these rows: no, because the answer is no: {failed[0].question}")
    elif unsettled := [one for one in asked if one.met is None and not allowed(one)]:
        said.append(f"Share these rows: the board decides, because this is open: {unsettled[0].question}")
        said += [f"The rows are fit for {fit}."] if fit else []
    elif fit:
        said.append(f"Share for {fit}: yes, with these limits.")
    elif unsure:
        reasons = [one.question for one in verdicts if one.key in by["board decides"][0].because]
        said.append(f"Share for {unsure}: the board decides, because this is open: {reasons[0]}")
        unsure = ""
    elif any(one.use != ESTIMATING for one in uses):
        said.append("Share these rows: no, because they are fit for no use that this page judges.")
    else:
        said.append("Share these rows: the board decides, because this page judges no use.")
    said += [f"The rows are not fit for {named['not fit']}."] if by["not fit"] else []
    said += [f"The board decides whether they are fit for {unsure}."] if unsure else []
    said += [f"This is open, but the guarantee limits it: {one.question}" for one in asked if allowed(one)]
    if any(one.use == ESTIMATING for one in by["not fit"]):
        said.append("To estimate an effect, declare it before the next fit.")
    if purpose:
        said.append(f"Compare these uses with what was asked for: {purpose}.")
    return [*said, "No decision about a patient may rest on these rows."]


def allowed(verdict: Verdict) -> bool:
    """Return whether an open figure is within its limit itself, and the claim limits it whatever an attack does."""
    value = verdict.estimate.value or 0.0
    return verdict.outcome == "cannot tell" and verdict.allowed is not None and value <= verdict.limit


def listed(words: Sequence[str]) -> str:
    """Return words as a list in a sentence.

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    *first, last = [*words] or [""]
    return f"{', '.join(first)} and {last}" if first else last
