"""From events to epsilon, on the safe side.

Gaussian measurements and Poisson-sampled Gaussian steps compose together in Opacus' PRV accountant (Gopi, Lee,
Wutschitz 2021), whose upper bound is taken; of Gaussian measurements of all rows alone the exact curve of their privacy
loss random variable is known, and taken. Where it fails (it can, for extreme parameters), the plan falls back
to Renyi DP (Mironov 2017), says so, and stays there: the choice is made before a row is read. Measurements of
a secretly sampled shard join both: `shard_sampling` has their privacy loss and their Renyi bound.
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
History = tuple[list[tuple[float, float, int]], list[tuple[ShardSampledGaussian, int]]]  # as below
RELATIVE_ERROR = 0.003  # of epsilon: how far PRV's upper bound may lie above the truth
# Below such an epsilon a mesh that fine takes minutes: a coarser one is used, whose bound lies above the truth too.
SMALL_EPSILON, SMALL_EPSILON_ERROR = 0.3, 0.01
ROUNDING = 1e-12  # of the larger term of a Gaussian's delta: far more than what rounding makes of it
LARGEST_MU = 1e6  # of a Gaussian whose epsilon, of some 5e11, is computed
PLD_INTERVAL = 1e-4  # of the independent accountant's losses
SAME_EPSILON = 0.005  # relative difference up to which two computations of epsilon agree
ABOVE_EXACT: dict[Accountant, float] = {"prv": 0.02, "rdp": 0.5}  # how far an accountant may lie above the exact value
# Opacus' orders end at 63, which is too few where epsilon is small.
WHOLE_ORDERS = [float(order) for order in [*range(2, 64), *(1 << k for k in range(6, 13))]]
BROKEN_ORDERS = [x / 10 for x in range(11, 110) if x % 10]


def as_sampled_gaussians(events: Composition) -> list[tuple[float, float, int]]:
    """Rows (multiplier, rate, count) for an accountant, all plain Gaussian measurements composed into one.

    k Gaussian measurements of multipliers z_i are exactly one of multiplier (sum of z_i^-2)^(-1/2): the same curve at
    a fraction of the time. Shards in a public order count as the plain measurements of one of them. Sampled
    shards are not among them: see `shard_sampled`.

    >>> from .events import Gaussian
    >>> as_sampled_gaussians([(Gaussian(multiplier=2.0), 4)])
    [(1.0, 1.0, 1)]
    """
    precision, in_order = 0.0, Counter[PublicOrderGaussian]()
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
    """The measurements of secretly sampled shards, with their counts."""
    return [(event, count) for event, count in events if isinstance(event, ShardSampledGaussian) and count]


def partition_selection_delta(events: Composition) -> float:
    """The part of delta that partition selection has used."""
    return sum(count * event.delta for event, count in events if isinstance(event, Thresholded))


def epsilon(events: Composition, delta: float, accountant: Accountant = "prv") -> float:
    """An upper bound on the epsilon that `events`, each with how often it happened, cost at `delta`.

    Raises BudgetError where partition selection alone uses up delta, or where the accountant finds no bound.
    """
    events = list(events)
    rest = delta - partition_selection_delta(events)
    if rest <= 0:
        raise BudgetError("Learning a schema would use up all of delta. Give a larger `delta` or declare a schema.")
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
        raise BudgetError(f"The {accountant.upper()} accountant finds no bound for these noise multipliers.")
    return max(0.0, value)  # a bound below zero, at large delta, is a bound of zero


def rounded_up(epsilon: float, digits: int = 4) -> str:
    """Epsilon in so many digits, for print: never less than it is.

    >>> rounded_up(3.69949), rounded_up(3.7), rounded_up(0.25, 1)
    ('3.7', '3.7', '0.3')
    """
    context = Context(prec=digits, rounding=ROUND_CEILING)
    return f"{float(context.create_decimal(f'{epsilon:.12g}')):.{digits}g}"


def gaussian_delta(mu: float, epsilon: float) -> float:
    """The exact delta of a Gaussian measurement of sensitivity over noise `mu` at `epsilon` (Balle, Wang 2018, thm. 8).

    >>> round(gaussian_delta(1.0, 1.0), 6)
    0.126937
    """
    return float(ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon + log_ndtr(-mu / 2 - epsilon / mu)))


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The least epsilon of a Gaussian measurement of sensitivity over noise `mu` at `delta`, rounded up.

    By `gaussian_delta`, with more than its rounding errors added: never below the exact value. Infinite for a `mu`
    above LARGEST_MU, beyond which it means nothing.

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
    """Whether `events` are Gaussian measurements of all rows alone, whose exact curve is known."""
    events = list(events)
    rows = as_sampled_gaussians(events)
    return not shard_sampled(events) and len(rows) == 1 and rows[0][1] == 1


def supports(events: Composition, delta: float, claimed: float, by: Accountant) -> bool:
    """Whether `events` cost the `claimed` epsilon at `delta`, up to the accountants' precision: no less and no more.

    Plain Gaussian measurements by their exact curve, which needs no accountant; others by the accountant `by`. Raises
    BudgetError where `epsilon` does.
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
    """(epsilon, delta) pairs that `events` all satisfy at once, for trade-off curves. No bound, no pair.

    Plain Gaussian measurements by their exact curve. For others one mesh serves all deltas, fine against the epsilon
    at the smallest: larger ones would need a finer one.
    """
    events, deltas = list(events), sorted(deltas)
    used, history = partition_selection_delta(events), (as_sampled_gaussians(events), shard_sampled(events))
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
    """Epsilon by Renyi DP; or how far a sum of losses may `reach`, by the sampled pair's own divergences.

    Any order bounds it. Whole ones come first: others take Opacus a hundred times as long, and are tried beside the
    best of these alone.
    """
    found, best = _best_order(history, delta, WHOLE_ORDERS, reach)
    if beside := [order for order in BROKEN_ORDERS if abs(order - best) < 1]:
        found = min(found, _best_order(history, delta, beside, reach)[0])
    return found


def _best_order(history: History, delta: float, orders: list[float], reach: bool) -> tuple[float, float]:
    """The least bound of some orders, and which of them has it."""
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
    # The mesh must be fine against epsilon itself: at a fixed 0.01 a true 0.008 is reported as 0.018.
    if error is None:
        above = min(_rdp(history, delta, reach=True), 300.0 if history[1] else 20.0)
        error = max(1e-5, above * (RELATIVE_ERROR if above > SMALL_EPSILON else SMALL_EPSILON_ERROR))
    if history[1]:
        return _prv_with_shards(history, delta, error)
    ledger = accountants().PRVAccountant()
    ledger.history = history[0]
    return float(ledger.get_epsilon(delta, eps_error=error, delta_error=delta / 1000))


def _prv_with_shards(history: History, delta: float, error: float) -> float:
    """As Opacus' PRVAccountant goes about it, with the loss of sampled shards among the others."""
    prv = accountants().analysis.prv
    slack = delta / 1000
    losses = [prv.PoissonSubsampledGaussianPRV(rate, z) for z, rate, _ in history[0]]
    losses += [shard_sampling.ShardSamplingLoss(event.multiplier, event.rate) for event, _ in history[1]]
    counts = [count for *_, count in history[0]] + [count for _, count in history[1]]
    # A domain that the sum leaves, and any single loss, with a chance that slack covers (Gopi et al., remark 5.6).
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
    """The module `opacus.accountants` without its training engine, whose imports take seconds and are not needed here.

    It is Opacus' own code to the last line. It names one class of the engine, in an annotation: an empty module stands
    in for the engine meanwhile. Raises ImportError without Opacus.
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
    """Epsilon by dp-accounting's privacy-loss distributions, an independent implementation.

    Each event is composed by itself: what our own accountants fold together, or make of a rate, is checked as well.
    Raises ImportError where dp-accounting is not installed.
    """
    from dp_accounting.pld import privacy_loss_distribution

    events = list(events)
    total, counts = privacy_loss_distribution.identity(PLD_INTERVAL), Counter[Event]()
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
