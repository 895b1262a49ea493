"""What a trainer may ask of rows that it never sees: measurements by name, each of them one query of `measure`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Protocol, TypeVar

from torch import Tensor

from ..clipping import ONE_GRADIENT, Groups, LocalTraining, Loss, PairLoss
from ..networks import Mlp
from ..shards import CriticConfig
from .gradients import GradientSum, NormsBelow, PairGradientSum
from .moments import SecondMoments
from .query import RowQuery
from .rows import Axes, CellMap, Features, Floats, Vectors
from .tables import Distances, Marginals, RowsPerPatient

Result = TypeVar("Result")
# All that is answered of coded rows: a query of another class could state any sensitivity.
QUERIES = (Marginals, Distances, RowsPerPatient, SecondMoments, GradientSum, PairGradientSum, NormsBelow)


class AllShards(Protocol):
    """Shards of the rows with a critic each, all of which are measured at once, wherever they lie."""

    def train(self, fakes: Tensor) -> None:
        """One step of every critic on its own rows, against generated rows, (classes, rows, width). It is free."""

    def measure_upstream_sum(self, label: str, fakes: Tensor, bound: float, *, joint: bool = False) -> Tensor:
        """The noised sum of all critics' clipped gradients at generated rows: (rows, width - classes)."""


class Measurements(ABC):
    """Rows that are measured with noise, wherever they lie."""

    __slots__ = ()

    @property
    @abstractmethod
    def max_rows(self) -> int | None:
        """The most rows of a patient, where the patient is the unit of privacy. It is public."""

    @abstractmethod
    def measure(self, label: str, query: RowQuery[Result]) -> Result:
        """The noised answer to a query, charged as the measurement `label` of the plan.

        Raises BudgetError, before anything is drawn, where the plan does not hold the measurement.
        """

    def measure_histograms(self, label: str, maps: Mapping[str, CellMap]) -> dict[str, Floats]:
        """Noisy counts over the cells of each named column: tables of one axis. A map named "" counts rows."""
        return self.measure_marginals(label, {name: [(name, cells)] for name, cells in maps.items()})

    def measure_marginals(
        self, label: str, tables: Mapping[str, Axes], weights: Mapping[str, float] | None = None, *,
        averaged: bool = False, centred: tuple[str, ...] = (),
    ) -> dict[str, Floats]:  # fmt: skip
        """Noisy contingency tables, all in one release: `Marginals`."""
        return self.measure(label, Marginals(tables, weights, averaged, centred))

    def measure_distances(
        self, label: str, tables: Mapping[str, Axes], guesses: Mapping[str, Floats], *, averaged: bool = False
    ) -> dict[str, float]:
        """Noisy L1 distances between contingency tables and public guesses of them, in one release: `Distances`."""
        return self.measure(label, Distances(tables, guesses, averaged))

    def measure_gradient_sum(
        self,
        label: str,
        critic: Mlp,
        loss: Loss,
        features: Features,
        bound: float,
        microbatches: int | None = None,
    ) -> tuple[Tensor, ...]:
        """The noised sum of the critic's clipped gradients over a fresh Poisson lot: `GradientSum`.

        An empty lot is noised and charged like any other; the caller divides by the expected lot.
        """
        return self.measure(label, GradientSum(critic, loss, features, bound, microbatches))

    def measure_pair_gradient_sum(
        self, label: str, critic: Mlp, loss: PairLoss, features: Features, pool: Tensor, groups: Groups,
        local: LocalTraining = ONE_GRADIENT,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        """The noised sum of the critic's clipped gradients of pairs over a fresh Poisson lot: `PairGradientSum`."""
        return self.measure(label, PairGradientSum(critic, loss, features, pool, groups, local))

    def measure_norms_below(
        self, label: str, critic: Mlp, loss: PairLoss, features: Features, pool: Tensor, groups: Groups,
        local: LocalTraining = ONE_GRADIENT,
    ) -> Floats:  # fmt: skip
        """Noised halves of pairs within each group's bound over a fresh Poisson lot: `NormsBelow`."""
        return self.measure(label, NormsBelow(critic, loss, features, pool, groups, local))

    def measure_second_moments(self, label: str, vectors: Vectors, given: tuple[str, CellMap], width: int) -> Floats:
        """Noisy sums of x x^T over the rows of each class, (classes, width, width): `SecondMoments`."""
        return self.measure(label, SecondMoments(vectors, given, width))

    def measure_rows_per_patient(self, label: str) -> Floats:
        """Noisy counts of patients with one, two, ... rows, (max_rows,): `RowsPerPatient`.

        Raises BudgetError where the row is the unit.
        """
        return self.measure(label, RowsPerPatient(self.max_rows or 1))


class ShardedMeasurements(Measurements):
    """Rows that can be split into shards, wherever they lie."""

    __slots__ = ()

    @abstractmethod
    def split_into_shards(self, count: int, features: Features, classes: int, config: CriticConfig) -> AllShards:
        """The rows in `count` shards, each with a critic. `features`: codes to indicators, those of classes last."""
