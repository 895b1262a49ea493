"""The public rule that turns verdicts into a proposal in words. Each question names the uses that it decides.

A use is unfit if one of its questions is beyond its threshold. The board decides about a use if one of its questions
has no answer. A use is fit if all of its questions on the page are within. A use that no question on the page brings up
is not mentioned. If there is no guarantee, the answer is "no". Uses are then allowed only where the real rows may be
used. The claim protects, and attacks can only show a leak: an attack whose figure is within its limit, but whose
interval is not, is a limit of the proposal and no question for the board if there is a claim. The proposal gives the
reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, get_args

from .question import Question
from .verdict import Purpose, Record, Use, Verdict

PASSING_ON = "passing rows on"  # a use that is about privacy, whatever the others are
ESTIMATING, TARGET = "estimating effects", "the target"
# The other uses in the words of questions, which go on after "fit for", in the order of the page.
USES = tuple(use.replace(TARGET, "{target}") for use in get_args(Use) if use != ESTIMATING)
Fitness = Literal["fit", "not fit", "board decides"]
Status = Literal["yes", "yes, with limits", "undecided", "no"]


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
            name = use.format(target=target or TARGET)
            found.append(JudgedUse(use=name, fitness=fitness, because=failed or unsettled))
    return found


ROWS = "The synthetic rows"
TRIED = "attack_advantage"  # key of a line that every page with real rows has
NOT_TRIED = "This page reads no real row, so no attack was tried for it. The report that stays in the house tries them."


class Lost(NamedTuple):
    """Whether anything is lost, and sentences on what, and on the target."""

    anything: bool
    sentences: list[str]


class Proposal(NamedTuple):
    """The status in a word or three, and the sentences behind it, the answer first.

    `named`: the number of sentences after the first that name what failed, is open and is lost, and the target's share.
    """

    status: Status
    named: int
    sentences: list[str]


def answer(
    verdicts: Sequence[Verdict], questions: Questions, uses: Sequence[JudgedUse], asked_for: Purpose, lost: Lost,
    asked: Sequence[str] = (),
) -> Proposal:  # fmt: skip
    """Return the proposal: the answer, then what failed, is open and is lost, the target, and limits.

    A plain yes has no limit but that on decisions. Without a stated purpose and recipient it is a condition. `asked`:
    the uses of `asked_for` in the words of `uses`. Then only these matter.
    """
    deciders = [one for one in verdicts if one.key in deciding(PASSING_ON, questions)]
    unjudged = [use for use in asked if use not in {one.use for one in uses}]
    uses = [one for one in uses if one.use in asked or not asked]
    uses += [JudgedUse(use=use, fitness="board decides", because=[]) for use in unjudged]
    by = {kind: listed([one.use for one in uses if one.fitness == kind]) for kind in get_args(Fitness)}
    fit, unsure, unfit = by["fit"], by["board decides"], by["not fit"]
    stated = {"purpose": asked_for.purpose or asked, "recipient": asked_for.recipient}
    missing = [name for name, said in stated.items() if not said]
    unstated = f"Nobody has stated the {' or the '.join(missing)}."
    status: Status = "undecided"
    if any(one.outcome == "no guarantee" for one in deciders):
        first, status = f"{ROWS} may not be shared, because nothing limits what they reveal about a person.", "no"
    elif any(one.met is False for one in deciders):
        first, status = f"{ROWS} may not be shared.", "no"
    elif asked and not fit and not unsure:
        first, status, unfit = f"{ROWS} are not fit for what was asked for: {unfit}.", "no", ""
    elif any(one.met is None and not allowed(one) for one in deciders):
        first = "The board decides whether the synthetic rows may be shared at all."
    elif fit:
        limited = missing or unjudged or lost.anything or not all(one.met for one in verdicts)
        status = "yes, with limits" if limited else "yes"
        only = "only " if any(one.fitness != "fit" and one.use != ESTIMATING for one in uses) else ""
        once = f"{unstated} Once {'both are' if len(missing) > 1 else 'it is'} stated, the synthetic rows"
        first = f"{once if missing else ROWS} may be shared {only}for {fit}."
    elif unsure:
        first, unsure = f"The board decides whether the synthetic rows may be shared for {unsure}.", ""
    elif any(one.use != ESTIMATING for one in uses):
        first, status = f"{ROWS} are fit for no use that this page judges.", "no"
    else:
        first = "The board decides whether the synthetic rows may be shared, because this page judges no use."
    yes = status in ("yes", "yes, with limits")
    said = [first, *named_first(verdicts, questions), *lost.sentences]
    found = len(said) - 1
    said += [unstated] * (bool(missing) and not yes)
    if fit and not yes:
        where = "Where the real rows may be used" if status == "no" else "If they are shared"
        said.append(f"{where}, the synthetic rows are fit for {fit}.")
    said += [f"The synthetic rows are not fit for {unfit}."] if unfit else []
    if status != "no":
        open_ones = listed([one.use for one in uses if one.fitness == "board decides" and one.use not in unjudged])
        said += [f"The board decides whether they are fit for {open_ones}."] if unsure and open_ones else []
        said += [f"Nothing on this page judges {listed(unjudged)}."] if unjudged else []
        said += [reason(one, topics([one], questions)) for one in deciders if one.met is None]
        said += [] if any(one.key == TRIED for one in verdicts) else [NOT_TRIED]
        if ESTIMATING in unfit:
            said.append("To estimate an effect, declare it before the next fit.")
    if asked_for.purpose and not asked:
        said.append(f"The board compares these uses with what was asked for: {asked_for.purpose}.")
    return Proposal(status, found, [*said, "No decision about a patient may rest on synthetic rows."])


def named_first(verdicts: Sequence[Verdict], questions: Questions) -> list[str]:
    """Return what failed, and then what is open. The first sentence of the proposal states a missing guarantee."""
    by = {met: [one for one in verdicts if one.met is met and one.outcome != "no guarantee"] for met in (False, None)}
    starts = {False: "Failed", None: "Open"}
    return [f"{starts[met]}: {topics(lines, questions)}." for met, lines in by.items() if lines]


def topics(verdicts: Sequence[Verdict], questions: Questions) -> str:
    """Return what verdicts are about as a list in a sentence."""

    def topic(one: Verdict) -> str:
        known = "the guarantee" if one.outcome == "no guarantee" else one.key in questions and questions[one.key].topic
        return known or f"“{one.question}”"

    return listed([*dict.fromkeys(map(topic, verdicts))])


def allowed(verdict: Verdict) -> bool:
    """Return whether an open figure is within its limit itself, and the claim limits it whatever an attack does."""
    value = verdict.estimate.value or 0.0
    return verdict.outcome == "cannot tell" and verdict.allowed is not None and value <= verdict.limit


def reason(verdict: Verdict, topic: str) -> str:
    """Return why an open question about attacks prevents sharing, or why it does not."""
    start = f"{topic[:1].upper()}{topic[1:]}"
    if allowed(verdict):
        return (
            f"{start} stayed below the limit, but their interval reaches beyond it. The guarantee limits every attack, "
            "so this alone does not prevent sharing."
        )
    if verdict.outcome == "cannot tell":
        return f"{start} went beyond the limit, perhaps by chance. So the guarantee is not enough for a yes."
    tried = "were not tried" if (verdict.key, verdict.outcome) == (TRIED, "not measured") else "could not be judged"
    return f"{start} {tried}, so nobody has tested the guarantee by them. The board decides without that test."


def listed(words: Sequence[str]) -> str:
    """Return words as a list in a sentence.

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    *first, last = [*words] or [""]
    return f"{', '.join(first)} and {last}" if first else last
