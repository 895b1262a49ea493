"""The measurements that a trainer may make of rows that it never sees: each is one query of `measure`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ...arrays import Floats
from .moments import SecondMoments
from .query import RowQuery
from .rows import Axes, CellMap, Features, Vectors
from .tables import Distances, Marginals, RowsPerPatient

if TYPE_CHECKING:  # A method without networks does not need PyTorch.
    from torch import Tensor

    from ..shards import CriticConfig

Result = TypeVar("Result")
OF_COUNTS = (Marginals, Distances, RowsPerPatient, SecondMoments)  # the queries that need no PyTorch


def queries() -> tuple[type[RowQuery[Any]], ...]:
    """Return all queries of coded rows that are answered. A query of another class could state any sensitivity."""
    from .gradients import GradientSum, NormsBelow, PairGradientSum
    from .vectors import VectorSum

    return (*OF_COUNTS, VectorSum, GradientSum, PairGradientSum, NormsBelow)


def may_answer(query: RowQuery[Any]) -> bool:
    """Return whether a query is exactly of one of these classes."""
    return type(query) in OF_COUNTS or type(query) in queries()


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

    def measure_gradient_sum(self, label: str, *of: Any, **more: Any) -> tuple[Tensor, ...]:
        """Return a noised `GradientSum` over a new Poisson lot, of these arguments.

        An empty lot is noised and charged like any other. The caller divides by the expected lot.
        """
        from .gradients import GradientSum

        return self.measure(label, GradientSum(*of, **more))

    def measure_pair_gradient_sum(self, label: str, *of: Any, **more: Any) -> tuple[Tensor, ...]:
        """Return a noised `PairGradientSum` over a new Poisson lot, of these arguments."""
        from .gradients import PairGradientSum

        return self.measure(label, PairGradientSum(*of, **more))

    def measure_norms_below(self, label: str, *of: Any, **more: Any) -> Floats:
        """Return noised `NormsBelow` over a new Poisson lot, of these arguments."""
        from .gradients import NormsBelow

        return self.measure(label, NormsBelow(*of, **more))

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
