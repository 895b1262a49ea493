"""The public rule that turns verdicts into a proposal in words. `USES` is the whole rule.

A use is unfit if one of its questions is beyond its threshold. The board decides about a use if one of its questions
has no answer. A use is fit if all of its questions on the page are within. A use without a question on the page is not
mentioned. Without a guarantee the proposal first states that, and allows uses only where the real rows may be used.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from .verdict import Record, Verdict

# Questions about privacy. They decide whether the rows may leave, whatever the use.
PRIVACY = ("epsilon", "delta_times_rows", "attack_advantage", "attack_certainty")
SOUND = ("rules_broken", "rows_apart")
PAIRS = ("two_way_gap", "relations_lost")


class Use(NamedTuple):
    """A use of synthetic rows, in words that continue "fit for", and the keys of the verdicts that decide it.

    Without the verdict `needs`, the use is left out.
    """

    name: str
    decided_by: tuple[str, ...]
    needs: str | None = None


USES = (
    Use("testing software", SOUND, "rules_broken"),
    Use("teaching and training people", (*SOUND, *PAIRS), "two_way_gap"),
    Use("exploring which columns go together", PAIRS, "two_way_gap"),
    Use("training models that predict {target}", ("mean_auroc_loss", "mean_r2_loss")),
    Use("studying how patients change over time", ("lagged_gap", "next_row_auroc_loss")),
    Use("studying the time to an event", ("time_to_event_gap",)),
    Use("studying how patients end", ("last_row_share_gap", "time_to_last_row_gap", "last_values_gap")),
)
ESTIMATING = "estimating effects"
Fitness = Literal["fit", "not fit", "board decides"]


class JudgedUse(Record):
    """A use, whether the rows are fit for it, and the keys of the verdicts that prevent it."""

    use: str
    fitness: Fitness
    because: list[str]


def judged_uses(verdicts: Sequence[Verdict], target: str | None) -> list[JudgedUse]:
    """Return what each use of USES comes to, without uses that no verdict is about."""
    found = []
    for use in USES:
        asked = [one for one in verdicts if one.key in use.decided_by]
        failed = [one.key for one in asked if one.met is False]
        unsettled = [one.key for one in asked if one.met is None]
        fitness: Fitness = "not fit" if failed else "board decides" if unsettled else "fit"
        if asked and (use.needs is None or use.needs in [one.key for one in asked]):
            name = use.name.format(target=target or "the target")
            found.append(JudgedUse(use=name, fitness=fitness, because=failed or unsettled))
    return found


def may_leave(verdicts: Sequence[Verdict]) -> str:
    """Return the sentence about passing rows on, from the verdicts on privacy."""
    asked = [one for one in verdicts if one.key in PRIVACY]
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


def sentences(verdicts: Sequence[Verdict], uses: Sequence[JudgedUse], purpose: str | None = None) -> list[str]:
    """Return the proposal, one sentence each. `purpose`: what was asked for, if anybody said."""
    said, private = [may_leave(verdicts)], all(one.outcome != "no guarantee" for one in verdicts)
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
