"""Is the table as good for every group? AuROC and prevalence by group, and levels that vanished."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import SchemaError
from ...rng import Stream
from ...schema import Column
from ...schema.columns.number import Quantity
from ..data.context import Context
from ..data.predictions import TaskPredictions
from ..data.records import Estimate, Record
from ..data.statistics import Areas, compared, resampled
from ..data.tables import Tables, words
from .registry import Section

FEWEST = 30  # rows of a group, for an AuROC
BANDS = 4  # of a number column without cut points, by its quartiles
MISSING = "missing"
NONE_DECLARED: Mapping[str, Column] = MappingProxyType({})
Bands = tuple[NDArray[np.float64], list[str]]  # edges between groups, and the groups in words


class Group(Record):
    """One group of real held-out rows: how well classifiers trained on real and on synthetic rows do in it.

    `prevalence_*`: share of each table's rows of the group that are not of the most frequent class.
    """

    column: str
    group: str
    rows: int
    share_real: float
    share_synthetic: float
    prevalence_real: float | None
    prevalence_synthetic: float | None
    auroc_real: float | None
    auroc_synthetic: float | None
    loss: Estimate


class Subgroups(Record):
    """Groups, and `vanished`: levels of the real held-out rows that no synthetic row has, with their real counts."""

    groups: list[Group]
    vanished: list[tuple[str, str, int]]


def choose(tables: Tables, wanted: Sequence[str]) -> list[str]:
    """Columns to group by: those wanted, else whatever is called sex or gender, and age. Raises SchemaError."""
    if unknown := [name for name in wanted if name not in tables.names]:
        raise SchemaError(f"`groups` names no column: {', '.join(unknown)}.")
    if wanted:
        return list(wanted)
    parts = {name: set(name.lower().replace("-", "_").split("_")) for name in tables.features}
    return [name for name, p in parts.items() if p & {"sex", "gender", "age"}][:3]


def subgroups(
    tables: Tables, columns: list[str], predictions: TaskPredictions | None, rng: Stream,
    declared: Mapping[str, Column] = NONE_DECLARED,
) -> Subgroups:  # fmt: skip
    """Every group of every column in `columns`. Without `predictions` (a numeric target) only shares are given.

    A number column that is `declared` with cut points is grouped by these, another by its quartiles.
    """
    groups = []
    for name in columns:
        labels, sides = _grouped(tables, name, declared.get(name))
        for label in labels:
            groups.append(_group(tables, name, label, [side == label for side in sides], predictions, rng))
    vanished = []
    for name in tables.names:
        if name in tables.numbers:
            continue
        have = set(words(tables.synthetic[name]).dropna())
        counts = words(tables.real[name]).value_counts()
        vanished += [(name, str(level), int(count)) for level, count in counts.items() if level not in have]
    return Subgroups(groups=groups, vanished=vanished)


def _grouped(tables: Tables, name: str, column: Column | None) -> tuple[list[str], list[NDArray[Any]]]:
    """The groups that real rows are in, in their order, and the group of each real and of each synthetic row."""
    frames = tables.real[name], tables.synthetic[name]
    if name not in tables.numbers:
        sides = [words(f).fillna(MISSING).to_numpy(object) for f in frames]
        return sorted(set(sides[0])), sides
    edges, labels = _cut_bands(column) or _quartile_bands(frames[0].dropna().to_numpy(np.float64))
    named = np.array([*labels, MISSING], dtype=object)
    values = (f.to_numpy(np.float64, na_value=np.nan) for f in frames)
    sides = [named[np.where(np.isnan(v), len(labels), np.searchsorted(edges, v, side="left"))] for v in values]
    return [label for label in named if label in set(sides[0])], sides


def _cut_bands(column: Column | None) -> Bands | None:
    """The groups between cut points, None without any. Dates are compared as years, not in the units of theirs."""
    if not isinstance(column, Quantity) or column.dated or not column.cut_points:
        return None
    below = np.array(column.cut_codes) - 0.5  # between the last value of a group and the first of the next
    return (below + column.units[0]) / 10.0**column.places, list(column.cut_groups)


def _quartile_bands(known: NDArray[np.float64]) -> Bands:
    """The groups between the quartiles of the real rows' values (rows,)."""
    quartiles = np.quantile(known, np.linspace(0, 1, BANDS + 1)) if len(known) else known
    edges = np.unique(np.round(quartiles, 3))[1:-1]
    if not len(edges):
        return edges, ["all"]
    between = (f"{low:g} to {high:g}" for low, high in pairwise(edges))
    return edges, [f"up to {edges[0]:g}", *between, f"above {edges[-1]:g}"]


def _group(
    tables: Tables, name: str, label: str, inside: list[NDArray[Any]], predictions: TaskPredictions | None, rng: Stream
) -> Group:
    """One group; `inside` marks its real and its synthetic rows."""
    prevalence: list[float | None] = [None, None]
    if not tables.numeric_target:
        targets = [frame[tables.target].astype(str).to_numpy() for frame in (tables.real, tables.synthetic)]
        common = tables.real[tables.target].astype(str).mode()[0]
        prevalence = [float((t[i] != common).mean()) if i.any() else None for t, i in zip(targets, inside, strict=True)]
    found = {} if predictions is None else _aurocs(predictions, inside[0], rng)
    nothing = Estimate(value=None)
    return Group(
        column=name,
        group=label,
        rows=int(inside[0].sum()),
        share_real=float(inside[0].mean()),
        share_synthetic=float(inside[1].mean()),
        prevalence_real=prevalence[0],
        prevalence_synthetic=prevalence[1],
        auroc_real=found.get("real", nothing).value,
        auroc_synthetic=found.get("synthetic", nothing).value,
        loss=found.get("loss", nothing),
    )


def _aurocs(predictions: TaskPredictions, inside: NDArray[np.bool_], rng: Stream) -> dict[str, Estimate]:
    """AuROC in the group, mean over classifiers and over the classes that occur in it; {} where it is too small."""
    tables = predictions.tables
    truth, levels = tables.real[tables.target].astype(str).to_numpy()[inside], tables.classes()
    classes = [k for k, level in enumerate(levels) if 0 < (truth == level).sum() < len(truth)]
    if len(truth) < FEWEST or not classes:
        return {}
    scores = [
        (truth == levels[k], each.probabilities[inside, k])
        for side in (predictions.real, predictions.synthetic)
        for each in side.values()
        for k in classes
    ]
    areas = Areas(*(np.stack(part) for part in zip(*scores, strict=True)))

    def macro(values: NDArray[np.float64]) -> NDArray[np.float64]:
        """(draws, 2): by real and by synthetic training rows. A class that a resample lacks is left out of its mean."""
        sides = np.ma.masked_invalid(values.reshape(len(values), 2, -1))
        return np.asarray(sides.mean(2).filled(np.nan))

    own = patients[inside] if (patients := tables.patients.get("real")) is not None else None
    return compared(macro(areas.value[None])[0], macro(resampled(len(truth), rng, areas, own)))


def _compute(context: Context) -> Subgroups | None:
    tables = context.tables
    if tables is None:
        return None
    predictions = None if tables.numeric_target else context.predictions
    declared = context.schema.columns if context.schema else NONE_DECLARED
    return subgroups(tables, choose(tables, context.groups), predictions, context.rng, declared)


SECTION = Section(
    id="subgroups", title="Subgroups", compute=_compute, record=Subgroups, needs=("real rows",), waits=True
)
