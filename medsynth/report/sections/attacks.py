"""Attacks that try to find who was in the training table. They can show a leak, never that there is none.

A new attack is a function, and a `MembershipAttack` or an `AttributeAttack` that is registered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.neighbors import NearestNeighbors

from ...rng import Stream
from ..data import statistics as stats
from ..data.columns import words
from ..data.context import Context
from ..data.over_time import Sequences
from ..data.statistics import Flags, Floats, Patients
from ..data.tables import Tables, keys, points
from ..data.verdict import Estimate, Outcome, Record, Thresholds, Verdict, decide
from .registry import Section

Points = NDArray[np.float64]  # (rows, dimensions), or one score a row
Values = NDArray[np.object_]
MOST = 3_000  # members and as many controls; a rank needs no more
POOL = 20_000  # synthetic rows an attack looks at
FAIR = 0.55  # AuROC: a blind baseline clearly above it means that controls are no fair ones
FEWEST = 20  # of members and of controls, for any statement
NEIGHBOURS = 5  # whose distance is the spacing of the rows
WEIGHED = 50  # nearest rows, the only ones with a weight worth counting
PATIENTS = 10_000  # synthetic patients an attack looks at


@dataclass(frozen=True)
class MembershipAttack:
    """Ranks rows by how likely each was in the training table.

    `score` takes the candidate rows, reference rows of the same population and the synthetic rows, all as points, and
    returns one score a candidate, larger for likelier members. `how` says in words what it does.
    """

    name: str
    how: str
    score: Callable[[Points, Points, Points], Points]


@dataclass(frozen=True)
class AttributeAttack:
    """Guesses one column of a row from all its other columns.

    `guess` takes the candidate rows and the synthetic rows without that column, as points, and the synthetic rows'
    values in it; it returns one guess a candidate.
    """

    name: str
    how: str
    guess: Callable[[Points, Points, Values], Values]


def distance(rows: Points, others: Points, k: int = 1) -> Points:
    """Distance from each row to its k-th nearest of `others`: (rows,)."""
    return nearest(rows, others, k)[:, -1]


def nearest(rows: Points, others: Points, k: int) -> Points:
    """Distances from each row to its k nearest of `others`, or to all if they are fewer: (rows, k)."""
    k = min(k, len(others))
    return np.asarray(NearestNeighbors(n_neighbors=k).fit(others).kneighbors(rows)[0])


def _nearest_row(candidates: Points, reference: Points, synthetic: Points) -> Points:
    return -distance(candidates, synthetic)


def _against_reference(candidates: Points, reference: Points, synthetic: Points) -> Points:
    return np.asarray((distance(candidates, reference) + 1e-6) / (distance(candidates, synthetic) + 1e-6))


def _density_ratio(candidates: Points, reference: Points, synthetic: Points) -> Points:
    """Log ratio of kernel densities of synthetic and reference rows (van Breugel et al. 2023, DOMIAS)."""
    return _log_density(candidates, synthetic) - _log_density(candidates, reference)


def _log_density(rows: Points, others: Points) -> Points:
    """Log of a Gaussian kernel density at a bandwidth of the `others`' spacing, up to a constant: (rows,)."""
    spacing = distance(others[:2000], others, NEIGHBOURS + 1)  # the nearest row is the row itself
    width = max(float(np.median(spacing)), 1e-3)
    near = nearest(rows, others, WEIGHED)
    return np.asarray(np.logaddexp.reduce(-((near / width) ** 2) / 2, axis=1) - np.log(len(others)))


def _learned_ratio(candidates: Points, reference: Points, synthetic: Points) -> Points:
    """Log odds that a row is synthetic and not real, by boosted trees trained on synthetic and reference rows."""
    rows = np.concatenate([synthetic[: 4 * len(reference)], reference])
    marks = np.repeat([1, 0], [len(rows) - len(reference), len(reference)])
    model = HistGradientBoostingClassifier(random_state=0, max_iter=60).fit(rows, marks)
    return np.asarray(model.decision_function(candidates))


def _nearest_value(candidates: Points, synthetic: Points, values: Values) -> Values:
    index = NearestNeighbors(n_neighbors=1).fit(synthetic)
    found: Values = values[index.kneighbors(candidates)[1][:, 0]]
    return found


Attack = MembershipAttack | AttributeAttack
_INCLUDED: tuple[Attack, ...] = (
    MembershipAttack("nearest row", "a row that is close to a synthetic row is called a member", _nearest_row),
    MembershipAttack(
        "nearest row against reference",
        "the same, measured against the distance to other real rows",
        _against_reference,
    ),
    MembershipAttack(
        "density ratio",
        "rows where synthetic rows are denser than other real rows are called members (after DOMIAS)",
        _density_ratio,
    ),
    MembershipAttack("learned density ratio", "the same ratio, learned by boosted trees", _learned_ratio),
    AttributeAttack(
        "nearest row's value",
        "the value of the synthetic row that is most similar in all other columns",
        _nearest_value,
    ),
)
ATTACKS = {attack.name: attack for attack in _INCLUDED}  # in the order of the page
# On the points of whole patients, with all rows of each together.
OF_PATIENTS = (
    MembershipAttack("nearest patient", "all rows of a patient against those of each synthetic patient", _nearest_row),
    MembershipAttack("nearest patient against reference", "the same, against other real patients", _against_reference),
)


def register(attack: Attack) -> Attack:
    """Add an attack. Raises ValueError for a name in use."""
    if attack.name in ATTACKS:
        raise ValueError(f"There already is an attack {attack.name!r}.")
    ATTACKS[attack.name] = attack
    return attack


class Membership(Record):
    """One membership attack. `advantage` is 2 AuROC - 1; rates are true positives.

    The intervals of the advantages hold for all attacks together, so that of the worst attack is right though it was
    looked at because it is the worst; the other intervals hold one by one.
    """

    name: str
    how: str
    auroc: Estimate
    advantage: Estimate
    at_one_percent: Estimate
    at_one_per_mille: Estimate


def memberships(
    scored: Sequence[tuple[MembershipAttack, Points]], member: Flags, rng: Stream, patients: Patients | None = None
) -> tuple[str, list[Membership]]:
    """The name of the attack with the largest advantage, and the figures of all, from their scores, (rows,)."""
    measured = stats.Areas(np.stack([member] * len(scored)), np.stack([score for _, score in scored]))
    areas, draws = measured.value, stats.resampled(len(member), rng, measured, patients)
    advantages = stats.simultaneous(2 * areas - 1, 2 * draws - 1)
    found = [
        Membership(
            name=attack.name,
            how=attack.how,
            auroc=stats.interval(areas[k], draws[:, k]),
            advantage=advantages[k],
            at_one_percent=_rate(member, score, 0.01, rng, patients),
            at_one_per_mille=_rate(member, score, 0.001, rng, patients),
        )
        for k, (attack, score) in enumerate(scored)
    ]
    return scored[int(areas.argmax())][0].name, found


def blind_baseline(candidates: Points, member: Flags, rng: Stream, patients: Patients | None = None) -> Estimate:
    """AuROC of boosted trees that separate members from controls, out of fold (Das, Zhang, Tramer 2024).

    Folds hold whole patients: another row of the same patient would tell which side a row is on.
    """
    model = HistGradientBoostingClassifier(random_state=0, max_iter=60)
    score = stats.out_of_fold(model, candidates, member, stats.folds(member, 3, patients))
    areas = stats.Areas(member[None], score[None])
    return stats.interval(areas.value[0], stats.resampled(len(member), rng, areas, patients)[:, 0])


def _rate(member: Flags, score: Points, false: float, rng: Stream, patients: Patients | None) -> Estimate:
    """True-positive rate at a false-positive rate of at most `false`. None with fewer than 1/false controls."""
    if (~member).sum() * false < 1:
        return Estimate(value=None)

    def rate(weights: Points) -> Points:
        found = []
        order = np.argsort(-score, kind="stable")
        for w in weights[:, order]:
            misses = np.cumsum(w * ~member[order])
            over = np.searchsorted(misses, false * misses[-1], side="right")
            found.append((w * member[order])[:over].sum() / max((w * member[order]).sum(), 1))
        return np.array(found)

    return stats.interval(float(rate(np.ones((1, len(member))))[0]), stats.resampled(len(member), rng, rate, patients))


def whole_patients(
    sequences: Mapping[str, Sequences], members: Patients, controls: Patients, reference: Patients, rng: Stream
) -> list[tuple[MembershipAttack, Points]]:
    """Each attack with the score of every candidate row, members first: that of the row's patient, (rows,).

    sequences: of the tables "train", "real" and "synthetic". members, controls: the patient of each candidate row;
    reference: patients of real rows that the attacker has.
    """
    parts = [
        sequences["train"].of(np.isin(sequences["train"].patient, members)),
        sequences["real"].of(np.isin(sequences["real"].patient, controls)),
        sequences["real"].of(np.isin(sequences["real"].patient, reference)),
        sequences["synthetic"].some(PATIENTS, rng),
    ]
    found = as_points(parts)
    candidates = np.concatenate(found[:2])
    known = np.concatenate([np.unique(part.patient) for part in parts[:2]])
    order = np.argsort(known)
    place = order[np.searchsorted(known[order], np.concatenate([members, controls]))]
    return [(attack, attack.score(candidates, found[2], found[3])[place]) for attack in OF_PATIENTS]


def as_points(parts: list[Sequences]) -> list[Points]:
    """Each table's patients as points, (patients, dimensions): mean, first and last row, and the number of rows."""
    frames = [part.rows for part in parts]
    most = max(int(part.sizes.max(initial=1)) for part in parts)
    made = []
    for part, rows in zip(parts, points(parts[0].numbers, frames), strict=True):
        ends = np.cumsum(part.sizes)
        starts = ends - part.sizes
        mean = np.add.reduceat(rows, starts, axis=0) / part.sizes[:, None]
        made.append(np.concatenate([mean, rows[starts], rows[ends - 1], part.sizes[:, None] / most], 1))
    return made


class Attribute(Record):
    """Guessing one column from all others by the synthetic rows: share guessed right, of members and of controls."""

    attack: str
    how: str
    column: str
    members: float
    controls: float
    excess: Estimate
    most_frequent: float


def attribute(
    attack: AttributeAttack, tables: Tables, frames: Sequence[pd.DataFrame], column: str, rng: Stream
) -> Attribute:
    """The figures of one attack on one column; `frames` are members, controls, synthetic rows.

    Numbers count as right within their fifth of the real rows.
    """
    others = [name for name in tables.names if name != column]
    *candidates, synthetic = points(tables.numbers, [frame[others] for frame in frames])
    *truth, values = (_values(frame, column, tables) for frame in frames)
    right = [attack.guess(rows, synthetic, values) == v for rows, v in zip(candidates, truth, strict=True)]
    members, controls = (float(r.mean()) for r in right)
    own = [tables.patients_of(frame, part) for frame, part in zip(frames, ("train", "real"), strict=False)]
    draws = [stats.resampled(len(r), rng, partial(_share, r), p) for r, p in zip(right, own, strict=True)]
    return Attribute(
        attack=attack.name,
        how=attack.how,
        column=column,
        members=members,
        controls=controls,
        excess=stats.interval(members - controls, draws[0] - draws[1]),
        most_frequent=float(pd.Series(truth[1]).value_counts(normalize=True).iloc[0]),
    )


def _share(right: NDArray[np.bool_], weights: Floats) -> Floats:
    """The weighted share of rows guessed right, for every resample (draws, rows)."""
    return np.asarray(weights @ right / np.maximum(weights.sum(1), 1))


def _values(frame: pd.DataFrame, column: str, tables: Tables) -> Values:
    if column not in tables.numbers:
        return words(frame[column]).fillna("").to_numpy(object)
    known = tables.real[column].dropna().to_numpy(np.float64)
    edges = np.unique(np.quantile(known, np.linspace(0, 1, 6)[1:-1])) if len(known) else known
    return np.searchsorted(edges, frame[column].to_numpy(np.float64)).astype(object)


class Attacks(Record):
    """`worst` names the membership attack with the largest advantage.

    `blind`: AuROC of separating members from controls without looking at a synthetic row. Where it is not near 0.5,
    the two differ by themselves and no attack's figure can be read as a leak: `fair` is false.
    """

    members: int
    controls: int
    blind: Estimate
    fair: bool
    worst: str
    membership: list[Membership]
    attributes: list[Attribute]
    copies: int
    copies_of_controls: int
    unique_members: int
    unique_controls: int
    canary: str


def attacks(
    tables: Tables, sensitive: list[str], rng: Stream, sequences: Mapping[str, Sequences] | None = None
) -> Attacks | None:
    """Every figure of the section, or None without a training table or with too few rows.

    Controls are held-out rows. Half of them are the attacker's reference rows, half are candidates beside the members;
    where patients are the unit, half of the patients. With the `sequences` of the tables whole patients are compared,
    too: a row's score is then that of its patient.
    """
    if tables.train is None or min(len(tables.train), len(tables.real)) < 2 * FEWEST:
        return None
    split = stats.halves(len(tables.real), rng, tables.patients.get("real"))
    reference, controls = (tables.real.iloc[rows] for rows in split)
    controls, members = _some(controls, MOST, rng), _some(tables.train, MOST, rng)
    synthetic = _some(tables.synthetic, POOL, rng)
    coded = points(tables.numbers, [members, controls, reference, synthetic])
    candidates = np.concatenate(coded[:2])
    member = np.repeat([True, False], [len(members), len(controls)])
    own = [tables.patients_of(frame, part) for frame, part in ((members, "train"), (controls, "real"))]
    patients = np.concatenate([numbers for numbers in own if numbers is not None]) if tables.patients else None
    run = [attack for attack in ATTACKS.values() if isinstance(attack, MembershipAttack)]
    scored = [(attack, attack.score(candidates, coded[2], coded[3])) for attack in run]
    if sequences and patients is not None:
        others = tables.patients["real"][split[0]]
        scored += whole_patients(sequences, patients[member], patients[~member], others, rng)
    worst, found = memberships(scored, member, rng, patients)
    blind = blind_baseline(candidates, member, rng, patients)
    unique = [_unique(frame) for frame in (tables.train, tables.real)]
    made = set(keys(tables.synthetic))
    return Attacks(
        members=len(members),
        controls=len(controls),
        blind=blind,
        fair=blind.low is not None and blind.low < FAIR,
        worst=worst,
        membership=found,
        attributes=[
            attribute(attack, tables, (members, controls, synthetic), name, rng)
            for attack in ATTACKS.values()
            if isinstance(attack, AttributeAttack)
            for name in sensitive
        ],
        copies=sum(row in made for row in unique[0]),
        copies_of_controls=sum(row in made for row in unique[1]),
        unique_members=len(unique[0]),
        unique_controls=len(unique[1]),
        canary="No canary audit was run.",
    )


def _some(frame: pd.DataFrame, most: int, rng: Stream) -> pd.DataFrame:
    return frame if len(frame) <= most else frame.iloc[rng.choice(len(frame), most, replace=False)]


def _unique(frame: pd.DataFrame) -> list[str]:
    """Rows that occur once in their table."""
    counts = keys(frame).value_counts()
    return [str(row) for row in counts.index[counts == 1]]


def _verdicts(found: Attacks | None, thresholds: Thresholds) -> Sequence[Verdict]:
    limit, nothing = thresholds.attack_advantage, "An attack that finds nothing proves nothing."
    outcome: Outcome | None = None
    if found is None:
        worst = Estimate(value=None)
        detail = "No attack was run: that needs the training table and held-out rows as controls."
    else:
        name, worst = next((m.name, m.advantage) for m in found.membership if m.name == found.worst)
        detail = f"Worst of {len(found.membership)} attacks: {name}; its interval allows for looking at all. {nothing}"
        if not found.fair:
            outcome = "not judged"
            detail += (
                f" Not to be judged: members and controls differ by themselves (AuROC {found.blind} without a look at "
                "the synthetic rows), so this shows neither a leak nor its absence. Hold rows out at random when you "
                "fit."
            )
        elif _undecided(worst, limit.limit):
            outcome = "too few rows"
            detail += (
                f" Too few rows to tell: with {found.members:,} members and {found.controls:,} controls the interval "
                f"holds both no advantage at all and more than {limit.limit:g}. Hold out more rows."
            )
    question = "Did an attack find who was in the table?"
    return [decide("attack_advantage", question, "membership advantage", worst, limit, detail, instead=outcome)]


def _undecided(worst: Estimate, limit: float) -> bool:
    """Whether an interval holds both no advantage and one beyond the limit."""
    return worst.low is not None and worst.high is not None and worst.low <= 0 < limit < worst.high


def _compute(context: Context) -> Attacks | None:
    tables, roles = context.compared, context.review.roles
    sensitive = [name for name, role in roles.items() if role == "sensitive"] or [context.target]
    return attacks(tables, [name for name in sensitive if name in tables.names], context.rng, context.sequences)


ATTACKED = Section(
    "attacks", "Attacks", _compute, Attacks, variant="internal", needs=("real rows",), always=True, verdicts=_verdicts
)
