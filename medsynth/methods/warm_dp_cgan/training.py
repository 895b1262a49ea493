"""A fit of the default method: what is measured, in which order, and what the generator is fitted to."""

from __future__ import annotations

import math
import secrets
from dataclasses import dataclass, field

from ...privacy.accounting.calibration import Plan
from ...privacy.noise import MEAN_SIZE
from ...privacy.queries.measurements import Measurements
from ...rng import numpy_stream, torch_stream
from ...schema import Schema
from ..protocol import Arrays, Progress
from ..shared.copula import low_rank_tensors
from ..shared.labels import MATRIX, SELECTION, TWO_WAY
from ..shared.mixture import mixture_tensors
from .beginning import Beginning
from .budget_rule import Allocation
from .critics.factors import latent_points, loadings
from .critics.linear import FeatureSums
from .critics.matrix import MomentMatrix
from .generator import Generator
from .generator_fit import fit
from .marginals.class_marginals import ClassMarginals
from .marginals.weights import noise_of_cells, weights_by_size
from .method import Config
from .posterior.released import Recorded
from .rules.constraints import BrokenRules
from .rules.derived_columns import ExpectedDerived
from .shrinkage import shrunk_table
from .two_way_marginals import Candidates, ColumnPair, TwoWayMarginal, expected_tables, merged_bins

SEED_BITS = 53  # of a fresh public seed


@dataclass(kw_only=True)
class _Fit:
    """A fit under way: its `beginning`, and in `sizes` how far from independence a critic of pairs found each two
    columns.
    """

    vault: Measurements
    beginning: Beginning
    sizes: dict[tuple[str, str], float] = field(default_factory=dict)

    @property
    def allocation(self) -> Allocation:
        """What is done about two-way marginals and the critic."""
        return self.beginning.allocation

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
        own = self.allocation
        if not own.count:
            return fit(generator, start, [], own.steps, sums, derived, rules, progress)
        measured, left = list[TwoWayMarginal](), self.beginning.candidates()
        steps = [*[own.steps_per_round] * (own.critics_first + own.rounds - 1), own.steps]
        for number, count in enumerate(steps):
            if number >= own.critics_first:
                found = self.select_and_measure(generator, start, self.candidates(left, own.count // own.rounds))
                left.leave_out([m.pair for m in found])
                measured += found

            def step_done(done: int, of: int, before: int = sum(steps[:number])) -> None:
                progress(before + done, sum(steps))

            fit(generator, start, measured, count, sums, derived, rules, step_done)
        return None

    def candidates(self, left: Candidates, count: int) -> list[ColumnPair]:
        """For so many marginals: the pairs farthest from independence by a critic of pairs; without it, random ones."""
        if not self.allocation.pairs_read:
            return left.drawn(max(self.beginning.config.candidates, 2 * count))
        strongest = sorted(self.sizes, key=self.sizes.__getitem__, reverse=True)
        return [left.pair(*names) for names in strongest[:count]]

    def select_and_measure(
        self, generator: Generator, start: ClassMarginals, candidates: list[ColumnPair]
    ) -> list[TwoWayMarginal]:
        """One round's marginals: of the candidates that the generator fits worst, by noisy L1 errors if planned."""
        each, multiplier = self.allocation.count // self.allocation.rounds, self.beginning.plan.noise(TWO_WAY)
        merged = merged_bins(candidates, start.bins)
        axes = {pair.key: pair.axes(self.beginning.given, merged) for pair in candidates}
        expected = expected_tables(generator, start.totals, candidates)
        if SELECTION in self.beginning.plan.events:
            tables = {p.key: expected[p.key] if p.by_class else expected[p.key][0] for p in candidates}
            errors = self.vault.measure_distances(SELECTION, axes, tables)
            # A large table has a large error by its noise alone (AIM, equation 1): its error must exceed that. Which
            # tables share the measurement is not known yet: as if all were of one size.
            std = multiplier * math.sqrt(each)
            excess = {p: MEAN_SIZE * std * expected[p.key].size - errors[p.key] for p in candidates}
            candidates = sorted(candidates, key=excess.__getitem__)
        selected = (candidates * each)[:each]
        weights = weights_by_size({p.key: expected[p.key].size for p in selected})
        noisy = self.vault.measure_marginals(TWO_WAY, {p.key: axes[p.key] for p in selected}, weights)
        noise = noise_of_cells(weights, multiplier)
        found = []
        for pair in selected:
            before, std = expected[pair.key], noise[pair.key]
            beyond = shrunk_table(noisy[pair.key].reshape(before.shape) - before, std, pair.ordered(start.bins))
            found.append(TwoWayMarginal(pair, before + beyond, std))
        return found

    def low_rank(self) -> Arrays:
        """The tensors of a latent variable and of the columns that follow it, by matrices of second moments."""
        own, start = self.beginning, self.beginning.start
        stream = torch_stream(own.seed, "matrix")
        matrix = MomentMatrix(start.bins, start.base, own.columns, own.given, own.schema.names, stream)
        found = loadings(matrix.measure(self.vault, MATRIX, own.plan.noise(MATRIX), start.totals))
        points = latent_points(self.allocation.latent_points, found.shape[2], numpy_stream(own.seed, "latent"))
        return low_rank_tensors({name: found[:, k] for k, name in enumerate(matrix.names)}, matrix.ordered, points)

    def columns(self, device: str, progress: Progress) -> Arrays:
        """The tensors of a generator that is fitted to what the critics and two-way marginals say."""
        own, generator = self.beginning, self.beginning.blank(device)
        expected, rules = own.rules(generator)
        critics = own.measure_critics(self.vault, generator)
        self.sizes = critics.sizes
        if self.allocation.count or critics.raw or rules.read or expected.inputs:
            self.fit_in_rounds(generator, own.start, critics.targets(), expected, rules, progress)
        return own.columns_of(generator)


def fitted(
    config: Config, schema: Schema, vault: Measurements, plan: Plan, seed: int | None, device: str, progress: Progress
) -> Arrays:
    """Fit the generator. Returns its tensors, the noisy marginals that decode its rows, and all that was released."""
    seed, recorded = secrets.randbits(SEED_BITS) if seed is None else seed, Recorded(vault, plan)
    source = vault if MATRIX in plan.events else recorded
    beginning = Beginning.measure(config, schema, source, plan, seed)
    run = _Fit(vault=source, beginning=beginning)
    if MATRIX in plan.events:
        base = {name: beginning.start.base[name] for name in beginning.columns}
        columns = run.low_rank() | mixture_tensors(base, {})
    else:
        columns = run.columns(device, progress) | recorded.tensors(seed)
    progress(1, 1)
    return beginning.tensors(columns)
