"""Attacks that try to tell who was in the training table. They can show a leak, never that there is none."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.neighbors import NearestNeighbors

from ...rng import Stream
from ..data.cells import points
from ..data.records import Figure, Part
from ..data.statistics import auroc, interval, resampled
from ..data.tables import Tables, keys, words

Points = NDArray[np.float64]
MOST = 3_000  # members and as many controls; a rank needs no more
POOL = 20_000  # synthetic rows an attack looks at
NEIGHBOURS = 5
FAIR = 0.55  # AuROC: a blind baseline clearly above it means that controls are no fair ones
FEWEST = 20  # of members and of controls, for any statement


class Membership(Part):
    """One membership attack on rows that did not choose it. `advantage` is 2 AuROC - 1; rates are true positives."""

    name: str
    how: str
    auroc: Figure
    advantage: Figure
    at_one_percent: Figure
    at_one_per_mille: Figure


class Attribute(Part):
    """Guessing one column from all others by the synthetic rows: share guessed right, of members and of controls."""

    column: str
    members: float
    controls: float
    excess: Figure
    most_frequent: float


class Attacks(Part):
    """Section 12. `best` names the attack that did best on the half of the rows that chose it.

    `blind`: AuROC of telling members from controls without looking at a synthetic row. Where it is not near 0.5, the
    two differ by themselves and no attack's figure can be read as a leak: `fair` is false.
    """

    members: int
    controls: int
    blind: Figure
    fair: bool
    best: str
    membership: list[Membership]
    attributes: list[Attribute]
    copies: int
    copies_of_controls: int
    unique_members: int
    unique_controls: int
    canary: str


def attacks(tables: Tables, sensitive: list[str], rng: Stream) -> Attacks | None:
    """Every figure of the section, or None without --train or with too few rows.

    Controls are held-out rows. Half of them serve the attacker as reference rows, half are judged.
    """
    if tables.train is None or min(len(tables.train), len(tables.real)) < 2 * FEWEST:
        return None
    reference, controls = _halves(tables.real, rng)
    controls, members = _some(controls, MOST, rng), _some(tables.train, MOST, rng)
    synthetic = _some(tables.synthetic, POOL, rng)
    coded = points(tables, [members, controls, reference, synthetic])
    judged = np.concatenate(coded[:2])
    member = np.repeat([True, False], [len(members), len(controls)])
    scores = {name: attack(judged, coded[2], coded[3]) for name, attack in ATTACKS.items()}
    # The best attack is chosen on one half of the rows and judged on the other: else chance would flatter it.
    chooses = rng.random(len(member)) < 0.5
    best = max(scores, key=lambda name: float(auroc(member[chooses], scores[name][chooses])[0]))
    blind = _blind(judged, member, rng)
    found = [_membership(name, member[~chooses], score[~chooses], rng) for name, score in scores.items()]
    unique = [_unique(frame) for frame in (tables.train, tables.real)]
    made = set(keys(tables.synthetic))
    return Attacks(
        members=len(members),
        controls=len(controls),
        blind=blind,
        fair=blind.low is not None and blind.low < FAIR,
        best=best,
        membership=found,
        attributes=[_attribute(tables, members, controls, synthetic, name, rng) for name in sensitive],
        copies=sum(row in made for row in unique[0]),
        copies_of_controls=sum(row in made for row in unique[1]),
        unique_members=len(unique[0]),
        unique_controls=len(unique[1]),
        canary="No canary audit was run.",
    )


def _blind(judged: Points, member: NDArray[np.bool_], rng: Stream) -> Figure:
    """Boosted trees that tell members from controls by themselves, out of fold (Das, Zhang, Tramer 2024)."""
    model = HistGradientBoostingClassifier(random_state=0, max_iter=60)
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    chance = cross_val_predict(model, judged, member, cv=folds, method="predict_proba")[:, 1]
    return interval(auroc(member, chance)[0], resampled(len(member), rng, lambda w: auroc(member, chance, w)))


def _halves(frame: pd.DataFrame, rng: Stream) -> tuple[pd.DataFrame, pd.DataFrame]:
    order = rng.permutation(len(frame))
    return frame.iloc[order[::2]], frame.iloc[order[1::2]]


def _some(frame: pd.DataFrame, most: int, rng: Stream) -> pd.DataFrame:
    return frame if len(frame) <= most else frame.iloc[rng.choice(len(frame), most, replace=False)]


def _distance(rows: Points, others: Points, k: int = 1) -> Points:
    """Distance from each row to its k-th nearest of `others`: (rows,)."""
    k = min(k, len(others))
    return np.asarray(NearestNeighbors(n_neighbors=k).fit(others).kneighbors(rows)[0][:, -1])


def _nearest(judged: Points, reference: Points, synthetic: Points) -> Points:
    return -_distance(judged, synthetic)


def _nearest_ratio(judged: Points, reference: Points, synthetic: Points) -> Points:
    return np.asarray((_distance(judged, reference) + 1e-6) / (_distance(judged, synthetic) + 1e-6))


def _density_ratio(judged: Points, reference: Points, synthetic: Points) -> Points:
    """Log ratio of kernel densities of synthetic and reference rows, each at a bandwidth of its rows' spacing."""
    return _log_density(judged, synthetic) - _log_density(judged, reference)


def _log_density(rows: Points, others: Points) -> Points:
    """Log of a Gaussian kernel density (up to a constant) from the 50 nearest rows, the only ones that weigh."""
    spacing = _distance(others[:2000], others, NEIGHBOURS + 1)  # the nearest row is the row itself
    width = max(float(np.median(spacing)), 1e-3)
    near = NearestNeighbors(n_neighbors=min(50, len(others))).fit(others).kneighbors(rows)[0]
    return np.asarray(np.logaddexp.reduce(-((near / width) ** 2) / 2, axis=1) - np.log(len(others)))


def _learned_ratio(judged: Points, reference: Points, synthetic: Points) -> Points:
    """Log odds that a row is synthetic and not real, by boosted trees trained on synthetic and reference rows."""
    rows = np.concatenate([synthetic[: 4 * len(reference)], reference])
    marks = np.repeat([1, 0], [len(rows) - len(reference), len(reference)])
    model = HistGradientBoostingClassifier(random_state=0, max_iter=60).fit(rows, marks)
    return np.asarray(model.decision_function(judged))


ATTACKS: dict[str, Callable[[Points, Points, Points], Points]] = {
    "nearest row": _nearest,
    "nearest row against reference": _nearest_ratio,
    "density ratio": _density_ratio,
    "learned density ratio": _learned_ratio,
}
HOW = {
    "nearest row": "a row with a synthetic row close by is called a member",
    "nearest row against reference": "the same, measured against the distance to other real rows",
    "density ratio": "rows where synthetic rows are denser than other real rows (in the line of DOMIAS)",
    "learned density ratio": "the same ratio, learned by boosted trees",
}


def _membership(name: str, member: NDArray[np.bool_], score: Points, rng: Stream) -> Membership:
    area = auroc(member, score)[0]
    areas = resampled(len(member), rng, lambda weights: auroc(member, score, weights))
    return Membership(
        name=name,
        how=HOW[name],
        auroc=interval(area, areas),
        advantage=interval(2 * area - 1, 2 * areas - 1),
        at_one_percent=_rate(member, score, 0.01, rng),
        at_one_per_mille=_rate(member, score, 0.001, rng),
    )


def _rate(member: NDArray[np.bool_], score: Points, false: float, rng: Stream) -> Figure:
    """True-positive rate at a false-positive rate of at most `false`. None with fewer than 1/false controls."""
    if (~member).sum() * false < 1:
        return Figure(value=None)

    def rate(weights: Points) -> Points:
        found = []
        order = np.argsort(-score, kind="stable")
        for w in weights[:, order]:
            misses = np.cumsum(w * ~member[order])
            over = np.searchsorted(misses, false * misses[-1], side="right")
            found.append((w * member[order])[:over].sum() / max((w * member[order]).sum(), 1))
        return np.array(found)

    return interval(float(rate(np.ones((1, len(member))))[0]), resampled(len(member), rng, rate))


def _unique(frame: pd.DataFrame) -> list[str]:
    """Rows that stand once in their table."""
    counts = keys(frame).value_counts()
    return [str(row) for row in counts.index[counts == 1]]


def _attribute(
    tables: Tables, members: pd.DataFrame, controls: pd.DataFrame, synthetic: pd.DataFrame, column: str, rng: Stream
) -> Attribute:
    """The nearest synthetic row by all other columns lends its value. Numbers count as right within their cell."""
    others = [name for name in tables.names if name != column]
    part = Tables(tables.real[others], tables.synthetic[others], None, others[0], tables.numbers)
    coded = points(part, [frame[others] for frame in (members, controls, synthetic)])
    index = NearestNeighbors(n_neighbors=1).fit(coded[2])
    values = [_value(frame, column, tables) for frame in (members, controls, synthetic)]
    right = [values[2][index.kneighbors(rows)[1][:, 0]] == v for rows, v in zip(coded, values[:2], strict=False)]
    share = [float(r.mean()) for r in right]
    draws = [resampled(len(r), rng, lambda w, r=r: w @ r / np.maximum(w.sum(1), 1)) for r in right]  # type: ignore[misc]
    return Attribute(
        column=column,
        members=share[0],
        controls=share[1],
        excess=interval(share[0] - share[1], draws[0] - draws[1]),
        most_frequent=float(pd.Series(values[1]).value_counts(normalize=True).iloc[0]),
    )


def _value(frame: pd.DataFrame, column: str, tables: Tables) -> NDArray[np.object_]:
    if column not in tables.numbers:
        return words(frame[column]).fillna("").to_numpy(object)
    known = tables.real[column].dropna().to_numpy(np.float64)
    edges = np.unique(np.quantile(known, np.linspace(0, 1, 6)[1:-1])) if len(known) else known
    return np.searchsorted(edges, frame[column].to_numpy(np.float64)).astype(object)
