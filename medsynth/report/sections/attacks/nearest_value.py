"""Attribute inference by the value of the nearest synthetic row."""

from __future__ import annotations

from sklearn.neighbors import NearestNeighbors

from .registry import AttributeAttack, Points, Values


def _nearest_value(candidates: Points, synthetic: Points, values: Values) -> Values:
    index = NearestNeighbors(n_neighbors=1).fit(synthetic)
    found: Values = values[index.kneighbors(candidates)[1][:, 0]]
    return found


ATTACK = AttributeAttack(
    name="nearest row's value",
    how="the value of the synthetic row that is most similar in all other columns",
    guess=_nearest_value,
)
