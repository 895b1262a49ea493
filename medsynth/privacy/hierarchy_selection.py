"""Choose the levels of a hierarchy of codes for the table, level by level from noisy counts, each charged.

A node with clearly more rows than its noise is kept, and its children are counted next. The rest of its rows stay with
it. Every counted node is public, so plain Gaussian noise on all counts is enough (the descent of a trie for heavy
hitters; Bassily et al. 2017, here in the central model).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from ..arrays import Floats
from ..schema.columns.categorical import Categorical
from ..schema.columns.grid import Grid
from ..schema.columns.hierarchies import Node, hierarchy
from .accounting.calibration import Charge, Plan
from .queries.cells import Regrouped

LOSS_SHARE = 0.06  # Share of the privacy loss, over all levels.
THRESHOLD_STDS = 4.0  # A node's count must exceed this number of standard deviations of its noise.
MIN_SHARE = 0.004  # Share of the rows. A node with fewer is left with its parent.
MAX_LEVELS = 100  # Levels of a column.
Measure = Callable[[str, Mapping[str, Regrouped]], Mapping[str, Floats]]  # Vault.measure_histograms.


def node_cells(nodes: list[Node]) -> Regrouped:
    """Return a map from positions to the disjoint nodes that contain them; the last cell is any other position."""
    ends = [end for node in nodes for end in (node.start, node.stop)]
    edges = np.unique([0, *ends, np.iinfo(np.int32).max]).astype(np.int64)
    place = np.full(len(edges) - 1, len(nodes))
    for k, node in enumerate(nodes):
        place[(edges[:-1] >= node.start) & (edges[:-1] < node.stop)] = k
    return Regrouped(Grid(edges, 0), place, len(nodes) + 1)


def _label(depth: int) -> str:
    return f"hierarchy level {depth}"


def _depth(columns: Mapping[str, Categorical]) -> int:
    return max((hierarchy(c.hierarchy or "").depth for c in columns.values()), default=0)


def queries(columns: Mapping[str, Categorical]) -> list[Charge]:
    """Return the queries that choose the levels of these columns: one per level of the deepest hierarchy."""
    depth = _depth(columns)
    return [Charge(label=_label(d), weight=(LOSS_SHARE / depth) ** -0.5) for d in range(1, depth + 1)]


def select_levels(columns: Mapping[str, Categorical], measure: Measure, plan: Plan) -> dict[str, Categorical]:
    """Return the columns with the levels whose noisy counts pass the threshold, and `unknown`.

    `measure` releases noisy histograms of the columns' positions: `measure_histograms` of the vault with the rows.
    """
    kept: dict[str, list[Node]] = {name: [] for name in columns}
    candidates = {name: hierarchy(c.hierarchy or "").children(None) for name, c in columns.items()}
    for depth in range(1, _depth(columns) + 1):
        counts = measure(_label(depth), {name: node_cells(nodes) for name, nodes in candidates.items()})
        noise = plan.noise(_label(depth)) * math.sqrt(len(columns))
        threshold = max(THRESHOLD_STDS * noise, MIN_SHARE * plan.rows)
        for name, nodes in candidates.items():
            order = np.argsort(-counts[name][:-1], kind="stable")[: max(0, MAX_LEVELS - len(kept[name]))]
            large = [nodes[k] for k in sorted(order) if counts[name][k] > threshold]
            kept[name] += large
            known = hierarchy(columns[name].hierarchy or "")
            candidates[name] = [child for node in large for child in known.children(node)]
    return {name: with_levels(column, kept[name]) for name, column in columns.items()}


def with_levels(column: Categorical, nodes: list[Node]) -> Categorical:
    """Return a column of codes with these nodes as its levels, and `unknown`."""
    names = sorted({node.label for node in nodes} - {str(column.unknown)})
    return column.model_copy(update={"levels": (*names, column.unknown)})
