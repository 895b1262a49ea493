"""Is the table fit to estimate, or to predict alone? Declared regressions: intervals as of real rows, and combined."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...artifact import Model
from ...combining import combine
from ...methods.regressions import Regression, parsed
from ...sampling import sample
from ...sampling.pipeline import REPLICATE
from ...sampling.replicates import why_not
from ...schema import Schema
from ..data.context import Context
from ..data.missing_codes import LARGEST
from ..data.records import Estimate, Record
from .inference import fit
from .registry import Section

Floats = NDArray[np.float64]
REPLICATES = 10  # fitted for the report
ENOUGH = 0.8  # of the coefficients' combined intervals that hold the real rows' estimate, for a table fit to estimate
MOST_ROWS = 20_000  # drawn of a replicate
HOW = (
    "Draw 20 replicates from the model, run the analysis on each, and combine the estimates; in Python by "
    "medsynth.sample(..., replicates=20) and medsynth.combine. An interval from one synthetic table, as if its rows "
    "were patients, is too narrow. Relations that were not declared cannot be estimated."
)


class Term(Record):
    """One coefficient: by real rows, by the synthetic table as if its rows were real, and by replicates."""

    predictor: str
    real: Estimate | None = None
    naive: Estimate
    combined: Estimate | None = None


class Declared(Record):
    """A regression that the fit was told of."""

    formula: str
    model: str
    terms: list[Term]


class Estimation(Record):
    """What the rows are fit for, in one line, and the declared regressions.

    `holding`: the share of combined intervals that hold the real rows' estimate, where both are known.
    """

    fit_for: Literal["estimation of the declared regressions", "prediction only"]
    reason: str
    advice: str | None
    holding: float | None
    replicates: int | None
    regressions: list[Declared]


def estimation(model: Model, synthetic: pd.DataFrame, real: pd.DataFrame | None, *, proven: bool) -> Estimation:
    """What a model's rows are fit for. `synthetic` and `real` are tables of texts; without `real` nothing is refitted.

    `proven`: whether the model is shown to have drawn the synthetic rows: else its replicates say nothing of them.
    """
    told = parsed(tuple(model.config.get("inference", ())))
    reason = why_not(model)
    if reason is None and not proven:
        reason = "The model given is not proven to have drawn these rows."
    if reason is None and not told:
        reason = (
            "No regression was declared when the model was fitted. Relations that were not measured may be shrunk, and "
            "no interval tells by how much."
        )
    if reason is not None:
        return Estimation(fit_for="prediction only", reason=reason, advice=None, holding=None, replicates=None,
                          regressions=[])  # fmt: skip
    if real is None:
        stated = [Declared(formula=str(one), model=_kind(one, model.schema), terms=[]) for one in told]
        return Estimation(
            fit_for="estimation of the declared regressions", advice=HOW, holding=None, replicates=None,
            reason="Their moments were measured with noise that is known.", regressions=stated,
        )  # fmt: skip
    every = sample(model, min(model.rows, MOST_ROWS), 0, replicates=REPLICATES)
    drawn = [_texts(own) for _, own in every.groupby(REPLICATE)]
    found = [_declared(one, model.schema, real, synthetic, drawn) for one in told]
    held = [_holds(term) for one in found for term in one.terms if term.real and term.combined]
    holding = float(np.mean(held)) if held else None
    enough = holding is not None and holding >= ENOUGH
    return Estimation(
        fit_for="estimation of the declared regressions" if enough else "prediction only",
        reason=f"{sum(held)} of {len(held)} combined intervals hold the estimate of the real rows.",
        advice=HOW if enough else None, holding=holding, replicates=REPLICATES, regressions=found,
    )  # fmt: skip


def _texts(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.astype(object).where(frame.notna(), "").astype(str)


def _kind(regression: Regression, schema: Schema) -> str:
    return "least squares" if schema.columns[regression.outcome].ordered else "logistic"


def _declared(
    regression: Regression, schema: Schema, real: pd.DataFrame, synthetic: pd.DataFrame, drawn: Sequence[pd.DataFrame]
) -> Declared:
    linear = schema.columns[regression.outcome].ordered
    sides = [_design(table, regression, schema) for table in (real, synthetic, *drawn)]
    labels = list(sides[0][0])
    if not labels:  # one level alone in every predictor
        return Declared(formula=str(regression), model=_kind(regression, schema), terms=[])
    fits = [fit(np.stack([x[label] for label in labels], 1), y, linear) for x, y in sides]
    terms = []
    for k, label in enumerate(labels):
        values = [one.value[k] for one in fits[2:]]
        both = combine(values) if np.isfinite(values).all() else None
        terms.append(
            Term(
                predictor=label, real=fits[0].estimate(k), naive=fits[1].estimate(k),
                combined=both and Estimate(value=both.estimate, low=both.low, high=both.high),
            )
        )  # fmt: skip
    return Declared(formula=str(regression), model=_kind(regression, schema), terms=terms)


def _design(table: pd.DataFrame, regression: Regression, schema: Schema) -> tuple[dict[str, Floats], Floats]:
    """The predictors by label, interactions after the others, and the outcome, of rows without a missing value in any.

    Numbers are on their columns' scales. Of levels each but the first is an indicator; an outcome of levels is any but
    the first.
    """
    columns, y = dict[str, dict[str, Floats]](), np.empty(0)
    known: NDArray[np.bool_] = np.ones(len(table), np.bool_)
    for name in regression.predictors:
        column = schema.columns[name]
        if column.ordered:
            values = _numbers(table, name, schema)
            columns[name] = {f"{name}, logarithm" if column.scale == "log" else name: values}
            known &= np.isfinite(values)
        else:
            known &= np.asarray(table[name] != "", np.bool_)
            levels = list(column.levels)[1:]
            columns[name] = {f"{name} = {x}": np.asarray(table[name] == str(x), np.float64) for x in levels}
    outcome = schema.columns[regression.outcome]
    if outcome.ordered:
        y = _numbers(table, regression.outcome, schema)
        known &= np.isfinite(y)
    else:
        first = str(next(iter(outcome.levels)))
        y = np.array([float(word != first) for word in table[regression.outcome]])
        known &= np.asarray(table[regression.outcome] != "", np.bool_)
    terms = {label: values for own in columns.values() for label, values in own.items()}
    for a, b in regression.interactions:
        pairs = itertools.product(columns[a].items(), columns[b].items())
        terms |= {f"{one} × {other}": x * z for (one, x), (other, z) in pairs}
    return {label: values[known] for label, values in terms.items()}, y[known]


def _numbers(table: pd.DataFrame, name: str, schema: Schema) -> Floats:
    column = schema.columns[name]
    values = np.asarray(column.cell_values(table[name]), np.float64)
    values = np.where(np.abs(values) <= LARGEST, values, np.nan)
    return np.log(np.maximum(values, 0.5 * 10.0**-column.places)) if column.scale == "log" else values


def _holds(term: Term) -> bool:
    real, both = term.real, term.combined
    if real is None or both is None or real.value is None or both.low is None or both.high is None:
        return False
    return both.low <= real.value <= both.high


def _compute(context: Context) -> Estimation | None:
    if context.model is None:
        return None
    real = context.real
    if real is not None and context.train is not None:
        real = pd.concat([context.train, real], ignore_index=True)
    return estimation(context.model, context.synthetic, real, proven=context.drawn_by_model)


SECTION = Section(id="estimation", title="Fit for what?", compute=_compute, record=Estimation)
