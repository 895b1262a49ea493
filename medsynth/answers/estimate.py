"""Estimate what a question asks from replicates of a model, with an interval that knows the noise and the model.

Each replicate answers the question on rows of its own, as many as the model's. The spread of the answers gives the
interval (`combining.py`, rule `between`). Nothing is measured and nothing charged.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ..artifact import Model
from ..combining import combine
from ..errors import UsageError, checked_keywords
from ..methods.regressions import Regression, parsed
from ..mixture.constants import PAIRS
from ..sampling.draw import Draw
from ..sampling.pipeline import replicates_apart
from ..schema.codec import Where, parse
from .questions import MOST_LEVELS, Inquiry, Rows, Value, column_of, question

EVERYBODY = "all rows"
BASES = {  # what of a question was measured, and what follows for its interval (docs/inference.md)
    "declared": "It rests on declared moments.",
    "counted": "It rests on counts of single columns, by class of the target.",
    "pairs": "It was not declared: pairs of columns were counted in coarse cells, which weakens relations. Only about "
    "4 of 5 such intervals cover the truth.",
    "assumed": "CAUTION: no release measures these columns together. The interval holds only if the model's own "
    "structure does.",
}


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The estimate of one term of a question, in one group of rows, with its interval at `level`.

    `std_error`, `p_value`: on the scale on which estimates are combined, the logarithm of an odds ratio for instance;
    no p-value for a quantity of one column. `rows`: of the group, about. `effective_rows`: how many independent rows
    give as short an interval; None if the interval may be too short. `basis`: a key of BASES. `answered`: whether the
    interval is shorter than what was likely without any release.
    """

    question: str
    term: str
    group: str
    estimate: float | None
    low: float | None
    high: float | None
    std_error: float | None
    p_value: float | None
    rows: float
    effective_rows: float | None
    basis: str
    answered: bool
    replicates: int
    level: float

    @property
    def name(self) -> str:
        """The term and, unless it is of all rows, its group."""
        return self.term if self.group == EVERYBODY else f"{self.term}, {self.group}"

    def __str__(self) -> str:
        about = self.name if self.term == self.question else f"{self.name} in {self.question}"
        if not self.answered:
            why = "the interval is wider than what was likely without them"
            why = "some replicates have too few such rows" if self.estimate is None else why
            return f"The releases cannot answer {about}: {why}."
        exact = f" It is as exact as from {self.effective_rows:.0f} independent rows." if self.effective_rows else ""
        p_value = "" if self.p_value is None else f", p = {self.p_value:.2g}"
        interval = f"{self.level:.0%} interval {self.low:.4g} to {self.high:.4g}"
        return f"{about} is about {self.estimate:.4g} ({interval}{p_value}).{exact}"


class Estimates(tuple[Answer, ...]):
    """Estimates in the order of the questions, their terms and groups."""

    __slots__ = ()

    def __str__(self) -> str:
        each = itertools.groupby(self, key=lambda one: (one.question, one.basis))
        return "\n".join(" ".join([*map(str, some), BASES[basis]]) for (_, basis), some in each)

    @property
    def frame(self) -> pd.DataFrame:
        """One line per answer."""
        return pd.DataFrame([asdict(one) for one in self])


class _Asked(NamedTuple):
    question: Inquiry
    group: str
    rows: int
    values: list[Value]


@checked_keywords
def estimate(
    model: Model, questions: Sequence[str], *, by: str | None = None, where: Where = (), replicates: int = 20,
    level: float = 0.95, seed: int = 0, overall: bool = False,
) -> Estimates:  # fmt: skip
    """Return the answers to questions, for each level of the column `by`, among the rows that meet `where`.

    `replicates`: of the model; their number decides how stable an interval is. The same `seed` gives the same answers.
    `overall`: whether all rows are a group, too.

    Raises UsageError for a text that is not a question, columns that the model does not have, a `by` with many values,
    and a model without replicates.
    """
    asked = [question(text, model.schema) for text in ([questions] if isinstance(questions, str) else questions)]
    if not asked:
        raise UsageError("Ask at least one question, such as 'mean(age)'.")
    if not 0 < level < 1:
        raise UsageError("`level` must lie between 0 and 1.")
    conditions = parse(where, model.schema)
    groups = ({EVERYBODY: -1} if overall or by is None else {}) | ({} if by is None else groups_of(model, by))
    each = list[list[_Asked]]()
    for _, drawn in replicates_apart(model, Draw(seed=seed, replicates=replicates).of(model)):
        rows = Rows(model.schema, np.concatenate([codes for _, tables in drawn for codes in tables.values()]))
        some = rows.some(rows.meeting(conditions))
        codes = some.of(column_of(by, model.schema)) if by else np.empty(0)
        parts = {group: some if code < 0 else some.some(codes == code) for group, code in groups.items()}
        each.append([_Asked(q, group, len(own.codes), q.answer(own)) for q in asked for group, own in parts.items()])
    found = list[Answer]()
    for same in zip(*each, strict=True):
        given = {*conditions, *([] if by is None or same[0].group == EVERYBODY else [column_of(by, model.schema)])}
        basis = _basis(model, same[0].question, given)
        found += [_of_replicates(same, k, basis, level) for k in range(len(same[0].values))]
    return Estimates(found)


def groups_of(model: Model, by: str) -> dict[str, int]:
    """Return the words and the code of each level of a column. Raise UsageError for a column of many values."""
    name = column_of(by, model.schema)
    column = model.schema.columns[name]
    if column.size > MOST_LEVELS:
        raise UsageError(f"`by` needs a column of at most {MOST_LEVELS} values, but {name!r} has {column.size}. Select "
                         "ranges with `where`.")  # fmt: skip
    return {f"{name}={column.text(code)}": code for code in range(column.size)}


def _basis(model: Model, asked: Inquiry, given: set[str]) -> str:
    """Return what of a question was measured: a key of BASES. `given`: the columns of its conditions."""
    told = parsed(tuple(model.config.get("inference", ())))
    if not given and any(_covers(one, asked) for one in told):
        return "declared"
    target = model.schema.target
    together = asked.together + len(given - {target, *asked.columns}) - (target in {*asked.columns, *given})
    several = asked.formula is not None and len(asked.formula.predictors) > 1
    if together <= 1 and not several:
        return "counted"
    pairs = any(entry.label == PAIRS for entry in model.ledger.entries)
    return "pairs" if pairs and together <= 2 else "assumed"


def _covers(declared: Regression, asked: Inquiry) -> bool:
    """Return whether the moments of a declared regression determine what is asked."""
    formula = asked.formula
    if formula is None:
        return asked.by_moments and {*asked.columns} <= {*declared.columns}
    crossed = {frozenset(pair) for pair in declared.interactions}
    return (
        formula.outcome == declared.outcome and {*formula.predictors} <= {*declared.predictors}
        and {frozenset(pair) for pair in formula.interactions} <= crossed and not formula.squares
        and not formula.levels
    )  # fmt: skip


def _of_replicates(same: Sequence[_Asked], k: int, basis: str, level: float) -> Answer:
    """Return the answer to one term by all replicates."""
    asked, group = same[0].question, same[0].group
    values = [one.values[k] for one in same]
    rows = float(np.mean([one.rows for one in same]))
    common: dict[str, Any] = {"question": asked.text, "term": values[0].term, "group": group, "rows": rows,
                              "basis": basis, "replicates": len(same), "level": level}  # fmt: skip
    if not all(math.isfinite(value.estimate) and math.isfinite(value.variance) for value in values):
        return Answer(estimate=None, low=None, high=None, std_error=None, p_value=None, effective_rows=None,
                      answered=False, **common)  # fmt: skip
    both = combine([value.estimate for value in values], level=level)
    within = float(np.mean([value.variance for value in values]))
    # No replicate may have a rare level. A width of zero would claim certainty.
    spread = both if both.std_error > 0 else combine([both.estimate] * 2, [within] * 2, rule="raab", level=level)
    low, high = (min(max(asked.back(end), asked.ends[0]), asked.ends[1]) for end in (spread.low, spread.high))
    exact = min(rows, rows * within / max(spread.std_error**2, 1e-300))
    return Answer(
        estimate=asked.back(both.estimate), low=low, high=high, std_error=spread.std_error,
        p_value=spread.p_value if asked.null else None,
        effective_rows=exact if basis in ("declared", "counted") else None,
        answered=spread.high - spread.low < float(np.mean([value.prior for value in values])), **common,
    )  # fmt: skip
