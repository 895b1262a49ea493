"""Plausible generators by the released measurements alone: each is fitted to measurements as they might have come out.

Counts and moments get noise of their own size once more, and the deviation that another table of the same population
would have; what was freed from noise is drawn from its posterior. From the fitted generator a few steps lead to the one
that these ask for: perturb, then optimise (Papandreou and Yuille 2010; Bardsley et al. 2014, for linear models an exact
draw from the posterior). What the bins, grids and choices of the fit are stays as it is.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from ....errors import ArtifactError
from ....privacy.accounting.calibration import Plan
from ....privacy.queries.rows import Axes
from ....rng import Stream, numpy_stream
from ....schema import Schema
from ...protocol import Arrays
from ...shared.labels import CRITIC_GRADIENTS, TWO_WAY
from ...threads import one_thread
from ..beginning import Beginning
from ..critics.declared import DeclaredMoments
from ..critics.linear import FeatureSums, measure_features
from ..critics.measured import MeasuredCritics
from ..generator import Generator
from ..generator_fit import fit
from ..marginals.class_marginals import ClassMarginals
from ..marginals.one_way_marginals import OneWayMarginals
from ..method import Config
from ..rules.constraints import BrokenRules
from ..rules.derived_columns import ExpectedDerived
from ..shrinkage import drawn, shrunk_table
from ..two_way_marginals import ColumnPair, TwoWayMarginal, expected_tables, merged_bins
from .main_effects import MainEffects
from .perturbed import Perturbed, Population
from .released import PREFIX, WRONG, Kept, public_numbers

Floats = NDArray[np.float64]
STEPS = 120  # of Adam, from the fitted generator
CLOSE = 1e-3  # log shares by the measurements on file are these, on any machine


@dataclass(kw_only=True)
class Posterior:
    """What replicates are drawn from: the measurements of a fit, and what followed from them.

    `blank`: the generator before, `early`: as it was when two-way marginals were measured, `fitted`: after the fit;
    `pairs`: those whose two-way marginals were measured, and `tables` as they were.
    """

    kept: Kept
    beginning: Beginning
    blank: Generator
    early: Generator
    fitted: Generator
    critics: MeasuredCritics
    pairs: list[ColumnPair]
    tables: dict[str, Floats]
    rules: tuple[ExpectedDerived, BrokenRules]

    @classmethod
    def of(cls, config: Config, schema: Schema, plan: Plan, tensors: Arrays) -> Posterior:
        """From a model's tensors. Raises ArtifactError where they are not what its settings ask for."""
        kept, (seed, rows, rows_std) = Kept.of(tensors), public_numbers(tensors)
        plan = replace(plan, rows_std=rows_std, planned_rows=plan.planned_rows if rows == plan.rows else rows)
        beginning = Beginning.measure(config, schema, kept, plan, seed)
        blank = beginning.blank("cpu")
        if any(np.abs(tensors[f"base.{n}"] - beginning.start.base[n]).max() > CLOSE for n in beginning.columns):
            raise ArtifactError(WRONG)
        fitted = copy.copy(blank)
        fitted.restore({n: tensors[f"residual.{n}"] for n in beginning.columns if f"residual.{n}" in tensors})
        critics, left, known = beginning.measure_critics(kept, blank), beginning.candidates(), dict[str, ColumnPair]()
        for k, one in enumerate(beginning.columns):
            known |= {p.key: p for p in (left.pair(one, other) for other in beginning.columns[k + 1 :])}
            known |= {p.key: p for p in (left.pair(other, one) for other in beginning.columns[k + 1 :])}
        pairs, tables = list[ColumnPair](), dict[str, Floats]()
        for names in kept.names.get(TWO_WAY, []):
            some = [known[name] for name in names]
            tables |= kept.measure_marginals(TWO_WAY, _axes(beginning, some))
            pairs += some
        rules, early = beginning.rules(blank), blank.on(beginning.start.base, fitted=True)
        if pairs and beginning.allocation.critics_first:
            steps = beginning.allocation.steps_per_round
            fit(early, beginning.start, [], steps, critics.targets(), *rules, lambda done, of: None)
        return cls(kept=kept, beginning=beginning, blank=blank, early=early, fitted=fitted, critics=critics,
                   pairs=pairs, tables=tables, rules=rules)  # fmt: skip

    def replicate(self, vault: Perturbed, main: MainEffects, rng: Stream) -> Arrays:
        """The tensors of one replicate, whose measurements are those of `vault`."""
        old = self.beginning
        numbers = OneWayMarginals.measure(vault, old.schema, old.plan, old.allocation.column_bins, old.numbers)
        if old.schema.target in numbers.shares:  # which also cuts the classes of a number
            numbers = replace(
                numbers, shares=numbers.shares | {old.schema.target: old.numbers.shares[old.schema.target]}
            )
        bins = {n: replace(b, shares=numbers.shares.get(n, b.shares)) for n, b in old.bins.items()}
        start = ClassMarginals.measure(
            vault, old.plan, old.schema, old.given, bins, old.derived, numbers, old.allocation.column_bins, old.start
        )
        new = replace(old, numbers=numbers, bins=bins, start=start)
        base = {name: start.base[name] for name in new.columns}
        sums = self._sums(vault, start, self.fitted.on(base, fitted=False), main, rng)
        measured = self._two_way(vault, start, self.early.on(base, fitted=True), main, rng)
        generator = self.fitted.on(base, fitted=True)
        fit(generator, start, measured, STEPS, sums, *self.rules, lambda done, of: None)
        return new.tensors(new.columns_of(generator))

    def _sums(
        self, vault: Perturbed, start: ClassMarginals, blank: Generator, main: MainEffects, rng: Stream
    ) -> list[FeatureSums]:
        """What the critics might have measured; of a critic of pairs, freed from noise by a draw."""
        found = []
        for label, old in self.critics.raw.items():
            critic = old.critic.inside(start.bins) if isinstance(old.critic, DeclaredMoments) else old.critic
            moved = label == CRITIC_GRADIENTS and label in self.critics.expected
            vault.quiet = moved
            rows = self.beginning.plan.rows if label == CRITIC_GRADIENTS else 0
            new = replace(measure_features(critic, vault, label, 0.0, rows), std=old.std)
            vault.quiet = False
            if moved:
                of_classes = zip(old.beyond(self.critics.expected[label]), self.critics.likely, strict=True)
                own = np.stack([drawn(one, old.std, likely, rng=rng) for one, likely in of_classes])
                own += (new.totals - old.totals).double().numpy() - main.of_sums(old)
                own += old.expected(blank, start.totals)
                new = replace(old, totals=torch.tensor(own, dtype=torch.float32))
            new = critic.corrected(new) if isinstance(critic, DeclaredMoments) else new
            found.append(replace(new, firmness=self.critics.firmness(label)))
        return found

    def _two_way(
        self, vault: Perturbed, start: ClassMarginals, early: Generator, main: MainEffects, rng: Stream
    ) -> list[TwoWayMarginal]:
        """Two-way marginals as they might have come out."""
        if not self.pairs:
            return []
        before = expected_tables(self.early, self.beginning.start.totals, self.pairs)
        after, moves, stds = expected_tables(early, start.totals, self.pairs), dict[str, Floats](), dict[str, float]()
        by_key = {pair.key: pair for pair in self.pairs}
        vault.quiet = True
        for k, names in enumerate(self.kept.names[TWO_WAY]):
            new = vault.measure_marginals(TWO_WAY, _axes(self.beginning, [by_key[name] for name in names]))
            moves |= {name: new[name] - self.tables[name] for name in names}
            stds |= dict(zip(names, self.kept.stds[TWO_WAY][k], strict=True))
        vault.quiet = False
        shifts, found = main.of_tables(self.pairs), []
        for pair in self.pairs:
            shape, std = before[pair.key].shape, stds[pair.key]
            beyond = self.tables[pair.key].reshape(shape) - before[pair.key]
            own = shrunk_table(beyond, std, pair.ordered(self.beginning.start.bins), partial(drawn, rng=rng))
            own = own + moves[pair.key].reshape(shape) - shifts[pair.key]
            found.append(TwoWayMarginal(pair, after[pair.key] + own, std))
        return found


def _axes(beginning: Beginning, pairs: list[ColumnPair]) -> dict[str, Axes]:
    merged = merged_bins(pairs, beginning.start.bins)
    return {pair.key: pair.axes(beginning.given, merged) for pair in pairs}


def replicated(
    config: Config, schema: Schema, plan: Plan, tensors: Arrays, count: int, seed: int | None
) -> Iterator[Arrays]:
    """The tensors of `count` plausible generators, one after another. Of a seed they are the same."""
    with one_thread():
        posterior = Posterior.of(config, schema, plan, tensors)
    rng = numpy_stream(seed, "replicates")
    plain = {name: tensor for name, tensor in tensors.items() if not name.startswith(PREFIX)}
    population = Population.of(plain, schema, plan.rows, count, rng)
    for k in range(count):
        own = numpy_stream(int(rng.integers(2**62)), "replicate")
        with one_thread():  # on which sums are the same each time
            found = posterior.replicate(
                Perturbed(posterior.kept, population, k, own),
                MainEffects(posterior.beginning, posterior.blank, population, k),
                own,
            )
        yield found
