"""How fine a hierarchy of codes may stand in the table: chosen level by level from noisy counts, each charged.

A node that holds clearly more rows than its noise is kept and its children are asked next; the rest of its rows stay
with it. Every node asked for is public, so plain Gaussian noise on all counts is enough (the descent of a trie for
heavy hitters; Bassily et al. 2017, here in the central model).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..transforms.categorical import Categorical
from ..transforms.hierarchies import Node, hierarchy
from .accounting.calibration import Plan, Query

if TYPE_CHECKING:
    from .vault import Vault

Codes = NDArray[np.int32]

SHARE = 0.06  # of the privacy loss, over all levels
SURE = 4.0  # standard deviations of its noise that a node's count must exceed
SMALL = 0.004  # of the rows: a node with fewer is left with its parent
MOST = 100  # levels of a column


@dataclass(frozen=True)
class Nodes:
    """A map from places to the nodes that hold them, which do not overlap; the last cell is any other place."""

    nodes: list[Node]

    @property
    def cells(self) -> int:
        """One a node, and one for the rest."""
        return len(self.nodes) + 1

    def cell_of(self, codes: Codes) -> NDArray[np.int64]:
        """The node of each place."""
        starts, stops = (np.array([getattr(node, end) for node in self.nodes], np.int64) for end in ("start", "stop"))
        if not self.nodes:
            return np.zeros(len(codes), np.int64)
        at = np.searchsorted(starts, codes, side="right") - 1
        return np.where((at >= 0) & (codes < stops[at]), at, len(self.nodes))


def _label(depth: int) -> str:
    return f"codes, level {depth}"


def _depth(columns: Mapping[str, Categorical]) -> int:
    return max((hierarchy(c.hierarchy or "").depth for c in columns.values()), default=0)


def queries(columns: Mapping[str, Categorical]) -> list[Query]:
    """What choosing the levels of these columns asks: one answer for each level of the deepest hierarchy."""
    depth = _depth(columns)
    return [Query(label=_label(d), weight=(SHARE / depth) ** -0.5) for d in range(1, depth + 1)]


def chosen(columns: Mapping[str, Categorical], vault: Vault, plan: Plan) -> dict[str, Categorical]:
    """The columns with the levels that the noisy counts carry, `unknown` among them. The vault holds their places."""
    kept: dict[str, list[Node]] = {name: [] for name in columns}
    asked = {name: hierarchy(c.hierarchy or "").children(None) for name, c in columns.items()}
    for depth in range(1, _depth(columns) + 1):
        counts = vault.measure_histograms(_label(depth), {name: Nodes(nodes) for name, nodes in asked.items()})
        least = max(SURE * plan.noise(_label(depth)) * math.sqrt(len(columns)), SMALL * plan.rows)
        for name, nodes in asked.items():
            order = np.argsort(-counts[name][:-1], kind="stable")[: max(0, MOST - len(kept[name]))]
            large = [nodes[k] for k in sorted(order) if counts[name][k] > least]
            kept[name] += large
            known = hierarchy(columns[name].hierarchy or "")
            asked[name] = [child for node in large for child in known.children(node)]
    return {name: _settled(column, kept[name]) for name, column in columns.items()}


def _settled(column: Categorical, nodes: list[Node]) -> Categorical:
    names = sorted({node.label for node in nodes} - {str(column.unknown)})
    return column.model_copy(update={"levels": (*names, column.unknown)})
