"""Checks of a query's content, which run when it is made (docs/decisions/0059)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...errors import QueryError

if TYPE_CHECKING:  # A plan and a refusal do not need PyTorch.
    from torch import Tensor

STEPS = 2.0**20  # Features are rounded to these parts of one: last bits of logarithms differ by machine.
LOCAL = {"local": True}  # Metadata of a field that says how a value is computed here, and not what is asked.
MOST_NUMBERS = 1 << 27  # In the exact answer to a query.
MOST_WIDTH = 1 << 20  # Numbers that a map makes of one row.
LARGEST = 2.0**64  # Largest number in a query, unless a smaller bound is stated.


def require(holds: bool, rule: str) -> None:
    """Raise QueryError with `rule` unless `holds`."""
    if not holds:
        raise QueryError(rule)


def check_numbers(
    array: NDArray[Any] | Tensor, shape: tuple[int, ...], kind: type[np.generic], most: float = LARGEST, *, what: str
) -> None:
    """Check an array's shape and type, and that its numbers are finite and at most `most` in size.

    Args: `what` names the array in the message. Raises QueryError.
    """
    own = _plain(array)
    require(own.dtype == kind and own.shape == shape, f"{what}: expected {np.dtype(kind)} of shape {shape}.")
    require(bool(((own >= -most) & (own <= most)).all()), f"{what}: a number is not finite, or larger than {most:.3g}.")


def check_places(array: NDArray[Any] | Tensor, shape: tuple[int, ...], cells: int, *, what: str) -> None:
    """Check an array's shape, and that it has 64-bit whole numbers from 0 to cells - 1. Raises QueryError."""
    own = _plain(array)
    require(own.dtype == np.int64 and own.shape == shape, f"{what}: expected int64 of shape {shape}.")
    require(bool(((own >= 0) & (own < cells)).all()), f"{what}: a place is outside its table.")


def check_size(count: int, most: int, *, what: str) -> None:
    """Check that a count is between 1 and `most`. Raises QueryError."""
    require(1 <= count <= most, f"{what}: expected 1 to {most:,}.")


def check_answer(*shapes: tuple[int, ...]) -> None:
    """Check that the tables of an exact answer are neither empty nor too large together. Raises QueryError."""
    require(all(count > 0 for shape in shapes for count in shape), "A table of a query has no cells.")
    require(sum(map(math.prod, shapes)) <= MOST_NUMBERS, "The answer to the query has too many numbers.")


def _plain(array: NDArray[Any] | Tensor) -> NDArray[Any]:
    return array if isinstance(array, np.ndarray) else array.detach().cpu().numpy()
