"""Read questions such as "mean(age)" or "y ~ a + b", and answer each from the rows of one table, as if they were real.

Every answer comes with its variance if the rows were independent, on the scale on which estimates are combined: the
logarithm of an odds ratio, and the inverse hyperbolic tangent of a correlation.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from ..arrays import Codes, Floats, Mask
from ..errors import UsageError, did_you_mean
from ..methods.regressions import Regression
from ..schema import Schema
from ..schema.codec import Range, column_values, met, parse
from .regression import fit, on_scale

FORMS = (
    "mean(age), sd(age), median(age), quantile(age, 0.9), share(sex=F), difference(age, sex=F), correlation(age, bmi), "
    "odds_ratio(ill=yes, sex=F), or a formula: 'y ~ a + b'"
)
CALL = re.compile(r"\s*(\w+)\s*\((.*)\)\s*", re.DOTALL)
MOST_LEVELS = 20  # of a number in C()
SPREAD = 3.92  # standard deviations between the ends of a central 95 %
ODDS = SPREAD * 2.5  # width of a usual prior of a log odds ratio (Gelman et al. 2008)
FREE = (-math.inf, math.inf)


class Value(NamedTuple):
    """One number that rows give: its `variance` if they were independent, and the width of what was likely anyway."""

    term: str
    estimate: float
    variance: float
    prior: float


@dataclass(frozen=True, eq=False)
class Rows:
    """Synthetic rows as codes, (rows, columns), and their schema."""

    schema: Schema
    codes: Codes

    def of(self, name: str) -> Codes:
        """Return the codes of a column."""
        return self.codes[:, self.schema.names.index(name)]

    def some(self, which: Mask) -> Rows:
        """Return some of the rows."""
        return Rows(self.schema, self.codes[which])

    def meeting(self, conditions: Mapping[str, Sequence[Range]]) -> Mask:
        """Return which rows meet all conditions: (rows,)."""
        each = [met(self.of(name), ranges) for name, ranges in conditions.items()]
        return np.asarray(np.all(each, axis=0)) if each else np.ones(len(self.codes), np.bool_)


class Operand(NamedTuple):
    """What a question is about: a number column, or a condition on one, whose rows count as 1 and all others as 0.

    `values`: of rows, NaN for a missing one. `share`: whether it is a condition. `cut`: on a number.
    """

    column: str
    values: Callable[[Rows], Floats]
    share: bool
    cut: bool = False


@dataclass(frozen=True, kw_only=True)
class Inquiry:
    """A question: its text, the columns it reads, and how rows answer it.

    `together`: the number of columns whose joint distribution decides. `by_moments`: whether products of numbers and
    levels decide. `formula`: of a regression. `back`: turns the combined scale into that of the answer. `null`: whether
    zero on that scale means no relation, so that there is a p-value. `ends`: the lowest and highest possible answer.
    """

    text: str
    columns: tuple[str, ...]
    answer: Callable[[Rows], list[Value]]
    together: int = 2
    by_moments: bool = False
    formula: Regression | None = None
    back: Callable[[float], float] = float
    null: bool = True
    ends: tuple[float, float] = FREE


def question(text: str, schema: Schema) -> Inquiry:
    """Return the question in a text. Raise UsageError for another text, and for columns it cannot be about."""
    if "~" in re.sub("`[^`]*`", "", text):
        return _regression(text, schema)
    match = CALL.fullmatch(text)
    if match is None or match[1] not in KINDS:
        raise UsageError(f"{text[:80]!r} is not a question. Ask {FORMS}.")
    kind, text = match[1], text.strip()
    given = _arguments(kind, match[2], schema)
    if kind in ("median", "quantile"):
        part = _part(given[1] if kind == "quantile" else "0.5", text)
        operands = [_operand(given[0], schema, "number")]
        function: Callable[..., Value] = partial(quantile_of, part=part)
    else:
        operands = [_operand(one, schema, want) for one, want in zip(given, KINDS[kind], strict=True)]
        function = FUNCTIONS[kind]
    logs = [one.column for one in operands] if kind == "correlation" else []

    def answer(rows: Rows) -> list[Value]:
        each = [one.values(rows) for one in operands]
        each = [on_scale(x, schema.columns[name]) for x, name in zip(each, logs, strict=True)] if logs else each
        return [function(text, *each)]

    both = len(operands) == 2
    share = operands[0].share and kind != "odds_ratio"
    ends = (-1.0 if both else 0.0, 1.0) if share else (0.0, math.inf) if kind in ("sd", "odds_ratio") else FREE
    return Inquiry(
        text=text, columns=tuple(one.column for one in operands), answer=answer, together=len(operands), null=both,
        by_moments=both and not any(one.cut for one in operands), ends=ends,
        back={"correlation": math.tanh, "odds_ratio": math.exp}.get(kind, float),
    )  # fmt: skip


def _arguments(kind: str, inside: str, schema: Schema) -> list[str]:
    """Return the one or two arguments of a question. A condition may contain commas: the first that fits counts."""
    if len(KINDS[kind]) == 1:
        return [inside]
    for match in re.finditer(",", inside):
        both = [inside[: match.start()], inside[match.end() :]]
        heads = [_bare(one.partition("=")[0]) in schema.columns for one in both]
        if heads[0] and (heads[1] or kind == "quantile"):
            return both
    for one in inside.split(","):
        column_of(one.partition("=")[0], schema)
    raise UsageError(f"{kind}() needs two arguments. Ask {FORMS}.")


def _bare(text: str) -> str:
    return re.sub("`([^`]*)`", r"\1", text).strip()


def _part(text: str, whole: str) -> float:
    try:
        if 0 < (part := float(text)) < 1:
            return part
    except ValueError:
        pass
    raise UsageError(f"{whole[:80]!r}: a quantile needs a number between 0 and 1, such as quantile(age, 0.9).")


def column_of(text: str, schema: Schema) -> str:
    """Return the column that a text names. Raise UsageError for another text, and for a column without a model."""
    name = _bare(text)
    if name not in schema.columns or not schema.columns[name].modelled:
        raise UsageError(f"{name[:80]!r} is not a column of the model.{did_you_mean(name, schema.columns)}")
    return name


def _operand(text: str, schema: Schema, want: str) -> Operand:
    """Return the operand in a text: a "number", a "condition", or "either". Levels that are all numbers are numbers."""
    if want == "number" or (want == "either" and _bare(text) in schema.columns):
        name = column_of(text, schema)
        column = schema.columns[name]
        if not column.ordered and not all(re.fullmatch(r"-?[0-9.]+", str(level)) for level in column.levels):
            raise UsageError(f"{name!r} has levels, not numbers. Ask for a share: share({name}={column.text(0)}).")
        return Operand(name, lambda rows: column_values(rows.codes, schema, name).astype(np.float64), share=False)
    ((name, ranges),) = parse(re.sub("^`([^`]*)`", r"\1", text.strip()), schema, "condition").items()
    size = schema.columns[name].size
    about_missing = any(last >= size for _, last in ranges)

    def hits(rows: Rows) -> Floats:
        codes = rows.of(name)
        return np.where((codes >= size) & (not about_missing), np.nan, met(codes, ranges))

    return Operand(name, hits, share=True, cut=schema.columns[name].ordered)


def mean_of(term: str, x: Floats) -> Value:
    """Return the mean of numbers, NaN left out."""
    x = x[np.isfinite(x)]
    if len(x) < 2:
        return Value(term, math.nan, math.nan, 0.0)
    return Value(term, float(x.mean()), float(x.var(ddof=1)) / len(x), SPREAD * float(x.std()))


def share_of(term: str, hits: Floats) -> Value:
    """Return the share of rows with 1 among those with 0 or 1. The variance is that of one more of each kind."""
    hits = hits[np.isfinite(hits)]
    likely = (hits.sum() + 1) / (len(hits) + 2)
    return Value(term, float(hits.mean()) if len(hits) else math.nan, likely * (1 - likely) / max(len(hits), 1), 0.95)


def sd_of(term: str, x: Floats) -> Value:
    """Return the standard deviation of numbers. Its variance is that of normal numbers."""
    found = mean_of(term, x)
    size = math.sqrt(found.variance * np.isfinite(x).sum())
    return found._replace(estimate=size, variance=found.variance / 2)


def quantile_of(term: str, x: Floats, part: float) -> Value:
    """Return a quantile of numbers, with the variance of Woodruff (1952)."""
    x = x[np.isfinite(x)]
    if len(x) < 2:
        return Value(term, math.nan, math.nan, 0.0)
    step = math.sqrt(part * (1 - part) / len(x))
    low, middle, high = map(float, np.quantile(x, np.clip([part - step, part, part + step], 0, 1)))
    return Value(term, middle, ((high - low) / 2) ** 2, SPREAD * float(x.std()))


def difference_of(term: str, x: Floats, group: Floats) -> Value:
    """Return the mean or share of a group minus that of the others."""
    of = share_of if np.isin(x[np.isfinite(x)], (0, 1)).all() else mean_of
    one, other = of(term, x[group == 1]), of(term, x[group == 0])
    return Value(term, one.estimate - other.estimate, one.variance + other.variance, one.prior + other.prior)


def correlation_of(term: str, x: Floats, y: Floats) -> Value:
    """Return the inverse hyperbolic tangent of Pearson's correlation."""
    known = np.isfinite(x) & np.isfinite(y)
    if known.sum() < 4 or not x[known].std() or not y[known].std():
        return Value(term, math.nan, math.nan, 0.0)
    found = float(np.clip(np.corrcoef(x[known], y[known])[0, 1], -0.9999, 0.9999))
    return Value(term, math.atanh(found), 1 / (float(known.sum()) - 3), 2 * math.atanh(0.95))


def log_odds_ratio_of(term: str, hits: Floats, group: Floats) -> Value:
    """Return the log odds ratio, with half a row more in each cell (Haldane 1956, Anscombe 1956)."""
    pairs = itertools.product((1, 0), repeat=2)
    cells = [float(((hits == a) & (group == b)).sum()) + 0.5 for a, b in pairs]
    log_ratio = math.log(cells[0] * cells[3] / (cells[1] * cells[2]))
    return Value(term, log_ratio, sum(1 / cell for cell in cells), ODDS)


FUNCTIONS: dict[str, Callable[..., Value]] = {
    "mean": mean_of, "sd": sd_of, "share": share_of, "difference": difference_of, "correlation": correlation_of,
    "odds_ratio": log_odds_ratio_of,
}  # fmt: skip
KINDS = {  # what the arguments of each kind are
    "mean": ("number",), "sd": ("number",), "median": ("number",), "quantile": ("number", "part"),
    "share": ("condition",), "difference": ("either", "condition"), "correlation": ("number", "number"),
    "odds_ratio": ("condition", "condition"),
}  # fmt: skip


def _regression(text: str, schema: Schema) -> Inquiry:
    formula = Regression.parse(text)
    for name in formula.columns:
        column = schema.columns[column_of(f"`{name}`", schema)]
        if column.size < 2:
            raise UsageError(f"{name!r} has one value, so no regression can contain it. Leave it out.")
        if name in formula.squares and not column.ordered:
            raise UsageError(f"I() needs a number, but {name!r} has levels. Leave I() out.")
        if name in formula.levels and column.ordered and column.size > MOST_LEVELS:
            raise UsageError(f"C() needs a column of at most {MOST_LEVELS} values, but {name!r} has {column.size}. "
                             "Leave C() out.")  # fmt: skip
    # Least squares needs products of two columns, and so the joint distribution of pairs.
    return Inquiry(text=str(formula), columns=formula.columns, answer=partial(_coefficients, formula),
                   together=3 if formula.interactions else 2, formula=formula)  # fmt: skip


def _coefficients(formula: Regression, rows: Rows) -> list[Value]:
    """Return the coefficients of a regression: of a number, else of the log odds of any but the first level."""
    columns = {name: _predictors(name, name in formula.levels, rows) for name in formula.columns}
    linear = rows.schema.columns[formula.outcome].ordered
    terms = {label: x for name in formula.predictors for label, x in columns[name].items()}
    for a, b in formula.interactions:
        pairs = itertools.product(columns[a].items(), columns[b].items())
        terms |= {f"{one}:{other}": x * z for (one, x), (other, z) in pairs}
    terms |= {f"I({label}**2)": x**2 for name in formula.squares for label, x in columns[name].items()}
    y = np.max([*columns[formula.outcome].values()], axis=0)
    x = np.stack([*terms.values()], 1)
    known = np.isfinite(x).all(1) & np.isfinite(y)
    if not known.any():
        return [Value(label, math.nan, math.nan, 0.0) for label in terms]
    x, y = x[known], y[known]
    size = np.maximum(x.std(0), 1e-12)
    found = fit((x - x.mean(0)) / size, y, linear)
    prior = SPREAD * y.std() if linear else ODDS
    values = zip(terms, found.value / size, found.std_error / size, prior / size, strict=True)
    return [Value(label, float(value), float(error) ** 2, float(wide)) for label, value, error, wide in values]


def _predictors(name: str, by_level: bool, rows: Rows) -> dict[str, Floats]:
    """Return what a column adds to a regression, by label: a number on its scale, or each level except the first."""
    column, codes = rows.schema.columns[name], rows.of(name)
    if column.ordered and not by_level:
        label = f"log({name})" if not column.dated and column.scale == "log" else name
        return {label: on_scale(column_values(rows.codes, rows.schema, name).astype(np.float64), column)}
    gone = codes >= column.size
    return {f"{name}={column.text(k)}": np.where(gone, np.nan, codes == k) for k in range(1, column.size)}
