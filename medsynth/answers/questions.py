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
from ..schema import Column, Schema
from ..schema.codec import Range, column_values, met, parse
from .regression import fit, on_scale

FORMS = (
    "mean(age), sd(age), median(age), quantile(age, 0.9), share(sex=F), difference(age, sex=F), correlation(age, bmi), "
    "odds_ratio(ill=yes, sex=F), or a formula such as 'y ~ a + b'"
)
CALL = re.compile(r"\s*(\w+)\s*\((.*)\)\s*", re.DOTALL)
MOST_LEVELS = 20  # of a number in C()
SPREAD = 3.92  # standard deviations between the ends of a central 95 %
ODDS = SPREAD * 2.5  # width of a usual prior of a log odds ratio (Gelman et al. 2008)


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

    def some(self, which: Mask) -> Rows:
        """Return some of the rows."""
        return Rows(self.schema, self.codes[which])

    def meeting(self, conditions: Mapping[str, Sequence[Range]]) -> Mask:
        """Return which rows meet all conditions: (rows,)."""
        names = self.schema.names
        each = [met(self.codes[:, names.index(name)], ranges) for name, ranges in conditions.items()]
        return np.asarray(np.all(each, axis=0)) if each else np.ones(len(self.codes), np.bool_)

    def number(self, name: str) -> Floats:
        """Return a column's numbers, NaN for missing ones: (rows,)."""
        return np.asarray(column_values(self.codes, self.schema, name).astype(np.float64))

    def indicator(self, conditions: Mapping[str, Sequence[Range]]) -> Floats:
        """Return whether each row meets conditions, NaN for a missing value unless one is about missing values."""
        found = self.meeting(conditions).astype(np.float64)
        for name, ranges in conditions.items():
            size = self.schema.columns[name].size
            if not any(last >= size for _, last in ranges):
                found[self.codes[:, self.schema.names.index(name)] >= size] = np.nan
        return found


@dataclass(frozen=True, kw_only=True)
class Question:
    """A question: its text, the columns it reads, and how rows answer it.

    `together`: the number of columns whose joint distribution decides. `by_moments`: whether products of numbers and
    levels decide. `formula`: of a regression. `back`: turns the
    combined scale into that of the answer. `null`: the value of no relation, for a p-value; None without one. `ends`:
    the lowest and highest possible answer.
    """

    text: str
    columns: tuple[str, ...]
    answer: Callable[[Rows], list[Value]]
    together: int = 1
    by_moments: bool = False
    formula: Regression | None = None
    back: Callable[[float], float] = float
    null: bool = False
    ends: tuple[float, float] = (-math.inf, math.inf)


def question(text: str, schema: Schema) -> Question:
    """Return the question in a text. Raise UsageError for a text that is none, and for columns it cannot be about."""
    if "~" in re.sub("`[^`]*`", "", text):
        return _regression(text, schema)
    match = CALL.fullmatch(text)
    if match is None or match[1] not in KINDS:
        raise UsageError(f"{text[:80]!r} is not a question. Ask {FORMS}.")
    return KINDS[match[1]](text.strip(), _arguments(match[1], match[2], schema), schema)


def _arguments(kind: str, inside: str, schema: Schema) -> list[str]:
    """Return the one or two arguments of a question. A condition may contain commas: the first that fits counts."""
    if kind in ("mean", "sd", "median", "share"):
        return [inside.strip()]
    for match in re.finditer(",", inside):
        both = [inside[: match.start()].strip(), inside[match.end() :].strip()]
        heads = [_bare(re.sub("(?s)=.*", "", one)) in schema.columns for one in both]
        if heads[0] and (heads[1] or kind == "quantile"):
            return both
    for one in inside.split(","):
        column_of(re.sub("(?s)=.*", "", one), schema)
    raise UsageError(f"{kind}() needs two arguments. Ask {FORMS}.")


def _bare(text: str) -> str:
    return re.sub("`([^`]*)`", r"\1", text).strip()


def column_of(text: str, schema: Schema) -> str:
    """Return the column that a text names. Raise UsageError for another text, and for a column without a model."""
    name = _bare(text)
    if name not in schema.columns or not schema.columns[name].modelled:
        raise UsageError(f"{name[:80]!r} is not a column of the model.{did_you_mean(name, schema.columns)}")
    return name


def _number_of(text: str, schema: Schema) -> str:
    """Return the number column that a text names. Levels that are all numbers count."""
    name = column_of(text, schema)
    column = schema.columns[name]
    if not column.ordered and not all(re.fullmatch(r"-?[0-9.]+", str(level)) for level in column.levels):
        raise UsageError(f"{name!r} has levels, not numbers. Ask for a share, such as share({name}={column.text(0)}).")
    return name


def _mean(text: str, given: list[str], schema: Schema) -> Question:
    name = _number_of(given[0], schema)
    return Question(text=text, columns=(name,), answer=lambda rows: [mean_of(text, rows.number(name))])


def mean_of(term: str, x: Floats) -> Value:
    """Return the mean of numbers, NaN left out."""
    x = x[np.isfinite(x)]
    if len(x) < 2:
        return Value(term, math.nan, math.nan, 0.0)
    return Value(term, float(x.mean()), float(x.var(ddof=1)) / len(x), SPREAD * float(x.std()))


def _sd(text: str, given: list[str], schema: Schema) -> Question:
    name = _number_of(given[0], schema)

    def answer(rows: Rows) -> list[Value]:
        x = rows.number(name)
        _, _, variance, _ = mean = mean_of(text, x)
        size = float(np.nanstd(x, ddof=1)) if math.isfinite(mean.estimate) else math.nan
        return [mean._replace(estimate=size, variance=variance / 2)]  # as of a normal distribution

    return Question(text=text, columns=(name,), answer=answer, ends=(0.0, math.inf))


def _quantile(text: str, given: list[str], schema: Schema) -> Question:
    name = _number_of(given[0], schema)
    try:
        part = float(given[1]) if len(given) > 1 else 0.5
    except ValueError:
        part = -1.0
    if not 0 < part < 1:
        raise UsageError(f"{text[:80]!r}: a quantile needs a number between 0 and 1, such as quantile({name}, 0.9).")
    return Question(text=text, columns=(name,), answer=lambda rows: [quantile_of(text, rows.number(name), part)])


def quantile_of(term: str, x: Floats, part: float) -> Value:
    """Return a quantile of numbers, with the variance of Woodruff (1952)."""
    x = x[np.isfinite(x)]
    if len(x) < 2:
        return Value(term, math.nan, math.nan, 0.0)
    step = math.sqrt(part * (1 - part) / len(x))
    low, middle, high = np.quantile(x, np.clip([part - step, part, part + step], 0, 1))
    return Value(term, float(middle), ((float(high) - float(low)) / 2) ** 2, SPREAD * float(x.std()))


def _condition(text: str, schema: Schema) -> dict[str, tuple[Range, ...]]:
    return parse(re.sub("^`([^`]*)`", r"\1", text), schema, "condition")


def _of_levels(schema: Schema, *conditions: Mapping[str, object]) -> bool:
    return not any(schema.columns[name].ordered for one in conditions for name in one)


def _share(text: str, given: list[str], schema: Schema) -> Question:
    conditions = _condition(given[0], schema)
    return Question(text=text, columns=tuple(conditions), ends=(0.0, 1.0),
                    answer=lambda rows: [share_of(text, rows.indicator(conditions))])  # fmt: skip


def share_of(term: str, hits: Floats) -> Value:
    """Return the share of rows with 1 among those with 0 or 1. The variance is that of one more of each kind."""
    hits = hits[np.isfinite(hits)]
    if not len(hits):
        return Value(term, math.nan, math.nan, 0.0)
    likely = (hits.sum() + 1) / (len(hits) + 2)
    return Value(term, float(hits.mean()), float(likely * (1 - likely)) / len(hits), 0.95)


def _difference(text: str, given: list[str], schema: Schema) -> Question:
    by = _condition(given[1], schema)
    share = "=" in given[0] and _bare(given[0]) not in schema.columns
    of = _condition(given[0], schema) if share else dict[str, tuple[Range, ...]]()
    name = "" if share else _number_of(given[0], schema)

    def answer(rows: Rows) -> list[Value]:
        values, group = rows.indicator(of) if share else rows.number(name), rows.indicator(by)
        one, other = (
            share_of(text, values[group == k]) if share else mean_of(text, values[group == k]) for k in (1, 0)
        )
        return [Value(text, one.estimate - other.estimate, one.variance + other.variance, one.prior + other.prior)]

    columns = (*(of if share else [name]), *by)
    ends = (-1.0, 1.0) if share else (-math.inf, math.inf)
    return Question(text=text, columns=columns, answer=answer, together=2, null=True,
                    by_moments=_of_levels(schema, of, by), ends=ends)  # fmt: skip


def _correlation(text: str, given: list[str], schema: Schema) -> Question:
    names = [_number_of(one, schema) for one in given]

    def answer(rows: Rows) -> list[Value]:
        x, y = (on_scale(rows.number(name), schema.columns[name]) for name in names)
        known = np.isfinite(x) & np.isfinite(y)
        if known.sum() < 4 or not x[known].std() or not y[known].std():
            return [Value(text, math.nan, math.nan, 0.0)]
        found = float(np.clip(np.corrcoef(x[known], y[known])[0, 1], -0.9999, 0.9999))
        return [Value(text, math.atanh(found), 1 / (float(known.sum()) - 3), 2 * math.atanh(0.95))]

    return Question(text=text, columns=tuple(names), answer=answer, together=2, by_moments=True,
                    back=math.tanh, null=True)  # fmt: skip


def _odds_ratio(text: str, given: list[str], schema: Schema) -> Question:
    of, by = (_condition(one, schema) for one in given)

    def answer(rows: Rows) -> list[Value]:
        outcome, group = rows.indicator(of), rows.indicator(by)
        # Half a row more in each cell (Haldane 1956, Anscombe 1956).
        cells = [((outcome == a) & (group == b)).sum() + 0.5 for a, b in itertools.product((1, 0), repeat=2)]
        log_ratio = math.log(cells[0] * cells[3] / (cells[1] * cells[2]))
        return [Value(text, log_ratio, float(sum(1 / cell for cell in cells)), ODDS)]

    return Question(text=text, columns=(*of, *by), answer=answer, together=2, by_moments=_of_levels(schema, of, by),
                    back=math.exp, null=True, ends=(0.0, math.inf))  # fmt: skip


KINDS: dict[str, Callable[[str, list[str], Schema], Question]] = {
    "mean": _mean, "sd": _sd, "median": _quantile, "quantile": _quantile, "share": _share, "difference": _difference,
    "correlation": _correlation, "odds_ratio": _odds_ratio,
}  # fmt: skip


def _regression(text: str, schema: Schema) -> Question:
    formula = Regression.parse(text)
    for name in formula.columns:
        if schema.columns[column_of(f"`{name}`", schema)].size < 2:
            raise UsageError(f"{name!r} has one value, so no regression can contain it. Leave it out.")
    for name in (*formula.squares, *formula.levels):
        column = schema.columns[name]
        if name in formula.squares and not column.ordered:
            raise UsageError(f"I() needs a number, but {name!r} has levels. Leave I() out.")
        if name in formula.levels and column.ordered and column.size > MOST_LEVELS:
            raise UsageError(f"C() needs a column of at most {MOST_LEVELS} values, but {name!r} has {column.size}. "
                             "Leave C() out, or select rows with `where`.")  # fmt: skip
    # Least squares needs products of two columns, and so the joint distribution of pairs.
    together = 3 if formula.interactions else 2
    return Question(text=str(formula), columns=formula.columns, answer=partial(_coefficients, formula),
                    together=together, formula=formula, null=True)  # fmt: skip


def _coefficients(formula: Regression, rows: Rows) -> list[Value]:
    """Return the coefficients of a regression: of a number, else of the log odds of any but the first level."""
    columns = {name: _predictors(name, name in formula.levels, rows) for name in formula.columns}
    linear = rows.schema.columns[formula.outcome].ordered
    terms = {label: x for name in formula.predictors for label, x in columns[name].items()}
    for a, b in formula.interactions:
        pairs = itertools.product(columns[a].items(), columns[b].items())
        terms |= {f"{one}:{other}": x * z for (one, x), (other, z) in pairs}
    for name in formula.squares:
        terms |= {f"I({label}**2)": x**2 for label, x in columns[name].items()}
    y = np.max(list(columns[formula.outcome].values()), axis=0)
    x = np.stack(list(terms.values()), 1)
    known = np.isfinite(x).all(1) & np.isfinite(y)
    x, y = x[known], y[known]
    if not len(x):
        return [Value(label, math.nan, math.nan, 0.0) for label in terms]
    size = np.maximum(x.std(0), 1e-12)
    found = fit((x - x.mean(0)) / size, y, linear)
    prior = SPREAD * y.std() if linear else ODDS
    values = zip(terms, found.value / size, found.std_error / size, prior / size, strict=True)
    return [Value(label, float(value), float(error) ** 2, float(wide)) for label, value, error, wide in values]


def _predictors(name: str, by_level: bool, rows: Rows) -> dict[str, Floats]:
    """Return what a column adds to a regression, by label: a number on its scale, or each level except the first."""
    column: Column = rows.schema.columns[name]
    codes = rows.codes[:, rows.schema.names.index(name)]
    if column.ordered and not by_level:
        label = f"log({name})" if not column.dated and column.scale == "log" else name
        return {label: on_scale(rows.number(name), column)}
    gone = codes >= column.size
    return {f"{name}={column.text(k)}": np.where(gone, np.nan, codes == k) for k in range(1, column.size)}
