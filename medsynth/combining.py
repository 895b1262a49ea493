"""Combine the estimates of several replicates of a synthetic table into one estimate with its interval.

There are m replicates. Their estimates q have the mean q-bar and the variance b. An analysis prints the variances u
next to the estimates; their mean is u-bar. Each rule gives the variance of q-bar:

between   (1 + 1/m) b, the default, for replicates of a model. Each replicate comes from a posterior draw of the
          generator that includes the noise and the sampling error. So b estimates the posterior variance plus the
          variance of drawing rows. Stratified rows vary less than u, so nothing is subtracted. The interval can only
          be too long. m - 1 degrees of freedom.
fully     (1 + 1/m) b - u-bar (Raghunathan, Reiter and Rubin 2003, section 4). For tables of independent rows, each
          from one posterior draw of the generator. If the posterior includes the noise, this is the rule of NAPSU-MQ
          (Räisä et al. 2023). (m - 1) (1 - 1/r)^2 degrees of freedom, r = (1 + 1/m) b / u-bar. A negative variance is
          replaced by u-bar times synthetic rows over real rows (Reiter 2002).
raab      (k/n + 1/m) u-bar, for k synthetic and n real rows (Raab, Nowok and Dibben 2016, T_s). For several tables of
          one generator without noise. It ignores the noise of differential privacy. Normal intervals.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args, overload

import numpy as np

from .errors import UsageError, checked_keywords

if TYPE_CHECKING:
    import pandas as pd

CombiningRule = Literal["between", "fully", "raab"]
COLUMNS = ("term", "replicate", "estimate")  # of a file of results
RULES: tuple[CombiningRule, ...] = get_args(CombiningRule)


@dataclass(frozen=True, kw_only=True)
class Combined:
    """An estimate of `replicates` tables: its standard error, interval at `level`, and p-value of being zero.

    `degrees`: degrees of freedom of Student's t, infinite for a normal interval. `cured`: whether a negative variance
    was replaced.
    """

    estimate: float
    std_error: float
    low: float
    high: float
    p_value: float
    degrees: float
    replicates: int
    rule: CombiningRule
    level: float
    cured: bool = False


@overload
def combine(
    estimates: Sequence[float], variances: Sequence[float] | None = None, *, rule: CombiningRule = "between",
    level: float = 0.95, rows_ratio: float = 1.0,
) -> Combined: ...  # fmt: skip
@overload
def combine(
    estimates: pd.DataFrame, *, rule: CombiningRule = "between", level: float = 0.95, rows_ratio: float = 1.0
) -> pd.DataFrame: ...
@checked_keywords
def combine(
    estimates: Sequence[float] | pd.DataFrame,
    variances: Sequence[float] | None = None,
    *,
    rule: CombiningRule = "between",
    level: float = 0.95,
    rows_ratio: float = 1.0,
) -> Combined | pd.DataFrame:
    """Combine the estimates of one quantity and their variances, the squared standard errors, (replicates,) both.

    A frame with the columns term, replicate, estimate and, for some rules, std_error yields one line per term.

    `rows_ratio`: rows of a synthetic table divided by rows of the real one. Raises UsageError for fewer than two
    estimates, numbers that are not finite, an unknown rule, or missing variances that a rule needs.

    >>> found = combine([1.0, 2.0, 3.0, 2.0])
    >>> round(found.estimate, 3), round(found.std_error, 3), found.degrees
    (2.0, 0.913, 3.0)
    """
    if hasattr(estimates, "columns"):
        found = combine_frame(estimates, "The frame", rule=rule, level=level, rows_ratio=rows_ratio)  # type: ignore[arg-type]
        import pandas as pd

        return pd.DataFrame([asdict(one) for one in found.values()], index=pd.Index(found, name="term"))
    try:
        q = np.asarray(estimates, np.float64)
        u = None if variances is None else np.asarray(variances, np.float64)
    except (TypeError, ValueError):
        raise UsageError("`estimates` and `variances` must be numbers, one per replicate.") from None
    _check(q, u, rule, level, rows_ratio)
    m = len(q)
    between = float(q.var(ddof=1))
    within = 0.0 if u is None else float(u.mean())
    cured = False
    total = (1 + 1 / m) * between
    degrees = float(m - 1)
    if rule == "fully":
        degrees = (m - 1) * (1 - within / total) ** 2 if total > 0 else math.inf
        total -= within
        if cured := total <= 0:
            total, degrees = rows_ratio * within, math.inf
    elif rule == "raab":
        total, degrees = (rows_ratio + 1 / m) * within, math.inf
    return _interval(float(q.mean()), math.sqrt(total), degrees, m, rule, level, cured)


def _check(q: np.ndarray, u: np.ndarray | None, rule: str, level: float, rows_ratio: float) -> None:
    if rule not in RULES:
        raise UsageError(f"There is no rule {str(rule)[:40]!r}. The rules are: {', '.join(RULES)}.")
    if q.ndim != 1 or len(q) < 2:
        raise UsageError("Combining needs the estimates of at least two replicates.")
    if u is None and rule != "between":
        raise UsageError(f"The rule {rule} needs variances, the squared standard errors of the estimates.")
    if u is not None and u.shape != q.shape:
        raise UsageError("There must be as many variances as estimates.")
    if not np.isfinite(q).all() or (u is not None and not (np.isfinite(u).all() and (u >= 0).all())):
        raise UsageError("Estimates must be finite, and variances finite and not negative.")
    if not 0 < level < 1 or not 0 < rows_ratio < math.inf:
        raise UsageError("`level` must lie between 0 and 1, and `rows_ratio` must be positive.")


def _interval(
    estimate: float, std_error: float, degrees: float, count: int, rule: CombiningRule, level: float, cured: bool
) -> Combined:
    from scipy.stats import norm, t

    law = norm() if math.isinf(degrees) else t(max(degrees, 1e-3))
    if std_error > 0:
        half = float(law.ppf((1 + level) / 2)) * std_error
        p_value = float(2 * law.sf(abs(estimate) / std_error))
    else:
        half = 0.0
        p_value = float(estimate == 0)
    return Combined(
        estimate=estimate, std_error=std_error, low=estimate - half, high=estimate + half, p_value=p_value,
        degrees=degrees, replicates=count, rule=rule, level=level, cured=cured,
    )  # fmt: skip


def combine_file(
    path: Path, *, rule: str = "between", level: float = 0.95, rows_ratio: float = 1.0
) -> dict[str, Combined]:
    """Return the combined estimate of each term in a CSV file with the columns term, replicate, estimate (std_error).

    Raises UsageError if it is not such a file, a column is missing, a replicate has a term twice, and as `combine`
    does.
    """
    import pandas as pd

    try:
        table = pd.read_csv(path, dtype={"term": str})
    except (OSError, ValueError):
        raise UsageError(f"{path} is not a CSV file. Write term, replicate, estimate, std_error.") from None
    return combine_frame(table, str(path), rule=rule, level=level, rows_ratio=rows_ratio)


def combine_frame(
    table: pd.DataFrame, what: str, *, rule: str = "between", level: float = 0.95, rows_ratio: float = 1.0
) -> dict[str, Combined]:
    """Return the combined estimate of each term in a frame, as `combine_file` does. `what` names it in messages."""
    import pandas as pd

    if missing := [name for name in COLUMNS if name not in table]:
        cure = " Run the analysis on the rows of each replicate, and combine its estimates." if missing == [
            "term", "estimate"] else ""  # fmt: skip
        raise UsageError(
            f"{what} lacks the column {missing[0]!r}. It needs {', '.join(COLUMNS)} and, for some rules, std_error."
            + cure
        )
    try:
        numbers = table.assign(**{n: pd.to_numeric(table[n]) for n in ("estimate", "std_error") if n in table})
    except (TypeError, ValueError):
        raise UsageError(f"{what}: estimate and std_error must be numbers. Correct or remove other cells.") from None
    if numbers.duplicated(["term", "replicate"]).any():
        raise UsageError(f"{what}: a replicate has the same term twice. Keep one row per term and replicate.")
    found = {}
    for term, group in numbers.groupby("term", sort=False):
        variances = (group["std_error"] ** 2).tolist() if "std_error" in group else None
        try:
            found[str(term)] = combine(  # type: ignore[call-overload]
                group["estimate"].tolist(), variances, rule=rule, level=level, rows_ratio=rows_ratio
            )
        except UsageError as error:
            raise UsageError(f"{what}, term {str(term)[:40]!r}: {error}") from None
    return found
