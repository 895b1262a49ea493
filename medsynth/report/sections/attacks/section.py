"""Attacks that try to find who was in the training table. They can show a leak, never that there is none."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from ....rng import Stream
from ...data.cells import points
from ...data.context import Context
from ...data.records import Estimate, Record
from ...data.review import Thresholds
from ...data.statistics import auroc
from ...data.tables import Tables, keys
from ...data.verdict import Verdict, decide
from ..registry import Section
from .attribute import Attribute, attribute
from .membership import Flags, Membership, blind_baseline, membership
from .registry import Points, attribute_attacks, membership_attacks

MOST = 3_000  # members and as many controls; a rank needs no more
POOL = 20_000  # synthetic rows an attack looks at
FAIR = 0.55  # AuROC: a blind baseline clearly above it means that controls are no fair ones
FEWEST = 20  # of members and of controls, for any statement


class Attacks(Record):
    """`best` names the membership attack that did best on the half of the rows that chose it.

    `blind`: AuROC of separating members from controls without looking at a synthetic row. Where it is not near 0.5,
    the two differ by themselves and no attack's figure can be read as a leak: `fair` is false.
    """

    members: int
    controls: int
    blind: Estimate
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
    """Every figure of the section, or None without a training table or with too few rows.

    Controls are held-out rows. Half of them are the attacker's reference rows, half are candidates beside the members.
    """
    if tables.train is None or min(len(tables.train), len(tables.real)) < 2 * FEWEST:
        return None
    reference, controls = _halves(tables.real, rng)
    controls, members = _some(controls, MOST, rng), _some(tables.train, MOST, rng)
    synthetic = _some(tables.synthetic, POOL, rng)
    coded = points(tables, [members, controls, reference, synthetic])
    candidates = np.concatenate(coded[:2])
    member = np.repeat([True, False], [len(members), len(controls)])
    best, found = _memberships(candidates, member, coded[2], coded[3], rng)
    blind = blind_baseline(candidates, member, rng)
    unique = [_unique(frame) for frame in (tables.train, tables.real)]
    made = set(keys(tables.synthetic))
    return Attacks(
        members=len(members),
        controls=len(controls),
        blind=blind,
        fair=blind.low is not None and blind.low < FAIR,
        best=best,
        membership=found,
        attributes=[
            attribute(attack, tables, (members, controls, synthetic), name, rng)
            for attack in attribute_attacks()
            for name in sensitive
        ],
        copies=sum(row in made for row in unique[0]),
        copies_of_controls=sum(row in made for row in unique[1]),
        unique_members=len(unique[0]),
        unique_controls=len(unique[1]),
        canary="No canary audit was run.",
    )


def _memberships(
    candidates: Points, member: Flags, reference: Points, synthetic: Points, rng: Stream
) -> tuple[str, list[Membership]]:
    """The best attack's name and the figures of all."""
    scores = [(attack, attack.score(candidates, reference, synthetic)) for attack in membership_attacks()]
    # The best attack is chosen on one half of the rows and evaluated on the other: else chance would flatter it.
    chooses = rng.random(len(member)) < 0.5
    best = max(scores, key=lambda pair: float(auroc(member[chooses], pair[1][chooses])[0]))[0].name
    return best, [membership(attack, member[~chooses], score[~chooses], rng) for attack, score in scores]


def _halves(frame: pd.DataFrame, rng: Stream) -> tuple[pd.DataFrame, pd.DataFrame]:
    order = rng.permutation(len(frame))
    return frame.iloc[order[::2]], frame.iloc[order[1::2]]


def _some(frame: pd.DataFrame, most: int, rng: Stream) -> pd.DataFrame:
    return frame if len(frame) <= most else frame.iloc[rng.choice(len(frame), most, replace=False)]


def _unique(frame: pd.DataFrame) -> list[str]:
    """Rows that occur once in their table."""
    counts = keys(frame).value_counts()
    return [str(row) for row in counts.index[counts == 1]]


def _verdicts(found: Attacks | None, thresholds: Thresholds) -> Sequence[Verdict]:
    if found is None:
        return []
    best = next(m for m in found.membership if m.name == found.best)
    detail = f"Best of {len(found.membership)} attacks: {best.name}. An attack that finds nothing proves nothing."
    if not found.fair:
        detail += (
            f" Not to be judged: members and controls differ by themselves (AuROC {found.blind} without a look at the "
            "synthetic rows), so this shows neither a leak nor its absence. Hold rows out at random when you fit."
        )
    return [
        decide(
            "Did an attack find who was in the table?",
            "membership advantage",
            best.advantage,
            thresholds.attack_advantage,
            detail,
            judged=found.fair,
        )
    ]


def _compute(context: Context) -> Attacks | None:
    tables = context.tables
    if tables is None:
        return None
    sensitive = [name for name, role in context.review.roles.items() if role == "sensitive"] or [context.target]
    return attacks(tables, [name for name in sensitive if name in tables.names], context.rng)


SECTION = Section(
    id="attacks",
    title="Attacks",
    compute=_compute,
    record=Attacks,
    variant="internal",
    needs=("real rows",),
    always=True,
    verdicts=_verdicts,
)
