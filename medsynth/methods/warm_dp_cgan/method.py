"""The default: a conditional generator warmed by noisy counts, then fitted to pairs of columns and against a critic.

1. One noisy histogram a column gives bins, and values inside a bin. 2. One noisy table class by bin a column gives the
class totals; the columns that tell classes apart are asked again, more finely; cleaned, they are the generator's start.
3. A critic's noisy gradient sum over features of three columns. 4. In rounds, noisy L1 errors of candidate pairs choose
tables class by bin by bin; the generator is fitted to all (after AIM, McKenna et al. 2022, and GEM, Liu et al. 2021).
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from ...privacy.accounting.calibration import Plan, Query
from ...privacy.vault import Axes, CellMap, Vault
from ...rng import numpy_stream, torch_stream
from ...schema import Schema
from ..protocol import Arrays, Progress
from ..settings import Count, MethodConfig, Share, ShareByRule, ShareOrNone
from ..shared.bins import Bins, grids
from ..shared.conditionals import class_totals
from ..shared.decoder import cleaned_histograms, codebook
from ..shared.digit_preference import grains
from ..shared.marginals import Condition, without_ghosts
from ..shared.mixture import Mixture, Shape
from ..shared.sampler import generate as generate
from .budget_rule import Pairing, pairing
from .class_marginals import Counts
from .critic import Critic, Heard
from .two_way_marginals import STEPS, Measured, Pair, fit, guesses

HISTOGRAMS, COUNTS, REFINED = "column histograms", "class-by-bin counts", "finer class counts"
ERRORS, PAIRS, CRITIC = "pair selection", "pair tables", "critic's gradient sum"
Floats = NDArray[np.float64]


class Config(MethodConfig):
    """Shares of the privacy loss, and the public rules by which two-way marginals are planned."""

    histogram_share: Share = Field(default=0.16, description="share of the column histograms")
    refined_share: ShareOrNone = Field(default=0.25, description="share of the re-measured class marginals")
    selection_share: Share = Field(default=0.05, description="share of choosing two-way marginals")
    critic_share: ShareByRule = Field(default=None, description="share of the critic; by a rule on rows if not given")
    candidates: Count = Field(default=100, description="pairs of columns compared in a round, drawn in public")
    pairs: int | None = Field(default=None, ge=0, description="two-way marginals measured; by the rule if not given")

    def pairing(self, rows: int, columns: int, epsilon: float) -> Pairing:
        """What is done about pairs and the critic."""
        found = pairing(rows, columns, epsilon)
        if self.critic_share is not None:
            found = replace(found, critic=self.critic_share)
        return found if self.pairs is None else replace(found, count=self.pairs // found.rounds * found.rounds)


def queries(config: Config, rows: int, columns: int, epsilon: float) -> list[Query]:
    """What a fit asks of the vault; where no pair is planned, counts take the pairs' shares."""
    pairs = config.pairing(rows, columns, epsilon)
    shares = {HISTOGRAMS: config.histogram_share}
    shares |= {REFINED: config.refined_share} if config.refined_share else {}
    if pairs.count:
        shares |= {ERRORS: config.selection_share} if pairs.rounds > 1 else {}
        shares |= {PAIRS: pairs.share}
    shares |= {CRITIC: pairs.critic} if pairs.critic else {}
    shares[COUNTS] = 1 - sum(shares.values())
    times = {ERRORS: pairs.rounds, PAIRS: pairs.rounds}
    asked = [HISTOGRAMS, COUNTS, *(label for label in (REFINED, CRITIC, ERRORS, PAIRS) if label in shares)]
    return [
        Query(label=label, weight=(shares[label] / times.get(label, 1)) ** -0.5, times=times.get(label, 1))
        for label in asked
    ]


def seconds(config: Config, rows: int) -> float:
    """An estimate of a fit's seconds on one core of a laptop."""
    return 8.0 + 1.5e-3 * min(rows, 30_000) + 8e-5 * rows


def notes(config: Config, rows: int, columns: int, epsilon: float) -> list[str]:
    """What a person should know of the plan."""
    pairs = config.pairing(rows, columns, epsilon)
    said = f"{pairs.count} pairs of columns will be measured" if pairs.count else "No pair of columns is measured"
    critic = f"the critic gets {pairs.critic:.0%} of the privacy loss" if pairs.critic else "the critic gets nothing"
    return [f"{said}, and {critic}: by a rule on rows, columns and epsilon (docs/methods/default.md)."]


@dataclass(kw_only=True)
class _Fit:
    """A fit under way: what was learned so far, and how to ask for more."""

    config: Config
    schema: Schema
    vault: Vault
    plan: Plan
    seed: int | None
    pairs: Pairing

    @property
    def columns(self) -> list[str]:
        """The columns beside the target."""
        return [name for name in self.schema.names if name != self.schema.target]

    def histograms(self) -> dict[str, Floats]:
        """Shares of the fine cells of columns, and of the kinds of numbers that heaps are made of."""
        asked: dict[str, Axes] = {name: [(name, g)] for name, g in grids(self.schema, self.pairs.columns).items()}
        asked |= {f"grain {name}": [(name, g)] for name, g in grains(self.schema).items()}
        asked = asked or {"rows": [("", Condition.of(self.schema.model_copy(update={"target": None}), {}))]}
        answers = self.vault.measure_marginals(HISTOGRAMS, asked)
        std = self.plan.noise(HISTOGRAMS) * math.sqrt(len(asked))
        return cleaned_histograms(self.schema, answers, self.plan.rows, std)

    def counts(self, bins: dict[str, Bins], given: tuple[str, CellMap]) -> Counts:
        """Rows of each class, and log shares of bins given the class."""
        found = self.vault.measure_marginals(COUNTS, {name: [given, (name, bins[name])] for name in self.columns})
        std = self.plan.noise(COUNTS) * math.sqrt(len(found))
        target = self.schema.columns.get(self.schema.target or "")
        totals = without_ghosts(class_totals(found, self.plan.rows), target, std / math.sqrt(len(found)))
        counts = Counts.of(bins, found, dict.fromkeys(found, std), totals)
        if REFINED not in self.plan.events:
            return counts
        return counts.refined(self.vault, REFINED, self.plan.noise(REFINED), given)

    def heard(self, counts: Counts, given: tuple[str, CellMap], device: str) -> Heard | None:
        """What the critic answers, if it has a share."""
        if CRITIC not in self.plan.events:
            return None
        stream = torch_stream(self.seed, "critic")
        critic = Critic(counts.bins, self.columns, given, self.schema.names, self.pairs.features, stream)
        return critic.to(device).heard(self.vault, CRITIC, self.plan.noise(CRITIC))

    def measured(
        self, mixture: Mixture, counts: Counts, given: tuple[str, CellMap], heard: Heard | None, progress: Progress
    ) -> None:
        """Choose pairs, ask their tables and fit the mixture to all that is known, in rounds."""
        known: list[Measured] = []
        if not self.pairs.count:
            return fit(mixture, counts, known, self.pairs.steps, heard, progress)
        rounds, each = self.pairs.rounds, self.pairs.count // self.pairs.rounds
        public = numpy_stream(self.seed, "candidates")
        mass = {name: counts.totals @ np.exp(base) for name, base in counts.base.items()}
        coarse = {name: counts.bins[name].merged(self.pairs.bins, mass[name]) for name in self.columns}
        everyone = [Pair(a, b, coarse[a], coarse[b]) for a, b in itertools.combinations(self.columns, 2)]
        for turn in range(rounds):
            left = [pair for pair in everyone if pair not in [m.pair for m in known]] or everyone
            some = [left[k] for k in public.permutation(len(left))[: max(self.config.candidates, 2 * each)]]
            axes = {p.key: p.axes(given, counts.bins) for p in some}
            noise = self.plan.noise(PAIRS) * math.sqrt(each)
            if ERRORS in self.plan.events:
                guess = guesses(mixture, counts.totals, some)
                errors = self.vault.measure_distances(ERRORS, axes, guess)
                # A large table has a large error by its noise alone (AIM, equation 1): it must promise more than that.
                cost = {p: math.sqrt(2 / math.pi) * noise * guess[p.key].size - errors[p.key] for p in some}
                some = sorted(some, key=cost.__getitem__)
            chosen = (some * each)[:each] if len(some) < each else some[:each]
            answers = self.vault.measure_marginals(PAIRS, {p.key: axes[p.key] for p in chosen})
            known += [Measured(p, answers[p.key], noise) for p in chosen]
            steps = self.pairs.steps if turn == rounds - 1 else STEPS

            def turned(done: int, of: int, turn: int = turn) -> None:
                progress(turn * of + done, rounds * of)

            fit(mixture, counts, known, steps, heard, turned)
        return None


def train(
    config: Config, schema: Schema, vault: Vault, plan: Plan, seed: int | None, device: str, progress: Progress
) -> Arrays:
    """Fit the generator. Returns its tensors and the noisy answers that decode its rows."""
    pairs = config.pairing(plan.equivalent_rows, len(schema.columns), plan.epsilon_asked)
    ask = _Fit(config=config, schema=schema, vault=vault, plan=plan, seed=seed, pairs=pairs)
    histograms = ask.histograms()
    bins, condition = codebook(schema, histograms, plan.rows, pairs.columns)
    given = (schema.target or "", condition)
    counts = ask.counts(bins, given)
    mixture = Mixture(counts.base, Shape(points=pairs.points), torch_stream(seed, "init")).to(device)
    if pairs.count or pairs.critic:
        ask.measured(mixture, counts, given, ask.heard(counts, given, device), progress)
    progress(1, 1)
    kept = {f"histogram.{name}": h.astype(np.float32) for name, h in histograms.items()}
    kept |= {f"place.{name}": counts.bins[name].place.astype(np.float32) for name in ask.columns}
    prior = (counts.totals / counts.totals.sum()).astype(np.float32)
    return {**mixture.tensors(counts.base), **kept, "prior": prior}
