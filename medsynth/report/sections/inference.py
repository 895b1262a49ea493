"""Would a paper say the same? One logistic regression on real and on synthetic rows, coefficient by coefficient."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...errors import UsageError
from ..data.records import Figure, Part
from ..data.tables import Tables, words

Floats = NDArray[np.float64]
MOST = 12  # predictors; a table of more is no declared regression
RIDGE = 1e-6


class Coefficient(Part):
    """One predictor: estimate with 95 % Wald interval in each table. `overlap`: of the two intervals, 1 when equal."""

    predictor: str
    real: Figure
    synthetic: Figure
    overlap: float | None


class Inference(Part):
    """Section 9. Numbers are standardised by the real rows; words are indicators of their rarer level."""

    outcome: str
    model: str
    rows: str
    coefficients: list[Coefficient]
    mean_overlap: float | None


def inference(tables: Tables, declared: dict[str, Any] | None, ranked: list[str]) -> Inference | None:
    """The regression that review.yaml declares, else of the target on the columns that lead `ranked` and vary.

    Classes: logistic, of not being of the most frequent class. A numeric target: least squares. None where the
    outcome does not vary. Raises UsageError where the declared columns are not in the tables.
    """
    outcome = (declared or {}).get("outcome") or tables.target
    asked = (declared or {}).get("predictors")
    if unknown := [n for n in [outcome, *(asked or [])] if n not in tables.names]:
        raise UsageError(f"review: the regression names no column: {', '.join(unknown)}.")
    base = tables.real if tables.train is None else pd.concat([tables.train, tables.real], ignore_index=True)
    names = [n for n in (asked or ranked or tables.names) if n != outcome]
    linear = outcome in tables.numbers and base[outcome].nunique() > 2
    designs = [_design(frame, base, names, tables) for frame in (base, tables.synthetic)]
    labels = [n for n, column in designs[0].items() if column.std() > 1e-9][:MOST]
    answers = [_answer(frame, base, outcome, linear) for frame in (base, tables.synthetic)]
    if not labels or any(np.nanstd(y) < 1e-9 for y in answers):
        return None
    fits = [_fit(np.stack([d[n] for n in labels], 1), y, linear) for d, y in zip(designs, answers, strict=True)]
    found = []
    for k, label in enumerate(labels):
        (a, sa), (b, sb) = ((float(f[0][k + 1]), float(f[1][k + 1])) for f in fits)
        ends = [(a - 1.96 * sa, a + 1.96 * sa), (b - 1.96 * sb, b + 1.96 * sb)]
        found.append(Coefficient(
            predictor=label,
            real=Figure(value=a, low=ends[0][0], high=ends[0][1]),
            synthetic=Figure(value=b, low=ends[1][0], high=ends[1][1]),
            overlap=_overlap(ends[0], ends[1]),
        ))  # fmt: skip
    known = [c.overlap for c in found if c.overlap is not None]
    common = "" if linear else f" (against its most frequent class, {base[outcome].astype(str).mode()[0]!r})"
    return Inference(
        outcome=f"{outcome}{common}",
        model="least squares" if linear else "logistic",
        rows="the held-out rows" if tables.train is None else "training and held-out rows together",
        coefficients=found,
        mean_overlap=float(np.mean(known)) if known else None,
    )


def _design(frame: pd.DataFrame, base: pd.DataFrame, names: list[str], tables: Tables) -> dict[str, Floats]:
    columns: dict[str, Floats] = {}
    for name in names:
        if name in tables.numbers:
            known = base[name].dropna().to_numpy(np.float64)
            spread = float(known.std()) if len(known) else 0.0
            if spread > 0:
                filled = frame[name].fillna(float(np.median(known))).to_numpy(np.float64)
                columns[f"{name} (per standard deviation)"] = (filled - known.mean()) / spread
            continue
        levels = words(base[name]).value_counts().index
        if 1 < len(levels) <= 6:
            for level in levels[1:]:
                columns[f"{name} = {level}"] = (words(frame[name]) == level).to_numpy(np.float64)
    return columns


def _answer(frame: pd.DataFrame, base: pd.DataFrame, outcome: str, linear: bool) -> Floats:
    if linear:
        return frame[outcome].fillna(float(base[outcome].median())).to_numpy(np.float64)
    return np.asarray(frame[outcome].astype(str) != base[outcome].astype(str).mode()[0], np.float64)


def _fit(x: Floats, y: Floats, linear: bool) -> tuple[Floats, Floats]:
    """Coefficients, intercept first, and standard errors. Logistic by Newton's method with a trace of ridge."""
    x = np.column_stack([np.ones(len(x)), x])
    ridge = RIDGE * len(x) * np.eye(x.shape[1])
    if linear:
        inverse = np.linalg.inv(x.T @ x + ridge)
        beta = inverse @ x.T @ y
        scale = np.square(y - x @ beta).sum() / max(len(x) - x.shape[1], 1)
        return beta, np.sqrt(np.diag(inverse) * scale)
    beta = np.zeros(x.shape[1])
    for _ in range(50):
        chance = 1 / (1 + np.exp(-np.clip(x @ beta, -30, 30)))
        information = (x * (chance * (1 - chance))[:, None]).T @ x + ridge
        step = np.linalg.solve(information, x.T @ (y - chance) - ridge @ beta)
        beta = beta + np.clip(step, -2, 2)  # separation would send it away; a bounded step keeps it finite
        if np.abs(step).max() < 1e-8:
            break
    return beta, np.sqrt(np.diag(np.linalg.inv(information)))


def _overlap(one: tuple[float, float], other: tuple[float, float]) -> float | None:
    """Mean share of each interval that the other covers (Karr et al. 2006); below zero when they lie apart."""
    common = min(one[1], other[1]) - max(one[0], other[0])
    widths = one[1] - one[0], other[1] - other[0]
    if min(widths) <= 0 or not np.isfinite(common):
        return None
    return float(max(-1.0, (common / widths[0] + common / widths[1]) / 2))
