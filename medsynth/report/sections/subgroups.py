"""Whom does the table serve? AuROC and prevalence by group, and levels that vanished."""

from __future__ import annotations

import numpy as np

from ...errors import SchemaError
from ...rng import Stream
from ..data.protocol import Answers
from ..data.records import Figure, Part
from ..data.statistics import auroc, interval, resampled
from ..data.tables import Tables, words

FEWEST = 30  # rows of a group, for an AuROC
BANDS = 4  # of a number column, by its quartiles


class Group(Part):
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
    loss: Figure


class Subgroups(Part):
    """Section 11. `vanished`: levels of the real held-out rows that no synthetic row has, with their real counts."""

    groups: list[Group]
    vanished: list[tuple[str, str, int]]


def choose(tables: Tables, asked: list[str]) -> list[str]:
    """Columns to group by: those asked for, else whatever is called sex or gender, and age. Raises SchemaError."""
    if unknown := [name for name in asked if name not in tables.names]:
        raise SchemaError(f"--subgroup names no column: {', '.join(unknown)}.")
    if asked:
        return asked
    parts = {name: set(name.lower().replace("-", "_").split("_")) for name in tables.features}
    return [name for name, p in parts.items() if p & {"sex", "gender", "age"}][:3]


def subgroups(
    tables: Tables, columns: list[str], real: dict[str, Answers], made: dict[str, Answers], rng: Stream
) -> Subgroups:
    """Every group of every column in `columns`. Without answers (a numeric target) only the shares are given."""
    groups = []
    for name in columns:
        sides = _grouped(tables, name)
        for label in sorted(set(sides[0])):
            groups.append(_group(tables, name, str(label), [side == label for side in sides], real, made, rng))
    vanished = []
    for name in tables.names:
        if name in tables.numbers:
            continue
        have = set(words(tables.synthetic[name]).dropna())
        counts = words(tables.real[name]).value_counts()
        vanished += [(name, str(level), int(count)) for level, count in counts.items() if level not in have]
    return Subgroups(groups=sorted(groups, key=lambda g: (g.column, g.group)), vanished=vanished)


def _grouped(tables: Tables, name: str) -> list[np.ndarray]:
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
    tables: Tables, name: str, label: str, inside: list[np.ndarray], real: dict[str, Answers], made: dict[str, Answers],
    rng: Stream,
) -> Group:  # fmt: skip
    truth = tables.real[tables.target].astype(str).to_numpy()
    rows = int(inside[0].sum())
    loss = Figure(value=None)
    each: list[float | None] = [None, None]
    prevalence: list[float | None] = [None, None]
    if not tables.numeric_target:
        common = tables.real[tables.target].astype(str).mode()[0]
        answers = [truth, tables.synthetic[tables.target].astype(str).to_numpy()]
        prevalence = [float((a[i] != common).mean()) if i.any() else None for a, i in zip(answers, inside, strict=True)]
        part = truth[inside[0]]
        classes = [k for k, c in enumerate(tables.classes()) if 0 < (part == c).sum() < len(part)]
        if rows >= FEWEST and classes and real:
            hits = [part == tables.classes()[k] for k in classes]

            def macro(weights: np.ndarray) -> np.ndarray:
                """(draws, 2): mean over classifiers and over the classes that the group has."""
                sides = [
                    np.ma.masked_invalid([
                        auroc(h, a.chances[inside[0], k], weights)
                        for a in side.values() for h, k in zip(hits, classes, strict=True)
                    ]).mean(0).filled(np.nan)
                    for side in (real, made)
                ]  # fmt: skip
                return np.stack(sides, 1)

            value = macro(np.ones((1, rows)))[0]
            draws = resampled(rows, rng, macro)
            loss, each = interval(value[0] - value[1], draws[:, 0] - draws[:, 1]), [float(v) for v in value]
    return Group(
        column=name,
        group=label,
        rows=rows,
        share_real=float(inside[0].mean()),
        share_synthetic=float(inside[1].mean()),
        prevalence_real=prevalence[0],
        prevalence_synthetic=prevalence[1],
        auroc_real=each[0],
        auroc_synthetic=each[1],
        loss=loss,
    )
