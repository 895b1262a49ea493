"""Define the default method, and its baseline without pairs, for the registry."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..arrays import Arrays, Codes
from ..errors import UsageError
from ..methods.registry import MethodConfig, Progress
from ..methods.sampler import MixtureMethod
from ..privacy.accounting.calibration import Charge, Plan
from ..schema import Schema
from . import constants as k
from .config import IndependentConfig, MixtureConfig, Settings
from .constants import BY_CLASS, CROSSED, DECLARED, MATRIX, PAIRS, STRONGEST, UNCOVERED

if TYPE_CHECKING:
    from ..privacy.queries.measurements import Measurements


class LatentMixture(MixtureMethod):
    """The mixture of products of column distributions."""

    Config: type[MethodConfig] = MixtureConfig
    networks = False

    def queries(self, config: Any, rows: int, columns: int, epsilon: float) -> list[Charge]:
        """Return what a fit measures, each query with its relative noise.

        A table with fewer than two columns next to the target has no pairs; the other queries get their share. In a
        table of few rows the columns by class get a part of the pairs' share. A table of hundreds of columns uses
        matrices of second moments in place of pairs. Raises UsageError if regressions are declared for such a table.
        """
        wide = columns > k.WIDE_COLUMNS
        if config.inference and wide:
            raise UsageError("`inference` does not work for a table of more than 100 columns. Leave columns out.")
        if config.public and wide:
            raise UsageError("`public` rows do not yet inform a table of more than 100 columns. Leave columns out.")
        shares = config.one_way_shares | {BY_CLASS: config.by_class_share}
        if wide:
            shares[MATRIX] = 1 - sum(shares.values())
        elif columns > 2:
            left = 1 - config.strongest_share - sum(shares.values())
            shares[PAIRS] = left * (k.FEW_PAIRS if rows < k.FEW_ROWS else 1)
            shares[BY_CLASS] += left - shares[PAIRS]
            shares |= {STRONGEST: config.strongest_share} if config.strongest_share else {}
            if config.products:
                shares = {label: share * (1 - config.products) for label, share in shares.items()}
                shares[CROSSED] = config.products
        shares = config.with_declared(shares, DECLARED)
        total = sum(shares.values())
        return [Charge(label=label, weight=(share / total) ** -0.5) for label, share in shares.items()]

    def fit(
        self, config: Settings, schema: Schema, vault: Measurements, plan: Plan, seed: int | None, device: str,
        progress: Progress, public: Codes | None = None,
    ) -> Arrays:  # fmt: skip
        """Fit the mixture. Return its tensors, the marginals that decode its rows, and all that was released.

        `public`: codes of rows that the user declared public, (rows, columns), -1 for what is absent or not a level.
        """
        from .fit import fitted  # plans and samples do not need it

        return fitted(config, schema, vault, plan, seed, progress, public)

    def replicated(
        self, config: Settings, schema: Schema, plan: Plan, tensors: Arrays, count: int, seed: int | None
    ) -> Iterator[Arrays]:
        """Yield the tensors of `count` plausible mixtures, from released measurements alone."""
        if config.public:
            raise UsageError(f"{UNCOVERED} Fit without `public` to draw replicates.")
        from .replicates import replicated

        yield from replicated(config, schema, plan, tensors, count, seed)


class Independent(LatentMixture):
    """The baseline: given its class, a row's columns are drawn independently."""

    Config = IndependentConfig

    def queries(self, config: IndependentConfig, rows: int, columns: int, epsilon: float) -> list[Charge]:
        """Return what a fit measures, each query with its relative noise."""
        shares = config.one_way_shares
        shares[BY_CLASS] = 1 - sum(shares.values())
        shares = config.with_declared(shares, DECLARED)
        return [Charge(label=label, weight=share**-0.5) for label, share in shares.items()]
