"""The figures of a synthetic table compared with its training rows and with held-out rows."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from tests.benchmarks.bins import Grid, coded, grids

TRIPLES, LEARNED, FOLDS = 300, 10_000, 5
FEW = 20  # columns of at most this many values are levels


def similarity(one: NDArray[np.int64], other: NDArray[np.int64], groups: list[tuple[int, ...]]) -> float:
    """Return the mean over groups of columns of 1 - total variation between two tables of codes (rows, columns)."""
    sizes = np.maximum(one.max(0), other.max(0)) + 1
    found = []
    for group in groups:
        shape = tuple(int(sizes[k]) for k in group)
        shares = [
            np.bincount(np.ravel_multi_index(tuple(table[:, k] for k in group), shape), minlength=int(np.prod(shape)))
            / len(table)
            for table in (one, other)
        ]
        found.append(1 - 0.5 * float(np.abs(shares[0] - shares[1]).sum()))
    return float(np.mean(found))


def groups(columns: int, order: int) -> list[tuple[int, ...]]:
    """Return all columns or all pairs; of triples, a subset that is the same for all tools."""
    found = list(itertools.combinations(range(columns), order))
    if order < 3 or len(found) <= TRIPLES:
        return found
    picked = np.random.default_rng(0).choice(len(found), TRIPLES, replace=False)
    return [found[k] for k in picked]


def by_order(one: pd.DataFrame, other: pd.DataFrame, by: dict[str, Grid], orders: Sequence[int]) -> list[float]:
    """Return the similarity of two tables of values in the bins `by`, for each number of columns at a time."""
    codes = [coded(frame, by).to_numpy(np.int64) for frame in (one, other)]
    return [similarity(codes[0], codes[1], groups(len(by), order)) for order in orders]


def features(frame: pd.DataFrame, schema: Any) -> NDArray[np.float64]:
    """Return (rows, columns): numbers as they are, levels as their places in the schema's order."""
    made = {}
    for name, column in schema.columns.items():
        if column.levels:
            at = {str(level): float(k) for k, level in enumerate(column.levels)}
            made[name] = frame[name].astype(str).map(at).to_numpy(np.float64)
        else:
            made[name] = frame[name].to_numpy(np.float64, na_value=np.nan)
    return np.stack(list(made.values()), 1)


def propensity(train: pd.DataFrame, drawn: pd.DataFrame, schema: Any) -> float:
    """Return the mean AuROC over five folds of boosted trees that classify training rows against synthetic rows."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.model_selection import StratifiedKFold, cross_val_score

    rows = np.concatenate([features(train, schema), features(drawn, schema)])
    labels = np.repeat([0, 1], [len(train), len(drawn)])
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0)
    model = HistGradientBoostingClassifier(random_state=0)
    return float(cross_val_score(model, rows, labels, cv=folds, scoring="roc_auc").mean())


def overlap(train: pd.DataFrame, drawn: pd.DataFrame, schema: Any, target: str) -> float | None:
    """Return the mean overlap of the intervals of the report's regression, training rows against synthetic rows."""
    from medsynth.report.data import tables as inputs
    from medsynth.report.data.columns import cells_of
    from medsynth.report.sections.inference import inference

    found = inputs.gather(cells_of(train), cells_of(drawn), None, target, schema, np.random.default_rng(0))
    numbers = [name for name, column in schema.columns.items() if not column.levels and name != target]
    others = [name for name in schema.columns if name not in numbers and name != target]
    made = inference(found, None, numbers + others)
    return None if made is None else made.mean_overlap


def plain(frame: pd.DataFrame, numbers: frozenset[str]) -> pd.DataFrame:
    """Return numbers as floats, and other cells as text: 1.0 is 1, and False is false."""
    made: dict[str, Any] = {}
    for name in map(str, frame):
        number = pd.to_numeric(frame[name], errors="coerce")
        words = frame[name].astype(object).map(lambda cell: str(cell).lower() if isinstance(cell, bool) else cell)
        words = words.where(number.isna() | (frame[name].dtype == bool), number.map("{:g}".format))
        made[name] = number.astype(float) if name in numbers else words.mask(frame[name].isna())
    return pd.DataFrame(made)


def to_fitted(
    drawn: pd.DataFrame, train: pd.DataFrame, level: float = 0.0
) -> tuple[float, float, float | None, float | None]:
    """Return one- and two-way similarity to the training rows in the report's cells, and two shares of kept levels.

    The shares are those of levels that at least `level` of the training rows have, and of the rarer ones. Only columns
    with at most FEW levels count.
    """
    from medsynth.report.data.tables import Cells
    from medsynth.report.sections.fidelity import two_way
    from medsynth.similarity import similarity as in_cells

    wide = [name for name in train if pd.api.types.is_numeric_dtype(train[name]) and train[name].nunique() > FEW]
    numbers = frozenset(map(str, wide))
    one, other = (plain(frame, numbers) for frame in (train, drawn))
    cells = Cells.of(one, [other], numbers)
    real, made = cells.table(one), cells.table(other)
    counts = [cells.count(name) for name in map(str, one)]
    kept: dict[bool, list[bool]] = {True: [], False: []}
    for name in one:
        if name not in numbers:
            shares = one[name].value_counts(normalize=True)
            for word, share in shares.items() if len(shares) <= FEW else ():
                kept[share >= level].append(bool((other[name] == word).any()))
    found = float(np.mean([in_cells(real[:, k], made[:, k], n) for k, n in enumerate(counts)]))
    common, rare = (float(np.mean(kept[above])) if kept[above] else None for above in (True, False))
    return found, two_way(real, made, counts).value, common, rare


def changed(drawn: pd.DataFrame, train: pd.DataFrame) -> tuple[int, int, int]:
    """Return the numbers of columns with another dtype, with an invented level, and with other decimals."""
    from medsynth.schema.inference import OTHER

    types = sum(str(drawn[name].dtype).lower() != str(train[name].dtype).lower() for name in train)
    few = frozenset[str]()
    one, other = plain(train, few), plain(drawn, few)
    narrow = [name for name in one if one[name].nunique() <= FEW]
    invented = sum(not {*other[name].dropna()} <= {*one[name].dropna(), OTHER} for name in narrow)
    wide = [name for name in one if name not in narrow and pd.api.types.is_numeric_dtype(train[name])]
    return types, invented, sum(_decimals(train[name]) != _decimals(drawn[name]) for name in wide)


def _decimals(column: Any) -> int:
    """Return how many decimals 999 of 1,000 of a column's numbers have at most."""
    places = [len(f"{value:.10g}".partition(".")[2]) for value in pd.to_numeric(column, errors="coerce").dropna()]
    return int(np.quantile(places or [0], 0.999))


def classified(drawn: pd.DataFrame, test: pd.DataFrame, target: str, learned: int = LEARNED) -> Any:
    """Return the report's scores of classifiers that learn from the first `learned` rows and predict `test`."""
    with threadpool_limits(1):
        return score(drawn[:learned].reset_index(drop=True), test, target)


def score(train: pd.DataFrame, test: pd.DataFrame, target: str) -> dict[str, Any]:
    """Fit the report's classifiers to `train` and return their figures on `test`: macro, mean, best and micro_hard."""
    from sklearn.metrics import roc_auc_score

    from medsynth.report.data import protocol

    truth = test[target].astype(str).to_numpy()
    classes = np.unique(truth)
    macro: dict[str, float] = {}
    hard: dict[str, float] = {}
    for name, made in protocol.predict(train, test, target).items():
        chances = zip(classes, made.probabilities.T, strict=True)
        macro[name] = float(np.mean([roc_auc_score(truth == c, chance) for c, chance in chances]))
        hard[name] = protocol.micro_hard(truth, made.labels, classes)
    values = list(macro.values())
    return {"macro": macro, "micro_hard": hard, "mean": float(np.mean(values)), "best": max(values)}


def of_panel(
    drawn: pd.DataFrame, train: pd.DataFrame, test: pd.DataFrame, schema: Any, target: str, times: int = 1
) -> dict[str, Any]:
    """Return the panel's figures of `drawn`, which has `times` as many rows as `train`.

    Classifiers learn from its first 10,000 rows for each time. Trees and the regression see as many rows as `train`.
    """
    some = drawn if times == 1 else drawn.sample(len(train), random_state=0).reset_index(drop=True)
    same: dict[str, float] = {}
    for suffix, by in (("", grids(schema)), ("_quantile", grids(schema, train))):
        names = [name + suffix for name in ("one_way", "two_way", "three_way")]
        same |= dict(zip(names, by_order(train, drawn, by, (1, 2, 3)), strict=True))
    score = classified(drawn, test, target, LEARNED * times)
    with threadpool_limits(1):
        told, slopes = propensity(train, some, schema), overlap(train, some, schema, target)
    found = {"mean": score["mean"], "best": score["best"], **same, "propensity": told, "overlap": slopes}
    return {name: None if value is None else round(float(value), 4) for name, value in found.items()}


def of_report(drawn: pd.DataFrame, train: pd.DataFrame, test: pd.DataFrame, schema: Any, target: str) -> dict[str, Any]:
    """Return the report's own figures: classifiers, and fidelity with its ceiling, what a second real sample scores."""
    from medsynth.report.data import tables as inputs
    from medsynth.report.data.columns import cells_of
    from medsynth.report.sections.fidelity import fidelity

    score = classified(drawn, test, target, len(drawn))
    with threadpool_limits(1):
        rng = np.random.default_rng(0)
        real, made, fitted = (cells_of(frame) for frame in (test, drawn, train))
        found = fidelity(inputs.gather(real, made, fitted, target, schema, rng), rng)
    return {
        **{key: round(value, 4) for key, value in score["macro"].items()},
        "mean": round(score["mean"], 4),
        "best": round(score["best"], 4),
        **{key: round(getattr(found, key), 4) for key in ("one_way", "one_way_ceiling", "two_way", "two_way_ceiling")},
        "propensity_auroc": found.propensity_auroc.value and round(found.propensity_auroc.value, 4),
    }
