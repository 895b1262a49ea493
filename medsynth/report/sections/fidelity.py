"""Does the table look like the patients? Every figure stands beside what a second real sample scores."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ...rng import Stream
from ...schema import Schema
from ..data.cells import Coding
from ..data.protocol import features
from ..data.records import Figure, Part
from ..data.statistics import auroc, interval, resampled
from ..data.tables import Tables, words

Cells = NDArray[np.int64]
Bars = tuple[list[str], list[NDArray[np.float64]]]
TELLING_ROWS = 10_000  # of each table, for the classifier that tells them apart
WIDTH = 24  # bars of a number column's overlay


class ColumnFidelity(Part):
    """One column: similarity of its distribution, 1 less total variation, and shares for the overlay.

    `labels` name the bars; `real` and `synthetic` are their shares of rows; `missing_*` shares of missing cells.
    """

    name: str
    kind: str
    similarity: float
    ceiling: float
    missing_real: float
    missing_synthetic: float
    labels: list[str]
    real: list[float]
    synthetic: list[float]


class Fidelity(Part):
    """Section 10. Associations are Cramer's V between cells, (columns, columns)."""

    rows_compared: int
    one_way: float
    one_way_ceiling: float
    two_way: float
    two_way_ceiling: float
    telling: Figure
    telling_ceiling: Figure
    telling_columns: list[tuple[str, float]]
    pmse_ratio: float | None
    columns: list[ColumnFidelity]
    names: list[str]
    association_real: list[list[float]]
    association_synthetic: list[list[float]]
    association_gap: float
    missing_pairs: float | None


def fidelity(tables: Tables, rng: Stream) -> Fidelity:
    """Every figure of the section.

    With --train, a second real sample is at hand: the training rows. Else the held-out rows are halved. The synthetic
    rows are cut to the second sample's size, since small samples differ from one another by chance alone.
    """
    coding = Coding.of(tables)
    first, second = _two_real_samples(tables, rng)
    size = min(len(second), len(tables.synthetic))
    other = tables.synthetic.iloc[np.sort(rng.choice(len(tables.synthetic), size, replace=False))]
    second = second.iloc[np.sort(rng.choice(len(second), size, replace=False))]
    real, twin, made = (coding.table(frame) for frame in (first, second, other))
    cells = [coding.cells(name) for name in tables.names]
    pairs = list(itertools.combinations(range(len(cells)), 2))
    columns = [_column(tables, name, k, (real, twin, made), cells[k]) for k, name in enumerate(tables.names)]
    one, top = np.mean([c.similarity for c in columns]), np.mean([c.ceiling for c in columns])
    two = np.mean([[_pair(real, x, cells, i, j) for i, j in pairs] for x in (made, twin)], axis=1)
    association = [_association(x, cells) for x in (real, made)]
    telling, giveaway = _telling(first, other, tables, rng)
    return Fidelity(
        rows_compared=size,
        one_way=float(one),
        one_way_ceiling=float(top),
        two_way=float(two[0]),
        two_way_ceiling=float(two[1]),
        telling=telling,
        telling_ceiling=_telling(first, second, tables, rng)[0],
        telling_columns=giveaway,
        pmse_ratio=_pmse_ratio(first, other),
        columns=columns,
        names=tables.names,
        association_real=np.round(association[0], 3).tolist(),
        association_synthetic=np.round(association[1], 3).tolist(),
        association_gap=float(np.abs(association[0] - association[1])[np.triu_indices(len(cells), 1)].mean()),
        missing_pairs=_missing_pairs(first, other),
    )


def column_summaries(frame: pd.DataFrame, schema: Schema | None) -> list[tuple[str, list[str], list[float], float]]:
    """Each column of one table by itself: name, labels and shares of its bars, share missing."""
    found = []
    for name in map(str, frame.columns):
        column = schema.columns.get(name) if schema else None
        number = not column.categorical if column else pd.api.types.is_numeric_dtype(frame[name])
        values = pd.to_numeric(frame[name], errors="coerce") if number else frame[name]
        labels, shares = (_bars if number else _levels)(values, values)
        found.append((name, labels, np.round(shares[0], 5).tolist(), float(frame[name].isna().mean())))
    return found


def _two_real_samples(tables: Tables, rng: Stream) -> tuple[pd.DataFrame, pd.DataFrame]:
    if tables.train is not None:
        return tables.real, tables.train
    order = rng.permutation(len(tables.real))
    half = len(order) // 2
    return tables.real.iloc[order[:half]], tables.real.iloc[order[half:]]


def _similarity(one: Cells, other: Cells, cells: int) -> float:
    shares = [np.bincount(x, minlength=cells) / len(x) for x in (one, other)]
    return float(1 - np.abs(shares[0] - shares[1]).sum() / 2)


def _pair(one: Cells, other: Cells, cells: list[int], i: int, j: int) -> float:
    both = [x[:, i] * cells[j] + x[:, j] for x in (one, other)]
    return _similarity(both[0], both[1], cells[i] * cells[j])


def _column(tables: Tables, name: str, k: int, coded: tuple[Cells, Cells, Cells], cells: int) -> ColumnFidelity:
    real, twin, made = (x[:, k] for x in coded)
    frames = tables.real[name], tables.synthetic[name]
    labels, shares = _bars(*frames) if name in tables.numbers else _levels(*frames)
    return ColumnFidelity(
        name=name,
        kind="number" if name in tables.numbers else "levels",
        similarity=_similarity(real, made, cells),
        ceiling=_similarity(real, twin, cells),
        missing_real=float(frames[0].isna().mean()),
        missing_synthetic=float(frames[1].isna().mean()),
        labels=labels,
        real=np.round(shares[0], 5).tolist(),
        synthetic=np.round(shares[1], 5).tolist(),
    )


def _bars(real: pd.Series, made: pd.Series) -> Bars:
    """Shares in equally wide bars between the 0.5 % and 99.5 % quantiles of the real rows, on a log scale if skewed."""
    known = real.dropna().to_numpy(np.float64)
    if not len(known):
        return [], [np.zeros(0), np.zeros(0)]
    low, high = np.quantile(known, [0.005, 0.995])
    positive = known[known > 0]
    skewed = known.min() >= 0 and len(positive) > 10 and high > 15 * np.median(positive)
    if skewed:
        low = max(low, float(np.quantile(positive, 0.01)))
        edges = np.geomspace(low, max(high, low * 1.01), WIDTH + 1)
    else:
        whole = bool((known == np.round(known)).all()) and high - low < WIDTH
        edges = np.arange(low - 0.5, high + 1) if whole else np.linspace(low, high + 1e-9 * (1 + abs(high)), WIDTH + 1)
    shares: list[NDArray[np.float64]] = []
    for values in (known, made.dropna().to_numpy(np.float64)):
        inside = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, len(edges) - 2)
        shares.append(np.asarray(np.bincount(inside, minlength=len(edges) - 1) / max(len(values), 1), np.float64))
    return [f"{a:.4g} to {b:.4g}" for a, b in itertools.pairwise(edges)], shares


def _levels(real: pd.Series, made: pd.Series) -> Bars:
    counts = [words(column).value_counts(normalize=True) for column in (real, made)]
    shown = list(counts[0].index[:WIDTH]) + [x for x in counts[1].index if x not in counts[0].index][:4]
    shown = sorted(shown) if len(shown) <= 8 else shown
    return [str(x) for x in shown], [np.asarray(c.reindex(shown).fillna(0), np.float64) for c in counts]


def _association(coded: Cells, cells: list[int]) -> NDArray[np.float64]:
    """Cramer's V of every pair of columns, corrected for the bias of small samples (Bergsma 2013)."""
    n, k = coded.shape
    found = np.eye(k)
    for i, j in itertools.combinations(range(k), 2):
        counts = np.bincount(coded[:, i] * cells[j] + coded[:, j], minlength=cells[i] * cells[j])
        table = counts.reshape(cells[i], cells[j]).astype(np.float64)
        table = table[table.sum(1) > 0][:, table.sum(0) > 0]
        r, c = table.shape
        expected = np.outer(table.sum(1), table.sum(0)) / n
        phi = max(0.0, float(((table - expected) ** 2 / expected).sum()) / n - (r - 1) * (c - 1) / (n - 1))
        smaller = min(r - (r - 1) ** 2 / (n - 1), c - (c - 1) ** 2 / (n - 1)) - 1
        found[i, j] = found[j, i] = min(1.0, float(np.sqrt(phi / smaller))) if smaller > 0 else 0.0
    return found


def _telling(
    real: pd.DataFrame, other: pd.DataFrame, tables: Tables, rng: Stream
) -> tuple[Figure, list[tuple[str, float]]]:
    """AuROC of boosted trees that tell two tables apart, out of fold, and how much each column helps them."""
    size = min(len(real), len(other), TELLING_ROWS)
    if size < 20:
        return Figure(value=None), []
    one, two = (f.iloc[rng.choice(len(f), size, replace=False)] for f in (real, other))
    x = _plain(pd.concat([one, two], ignore_index=True), tables)
    y = np.repeat([False, True], size)
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    model = HistGradientBoostingClassifier(random_state=0)
    chance = cross_val_predict(model, x, y, cv=folds, method="predict_proba")[:, 1]
    value = interval(auroc(y, chance)[0], resampled(2 * size, rng, lambda w: auroc(y, chance, w)))
    inside, outside = next(folds.split(x, y))
    model.fit(x[inside], y[inside])
    part, hit = x[outside], y[outside]
    base = auroc(hit, model.predict_proba(part)[:, 1])[0]
    helps = []
    for k, name in enumerate(tables.names):
        shuffled = part.copy()
        shuffled[:, k] = rng.permutation(part[:, k])
        helps.append((name, round(float(base - auroc(hit, model.predict_proba(shuffled)[:, 1])[0]), 4)))
    return value, sorted(helps, key=lambda item: -item[1])[:8]


def _plain(frame: pd.DataFrame, tables: Tables) -> NDArray[np.float64]:
    """Numbers as they are, words as codes, missing as NaN: what trees can read."""
    columns = [
        frame[name].to_numpy(np.float64)
        if name in tables.numbers
        else np.where(frame[name].isna(), np.nan, pd.factorize(words(frame[name]), sort=True)[0])
        for name in frame.columns
    ]
    return np.stack(columns, 1)


def _pmse_ratio(real: pd.DataFrame, other: pd.DataFrame) -> float | None:
    """Propensity mean squared error of a main-effects logistic model over its expectation under no difference.

    Snoke, Raab, Nowok, Dibben, Slavkovic 2018, equation 2 and section 3. 1 is what equal distributions give.
    """
    marked = pd.concat([real.assign(__other=0), other.assign(__other=1)], ignore_index=True)
    x, _ = features(marked, marked.iloc[:1], "__other")
    x = x[:, x.std(0) > 0]
    y = marked["__other"].to_numpy()
    if not x.shape[1]:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = make_pipeline(StandardScaler(), LogisticRegression(C=1e4, max_iter=500))
        chance = model.fit(x, y).predict_proba(x)[:, 1]
    share, n = y.mean(), len(y)
    expected = np.linalg.matrix_rank(x) * (1 - share) ** 2 * share / n
    return float(np.square(chance - share).mean() / expected) if expected else None


def _missing_pairs(real: pd.DataFrame, other: pd.DataFrame) -> float | None:
    """Mean absolute difference of the shares of rows in which two columns are both missing; None if none ever is."""
    gone = [frame.isna() for frame in (real, other)]
    names = [name for name in real.columns if gone[0][name].any() or gone[1][name].any()]
    if not names:
        return None
    shares = [g[names].to_numpy(np.float64) for g in gone]
    joint = [s.T @ s / len(s) for s in shares]
    return float(np.abs(joint[0] - joint[1])[np.triu_indices(len(names))].mean())
