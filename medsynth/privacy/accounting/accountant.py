"""From events to epsilon, never below the true value.

Opacus' PRV accountant composes Gaussian measurements and Poisson-sampled Gaussian steps (Gopi, Lee, Wutschitz 2021);
its upper bound is used. Gaussian measurements of all rows alone use the exact curve of their privacy loss random
variable. If PRV fails, as it can for extreme parameters, the plan uses Renyi DP (Mironov 2017) and says so. This choice
is final and is made before a row is read. Measurements of a secretly sampled shard join both accountants through their
privacy loss and their Renyi bound in `shard_sampling`.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import math
import sys
import warnings
from collections import Counter
from collections.abc import Iterable
from decimal import ROUND_CEILING, Context
from types import ModuleType
from typing import Any, Literal

import numpy as np
from scipy.special import log_ndtr, ndtr

from ...errors import BudgetError
from . import shard_sampling
from .events import Event, PublicOrderGaussian, ShardSampledGaussian, SubsampledGaussian, Thresholded

ACCOUNTANTS, ENGINE = "opacus.accountants", "opacus.optimizers"
Accountant = Literal["prv", "rdp"]
Composition = Iterable[tuple[Event, int]]
History = tuple[list[tuple[float, float, int]], list[tuple[ShardSampledGaussian, int]]]  # As below.
RELATIVE_ERROR = 0.003  # How far PRV's upper bound on epsilon may exceed the true value.
# Below this epsilon such a fine mesh takes minutes. A coarser one is used, whose bound is above the true value too.
SMALL_EPSILON, SMALL_EPSILON_ERROR = 0.3, 0.01
ROUNDING = 1e-12  # Relative to the larger term of a Gaussian's delta; far above the rounding error.
LARGEST_MU = 1e6  # Epsilon is computed up to this mu, where it is about 5e11.
PLD_INTERVAL = 1e-4  # Mesh of the independent accountant's losses.
SAME_EPSILON = 0.005  # Relative difference up to which two computations of epsilon agree.
ABOVE_EXACT: dict[Accountant, float] = {"prv": 0.02, "rdp": 0.5}  # How far an accountant may exceed the exact value.
# Opacus' orders end at 63, which is too low for a small epsilon.
WHOLE_ORDERS = [float(order) for order in [*range(2, 64), *(1 << k for k in range(6, 13))]]
BROKEN_ORDERS = [x / 10 for x in range(11, 110) if x % 10]


def as_sampled_gaussians(events: Composition) -> list[tuple[float, float, int]]:
    """Return rows (multiplier, rate, count) for an accountant, with all plain Gaussian measurements composed into one.

    k Gaussian measurements of multipliers z_i are exactly one of multiplier (sum of z_i^-2)^(-1/2), which is much
    faster. Shards in a public order count as the plain measurements of one of them. Sampled shards are left out: see
    `shard_sampled`.

    >>> from .events import Gaussian
    >>> as_sampled_gaussians([(Gaussian(multiplier=2.0), 4)])
    [(1.0, 1.0, 1)]
    """
    precision = 0.0
    in_order = Counter[PublicOrderGaussian]()
    sampled: dict[tuple[float, float], int] = {}
    for event, count in events:
        if isinstance(event, ShardSampledGaussian):
            continue
        if isinstance(event, PublicOrderGaussian):
            in_order[event] += count
        elif isinstance(event, SubsampledGaussian) and event.rate < 1:
            key = (event.multiplier, event.rate)
            sampled[key] = sampled.get(key, 0) + count
        else:
            precision += count / event.multiplier**2
    precision += sum(math.ceil(count / event.shards) / event.multiplier**2 for event, count in in_order.items())
    plain = [(1 / math.sqrt(precision), 1.0, 1)] if precision else []
    return plain + [(z, rate, count) for (z, rate), count in sampled.items() if count]


def shard_sampled(events: Composition) -> list[tuple[ShardSampledGaussian, int]]:
    """Return the measurements of secretly sampled shards, with their counts."""
    return [(event, count) for event, count in events if isinstance(event, ShardSampledGaussian) and count]


def partition_selection_delta(events: Composition) -> float:
    """Return the part of delta that partition selection has used."""
    return sum(count * event.delta for event, count in events if isinstance(event, Thresholded))


def epsilon(events: Composition, delta: float, accountant: Accountant = "prv") -> float:
    """Return an upper bound on the epsilon of `events`, each with its count, at `delta`.

    Raises BudgetError if partition selection alone uses up delta, or if the accountant finds no bound.
    """
    events = list(events)
    rest = delta - partition_selection_delta(events)
    if rest <= 0:
        raise BudgetError("Learning a schema would use up all of delta. Set a larger `delta`, or declare a schema.")
    history = as_sampled_gaussians(events), shard_sampled(events)
    if not any(history):
        return 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if accountant == "prv" and is_plain(events):
            value = gaussian_epsilon(1 / history[0][0][0], rest)
        else:
            value = _rdp(history, rest) if accountant == "rdp" else _prv(history, rest)
    if not math.isfinite(value):
        raise BudgetError(
            f"The {accountant.upper()} accountant finds no bound for these noise multipliers. Set another `epsilon`."
        )
    return max(0.0, value)  # A bound below zero, at a large delta, is a bound of zero.


def rounded_up(epsilon: float, digits: int = 4) -> str:
    """Return epsilon with this number of digits for print, rounded up.

    >>> rounded_up(3.69949), rounded_up(3.7), rounded_up(0.25, 1)
    ('3.7', '3.7', '0.3')
    """
    context = Context(prec=digits, rounding=ROUND_CEILING)
    return f"{float(context.create_decimal(f'{epsilon:.12g}')):.{digits}g}"


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Return the exact delta at `epsilon` of a Gaussian of sensitivity over noise `mu` (Balle, Wang 2018, thm. 8).

    >>> round(gaussian_delta(1.0, 1.0), 6)
    0.126937
    """
    return float(ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon + log_ndtr(-mu / 2 - epsilon / mu)))


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Return the least epsilon at `delta` of a Gaussian measurement of sensitivity over noise `mu`, rounded up.

    It uses `gaussian_delta` plus more than its rounding error, so it is never below the exact value. It is infinite for
    a `mu` above LARGEST_MU.

    >>> round(gaussian_epsilon(1.0, 0.126937), 5)
    1.0
    """

    def holds(epsilon: float) -> bool:
        error = ROUNDING * (1 + epsilon) * float(ndtr(mu / 2 - epsilon / mu))
        return gaussian_delta(mu, epsilon) + error <= delta

    if not mu <= LARGEST_MU:
        return math.inf
    if holds(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while not holds(high):
        low, high = high, 2 * high
    while high - low > 1e-12 * high and low < (middle := (low + high) / 2) < high:
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def is_plain(events: Composition) -> bool:
    """Return whether `events` are Gaussian measurements of all rows only, whose exact curve is known."""
    events = list(events)
    rows = as_sampled_gaussians(events)
    return not shard_sampled(events) and len(rows) == 1 and rows[0][1] == 1


def supports(events: Composition, delta: float, claimed: float, by: Accountant) -> bool:
    """Return whether `events` cost the `claimed` epsilon at `delta`, up to the accountants' precision.

    Neither less nor more: plain Gaussian measurements by their exact curve, others by the accountant `by`. Raises
    BudgetError as `epsilon` does.
    """
    events = list(events)
    rest = delta - partition_selection_delta(events)
    rows = as_sampled_gaussians(events)
    if not is_plain(events) or rest <= 0:
        due = epsilon(events, delta, by)
        return abs(due - claimed) <= SAME_EPSILON * max(due, claimed)
    mu, looser = 1 / rows[0][0], (1 + ABOVE_EXACT[by]) * (1 + SAME_EPSILON)
    lower = claimed / looser - SMALL_EPSILON_ERROR
    return gaussian_delta(mu, claimed * (1 + 1e-9)) <= rest and (lower <= 0 or gaussian_delta(mu, lower) > rest)


def profile(events: Composition, deltas: Iterable[float], accountant: Accountant = "prv") -> list[tuple[float, float]]:
    """Return (epsilon, delta) pairs that `events` all satisfy at once, for trade-off curves; only those with a bound.

    Plain Gaussian measurements use their exact curve. Others share one mesh for all deltas, fine enough for the epsilon
    at the smallest delta; larger deltas would need a finer one.
    """
    events = list(events)
    deltas = sorted(deltas)
    used = partition_selection_delta(events)
    history = (as_sampled_gaussians(events), shard_sampled(events))
    if not any(history):
        return []
    rests = {delta: delta - used for delta in deltas if delta > used}
    if accountant == "prv" and is_plain(events):
        exact = {delta: gaussian_epsilon(1 / history[0][0][0], rest) for delta, rest in rests.items()}
        return [(value, delta) for delta, value in exact.items() if math.isfinite(value)]
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        error = 0.01 * max(0.05, min(_rdp(history, deltas[0]), 20.0))
        for delta, rest in rests.items():
            with contextlib.suppress(RuntimeError, ValueError, FloatingPointError):
                value = _rdp(history, rest) if accountant == "rdp" else _prv(history, rest, error)
                if math.isfinite(value):
                    found.append((max(0.0, value), delta))
    return found


def _rdp(history: History, delta: float, *, reach: bool = False) -> float:
    """Return epsilon by Renyi DP, or with `reach` a bound on sums of losses, by the sampled pair's own divergences.

    Any order gives a bound. Opacus takes a hundred times as long for orders that are not whole, so these are tried only
    close to the best whole one.
    """
    found, best = _best_order(history, delta, WHOLE_ORDERS, reach)
    if beside := [order for order in BROKEN_ORDERS if abs(order - best) < 1]:
        found = min(found, _best_order(history, delta, beside, reach)[0])
    return found


def _best_order(history: History, delta: float, orders: list[float], reach: bool) -> tuple[float, float]:
    """Return the least bound of some orders, and its order."""
    rdp = accountants().analysis.rdp
    total = np.zeros(len(orders))
    for multiplier, rate, count in history[0]:
        total += rdp.compute_rdp(q=rate, noise_multiplier=multiplier, steps=count, orders=orders)
    for event, count in history[1]:
        own = shard_sampling.ShardSamplingLoss(event.multiplier, event.rate)
        total += count * (own.rdp(orders) if reach else shard_sampling.rdp(event.multiplier, event.shards, orders))
    found, best = rdp.get_privacy_spent(orders=orders, rdp=total, delta=delta)
    return float(found), float(best)


def _prv(history: History, delta: float, error: float | None = None) -> float:
    # The mesh must be fine relative to epsilon: with a fixed 0.01, a true 0.008 is reported as 0.018.
    if error is None:
        above = min(_rdp(history, delta, reach=True), 300.0 if history[1] else 20.0)
        error = max(1e-5, above * (RELATIVE_ERROR if above > SMALL_EPSILON else SMALL_EPSILON_ERROR))
    if history[1]:
        return _prv_with_shards(history, delta, error)
    ledger = accountants().PRVAccountant()
    ledger.history = history[0]
    return float(ledger.get_epsilon(delta, eps_error=error, delta_error=delta / 1000))


def _prv_with_shards(history: History, delta: float, error: float) -> float:
    """Compute epsilon as Opacus' PRVAccountant does, including the losses of sampled shards."""
    prv = accountants().analysis.prv
    slack = delta / 1000
    losses = [prv.PoissonSubsampledGaussianPRV(rate, z) for z, rate, _ in history[0]]
    losses += [shard_sampling.ShardSamplingLoss(event.multiplier, event.rate) for event, _ in history[1]]
    counts = [count for *_, count in history[0]] + [count for _, count in history[1]]
    # The sum and any single loss leave this domain with a chance that slack covers (Gopi et al., remark 5.6).
    one: list[History] = [([(z, rate, 1)], []) for z, rate, _ in history[0]]
    one += [([], [(event, 1)]) for event, _ in history[1]]
    reach = [_rdp(history, slack / 4, reach=True), error]
    reach += [_rdp(single, slack / (8 * sum(counts)), reach=True) for single in one]
    mesh = error / math.sqrt(sum(counts) * math.log(12 / slack) / 2)
    domain = prv.Domain.create_aligned(-max(reach) - 3, max(reach) + 3, mesh)
    cut = [prv.TruncatedPrivacyRandomVariable(loss, domain.t_min, domain.t_max) for loss in losses]
    together = prv.compose_heterogeneous([prv.discretize(loss, domain) for loss in cut], counts)
    return float(together.compute_epsilon(delta, slack, error)[2])


def accountants() -> Any:
    """Return the module `opacus.accountants` without its training engine, which takes seconds to import.

    The code is entirely Opacus' own. It names one class of the engine in an annotation, so an empty module replaces the
    engine during the import. Raises ImportError without Opacus.
    """
    if ACCOUNTANTS in sys.modules:
        return sys.modules[ACCOUNTANTS]
    found = importlib.util.find_spec("opacus")
    if found is None or "opacus" in sys.modules:
        return importlib.import_module(ACCOUNTANTS)
    engine = ModuleType(ENGINE)
    vars(engine)["DPOptimizer"] = object
    sys.modules |= {"opacus": importlib.util.module_from_spec(found), ENGINE: engine}
    try:
        return importlib.import_module(ACCOUNTANTS)
    finally:
        del sys.modules["opacus"], sys.modules[ENGINE]


def cross_check(events: Composition, delta: float) -> float:
    """Return epsilon by dp-accounting's privacy-loss distributions, an independent implementation.

    Each event is composed separately, which also checks how our own accountants combine events and use rates. Raises
    ImportError if dp-accounting is not installed.
    """
    from dp_accounting.pld import privacy_loss_distribution

    events = list(events)
    total = privacy_loss_distribution.identity(PLD_INTERVAL)
    counts = Counter[Event]()
    for event, count in events:
        counts[event] += count
    for event, count in counts.items():
        if isinstance(event, ShardSampledGaussian):
            one = shard_sampling.independent(event.multiplier, event.rate, PLD_INTERVAL)
        else:
            one = privacy_loss_distribution.from_gaussian_mechanism(
                event.multiplier, value_discretization_interval=PLD_INTERVAL, sampling_prob=getattr(event, "rate", 1.0)
            )
        most = math.ceil(count / event.shards) if isinstance(event, PublicOrderGaussian) else count
        total = total.compose(one.self_compose(most))
    return float(total.get_epsilon_for_delta(delta - partition_selection_delta(events)))
