"""The measurements that a trainer may make of rows that it never sees: each is one query of `measure`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Protocol, TypeVar

from torch import Tensor

from ...arrays import Floats
from ..clipping import ONE_GRADIENT, Groups, LocalTraining, Loss, PairLoss
from ..networks import Mlp
from ..shards import CriticConfig
from .gradients import GradientSum, NormsBelow, PairGradientSum
from .moments import SecondMoments
from .query import RowQuery
from .rows import Axes, CellMap, Features, Vectors
from .tables import Distances, Marginals, RowsPerPatient
from .vectors import VectorSum

Result = TypeVar("Result")
# All queries of coded rows that are answered. A query of another class could state any sensitivity.
QUERIES = (Marginals, Distances, RowsPerPatient, SecondMoments, VectorSum, GradientSum, PairGradientSum, NormsBelow)


class AllShards(Protocol):
    """Shards of the rows with a critic each, all measured at once, wherever they are."""

    def train(self, fakes: Tensor) -> None:
        """Train every critic one step on its own rows, against generated rows, (classes, rows, width). It is free."""

    def measure_upstream_sum(self, label: str, fakes: Tensor, bound: float, *, joint: bool = False) -> Tensor:
        """Return the noised sum of all critics' clipped gradients at generated rows: (rows, width - classes)."""


class Measurements(ABC):
    """Rows that are measured with noise, wherever they are."""

    __slots__ = ()

    @property
    @abstractmethod
    def max_rows(self) -> int | None:
        """Return the public maximum number of rows per patient if the patient is the unit of privacy, else None."""

    @abstractmethod
    def measure(self, label: str, query: RowQuery[Result]) -> Result:
        """Return the noised answer to a query, charged as the measurement `label` of the plan.

        Raises BudgetError, before anything is drawn, if the plan lacks the measurement.
        """

    def measure_histograms(self, label: str, maps: Mapping[str, CellMap]) -> dict[str, Floats]:
        """Return noisy counts over the cells of each named column: tables of one axis. A map named "" counts rows."""
        return self.measure_marginals(label, {name: [(name, cells)] for name, cells in maps.items()})

    def measure_marginals(
        self, label: str, tables: Mapping[str, Axes], weights: Mapping[str, float] | None = None, *,
        averaged: bool = False, centred: tuple[str, ...] = (),
    ) -> dict[str, Floats]:  # fmt: skip
        """Return noisy contingency tables, all in one release: `Marginals`."""
        return self.measure(label, Marginals(tables, weights, averaged, centred))

    def measure_distances(
        self, label: str, tables: Mapping[str, Axes], guesses: Mapping[str, Floats], *, averaged: bool = False
    ) -> dict[str, float]:
        """Return noisy L1 distances of contingency tables from public guesses, in one release: `Distances`."""
        return self.measure(label, Distances(tables, guesses, averaged))

    def measure_gradient_sum(
        self,
        label: str,
        critic: Mlp,
        loss: Loss,
        features: Features,
        bound: float,
        microbatches: int | None = None,
        given: tuple[str, CellMap] | None = None,
    ) -> tuple[Tensor, ...]:
        """Return the noised sum of the critic's clipped gradients over a new Poisson lot: `GradientSum`.

        An empty lot is noised and charged like any other. The caller divides by the expected lot.
        """
        return self.measure(label, GradientSum(critic, loss, features, bound, microbatches, given))

    def measure_pair_gradient_sum(
        self, label: str, critic: Mlp, loss: PairLoss, features: Features, pool: Tensor, groups: Groups,
        local: LocalTraining = ONE_GRADIENT,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        """Return the noised sum of the critic's clipped gradients of pairs over a Poisson lot: `PairGradientSum`."""
        return self.measure(label, PairGradientSum(critic, loss, features, pool, groups, local))

    def measure_norms_below(
        self, label: str, critic: Mlp, loss: PairLoss, features: Features, pool: Tensor, groups: Groups,
        local: LocalTraining = ONE_GRADIENT,
    ) -> Floats:  # fmt: skip
        """Return noised halves of pairs within each group's bound over a new Poisson lot: `NormsBelow`."""
        return self.measure(label, NormsBelow(critic, loss, features, pool, groups, local))

    def measure_second_moments(self, label: str, vectors: Vectors, given: tuple[str, CellMap], width: int) -> Floats:
        """Return noisy sums of x x^T over the rows of each class, (classes, width, width): `SecondMoments`."""
        return self.measure(label, SecondMoments(vectors, given, width))

    def measure_rows_per_patient(self, label: str) -> Floats:
        """Return noisy counts of patients with one, two, ... rows, (max_rows,): `RowsPerPatient`.

        Raises BudgetError if the row is the unit.
        """
        return self.measure(label, RowsPerPatient(self.max_rows or 1))


class ShardedMeasurements(Measurements):
    """Rows that can be split into shards, wherever they are."""

    __slots__ = ()

    @abstractmethod
    def split_into_shards(self, count: int, features: Features, classes: int, config: CriticConfig) -> AllShards:
        """Split the rows into `count` shards with a critic each. `features`: codes to indicators, classes last."""
