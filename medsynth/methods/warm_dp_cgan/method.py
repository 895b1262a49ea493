"""The default: a conditional generator started at noisy marginals, then fitted to two-way marginals and by a critic.

1. Noisy histograms give bins, and values inside a bin. 2. Noisy class-by-bin marginals, re-measured more finely where a
column separates the classes, are where the generator starts. 3. A critic's noisy gradient sum over all pairs of columns
(large tables: over triples). 4. Noisy L1 errors select two-way marginals in rounds (after AIM, McKenna et al. 2022).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from ...privacy.accounting.calibration import Plan, Query
from ...privacy.vault import CellMap, Vault
from ...rng import numpy_stream, torch_stream
from ...schema import Schema
from ..protocol import Arrays, Progress
from ..settings import Count, MethodConfig, Share, ShareByRule, ShareOrNone
from ..shared.bins import planned_bins
from ..shared.decoder import decoder, decoder_tensors, grid_tensors
from ..shared.labels import CRITIC_GRADIENTS, ONE_WAY
from ..shared.mixture import GeneratorSize, MixtureOfProducts
from ..shared.sampler import generate as generate
from .adaptive_grids import COARSE, VALUES
from .budget_rule import Allocation, allocate
from .class_marginals import BY_CLASS, REMEASURED, ClassMarginals
from .critic import Critic, FeatureSums, measure_features
from .derived_columns import ExpectedDerived, derived_columns
from .generator_fit import fit
from .one_way_marginals import OneWayMarginals
from .pair_critic import PairCritic
from .shrinkage import shrunk_table
from .two_way_marginals import Candidates, ColumnPair, TwoWayMarginal, expected_tables

SELECTION, TWO_WAY = "two-way selection", "two-way marginals"
Floats = NDArray[np.float64]


class Config(MethodConfig):
    """Shares of the privacy loss, and the public rules by which two-way marginals are planned."""

    coarse_share: Share = Field(default=0.05, description="share of the coarse one-way marginals")
    values_share: Share = Field(default=0.03, description="share of looking for frequent values")
    histogram_share: Share = Field(default=0.15, description="share of the one-way marginals")
    remeasured_share: ShareOrNone = Field(default=0.15, description="share of the re-measured class marginals")
    selection_share: Share = Field(default=0.05, description="share of selecting two-way marginals")
    critic_share: ShareByRule = Field(default=None, description="share of the critic; by a rule on rows if not given")
    candidates: Count = Field(default=100, description="pairs of columns compared in a round, drawn in public")
    pairs: int | None = Field(
        default=None, ge=0, description="two-way marginals measured; by a rule on rows if not given"
    )

    def allocation(self, rows: int, columns: int, epsilon: float) -> Allocation:
        """What is done about two-way marginals and the critic."""
        found = allocate(rows, columns, epsilon)
        if self.critic_share is not None:
            found = replace(found, critic_share=self.critic_share)
        return found if self.pairs is None else replace(found, count=self.pairs // found.rounds * found.rounds)


def queries(config: Config, rows: int, columns: int, epsilon: float) -> list[Query]:
    """What a fit measures; without two-way marginals the class-by-bin ones take their shares."""
    plan = config.allocation(rows, columns, epsilon)
    shares = {COARSE: config.coarse_share, VALUES: config.values_share, ONE_WAY: config.histogram_share}
    shares |= {REMEASURED: config.remeasured_share} if config.remeasured_share else {}
    if plan.count:
        shares |= {SELECTION: config.selection_share} if plan.rounds > 1 else {}
        shares |= {TWO_WAY: plan.share}
    shares |= {CRITIC_GRADIENTS: plan.critic_share} if plan.critic_share else {}
    shares[BY_CLASS] = 1 - sum(shares.values())
    times = {SELECTION: plan.rounds, TWO_WAY: plan.rounds}
    labels = (COARSE, VALUES, ONE_WAY, BY_CLASS, REMEASURED, CRITIC_GRADIENTS, SELECTION, TWO_WAY)
    return [
        Query(label=label, weight=(shares[label] / times.get(label, 1)) ** -0.5, times=times.get(label, 1))
        for label in labels
        if label in shares
    ]


def seconds(config: Config, rows: int) -> float:
    """An estimate of a fit's seconds on one core of a laptop."""
    return 8.0 + 1.5e-3 * min(rows, 30_000) + 8e-5 * rows


def notes(config: Config, rows: int, columns: int, epsilon: float) -> list[str]:
    """Notes on the plan, for a person."""
    plan = config.allocation(rows, columns, epsilon)
    pairs = f"{plan.count} pairs of columns will be measured" if plan.count else "No pair of columns is measured"
    share = plan.critic_share
    critic = f"the critic gets {share:.0%} of the privacy loss" if share else "no critic is trained"
    return [f"{pairs}, and {critic}: by a rule on rows, columns and epsilon (docs/methods/default.md)."]


@dataclass(kw_only=True)
class _Fit:
    """A fit under way. `given`: the target's name and the map from its codes to classes, once these are known."""

    config: Config
    schema: Schema
    vault: Vault
    plan: Plan
    seed: int | None
    allocation: Allocation
    given: tuple[str, CellMap] = field(init=False)

    @property
    def columns(self) -> list[str]:
        """The columns beside the target."""
        return [name for name in self.schema.names if name != self.schema.target]

    def measure_features(self, mixture: MixtureOfProducts, start: ClassMarginals) -> FeatureSums | None:
        """The critic's gradient sum, if it has a share."""
        if CRITIC_GRADIENTS not in self.plan.events:
            return None
        stream, noise = torch_stream(self.seed, "critic"), self.plan.noise(CRITIC_GRADIENTS)
        if self.allocation.critic == "triples":
            count = self.allocation.critic_features
            triples = Critic(start.bins, self.columns, self.given, self.schema.names, count, stream)
            return measure_features(triples, self.vault, CRITIC_GRADIENTS, noise)
        pairs = PairCritic(start.bins, start.mass, self.columns, self.given, self.schema.names, stream)
        return measure_features(pairs, self.vault, CRITIC_GRADIENTS, noise).shrunk(mixture, start.totals)

    def fit_in_rounds(
        self,
        mixture: MixtureOfProducts,
        start: ClassMarginals,
        sums: FeatureSums | None,
        derived: ExpectedDerived,
        progress: Progress,
    ) -> None:
        """Select and measure two-way marginals and fit the mixture to all that was measured, in rounds."""
        if not self.allocation.count:
            return fit(mixture, start, [], self.allocation.steps, sums, derived, progress)
        rounds, public = self.allocation.rounds, numpy_stream(self.seed, "candidates")
        coarse = {n: start.bins[n].merged(self.allocation.bins, start.mass[n]) for n in self.columns}
        measured, left = list[TwoWayMarginal](), Candidates(coarse, public, by_class=self.allocation.by_class)
        for number in range(rounds):
            most = max(self.config.candidates, 2 * self.allocation.count // rounds)
            found = self.select_and_measure(mixture, start, left.drawn(most))
            left.leave_out([m.pair for m in found])
            measured += found
            steps = self.allocation.steps if number == rounds - 1 else self.allocation.steps_per_round

            def step_done(done: int, of: int, number: int = number) -> None:
                progress(number * of + done, rounds * of)

            fit(mixture, start, measured, steps, sums, derived, step_done)
        return None

    def select_and_measure(
        self, mixture: MixtureOfProducts, start: ClassMarginals, candidates: list[ColumnPair]
    ) -> list[TwoWayMarginal]:
        """One round's marginals: those of the pairs that the mixture fits worst, by noisy L1 errors."""
        each = self.allocation.count // self.allocation.rounds
        axes = {pair.key: pair.axes(self.given, start.bins) for pair in candidates}
        std = self.plan.noise(TWO_WAY) * math.sqrt(each)
        expected = expected_tables(mixture, start.totals, candidates)
        if SELECTION in self.plan.events:
            tables = {p.key: expected[p.key] if p.by_class else expected[p.key][0] for p in candidates}
            errors = self.vault.measure_distances(SELECTION, axes, tables)
            # A large table has a large error by its noise alone (AIM, equation 1): its error must exceed that.
            excess = {p: math.sqrt(2 / math.pi) * std * expected[p.key].size - errors[p.key] for p in candidates}
            candidates = sorted(candidates, key=excess.__getitem__)
        selected = (candidates * each)[:each]
        noisy = self.vault.measure_marginals(TWO_WAY, {p.key: axes[p.key] for p in selected})
        found = []
        for pair in selected:
            before = expected[pair.key]
            beyond = shrunk_table(noisy[pair.key].reshape(before.shape) - before, std, pair.ordered(start.bins))
            found.append(TwoWayMarginal(pair, before + beyond, std))
        return found


def train(
    config: Config, schema: Schema, vault: Vault, plan: Plan, seed: int | None, device: str, progress: Progress
) -> Arrays:
    """Fit the generator. Returns its tensors and the noisy marginals that decode its rows."""
    allocation = config.allocation(plan.equivalent_rows, len(schema.columns), plan.epsilon_asked)
    run = _Fit(config=config, schema=schema, vault=vault, plan=plan, seed=seed, allocation=allocation)
    numbers = OneWayMarginals.measure(vault, schema, plan, allocation.column_bins)
    bins, condition = decoder(schema, numbers.shares, plan.rows, allocation.column_bins, numbers.grids)
    run.given = (schema.target or "", condition)
    derived = derived_columns(schema, bins, allocation.column_bins, numpy_stream(seed, "derived"))
    start = ClassMarginals.measure(vault, plan, schema, run.given, bins, derived, numbers, allocation.column_bins)
    run.allocation = allocation.within_reach(condition.cells, planned_bins(schema, allocation.column_bins))
    size = GeneratorSize(points=run.allocation.latent_points)
    base = {name: start.base[name] for name in run.columns}
    mixture = MixtureOfProducts(base, size, torch_stream(seed, "init")).to(device)
    if allocation.count or allocation.critic_share:
        expected = ExpectedDerived(derived, start.bins, numpy_stream(seed, "derived"), mixture.base.device)
        run.fit_in_rounds(mixture, start, run.measure_features(mixture, start), expected, progress)
    progress(1, 1)
    prior = (start.totals / start.totals.sum()).astype(np.float32)
    shares = numbers.shares | {name: start.bins[name].shares for name in numbers.grids if name != schema.target}
    kept = decoder_tensors(shares, start.bins, run.columns) | grid_tensors(numbers.grids)
    return {**mixture.tensors(base), **kept, "prior": prior}
