"""Is the table as good for every group? AuROC and prevalence by group, and levels that vanished."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import SchemaError
from ...rng import Stream
from ..data.context import Context
from ..data.predictions import TaskPredictions
from ..data.records import Estimate, Record
from ..data.statistics import Areas, compared, resampled
from ..data.tables import Tables, words
from .registry import Section

FEWEST = 30  # rows of a group, for an AuROC
BANDS = 4  # of a number column, by its quartiles


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


def subgroups(tables: Tables, columns: list[str], predictions: TaskPredictions | None, rng: Stream) -> Subgroups:
    """Every group of every column in `columns`. Without `predictions` (a numeric target) only shares are given."""
    groups = []
    for name in columns:
        sides = _grouped(tables, name)
        for label in sorted(set(sides[0])):
            groups.append(_group(tables, name, str(label), [side == label for side in sides], predictions, rng))
    vanished = []
    for name in tables.names:
        if name in tables.numbers:
            continue
        have = set(words(tables.synthetic[name]).dropna())
        counts = words(tables.real[name]).value_counts()
        vanished += [(name, str(level), int(count)) for level, count in counts.items() if level not in have]
    return Subgroups(groups=sorted(groups, key=lambda g: (g.column, g.group)), vanished=vanished)


def _grouped(tables: Tables, name: str) -> list[NDArray[Any]]:
    """The group of each real and of each synthetic row."""
    frames = tables.real[name], tables.synthetic[name]
    if name not in tables.numbers:
        return [words(f).fillna("missing").to_numpy(object) for f in frames]
    edges = np.unique(np.round(np.quantile(frames[0].dropna(), np.linspace(0, 1, BANDS + 1)), 3))[1:-1]
    if not len(edges):
        return [np.full(len(f), "all", dtype=object) for f in frames]
    labels = [f"up to {edges[0]:g}", *(f"above {a:g}" for a in edges)]
    labels[1:-1] = [f"{a:g} to {b:g}" for a, b in zip(edges[:-1], edges[1:], strict=True)]
    return [np.array(labels, dtype=object)[np.searchsorted(edges, f.fillna(edges[0]), side="left")] for f in frames]


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
    return subgroups(tables, choose(tables, context.groups), predictions, context.rng)


SECTION = Section(
    id="subgroups", title="Subgroups", compute=_compute, record=Subgroups, needs=("real rows",), waits=True
)
