"""How one measurement is shared among tables of different sizes.

The error of a table is about its cells times their noise. Noise in inverse proportion to the third root of the cells
makes the sum of the errors least at a given sensitivity (a Lagrange multiplier; compare Li et al. 2010).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

Weights = dict[str, float]


def weights_by_size(cells: Mapping[str, int]) -> Weights:
    """The weight of each table by its number of cells.

    >>> weights_by_size({"sex": 1, "age": 8})
    {'sex': 1.0, 'age': 2.0}
    """
    return {name: round(count ** (1 / 3), 12) for name, count in cells.items()}


def noise_of_cells(weights: Weights, multiplier: float) -> dict[str, float]:
    """The standard deviation of the noise of a cell of each table, of a measurement with these weights."""
    sensitivity = math.hypot(*weights.values())
    return {name: multiplier * sensitivity / weight for name, weight in weights.items()}
