"""Share one measurement among tables of different sizes, some of which are centred.

The error of a table is about the number of its cells times their noise. At a given sensitivity, the sum of errors is
smallest if the noise is inversely proportional to the cube root of the number of cells (by a Lagrange multiplier;
compare Li et al. 2010). A row adds a shorter vector to a centred table, so its cells are divided by the squared norm.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import TypeVar

from ..privacy.queries.tables import centred_norm

Name = TypeVar("Name", bound=Hashable)


def centred(cells: Mapping[str, int]) -> dict[str, int]:
    """Return the tables to centre, by their cells along the last axis: all tables with two or more cells."""
    return {name: count for name, count in cells.items() if count > 1}


def weights_by_size(cells: Mapping[Name, int], last: Mapping[Name, int] | None = None) -> dict[Name, float]:
    """Return the weight of each table by its number of cells. `last`: cells along the last axis of centred tables.

    >>> weights_by_size({"sex": 1, "age": 8, "ward": 4}, {"ward": 2})
    {'sex': 1.0, 'age': 2.0, 'ward': 2.0}
    """
    norms = {name: centred_norm(count) for name, count in (last or {}).items()}
    return {name: round((count / norms.get(name, 1.0) ** 2) ** (1 / 3), 6) for name, count in cells.items()}


def noise_of_cells(
    weights: Mapping[Name, float], multiplier: float, last: Mapping[Name, int] | None = None
) -> dict[Name, float]:
    """Return the standard deviation of the noise of a cell of each table, for a measurement with these weights. `last`:
    as for `weights_by_size`.
    """
    norms = {name: centred_norm(count) for name, count in (last or {}).items()}
    sensitivity = math.hypot(*(weight * norms.get(name, 1.0) for name, weight in weights.items()))
    return {name: multiplier * sensitivity / weight for name, weight in weights.items()}
