"""How one measurement is shared among tables of different sizes, of which some are centred.

The error of a table is about its cells times their noise. Noise in inverse proportion to the third root of the cells
makes the sum of the errors least at a given sensitivity (a Lagrange multiplier; compare Li et al. 2010). A row adds a
shorter vector to a centred table: the third root of its squared norm counts against that of the cells.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import TypeVar

from ..privacy.queries.tables import centred_norm

Name = TypeVar("Name", bound=Hashable)


def centred(cells: Mapping[str, int]) -> dict[str, int]:
    """Of tables whose sums along the last axis are known, by its cells, those to centre: all that have two or more."""
    return {name: count for name, count in cells.items() if count > 1}


def weights_by_size(cells: Mapping[Name, int], last: Mapping[Name, int] | None = None) -> dict[Name, float]:
    """The weight of each table by its number of cells; `last`: those along the last axis of tables that are centred.

    >>> weights_by_size({"sex": 1, "age": 8, "ward": 4}, {"ward": 2})
    {'sex': 1.0, 'age': 2.0, 'ward': 2.0}
    """
    norms = {name: centred_norm(count) for name, count in (last or {}).items()}
    return {name: round((count / norms.get(name, 1.0) ** 2) ** (1 / 3), 6) for name, count in cells.items()}


def noise_of_cells(
    weights: Mapping[Name, float], multiplier: float, last: Mapping[Name, int] | None = None
) -> dict[Name, float]:
    """The standard deviation of the noise of a cell of each table, of a measurement with these weights; `last`: as
    those have it.
    """
    norms = {name: centred_norm(count) for name, count in (last or {}).items()}
    sensitivity = math.hypot(*(weight * norms.get(name, 1.0) for name, weight in weights.items()))
    return {name: multiplier * sensitivity / weight for name, weight in weights.items()}
