"""A fit of the default method: what is measured, in which order, and what the generator is fitted to."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from ...privacy.accounting.calibration import Plan
from ...privacy.queries.rows import CellMap
from ...privacy.vault import Vault
from ...rng import numpy_stream, torch_stream
from ...schema import Schema
from ..protocol import Arrays, Progress
from ..shared.bins import MERGED_WIDE
from ..shared.cuts import planned_bins
from ..shared.decoder import decoder, decoder_tensors, grid_tensors
from ..shared.labels import CRITIC_GRADIENTS, MATRIX, MOMENTS, SELECTION, TWO_WAY
from ..shared.mixture import low_rank_tensors, mixture_tensors
from .budget_rule import MOMENTS_FIRMNESS, MOST_MOMENTS, Allocation
from .class_marginals import ClassMarginals
from .critics.factors import latent_points, loadings
from .critics.linear import FeatureSums, measure_features
from .critics.matrix import MomentMatrix
from .critics.moments import MomentCritic
from .critics.pairs import PairCritic
from .critics.triples import TripleCritic
from .generator import Generator, smooth_functions
from .generator_fit import fit
from .method import Config
from .one_way_marginals import OneWayMarginals
from .rules.constraints import BrokenRules
from .rules.derived_columns import WIDE, DerivedColumn, ExpectedDerived, derived_columns
from .shrinkage import shrunk_table
from .two_way_marginals import Candidates, ColumnPair, TwoWayMarginal, expected_tables, merged_bins


@dataclass(kw_only=True)
class _Fit:
    """A fit under way. `given`: the target's name and the map from its codes to classes, once these are known; `sizes`:
    how far from independence a critic of pairs found each two columns.
    """

    config: Config
    schema: Schema
    vault: Vault
    plan: Plan
    seed: int | None
    allocation: Allocation
    given: tuple[str, CellMap] = field(init=False)
    sizes: dict[tuple[str, str], float] = field(default_factory=dict)

    @property
    def columns(self) -> list[str]:
        """The columns beside the target."""
        return [name for name in self.schema.names if name != self.schema.target]

    def measure_features(self, generator: Generator, start: ClassMarginals) -> list[FeatureSums]:
        """The gradient sums of the critics that have a share."""
        if CRITIC_GRADIENTS not in self.plan.events:
            return []
        stream, noise = torch_stream(self.seed, "critic"), self.plan.noise(CRITIC_GRADIENTS)
        if self.allocation.critic == "triples":
            count = self.allocation.critic_features
            triples = TripleCritic(start.bins, self.columns, self.given, self.schema.names, count, stream)
            return [measure_features(triples, self.vault, CRITIC_GRADIENTS, noise, self.plan.rows)]
        critic = PairCritic(start.bins, start.mass, self.columns, self.given, self.schema.names, stream)
        sums = measure_features(critic, self.vault, CRITIC_GRADIENTS, noise, self.plan.rows)
        expected = sums.expected(generator, start.totals)
        sums = sums.shrunk(expected)
        beyond = sums.totals.double().cpu().numpy() - expected
        self.sizes = critic.by_columns(beyond)
        if MOMENTS not in self.plan.events:
            return [sums]
        moments = MomentCritic(critic, critic.strongest(beyond, MOST_MOMENTS))
        measured = measure_features(moments, self.vault, MOMENTS, self.plan.noise(MOMENTS), self.plan.rows)
        # The generator's prior draws every relation towards none. Slopes are to come back whole.
        return [sums, replace(measured, std=measured.std / MOMENTS_FIRMNESS)]

    def fit_in_rounds(
        self,
        generator: Generator,
        start: ClassMarginals,
        sums: list[FeatureSums],
        derived: ExpectedDerived,
        rules: BrokenRules,
        progress: Progress,
    ) -> None:
        """Select and measure two-way marginals and fit the generator to all that was measured, in rounds."""
        if not self.allocation.count:
            return fit(generator, start, [], self.allocation.steps, sums, derived, rules, progress)
        rounds, public = self.allocation.rounds, numpy_stream(self.seed, "candidates")
        coarse = {n: start.bins[n].merged(self.allocation.bins, start.mass[n]) for n in self.columns}
        measured, left = list[TwoWayMarginal](), Candidates(coarse, public, by_class=self.allocation.by_class)
        for number in range(rounds):
            found = self.select_and_measure(generator, start, self.candidates(left, self.allocation.count // rounds))
            left.leave_out([m.pair for m in found])
            measured += found
            steps = self.allocation.steps if number == rounds - 1 else self.allocation.steps_per_round

            def step_done(done: int, of: int, number: int = number) -> None:
                progress(number * of + done, rounds * of)

            fit(generator, start, measured, steps, sums, derived, rules, step_done)
        return None

    def candidates(self, left: Candidates, count: int) -> list[ColumnPair]:
        """For so many marginals: the pairs farthest from independence by a critic of pairs; without it, random ones."""
        if not self.allocation.pairs_read:
            return left.drawn(max(self.config.candidates, 2 * count))
        strongest = sorted(self.sizes, key=self.sizes.__getitem__, reverse=True)
        return [left.pair(*names) for names in strongest[:count]]

    def select_and_measure(
        self, generator: Generator, start: ClassMarginals, candidates: list[ColumnPair]
    ) -> list[TwoWayMarginal]:
        """One round's marginals: of the candidates that the generator fits worst, by noisy L1 errors if planned."""
        each = self.allocation.count // self.allocation.rounds
        merged = merged_bins(candidates, start.bins)
        axes = {pair.key: pair.axes(self.given, merged) for pair in candidates}
        std = self.plan.noise(TWO_WAY) * math.sqrt(each)
        expected = expected_tables(generator, start.totals, candidates)
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

    def low_rank(self, start: ClassMarginals) -> Arrays:
        """The tensors of a latent variable and of the columns that follow it, by matrices of second moments."""
        stream = torch_stream(self.seed, "matrix")
        matrix = MomentMatrix(start.bins, start.base, self.columns, self.given, self.schema.names, stream)
        found = loadings(matrix.measure(self.vault, MATRIX, self.plan.noise(MATRIX), start.totals))
        points = latent_points(self.allocation.latent_points, found.shape[2], numpy_stream(self.seed, "latent"))
        return low_rank_tensors({name: found[:, k] for k, name in enumerate(matrix.names)}, matrix.ordered, points)

    def generator(
        self, start: ClassMarginals, derived: dict[str, DerivedColumn], device: str, progress: Progress
    ) -> Arrays:
        """The tensors of a generator that is fitted to what the critics and two-way marginals say."""
        self.allocation = self.allocation.within_reach(
            self.given[1].cells, planned_bins(self.schema, self.allocation.column_bins)
        )
        base = {name: start.base[name] for name in self.columns}
        functions = {
            n: smooth_functions(start.bins[n].middles(MERGED_WIDE), base[n].shape[1], self.allocation.waves)
            for n in base
        }
        points, stream = self.allocation.latent_points, torch_stream(self.seed, "init")
        generator = Generator(base, functions, points, stream).to(device)
        expected = ExpectedDerived(derived, start.bins, numpy_stream(self.seed, "derived"), generator.base.device)
        rules = BrokenRules(self.schema, start.bins, numpy_stream(self.seed, "known rules"), generator.base.device)
        if self.allocation.count or self.allocation.critic_share or rules.read:
            self.fit_in_rounds(generator, start, self.measure_features(generator, start), expected, rules, progress)
        return mixture_tensors(base, generator.residuals())


def fitted(
    config: Config, schema: Schema, vault: Vault, plan: Plan, seed: int | None, device: str, progress: Progress
) -> Arrays:
    """Fit the generator. Returns its tensors and the noisy marginals that decode its rows."""
    allocation = config.allocation(plan.equivalent_rows, len(schema.columns), plan.epsilon_asked)
    run = _Fit(config=config, schema=schema, vault=vault, plan=plan, seed=seed, allocation=allocation)
    numbers = OneWayMarginals.measure(vault, schema, plan, allocation.column_bins)
    bins, condition = decoder(schema, numbers.shares, plan.rows, allocation.column_bins, numbers.grids, WIDE)
    run.given = (schema.target or "", condition)
    derived = derived_columns(schema, bins, allocation.column_bins, numpy_stream(seed, "derived"))
    start = ClassMarginals.measure(vault, plan, schema, run.given, bins, derived, numbers, allocation.column_bins)
    if MATRIX in plan.events:
        columns = run.low_rank(start) | mixture_tensors({name: start.base[name] for name in run.columns}, {})
    else:
        columns = run.generator(start, derived, device, progress)
    progress(1, 1)
    prior = (start.totals / start.totals.sum()).astype(np.float32)
    shares = numbers.shares | {name: start.bins[name].shares for name in numbers.grids if name != schema.target}
    kept = decoder_tensors(shares, start.bins, run.columns) | grid_tensors(numbers.grids)
    return {**columns, **kept, "prior": prior}
