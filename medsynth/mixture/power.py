"""Say before a fit which effects its declared regressions can find, from the plan's noise and public numbers alone.

The columns are taken as independent and as normal on their grids, since no row is read. A coefficient of standardised
columns then has the variance 1/n of sampling plus that of the noise of one product of two columns.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from scipy.stats import t

from ..methods.bins import Bins, fine_grid
from ..methods.marginals import TOGETHER
from ..methods.regressions import Regression
from ..privacy.accounting.calibration import Plan
from ..schema import Column
from ..schema.columns.number import Count
from . import constants as k
from .constants import DECLARED
from .declared import declared_moments

REPLICATES = 20  # whose degrees of freedom count
POWER, LEVEL = 0.8, 0.05
WIDER = 1.4  # measured widths on the study of docs/inference.md, relative to this theory: other moments are noisy, too
USUAL = Count(kind="count", bounds=(0, 1000))  # a column whose declaration is not known yet


def power_note(
    plan: Plan, regressions: Sequence[Regression], columns: Mapping[str, Column | None], target: str | None
) -> list[str]:
    """Return one sentence about the smallest correlation that a declared regression finds; none without regressions."""
    if not regressions or DECLARED not in plan.events:
        return []
    names = dict.fromkeys(name for one in regressions for name in one.columns if name != target)
    bins = {name: _normal(columns.get(name) or USUAL) for name in names}
    by_class = any(target in one.columns for one in regressions)  # each class has its own sums
    classes = min((columns.get(target or "") or USUAL).size, k.BINS) if by_class else 1
    rows = plan.equivalent_rows
    noise = plan.noise(DECLARED) * math.sqrt(classes)
    plain = [one for one in (_without(one, target) for one in regressions) if one is not None]
    if not plain:
        return []
    moments = declared_moments(plain, bins, TOGETHER, tuple(names), noise, rows)
    std = noise / np.abs(moments.kept * moments.products.scales.double().numpy())
    finds, real = (
        (t.ppf(1 - LEVEL / 2, REPLICATES - 1) + t.ppf(POWER, REPLICATES - 1)) * std_error
        for std_error in (WIDER * math.hypot(rows**-0.5, float(np.median(std)) / rows), rows**-0.5)
    )
    if finds >= 1:
        return ["At this budget the declared regressions find no effect with a power of 80 %: the noise is too large. "
                "Declare fewer, or use more rows or a larger `epsilon`."]  # fmt: skip
    return [
        f"With a power of 80 % the declared regressions find correlations of about {finds:.2f} or more (real rows: "
        f"{real:.2f}). Weaker effects are mostly lost in the noise. All regressions share the budget: declare few."
    ]


def _without(one: Regression, target: str | None) -> Regression | None:
    """Return a regression with the target replaced by its predictors alone, since classes separate its sums."""
    if one.outcome != target:
        kept = tuple(name for name in one.predictors if name != target)
        crossed = tuple(pair for pair in one.interactions if target not in pair)
        return Regression(one.outcome, kept, crossed)
    return Regression(one.predictors[0], one.predictors[1:], one.interactions)


def _normal(column: Column) -> Bins:
    """Return bins of a column whose numbers are normal over its bounds, and whose levels are equally frequent."""
    fine = fine_grid(column)
    values = fine.cells - column.gaps
    shares = np.append(np.exp(-(np.linspace(-3, 3, values) ** 2) / 2), np.full(column.gaps, 1e-3))
    return Bins.of(column, shares / shares.sum() if column.ordered else None, None, k.BINS, fine)
