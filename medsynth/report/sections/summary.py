"""Page one: the answer to each question, what to do about it, and the proposal.

There is no averaged score: each question has its own line and threshold. Each section offers lines from its record, and
`verdicts` collects them. If no row was held out, no comparison with real rows is within its threshold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..data.context import Context
from ..data.proposal import ESTIMATING, TARGET, JudgedUse, Status, answer, judged_uses, topics
from ..data.question import FEWER, LARGER, Question
from ..data.verdict import Record, Verdict, rows_to_settle
from .attacks import FEWEST, HOLD_OUT, RUN_ATTACKS
from .claim import EPSILON
from .documentation import schema_learned
from .inference import Estimation
from .losses import lost
from .registry import SECTIONS, Section, questions

FITTED = "Compared with rows that the model was fitted to, so not judged."
TOO_CLOSE = "More held-out rows would not settle this: the figure is too close to its limit."
TOO_SMALL = "This table has too few rows to settle this: more than half of them would have to be held out."
SETTLE = (
    "Compare with about {:,} more {} that were held out. That settles this if the figure stays the same. Holding rows "
    "out takes a new fit, which spends its budget again."
)
TOO_FEW = f"There are too few rows to try attacks: fitted and held-out rows must each be at least {2 * FEWEST}."
FITTED_ROWS = "Give the report the rows that the model was fitted to, so that it can try attacks."


class Verdicts(Record):
    """The verdict lines of all sections, in the order of the page, and what they come to.

    `uses` follows the rule of `medsynth.report.data.proposal`. `status` is the answer in a word, and `proposal` in
    sentences: the answer, the `named` ones on what failed, is open and is lost and on the target, then limits. `to_do`
    has each advice once, after what it is about.
    """

    lines: list[Verdict]
    uses: list[JudgedUse]
    status: Status
    proposal: list[str]
    named: int
    to_do: list[str]


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
    wanted = [
        name if use == ESTIMATING else use.replace(TARGET, context.target or TARGET) for use in context.review.uses
    ]
    status, named, proposal = answer(found, asked, uses, context.review, lost(context), wanted)
    to_do = _to_do(found, asked, _fewer(context))
    return Verdicts(lines=found, uses=uses, status=status, proposal=proposal, named=named, to_do=to_do)


def _to_do(lines: Sequence[Verdict], asked: Mapping[str, Question], fewer: str) -> list[str]:
    """Return each advice once, after what it is about: on what failed first, what helps against noise last."""
    about = dict[str, list[Verdict]]()
    most = max(lines, key=lambda line: line.more_rows or 0).advice if lines else ""
    for line in sorted(lines, key=lambda line: line.met is not False):
        advice = most if line.more_rows else line.advice.replace(fewer, "").strip()
        about.setdefault(advice, []).append(line)
    about[fewer] = [line for line in lines if fewer in line.advice]
    return [
        f"{(text := topics(own, asked))[:1].upper()}{text[1:]}: {advice}"
        for advice, own in about.items()
        if advice and own
    ]


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
    sides = {} if tables is None else {"real": tables.real, "train": tables.train}
    known = {side: len(rows) for side, rows in sides.items() if rows is not None}
    if line.outcome != "cannot tell" or line.advice or tables is None:
        run = HOLD_OUT if context.fitted_rows or not known else TOO_FEW if "train" in known else FITTED_ROWS
        advice = line.advice.replace(FEWER, _fewer(context)).replace(RUN_ATTACKS, run)
        return line.model_copy(update={"advice": advice})
    if tables.patients:
        known = {side: len(np.unique(tables.patients[side])) for side in known}
    more = rows_to_settle(line.estimate, line.limit, known["real"])
    advice = TOO_CLOSE
    if more is not None:
        advice = SETTLE.format(more, "patients" if tables.patients else "rows")
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
    ways += [LARGER] * (model.claims and (model.epsilon or 0.0) < limit)
    text = f"{', '.join(ways[:-1])}{',' * (len(ways) > 2)} or {ways[-1]}" if len(ways) > 1 else ways[0]
    return f"{text[:1].upper()}{text[1:]}."


# Its id is the older one, by which the JSON twin is read.
SUMMARY = Section("verdicts", "Summary", verdicts, Verdicts, summary=True)
QUESTIONS = Section("questions", "The questions, one by one")
