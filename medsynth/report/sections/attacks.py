"""Attacks that try to find who was in the training table. They can show a leak, but never that there is none.

To add an attack, write a function and register a `MembershipAttack` or an `AttributeAttack`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.neighbors import NearestNeighbors

from ...arrays import Floats, Mask, Texts, Whole
from ...rng import Stream
from ..data import statistics as stats
from ..data.columns import words
from ..data.context import Context
from ..data.over_time import Sequences
from ..data.question import QUESTIONS
from ..data.statistics import Patients
from ..data.tables import Tables, keys, points
from ..data.verdict import Estimate, Outcome, Record, Thresholds, Verdict
from .claim import Claim
from .registry import Section

Points = Floats  # (rows, dimensions), or one score per row.
Values = Texts
MOST = 3_000  # Number of members and of controls. Ranks need no more.
POOL = 20_000  # Synthetic rows that an attack uses.
FAIR = 0.55  # AuROC of the blind baseline. Clearly above it, the controls are not fair.
FEWEST = 20  # Number of members and of controls that any statement needs.
NEIGHBOURS = 5  # The spacing of rows is the distance to this neighbour.
WEIGHED = 50  # Nearest rows in a kernel density. The weights of others are negligible.
SOME = 200  # Best rows among which those with few false alarms are looked for first.
PATIENTS = 10_000  # Synthetic patients that an attack uses.
NO_ATTACK = "No attack was run. Attacks need the training table and held-out rows as controls."
RUN_ATTACKS = "Give the report fitted and held-out rows."
HOLD_OUT = (
    "Compare with real rows that the model was not fitted to, such as rows of other patients. To hold rows out takes a "
    "new fit, which spends its budget again."
)
PROVES_NOTHING = "An attack that finds nothing proves nothing."


@dataclass(frozen=True)
class MembershipAttack:
    """An attack that ranks rows by how likely each was in the training table.

    `score` receives the candidate rows, reference rows of the same population and the synthetic rows, all as points. It
    returns one score per candidate, larger for likelier members. `how` describes the attack in words.
    """

    name: str
    how: str
    score: Callable[[Points, Points, Points], Points]


@dataclass(frozen=True)
class AttributeAttack:
    """An attack that guesses one column of a row from all its other columns.

    `guess` receives the candidate rows and the synthetic rows without that column, as points, and the synthetic rows'
    values in it. It returns one guess per candidate.
    """

    name: str
    how: str
    guess: Callable[[Points, Points, Values], Values]


def distance(rows: Points, others: Points, k: int = 1) -> Points:
    """Return the distance from each row to its k-th nearest of `others`: (rows,)."""
    return nearest(rows, others, k)[:, -1]


def nearest(rows: Points, others: Points, k: int) -> Points:
    """Return the distances from each row to its k nearest of `others`, or to all if there are fewer: (rows, k)."""
    k = min(k, len(others))
    return np.asarray(NearestNeighbors(n_neighbors=k).fit(others).kneighbors(rows)[0])


def _nearest_row(candidates: Points, reference: Points, synthetic: Points) -> Points:
    return -distance(candidates, synthetic)


def _against_reference(candidates: Points, reference: Points, synthetic: Points) -> Points:
    return np.asarray((distance(candidates, reference) + 1e-6) / (distance(candidates, synthetic) + 1e-6))


def _density_ratio(candidates: Points, reference: Points, synthetic: Points) -> Points:
    """Return the log ratio of kernel densities of synthetic and reference rows (van Breugel et al. 2023, DOMIAS)."""
    return _log_density(candidates, synthetic) - _log_density(candidates, reference)


def _log_density(rows: Points, others: Points) -> Points:
    """Return the log of a Gaussian kernel density up to a constant: (rows,). Its bandwidth is the `others`' spacing."""
    spacing = distance(others[:2000], others, NEIGHBOURS + 1)  # The nearest row is the row itself.
    width = max(float(np.median(spacing)), 1e-3)
    near = nearest(rows, others, WEIGHED)
    return np.asarray(np.logaddexp.reduce(-((near / width) ** 2) / 2, axis=1) - np.log(len(others)))


def _learned_ratio(candidates: Points, reference: Points, synthetic: Points) -> Points:
    """Return the log odds that a row is synthetic, by boosted trees trained on synthetic and reference rows."""
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
    MembershipAttack("nearest row", "calls a row a member if it is close to a synthetic row", _nearest_row),
    MembershipAttack(
        "nearest row against reference", "the same, relative to the distance to other real rows", _against_reference
    ),
    MembershipAttack(
        "density ratio",
        "calls a row a member if synthetic rows are denser there than other real rows (after DOMIAS)",
        _density_ratio,
    ),
    MembershipAttack("learned density ratio", "the same ratio, learned by boosted trees", _learned_ratio),
    AttributeAttack(
        "nearest row's value",
        "the value in the synthetic row that is most similar in all other columns",
        _nearest_value,
    ),
)
ATTACKS = {attack.name: attack for attack in _INCLUDED}  # In the order of the page.
# Attacks on the points of whole patients, each with all of the patient's rows.
OF_PATIENTS = (
    MembershipAttack(
        "nearest patient", "compares all rows of a patient with those of each synthetic patient", _nearest_row
    ),
    MembershipAttack(
        "nearest patient against reference", "the same, relative to other real patients", _against_reference
    ),
)


def register(attack: Attack) -> Attack:
    """Add an attack. Raises ValueError if the name is in use."""
    if attack.name in ATTACKS:
        raise ValueError(f"There is already an attack {attack.name!r}. Choose another name.")
    ATTACKS[attack.name] = attack
    return attack


class Membership(Record):
    """One membership attack. `advantage` is 2 AuROC - 1; rates are true positives.

    The intervals of the advantages, and those of the rates at one per cent, are valid for all attacks together, and so
    for the worst attack. The other intervals are valid one at a time.
    """

    name: str
    how: str
    auroc: Estimate
    advantage: Estimate
    at_one_percent: Estimate
    at_one_per_mille: Estimate


def memberships(
    scored: Sequence[tuple[MembershipAttack, Points]],
    member: Mask,
    rng: Stream,
    patients: Patients | None = None,
    looks: int = 1,
) -> tuple[str, list[Membership]]:
    """Return the name of the attack with the largest advantage and the figures of all, from their scores, (rows,).

    looks: the number of pages that are read together. The intervals of the advantages are valid for all of them.
    """
    measured = stats.Areas(np.stack([member] * len(scored)), np.stack([score for _, score in scored]))
    areas = measured.value
    draws = stats.resampled(len(member), rng, measured, patients)
    advantages = stats.simultaneous(2 * areas - 1, 2 * draws - 1, looks)
    certain = _rates(member, [score for _, score in scored], 0.01, rng, patients, looks)
    found = [
        Membership(
            name=attack.name,
            how=attack.how,
            auroc=stats.interval(areas[k], draws[:, k]),
            advantage=advantages[k],
            at_one_percent=certain[k],
            at_one_per_mille=_rates(member, [score], 0.001, rng, patients)[0],
        )
        for k, (attack, score) in enumerate(scored)
    ]
    return scored[int(areas.argmax())][0].name, found


def blind_baseline(candidates: Points, member: Mask, rng: Stream, patients: Patients | None = None) -> Estimate:
    """Return the AuROC of boosted trees that separate members from controls, out of fold (Das, Zhang, Tramer 2024).

    Folds contain whole patients: another row of the same patient would reveal which side a row is on.
    """
    model = HistGradientBoostingClassifier(random_state=0, max_iter=60)
    score = stats.out_of_fold(model, candidates, member, stats.folds(member, 3, patients))
    areas = stats.Areas(member[None], score[None])
    return stats.interval(areas.value[0], stats.resampled(len(member), rng, areas, patients)[:, 0])


def _rates(
    member: Mask, scores: Sequence[Points], false: float, rng: Stream, patients: Patients | None, looks: int = 1
) -> list[Estimate]:
    """Return the true-positive rate of each score (rows,) at a false-positive rate up to `false`, valid together.

    Unknown with fewer than 1/false controls.
    """
    if (~member).sum() * false < 1:
        return [Estimate(value=None)] * len(scores)
    orders = [np.argsort(-score, kind="stable") for score in scores]

    def rates(weights: Points) -> Points:
        by_row = np.ascontiguousarray(weights.T)
        return np.stack([_found(by_row, o, member, score, false) for score, o in zip(scores, orders, strict=True)], 1)

    value = rates(np.ones((1, len(member))))[0]
    found = stats.simultaneous(value, stats.resampled(len(member), rng, rates, patients), looks)
    return [one.model_copy(update={"low": max(one.low or 0.0, 0.0)}) for one in found]


def _found(weights: Points, order: Whole, member: Mask, score: Points, false: float) -> Points:
    """Return the share of members found at this share of false alarms, (draws,), from weights (rows, draws). `order`:
    the rows with the best `score` first. Of equal scores an attack cannot choose the members: as many controls come
    with them.
    """
    most, all_alarms = (some.astype(np.float64) @ weights for some in (member, ~member))
    score, rows, enough = score[order], 0, False
    starts = np.flatnonzero(np.append(True, score[1:] != score[:-1]))
    while not enough and rows < len(order):  # in later rows no resample finds a member at this share of false alarms
        rows = [*starts, len(order)][np.searchsorted(starts, min(2 * rows + SOME, len(order)))]
        hit, ranked = member[order[:rows]], weights[order[:rows]]
        enough = bool(((~hit).astype(np.float64) @ ranked > false * all_alarms).all())
    starts = starts[starts < rows]
    hits, alarms = (np.add.reduceat(np.where(some[:, None], ranked, 0.0), starts, axis=0) for some in (hit, ~hit))
    left = false * all_alarms - (np.cumsum(alarms, axis=0) - alarms)
    share = np.where(alarms > 0, np.clip(left / np.maximum(alarms, 1e-12), 0.0, 1.0), left >= 0)
    return np.asarray((hits * share).sum(0) / np.maximum(most, 1))


def whole_patients(
    sequences: Mapping[str, Sequences], members: Patients, controls: Patients, reference: Patients, rng: Stream
) -> list[tuple[MembershipAttack, Points]]:
    """Return each attack with a score per candidate row, (rows,), members first. A row's score is that of its patient.

    sequences: of the tables "train", "real" and "synthetic". members, controls: the patient of each candidate row.
    reference: patients of the real rows that the attacker has.
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
    """Return patients as points, (patients, dimensions): mean, first and last row, and number of rows."""
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
    """Guesses of one column from all others: the shares guessed right for members and for controls."""

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
    """Return the figures of one attack on one column; `frames` are members, controls and synthetic rows.

    A guess of a number is right if it is in the same fifth of the real rows.
    """
    others = [name for name in tables.names if name != column]
    *candidates, synthetic = points(tables.numbers, [frame[others] for frame in frames])
    *truth, values = (_values(frame, column, tables) for frame in frames)
    right = [attack.guess(rows, synthetic, values) == v for rows, v in zip(candidates, truth, strict=True)]
    own = [tables.patients_of(frame, part) for frame, part in zip(frames, ("train", "real"), strict=False)]
    return Attribute(
        attack=attack.name,
        how=attack.how,
        column=column,
        **stats.excess([r.astype(np.float64) for r in right], own, rng),
        most_frequent=float(pd.Series(truth[1]).value_counts(normalize=True).iloc[0]),
    )


def _values(frame: pd.DataFrame, column: str, tables: Tables) -> Values:
    if column not in tables.numbers:
        return words(frame[column]).fillna("").to_numpy(object)
    known = tables.real[column].dropna().to_numpy(np.float64)
    edges = np.unique(np.quantile(known, np.linspace(0, 1, 6)[1:-1])) if len(known) else known
    return np.searchsorted(edges, frame[column].to_numpy(np.float64)).astype(object)


class Attacks(Record):
    """The figures of all attacks. `worst` names the membership attack with the largest advantage.

    `looks`: pages that are read together, for which the intervals of the advantages allow. `allowed` and
    `allowed_at_one_percent`: what the claim lets any attack reach at most; None without a claim.
    `blind`: AuROC of separating members from controls without any synthetic row. If it is clearly above 0.5, `fair` is
    false: the two differ by themselves, and no attack's figure shows a leak.
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
    looks: int = 1
    allowed: float | None = None
    allowed_at_one_percent: float | None = None


def attacks(
    tables: Tables,
    sensitive: list[str],
    rng: Stream,
    sequences: Mapping[str, Sequences] | None = None,
    looks: int = 1,
    known: Mapping[str, Attack] = ATTACKS,
) -> Attacks | None:
    """Return every figure of the section, or None without a training table or with too few rows.

    Controls are held-out rows. Half of them are the attacker's reference rows, and half are candidates next to the
    members. If patients are the unit, patients are halved. With the `sequences` of the tables, attacks on whole
    patients are added: a row's score is then that of its patient. `looks`: see `memberships`. `known`: the other
    attacks to run, by name.
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
    run = [attack for attack in known.values() if isinstance(attack, MembershipAttack)]
    scored = [(attack, attack.score(candidates, coded[2], coded[3])) for attack in run]
    if sequences and patients is not None:
        others = tables.patients["real"][split[0]]
        scored += whole_patients(sequences, patients[member], patients[~member], others, rng)
    worst, found = memberships(scored, member, rng, patients, looks)
    blind = blind_baseline(candidates, member, rng, patients)
    counts = [keys(frame).value_counts() for frame in (tables.train, tables.real)]
    unique = [[str(row) for row in own.index[own == 1]] for own in counts]
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
            for attack in known.values()
            if isinstance(attack, AttributeAttack)
            for name in sensitive
        ],
        copies=sum(row in made for row in unique[0]),
        copies_of_controls=sum(row in made for row in unique[1]),
        unique_members=len(unique[0]),
        unique_controls=len(unique[1]),
        looks=looks,
    )


def _some(frame: pd.DataFrame, most: int, rng: Stream) -> pd.DataFrame:
    return frame if len(frame) <= most else frame.iloc[rng.choice(len(frame), most, replace=False)]


ADVANTAGE = QUESTIONS["attack_advantage"]
CERTAINTY = QUESTIONS["attack_certainty"]
TOO_FEW_CONTROLS = "One false alarm in 100 needs at least 100 rows that were held out."


def _verdicts(found: Attacks | None, thresholds: Thresholds) -> Sequence[Verdict]:
    if found is None:
        return [ADVANTAGE.judge(Estimate(value=None), thresholds, NO_ATTACK, advice=RUN_ATTACKS)]
    outcome: Outcome | None = None if found.fair else "not judged"
    advice = None if found.fair else HOLD_OUT
    lines = []
    for question, figures, allowed in (
        (ADVANTAGE, [attack.advantage for attack in found.membership], found.allowed),
        (CERTAINTY, [attack.at_one_percent for attack in found.membership], found.allowed_at_one_percent),
    ):
        worst = stats.worst(figures)
        detail = TOO_FEW_CONTROLS if worst.value is None else _worded(found, worst, allowed)
        lines.append(question.judge(worst, thresholds, detail, instead=outcome, advice=advice, allowed=allowed))
    return lines


def _worded(found: Attacks, worst: Estimate, allowed: float | None) -> str:
    """Return the page's words about the worst attack."""
    together = f" and for {found.looks} pages that are read together" if found.looks > 1 else ""
    words = f"Worst of {len(found.membership)} attacks; the interval allows for this choice{together}."
    if allowed is not None and worst.low is not None and worst.low > allowed:
        words += " That is more than the claim allows, so the claim does not hold for these rows."
    if not found.fair:
        words += (
            f" Not judged: members and controls differ even without the synthetic rows (AuROC {found.blind}), so this "
            "shows neither a leak nor its absence."
        )
    return f"{words} {PROVES_NOTHING}"


def _compute(context: Context) -> Attacks | None:
    tables = context.compared
    roles = context.review.roles
    claim = context.record(Claim)
    sensitive = [name for name, role in roles.items() if role == "sensitive"] or [context.target or ""]
    found = attacks(
        tables, [name for name in sensitive if name in tables.names], context.rng, context.sequences, context.looks
    )
    if found is None or claim is None:
        return found
    allowed = {"allowed": claim.advantage, "allowed_at_one_percent": claim.at_one_percent}
    return found.model_copy(update=allowed)


ATTACKED = Section(
    "attacks", "Attacks", _compute, Attacks, variant="internal", needs=("real rows",), always=True,
    questions=(ADVANTAGE, CERTAINTY), verdicts=_verdicts,
)  # fmt: skip
