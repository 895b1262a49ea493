"""The registry of attacks. A new attack is one file that makes an `Attack`, and its line in `__init__.py`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.float64]  # (rows, dimensions), or one score a row
Values = NDArray[np.object_]


@dataclass(frozen=True, kw_only=True)
class MembershipAttack:
    """Ranks rows by how likely each was in the training table.

    `score` takes the candidate rows, reference rows of the same population and the synthetic rows, all as points, and
    returns one score a candidate, larger for likelier members. `how` says in words what it does.
    """

    name: str
    how: str
    score: Callable[[Points, Points, Points], Points]


@dataclass(frozen=True, kw_only=True)
class AttributeAttack:
    """Guesses one column of a row from all its other columns.

    `guess` takes the candidate rows and the synthetic rows without that column, as points, and the synthetic rows'
    values in it; it returns one guess a candidate.
    """

    name: str
    how: str
    guess: Callable[[Points, Points, Values], Values]


Attack = MembershipAttack | AttributeAttack
ATTACKS: dict[str, Attack] = {}  # by name, in the order of the page


def register(attack: Attack) -> Attack:
    """Add an attack. Raises ValueError for a name in use."""
    if attack.name in ATTACKS:
        raise ValueError(f"There already is an attack {attack.name!r}.")
    ATTACKS[attack.name] = attack
    return attack


def membership_attacks() -> list[MembershipAttack]:
    """Every attack on membership, in order."""
    return [attack for attack in ATTACKS.values() if isinstance(attack, MembershipAttack)]


def attribute_attacks() -> list[AttributeAttack]:
    """Every attack on attributes, in order."""
    return [attack for attack in ATTACKS.values() if isinstance(attack, AttributeAttack)]
