"""The default: a conditional generator warmed by noisy counts, and by the pairs of columns that it fits worst.

1. One noisy histogram a column gives bins, and values inside a bin. 2. One noisy table class by bin a column gives the
class totals and, cleaned, the generator's start. 3. In rounds, noisy L1 errors of candidate pairs choose tables class
by bin by bin; they are measured with noise and fitted (after AIM, McKenna et al. 2022, and GEM, Liu et al. 2021).
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..codec.conditions import Ranges
from ..dp.plan import Need, Plan
from ..dp.vault import Axes, Codes, Vault
from ..errors import UsageError
from ..rng import numpy_stream, torch_stream
from ..schema import Schema
from .bins import grids
from .codebook import cleaned_histograms, codebook
from .conditionals import class_totals
from .dp_cgan import Arrays, Progress
from .heaps import grains
from .marginals import Condition
from .mixture import Mixture, Shape
from .pairs import Measured, Pair, fit, guesses
from .telling import Counts

HISTOGRAMS, COUNTS, REFINED = "column histograms", "class-by-bin counts", "finer counts of telling columns"
ERRORS, PAIRS = "pair selection", "pair tables"
IMPOSSIBLE = 1e-9  # a chance below this is taken for none
Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Config:
    """Shares of the privacy loss, and the public rules by which pairs are planned."""

    histogram_share: float = 0.16
    refined_share: float = 0.25
    pair_share: float = 0.25
    selection_share: float = 0.05
    rounds: int = 3
    most_bins: int = 20
    pair_bins: int = 8
    candidates: int = 100  # pairs judged in a round, drawn in public
    blur: float = 0.4  # of the rows: the L1 noise that a pair's table may have
    most_pairs: int = 30
    pairs: int | None = None  # in all; None: by the rule
    microbatches: int | None = None

    def __post_init__(self) -> None:
        if self.microbatches is not None:
            raise UsageError("--microbatches belongs to --method dp-cgan: this method sums no gradients.")

    def planned(self, rows: int, columns: int, epsilon: float) -> int:
        """How many pairs to measure: as many as keep each table's noise below `blur` of the rows.

        All of it is public: a lone Gaussian answer at this epsilon has a multiplier of about 3.9 / epsilon + 0.12.
        """
        features = columns - 1
        if self.pairs is not None:
            most = self.pairs
        else:
            multiplier = (3.9 / epsilon + 0.12) / math.sqrt(self.pair_share)
            cells = 3 * self.pair_bins**2
            most = int((self.blur * rows / (0.8 * multiplier * cells)) ** 2)
        most = min(most, self.most_pairs, features * (features - 1) // 2)
        return most // self.rounds * self.rounds if most >= self.rounds else 0


def needs(config: Config, rows: int, columns: int, epsilon: float) -> list[Need]:
    """What a fit asks of the vault; where no pair is planned, counts take the pairs' shares."""
    pairs = config.planned(rows, columns, epsilon)
    spent = config.histogram_share + config.refined_share
    spent += config.pair_share + config.selection_share if pairs else 0.0
    asked = [
        Need(label=HISTOGRAMS, weight=config.histogram_share**-0.5),
        Need(label=COUNTS, weight=(1 - spent) ** -0.5),
        Need(label=REFINED, weight=config.refined_share**-0.5),
    ]
    if pairs:
        r = config.rounds
        asked.append(Need(label=ERRORS, weight=(config.selection_share / r) ** -0.5, times=r))
        asked.append(Need(label=PAIRS, weight=(config.pair_share / r) ** -0.5, times=r))
    return asked


def seconds(config: Config, rows: int) -> float:
    """An estimate of a fit's seconds on one core of a laptop."""
    return 12.0 + 2e-5 * rows


def notes(config: Config, rows: int, columns: int, epsilon: float) -> list[str]:
    """What a person should know of the plan."""
    pairs = config.planned(rows, columns, epsilon)
    said = f"{pairs} pairs of columns will be measured" if pairs else "No pair of columns is worth its noise here"
    return [f"{said}, by the rule on rows, columns and epsilon. Adversarial steps get no share: see docs/methods."]


def train(
    config: Config, schema: Schema, vault: Vault, plan: Plan, seed: int | None, device: str, progress: Progress
) -> Arrays:
    """Fit the generator. Returns its tensors and the noisy answers that decode its rows."""
    asked: dict[str, Axes] = {name: [(name, g)] for name, g in grids(schema, config.most_bins).items()}
    asked |= {f"grain {name}": [(name, g)] for name, g in grains(schema).items()}
    asked = asked or {"rows": [("", Condition.of(schema.model_copy(update={"target": None}), {}))]}
    answers = vault.tables(HISTOGRAMS, asked)
    histograms = cleaned_histograms(schema, answers, plan.rows, plan.multiplier(HISTOGRAMS) * math.sqrt(len(asked)))
    bins, condition = codebook(config.most_bins, schema, histograms, plan.rows)
    columns = [name for name in schema.names if name != schema.target]
    given = (schema.target or "", condition)
    found = vault.tables(COUNTS, {name: [given, (name, bins[name])] for name in columns})
    std = plan.multiplier(COUNTS) * math.sqrt(len(columns))
    totals = class_totals(found, plan.rows)
    if schema.target and schema.columns[schema.target].missing and totals[-1] < 3 * std / math.sqrt(len(columns)):
        totals[-1] = 0.0  # a missing target that does not rise above the noise is noise
    counts = Counts.of(bins, found, dict.fromkeys(columns, std), totals)
    counts = counts.refined(vault, REFINED, plan.multiplier(REFINED), given)
    bins, base = counts.bins, counts.base
    mixture = Mixture(base, Shape(), torch_stream(seed, "init")).to(device)
    rounds = plan.events[PAIRS][1] if PAIRS in plan.events else 0
    each = config.planned(plan.rows, len(schema.columns), plan.epsilon_asked) // max(rounds, 1)
    measured: list[Measured] = []
    public = numpy_stream(seed, "candidates")
    coarse = {name: bins[name].merged(config.pair_bins, totals @ np.exp(base[name])) for name in columns}
    everyone = [Pair(a, b, coarse[a], coarse[b]) for a, b in itertools.combinations(columns, 2)]
    for turn in range(rounds):
        left = [pair for pair in everyone if pair not in [m.pair for m in measured]] or everyone
        some = [left[k] for k in public.permutation(len(left))[: max(config.candidates, each)]]
        guess = guesses(mixture, totals, some)
        axes = {p.key: p.axes(given, bins) for p in some}
        errors = vault.distances(ERRORS, axes, guess)
        noise = plan.multiplier(PAIRS) * math.sqrt(each)
        # A large table has a large error by its noise alone (AIM, equation 1): it must promise more than that.
        worth = sorted(some, key=lambda p: math.sqrt(2 / math.pi) * noise * guess[p.key].size - errors[p.key])
        chosen = (worth * each)[:each] if len(worth) < each else worth[:each]
        answers = vault.tables(PAIRS, {p.key: axes[p.key] for p in chosen})
        measured += [Measured(p, answers[p.key], noise) for p in chosen]

        def turned(done: int, of: int, turn: int = turn) -> None:
            progress(turn * of + done, rounds * of)

        fit(mixture, counts, measured, last=turn == rounds - 1, progress=turned)
    progress(1, 1)
    kept = {f"histogram.{name}": h.astype(np.float32) for name, h in histograms.items()}
    kept |= {f"place.{name}": bins[name].place.astype(np.float32) for name in columns}
    return {**mixture.tensors(base), **kept, "prior": (totals / totals.sum()).astype(np.float32)}


def generate(
    tensors: Arrays, config: Config, schema: Schema, rows: int, count: int, seed: int | None,
    where: Ranges | None = None, balance: bool = False,
) -> Codes:  # fmt: skip
    """`count` synthetic rows as codes, (count, columns): class, latent point, bins, values inside bins.

    `where` conditions exactly, without rejection: given class and latent point columns are independent, so each
    latent point is weighed by the probability of the given values. `balance` draws classes evenly. Raises UsageError
    for conditions that no row meets.
    """
    where = dict(where or {})
    histograms = {k.removeprefix("histogram."): t.astype(np.float64) for k, t in tensors.items() if k[:5] == "histo"}
    bins, condition = codebook(config.most_bins, schema, histograms, rows)
    columns = [name for name in schema.names if name != schema.target]
    bins |= {name: replace(bins[name], place=tensors[f"place.{name}"].astype(np.int64)) for name in columns}
    mixture, prior = Mixture.restored(tensors, columns), tensors["prior"].astype(np.float64)
    if (asked := where.pop(schema.target or "", None)) is not None:
        if bins[schema.target or ""].ordered:
            raise UsageError("--where cannot name a numeric target yet. Name other columns.")
        prior = prior * ((np.arange(len(prior)) >= asked[0]) & (np.arange(len(prior)) <= asked[1]))
    inside = {name: bins[name].inside(tensors[f"base.{name}"].astype(np.float64)) for name in mixture.names}
    allowed = {name: bins[name].shares_of(inside[name], bins[name].overlap(*span)) for name, span in where.items()}
    inside |= {name: inside[name] * bins[name].overlap(*span) for name, span in where.items()}
    weights = mixture.evidence(allowed)
    chance = prior * weights.mean(0)
    if chance.sum() < IMPOSSIBLE:
        raise UsageError("No row meets these conditions together. Leave one out or widen a range.")
    if balance:
        chance = (chance > IMPOSSIBLE).astype(np.float64)
    rng = numpy_stream(seed, "sample")
    labels = rng.choice(len(chance), count, p=chance / chance.sum())
    chunks = []
    for part in np.array_split(labels, max(1, count // 65536)):
        drawn = mixture.draw(part, rng, weights, allowed)
        codes = np.zeros((len(part), len(schema.columns)), np.int32)
        for k, name in enumerate(schema.names):
            if name == schema.target:
                codes[:, k] = condition.codes(part.astype(np.int32), rng.random(len(part)))
            else:
                codes[:, k] = bins[name].draw(drawn[name], part, inside[name], rng, where.get(name))
        chunks.append(codes)
    return np.concatenate(chunks)
