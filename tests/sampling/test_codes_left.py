"""Later rows get the codes that their patient has: each at least once, and no other modelled one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from medsynth.patients.codes import Wanted
from medsynth.sampling.visits import CodesLeft

LEVELS = 8  # of which the first five are modelled
MODELLED = 5
ROWS = 6


class Even:
    """A chain whose rows are one column, of codes that all have the same chance."""

    def __init__(self) -> None:
        variable = SimpleNamespace(group=np.arange(LEVELS), shares=np.full(LEVELS, 1 / LEVELS))
        self.contexts = SimpleNamespace(variables={"code": variable})
        self.schema = SimpleNamespace(core=SimpleNamespace(names=("code",)))

    def begin(self, rows: Any) -> None:
        rows[:] = -1

    def code_chances(self, name: str, rows: Any) -> Any:
        return np.full((len(rows), LEVELS), 1 / LEVELS)

    def put(self, name: str, rows: Any, found: Any) -> None:
        rows[:, 0] = found


def test_each_code_of_a_patient_is_in_some_row_and_no_other_is() -> None:
    rng = np.random.default_rng(0)
    patients = 500
    has = rng.random((patients, MODELLED)) < 0.5
    first = np.where(has.any(1), has.argmax(1), LEVELS - 1)[:, None].astype(np.int32)
    chain: Any = Even()
    left = CodesLeft.of(chain, Wanted("code", np.arange(MODELLED), has), first, np.full(patients, ROWS))
    who = np.arange(patients)
    found = [first[:, 0]]
    for _ in range(ROWS - 1):
        rows = np.zeros((patients, 1), np.int32)
        left.draw(rows, who, rng)
        left.note(rows, who)
        found.append(rows[:, 0])
    made = np.stack(found, 1)
    assert all(((made == level).any(1) == has[:, level]).all() for level in range(MODELLED))
    # Codes are as often in the second row as in the last, and rows that are left have other codes.
    share = (made[:, 1:] < MODELLED).mean(0)
    assert share.max() - share.min() < 0.15
    assert (made >= MODELLED).any(0).all()
