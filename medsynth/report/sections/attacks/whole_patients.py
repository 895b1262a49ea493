"""Membership of a patient by all rows together: first and last row, their mean, and how many there are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ....rng import Stream
from ...data.cells import points
from ...data.over_time.sequences import Sequences
from ...data.statistics import Patients
from ...data.tables import Tables
from .nearest_row import AGAINST_REFERENCE, NEAREST
from .registry import MembershipAttack, Points

POOL = 10_000  # synthetic patients an attack looks at
ATTACKS = (
    replace(NEAREST, name="nearest patient", how="all rows of a patient against those of each synthetic patient"),
    replace(AGAINST_REFERENCE, name="nearest patient against reference", how="the same, against other real patients"),
)


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
        sequences["synthetic"].some(POOL, rng),
    ]
    found = as_points(parts)
    candidates = np.concatenate(found[:2])
    known = np.concatenate([np.unique(part.patient) for part in parts[:2]])
    order = np.argsort(known)
    place = order[np.searchsorted(known[order], np.concatenate([members, controls]))]
    return [(attack, attack.score(candidates, found[2], found[3])[place]) for attack in ATTACKS]


def as_points(parts: list[Sequences]) -> list[Points]:
    """Each table's patients as points, (patients, dimensions): mean, first and last row, and the number of rows."""
    frames = [part.rows for part in parts]
    names = list(frames[0].columns)
    base = Tables(frames[0], frames[-1], None, names[0], parts[0].numbers)
    most = max(int(part.sizes.max(initial=1)) for part in parts)
    made = []
    for part, rows in zip(parts, points(base, frames), strict=True):
        ends = np.cumsum(part.sizes)
        starts = ends - part.sizes
        mean = np.add.reduceat(rows, starts, axis=0) / part.sizes[:, None]
        made.append(np.concatenate([mean, rows[starts], rows[ends - 1], part.sizes[:, None] / most], 1))
    return made
