"""Patients with rows in order: first rows by the model's method, later ones by its model of successive rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..longitudinal.chain import Chain, now
from ..longitudinal.stored import restored
from ..longitudinal.successive_rows import GAP, LAST, OF, later_columns, named
from ..longitudinal.trajectories import later_rows
from ..rng import Stream
from ..schema import Schema
from .rejection import REJECTION_ROUNDS, Codes, broken, complete, sample_again

Whole = NDArray[np.int64]
Firsts = Callable[[int], Codes]  # patients to their first rows, with the rows of each in the last column


@dataclass(frozen=True, eq=False)
class Visits:
    """Rows of all columns, (rows, columns), patient by patient and in order; `patients`: (rows,) from one on."""

    codes: Codes
    patients: NDArray[np.int32]


def visits(tensors: dict[str, NDArray[np.float32]], schema: Schema, first: Codes, rng: Stream) -> Visits:
    """All rows of patients whose first rows are given, (patients, columns of the schema and their number of rows).

    A row that breaks a rule, or comes after the last day of the order, is drawn again; where none is found the patient
    ends with the row before.
    """
    chain, core = restored(tensors, schema), [schema.names.index(name) for name in schema.core.names]
    counts = first[:, -1].astype(np.int64) + 1
    alive = np.ones(len(first), np.bool_)
    parts, whose, places = [first[:, :-1]], [np.arange(len(first))], [np.zeros(len(first), np.int64)]

    def draw(rows: Codes, rng: Stream) -> None:
        chain.draw(rows, rng)
        sample_again(
            rows, np.flatnonzero(_bad(rows, schema)), lambda left: _again(chain, rows[left], rng),
            lambda found: _bad(found, schema), REJECTION_ROUNDS,
        )  # fmt: skip

    for visit, (who, rows) in enumerate(later_rows(chain, first[:, core], counts, rng, draw), 1):
        alive[who[_bad(rows, schema)]] = False
        stays = alive[who]
        parts.append(complete(now(rows, schema)[stays], schema))
        whose.append(who[stays])
        places.append(np.full(int(stays.sum()), visit))
    patient = np.concatenate(whose)
    order = np.lexsort((np.concatenate(places), patient))
    return Visits(np.concatenate(parts)[order], (patient[order] + 1).astype(np.int32))


def _again(chain: Chain, rows: Codes, rng: Stream) -> Codes:
    chain.draw(rows, rng)
    return rows


def _bad(rows: Codes, schema: Schema) -> NDArray[np.bool_]:
    """Which later rows break a rule, or lie beyond the last value of the order: (rows,)."""
    found = broken(complete(now(rows, schema), schema), schema)
    if schema.order in schema.core.columns:
        names = later_columns(schema)
        reached = (
            rows[:, names.index(named(LAST, schema.order))].astype(np.int64) + rows[:, names.index(named(OF, GAP))]
        )
        found |= reached >= schema.core.columns[schema.order].size
    return found


def enough_visits(
    tensors: dict[str, NDArray[np.float32]], schema: Schema, firsts: Firsts, rows: int, mean: float, rng: Stream
) -> Visits:
    """So many rows: of as many patients as they take, the last of whom may lose some. `mean`: rows of a patient."""
    patients = int(1.02 * rows / mean) + 20
    found = visits(tensors, schema, firsts(patients), rng)
    while len(found.codes) < rows:
        patients = int(1.5 * patients)
        found = visits(tensors, schema, firsts(patients), rng)
    return Visits(found.codes[:rows], found.patients[:rows])
