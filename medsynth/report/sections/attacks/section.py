"""Attacks that try to find who was in the training table. They can show a leak, never that there is none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from ....rng import Stream
from ...data.cells import points
from ...data.context import Context
from ...data.over_time.sequences import Sequences
from ...data.records import Estimate, Record
from ...data.review import Thresholds
from ...data.statistics import halves
from ...data.tables import Tables, keys
from ...data.verdict import Outcome, Verdict, decide
from ..registry import Section
from .attribute import Attribute, attribute
from .membership import Membership, blind_baseline, memberships
from .registry import attribute_attacks, membership_attacks
from .whole_patients import whole_patients

MOST = 3_000  # members and as many controls; a rank needs no more
POOL = 20_000  # synthetic rows an attack looks at
FAIR = 0.55  # AuROC: a blind baseline clearly above it means that controls are no fair ones
FEWEST = 20  # of members and of controls, for any statement


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
    split = halves(len(tables.real), rng, tables.patients.get("real"))
    reference, controls = (tables.real.iloc[rows] for rows in split)
    controls, members = _some(controls, MOST, rng), _some(tables.train, MOST, rng)
    synthetic = _some(tables.synthetic, POOL, rng)
    coded = points(tables, [members, controls, reference, synthetic])
    candidates = np.concatenate(coded[:2])
    member = np.repeat([True, False], [len(members), len(controls)])
    own = [tables.patients_of(frame, part) for frame, part in ((members, "train"), (controls, "real"))]
    patients = np.concatenate([numbers for numbers in own if numbers is not None]) if tables.patients else None
    scored = [(attack, attack.score(candidates, coded[2], coded[3])) for attack in membership_attacks()]
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
            for attack in attribute_attacks()
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
    tables = context.tables
    if tables is None:
        return None
    sensitive = [name for name, role in context.review.roles.items() if role == "sensitive"] or [context.target]
    return attacks(tables, [name for name in sensitive if name in tables.names], context.rng, context.sequences)


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
