"""Which codes each patient has, over several tables: one yes/no row per patient, drawn before the tables' rows.

Later rows of two tables depend on each other only through the patient. A diagnosis and its drug, or two diagnoses, are
related through *which* codes a patient has. `codes_training.py` measures this, and `Together` draws it:

1. In each table with several rows per patient, `columns_of_codes` chooses the column with the most levels.
2. A patient is one row: for each code, whether some kept row has it. The most frequent codes, by noisy counts, are
   modelled: a normal variable for each, and the patient has the code if it is above a threshold. The variables are
   related to each other, and to scores of what is drawn before: the patient's columns and numbers of rows.
3. `Together.draw` draws the codes of each patient. The code of a first row is already drawn, and stays.
4. `sampling/visits.py` draws later rows: only codes that their patient has, and each of them at least once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from ..arrays import Arrays, Codes, Floats, Mask, Whole
from ..methods.bins import fine_grid
from ..rng import Stream
from ..schema import Schema
from ..schema.columns.open import Open
from ..schema.linked import LinkedTables, chain_view, own

FEWEST_LEVELS = 50  # of a column of codes; chains learn smaller ones better: of 20 codes, transitions .41, not .21
MOST_LEVELS = 1000  # a patient has one number per level in memory
SMALLEST = 1e-4  # share of patients with a code, and without it
ROUNDS, SPARE = 4, 50  # of thresholds; patients by which a share's noise is reduced
PREFIX = "codes."
PARTS = ("which", "shares", "slopes", "root", "scored")  # tensors of `Together`, without its scores


def columns_of_codes(tables: LinkedTables) -> dict[str, str]:
    """Return the column of codes of each table that has one: of its columns of many declared levels, that with most."""
    found = dict[str, str]()
    for name in (one for one in tables.others if tables.tables[one].order):
        columns = chain_view(tables, name).columns
        sizes = {
            one: columns[one].size for one in own(tables, name)
            if not isinstance(columns[one], Open) and columns[one].categorical and one != tables.tables[name].order
        }  # fmt: skip
        sizes = {one: size for one, size in sizes.items() if FEWEST_LEVELS <= size <= MOST_LEVELS}
        if sizes:
            found[name] = max(sizes, key=sizes.__getitem__)
    return found


def names_of_codes(tables: LinkedTables) -> dict[str, tuple[int, int]]:
    """Return the names of the columns of yes or no, with the number of the table and the level of each."""
    return {
        f"\0{name}: {level}": (tables.others.index(name), level)
        for name, column in columns_of_codes(tables).items()
        for level in range(tables.view(name).columns[column].size)
    }


def most_codes(tables: LinkedTables) -> int:
    """Return the most codes of one patient, over all tables: one per kept row, and one per level."""
    return sum(
        min(tables.tables[name].max_rows, tables.view(name).columns[column].size)
        for name, column in columns_of_codes(tables).items()
    )


@dataclass(frozen=True, eq=False)
class Wanted:
    """The modelled codes of a table's `column`, `levels`, (codes,), and which patients have them: (patients, codes)."""

    column: str
    levels: Whole
    has: Mask

    def of(self, patients: Whole) -> Wanted:
        """Return the codes of some patients."""
        return Wanted(self.column, self.levels, self.has[patients])


@dataclass(frozen=True, eq=False)
class Together:
    """The model of which codes a patient has, given scores of columns that are drawn before.

    `which`: (codes, 2), the number of the table and the level. `shares`: (codes,) of the patients with rows in the
    table, those who have the code. A code's normal variable is `slopes`, (codes, scores), times the scores, plus
    `root`, (codes, codes), times normal numbers. `scores`: of each fine cell of a column in the joint schema, by name.
    """

    which: Whole
    shares: Floats
    slopes: Floats
    root: Floats
    scores: Mapping[str, Floats]

    def tensors(self, schema: Schema) -> Arrays:
        """Return tensors, under names that no method uses. `schema`: the joint one."""
        places = [schema.core.names.index(name) for name in self.scores]
        own = (self.which, self.shares, self.slopes, self.root, np.array(places))
        found = {PREFIX + part: np.asarray(one, np.float32) for part, one in zip(PARTS, own, strict=True)}
        return found | {f"{PREFIX}score.{k}": np.asarray(one, np.float32) for k, one in enumerate(self.scores.values())}

    @classmethod
    def restored(cls, tensors: Mapping[str, NDArray[np.float32]], schema: Schema) -> Together | None:
        """Return the model that tensors were made from; None for a model without one."""
        if PREFIX + PARTS[0] not in tensors:
            return None
        which, shares, slopes, root, scored = (tensors[PREFIX + part].astype(np.float64) for part in PARTS)
        names = [schema.core.names[k] for k in scored.astype(int)]
        scores = {name: tensors[f"{PREFIX}score.{k}"].astype(np.float64) for k, name in enumerate(names)}
        return cls(which.astype(np.int64), shares, slopes, root, scores)

    def draw(
        self, codes: Codes, schema: Schema, tables: Sequence[int], counts: Mapping[int, Whole],
        first: Mapping[int, Whole], rng: Stream,
    ) -> dict[int, tuple[Whole, Mask]]:  # fmt: skip
        """Draw the modelled codes of patients: for each table, by number, its levels and who has them.

        `codes`: (patients, columns of the joint `schema`). `counts`, `first`: (patients,) of each table, the number of
        rows and the level in the first one. A patient has at most one code per row, and that of the first row.
        """
        scores = score_columns(self.scores, codes, schema)
        mean = scores @ self.slopes.T
        spread = np.sqrt(np.square(self.root).sum(1))
        error = rng.standard_normal(mean.shape) @ self.root.T
        known = [(self.which[:, 0] == table) & (first[table][:, None] == self.which[:, 1]) for table in tables]
        given = np.any([one & (counts[t] > 0)[:, None] for one, t in zip(known, tables, strict=True)], axis=0)
        some = np.column_stack([counts[table] > 0 for table in tables])[:, np.searchsorted(tables, self.which[:, 0])]
        # Nobody chooses whether to have the code of the first row: the threshold is that of all other patients.
        sure = given.sum(0) / np.maximum(some.sum(0), 1)
        chance = np.clip((self.shares - sure) / np.maximum(1 - sure, SMALLEST), SMALLEST, 1 - SMALLEST)
        for k in np.flatnonzero(given.any(0)):
            who = np.flatnonzero(given[:, k])
            above = ndtr((ndtri(self.shares[k].clip(SMALLEST)) + mean[who, k]) / spread[k])
            new = -ndtri(np.clip(above * rng.random(len(who)), SMALLEST**2, 1 - SMALLEST)) * spread[k]
            # Of normal variables, the others move in proportion to what the known one moves.
            error[who] += np.outer(new - error[who, k], self.root @ self.root[k] / spread[k] ** 2)
        turn = rng.random(mean.shape) + 2 * given  # in a table with too few rows, some codes have none
        for _ in range(ROUNDS):
            has = (given | (mean + error > -ndtri(chance))) & some
            for table in tables:
                mine = np.flatnonzero(self.which[:, 0] == table)
                rank = np.argsort(np.argsort(-(turn[:, mine] + has[:, mine]), 1), 1)
                has[:, mine] &= rank < counts[table][:, None]
            # Where rows are too few, patients lose codes: more of the others must have these.
            ratio = (self.shares * some.sum(0) + SPARE) / (has.sum(0) + SPARE)
            chance = np.clip(chance * ratio, SMALLEST, 1 - SMALLEST)
        return {table: (self.which[mine := self.which[:, 0] == table, 1], has[:, mine]) for table in tables}


def score_columns(scores: Mapping[str, Floats], codes: Codes, schema: Schema) -> Floats:
    """Return the scores of patients, (patients, scores), from their codes, (patients, columns of the schema)."""
    found = [
        score[np.minimum(fine_grid(schema.columns[name]).cell_of(codes[:, schema.names.index(name)]), len(score) - 1)]
        for name, score in scores.items()
    ]
    return np.column_stack(found)
