"""Page one: the answer to each question, what to do about it, and the proposal.

There is no averaged score: each question has its own line and threshold. Each section offers lines from its record, and
`verdicts` collects them. If no row was held out, no comparison with real rows is within its threshold.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..data.context import Context
from ..data.proposal import ESTIMATING, JudgedUse, judged_uses, listed, sentences
from ..data.question import FEWER, Question
from ..data.verdict import Record, Verdict, rows_to_settle
from .attacks import HOLD_OUT
from .claim import EPSILON
from .documentation import schema_learned
from .inference import Estimation
from .registry import SECTIONS, Section, questions

FITTED = "No row was held out, so this compares with rows that the model was fitted to."
TOO_CLOSE = "The figure is too close to its limit: no affordable number of held-out rows would settle it. You decide."
TOO_SMALL = "This table is too small to settle it: more than half of it would have to be held out. You decide."


class Verdicts(Record):
    """The verdict lines of all sections, in the order of the page, and what they come to.

    `uses` follows the rule of `medsynth.report.data.proposal`, and `proposal` puts it into sentences, the answer first.
    """

    lines: list[Verdict]
    uses: list[JudgedUse]
    proposal: list[str]


def verdicts(context: Context) -> Verdicts:
    """Collect the lines that the sections on the page offer, and propose what follows from them."""
    found = list[Verdict]()
    asked = questions()
    for section in SECTIONS.values():
        record = context.records.get(section.id)
        if section.verdicts and section.appears(context.shareable, record):
            lines = section.verdicts(record, context.thresholds)
            unjudged = context.fitted_rows and section.compares
            found += [_unjudged(line) for line in lines] if unjudged else lines
    found = [_advised(line, context) for line in found]
    found = [line.model_copy(update={"plain": line.plain or _meaning(line, asked)}) for line in found]
    uses = judged_uses(found, asked, context.target)
    estimation = context.record(Estimation)
    fit = estimation is not None and estimation.fit_for != "prediction only"
    name = "estimating the declared regressions" if fit else ESTIMATING
    uses.append(JudgedUse(use=name, fitness="fit" if fit else "not fit", because=["estimation"]))
    proposal = sentences(found, asked, uses, context.review.purpose)
    return Verdicts(lines=found, uses=uses, proposal=proposal)


def _meaning(line: Verdict, asked: Mapping[str, Question]) -> str:
    """Return the line in a plain sentence. A line of another package may have no question: it shows its measure."""
    own = asked.get(line.key) or Question(key=line.key, words=line.question, measure=line.measure, limit=line.limit)
    return own.meaning(line)


def _unjudged(line: Verdict) -> Verdict:
    """Return the line, marked "not judged" if it was within its threshold on rows that the model was fitted to."""
    if line.outcome not in ("within", "cannot tell"):
        return line
    changed = {"outcome": "not judged", "met": None, "plain": FITTED, "advice": HOLD_OUT}
    return line.model_copy(update=changed | {"detail": f"{line.detail} Not judged: {FITTED[0].lower()}{FITTED[1:]}"})


def _advised(line: Verdict, context: Context) -> Verdict:
    """Return the line with advice that this table allows.

    If it is open, add about how many more held-out rows or patients would settle it.
    """
    tables = context.tables
    if line.outcome != "cannot tell" or tables is None:
        return line.model_copy(update={"advice": line.advice.replace(FEWER, _fewer(context))})
    sides = {"real": tables.real, "train": tables.train}
    known = {side: len(rows) for side, rows in sides.items() if rows is not None}
    if tables.patients:
        known = {side: len(np.unique(tables.patients[side])) for side in known}
    more = rows_to_settle(line.estimate, line.limit, known["real"])
    advice = TOO_CLOSE
    if more is not None:
        advice = f"Hold out about {more:,} more {'patients' if tables.patients else 'rows'}."
        advice += " That would settle it if the figure stays the same."
        if "train" in known and more > (known["train"] - known["real"]) / 2:
            more, advice = None, TOO_SMALL
    return line.model_copy(update={"more_rows": more, "advice": advice})


def _fewer(context: Context) -> str:
    """Return what of FEWER is left to do: a schema may be declared already, or epsilon at its limit."""
    model = context.model
    if model is None:
        return FEWER
    declared = ["declare a schema with bounds and levels"] * schema_learned(model.ledger)
    limit = EPSILON.threshold(context.thresholds).limit
    ways = [*declared, "leave out columns that nobody needs"]
    ways += ["fit with a larger epsilon"] * (model.claims and (model.epsilon or 0.0) < limit)
    text = listed(ways).replace(" and ", ", or " if len(ways) > 2 else " or ")
    return f"{text[:1].upper()}{text[1:]}."


# Its id is the older one, by which the JSON twin is read.
SUMMARY = Section("verdicts", "Summary", verdicts, Verdicts, summary=True)
QUESTIONS = Section("questions", "The questions, one by one")
