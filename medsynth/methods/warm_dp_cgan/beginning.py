"""What a fit knows before its generator is fitted: one-way and class-by-bin marginals, and what follows from these."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...privacy.accounting.calibration import Plan
from ...privacy.queries.measurements import Measurements
from ...privacy.queries.rows import CellMap
from ...rng import numpy_stream, torch_stream
from ...row_count import COUNTED_ROWS
from ...schema import Schema
from ..protocol import Arrays
from ..shared.bins import MERGED_WIDE, Bins
from ..shared.cuts import planned_bins
from ..shared.decoder import decoder, decoder_tensors, grid_tensors
from ..shared.mixture import mixture_tensors
from .budget_rule import Allocation
from .computed_columns import pair_factors
from .critics.measured import MeasuredCritics
from .generator import Generator, smooth_functions
from .marginals.class_marginals import ClassMarginals
from .marginals.one_way_marginals import OneWayMarginals
from .method import Config
from .rules.constraints import BrokenRules
from .rules.derived_columns import WIDE, DerivedColumn, ExpectedDerived, derived_columns
from .two_way_marginals import Candidates


@dataclass(frozen=True, kw_only=True)
class Beginning:
    """The marginals of a fit and its public settings.

    `given`: the target's name and the map from its codes to classes; `bins`: those of the one-way marginals, before
    columns were measured again; `allocation`: within reach of the classes and columns.
    """

    config: Config
    schema: Schema
    plan: Plan
    seed: int
    allocation: Allocation
    given: tuple[str, CellMap]
    numbers: OneWayMarginals
    bins: dict[str, Bins]
    derived: dict[str, DerivedColumn]
    start: ClassMarginals

    @classmethod
    def measure(cls, config: Config, schema: Schema, vault: Measurements, plan: Plan, seed: int) -> Beginning:
        """Measure the marginals."""
        wanted = config.allocation(plan.equivalent_rows, len(schema.columns), plan.epsilon_asked)
        most = wanted.column_bins
        numbers = OneWayMarginals.measure(vault, schema, plan, most)
        bins, condition = decoder(schema, numbers.shares, numbers.rows, most, numbers.grids, WIDE)
        given = (schema.target or "", condition)
        derived = derived_columns(schema, bins, most, numpy_stream(seed, "derived"))
        return cls(
            config=config, schema=schema, plan=plan, seed=seed, given=given, numbers=numbers, bins=bins,
            derived=derived, allocation=wanted.within_reach(condition.cells, planned_bins(schema, most)),
            start=ClassMarginals.measure(vault, plan, schema, given, bins, derived, numbers, most),
        )  # fmt: skip

    @property
    def columns(self) -> list[str]:
        """The columns beside the target."""
        return [name for name in self.schema.names if name != self.schema.target]

    def blank(self, device: str) -> Generator:
        """The generator as it starts."""
        start, own, base = self.start, self.allocation, {name: self.start.base[name] for name in self.columns}
        functions = {
            n: smooth_functions(start.bins[n].middles(MERGED_WIDE), base[n].shape[1], own.waves, tails=own.tails)
            for n in base
        }
        return Generator(base, functions, own.latent_points, torch_stream(self.seed, "init")).to(device)

    def rules(self, generator: Generator) -> tuple[ExpectedDerived, BrokenRules]:
        """What the schema's rules say of generated rows."""
        bins, device = self.start.bins, generator.base.device
        return (
            ExpectedDerived(self.derived, bins, numpy_stream(self.seed, "derived"), device),
            BrokenRules(self.schema, bins, numpy_stream(self.seed, "known rules"), device),
        )

    def columns_of(self, generator: Generator) -> Arrays:
        """The tensors of the fitted `generator`, and of the factors by columns that rules compute."""
        found = mixture_tensors({name: self.start.base[name] for name in self.columns}, generator.residuals())
        for pair in pair_factors(generator, self.start, self.derived, numpy_stream(self.seed, "factors")):
            found |= pair.tensors()
        return found

    def measure_critics(self, vault: Measurements, generator: Generator) -> MeasuredCritics:
        """The gradient sums of the critics that have a share."""
        return MeasuredCritics.measure(
            vault, self.plan, generator, self.start, columns=self.columns, given=self.given,
            order=self.schema.names, regressions=self.config.regressions, seed=self.seed,
        )  # fmt: skip

    def candidates(self) -> Candidates:
        """All pairs of columns, and their coarse bins."""
        coarse = {n: self.start.bins[n].merged(self.allocation.bins, self.start.mass[n]) for n in self.columns}
        return Candidates(coarse, numpy_stream(self.seed, "candidates"), by_class=self.allocation.by_class)

    def tensors(self, columns: Arrays) -> Arrays:
        """Those of the model, with those of its `columns`."""
        start, numbers, target = self.start, self.start.numbers, self.schema.target
        prior = (start.totals / start.totals.sum()).astype(np.float32)
        shares = numbers.shares | {name: start.bins[name].shares for name in numbers.grids if name != target}
        kept = decoder_tensors(shares, start.bins, self.columns) | grid_tensors(numbers.grids)
        return {**columns, **kept, "prior": prior, COUNTED_ROWS: np.array([numbers.rows], np.float32)}
