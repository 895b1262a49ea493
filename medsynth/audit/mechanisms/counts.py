"""Counts on their worst neighbours: marginals, distances, second moments, rows per patient, levels of a hierarchy."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd

from ...privacy import hierarchy_selection
from ...privacy.accounting.calibration import Plan
from ...privacy.accounting.events import Gaussian
from ...privacy.contribution import PrivacyUnits
from ...privacy.queries.cells import Regrouped
from ...privacy.queries.rows import Axes, Codes
from ...privacy.vault import Vault
from ...schema.columns.categorical import Categorical
from ...schema.columns.grid import Grid
from ..recorder import Recorder
from .case import LABEL, MU, Case, Floats, Table, of_vault

Score = Callable[[Vault], float]
COLUMNS, CELLS = 3, Grid(np.arange(4), 0)
OTHERS, PATIENT_ROWS = 3, 4  # rows beside the target; rows of a patient
TREE = {"A": {"Aa": ["Aaa", "Aab"], "Ab": ["Aba"]}, "B": {"Ba": ["Baa"]}}
CODES = Categorical(kind="categorical", hierarchy=TREE, unknown="?")
PLACE = CODES.hierarchy_positions(pd.Series(["Aaa"], dtype=str))
LEVELS = tuple(query.label for query in hierarchy_selection.queries({"code": CODES}))
CODED_ROWS = 1_000  # rows of one code, so that its node is counted at every level
AXES: dict[str, Axes] = {
    "a": [("c0", CELLS)],
    "b": [("c1", CELLS)],
    "a x b": [("c0", CELLS), ("c1", CELLS)],
}
WEIGHTS = {"a": 2.0, "b": 1.0, "a x b": 0.5}


def single(present: bool) -> Table:
    """Some rows at code 1 and, where the target is present, one more at code 2."""
    codes = np.ones((OTHERS + present, COLUMNS), np.int32)
    codes[OTHERS:] = 2
    return codes, None


def patient(present: bool) -> Table:
    """Three patients of one row each and, where present, one of as many equal rows as may be."""
    codes: Codes = np.ones((OTHERS, COLUMNS), np.int32)
    owner = np.arange(OTHERS)
    if present:
        codes = np.concatenate([codes, np.full((PATIENT_ROWS, COLUMNS), 2, np.int32)])
        owner = np.append(owner, np.full(PATIENT_ROWS, OTHERS))
    return codes, PrivacyUnits(owner, PATIENT_ROWS)


def _marginals(rows: int, *, averaged: bool = False) -> Score:
    """The target's own cells, which k tables of different weights each gain by its rows at once; averaged, by one."""

    def score(vault: Vault) -> float:
        found = vault.measure_marginals(LABEL, AXES, WEIGHTS, averaged=averaged)
        own = {"a": found["a"][2], "b": found["b"][2], "a x b": found["a x b"][2, 2]}
        squares = {name: weight**2 for name, weight in WEIGHTS.items()}
        return float(sum(squares[name] * count for name, count in own.items())) / (rows * sum(squares.values()))

    return score


def _centred(vault: Vault) -> float:
    """The target's own direction in each table: its cell less the mean along the last axis."""
    found = vault.measure_marginals(LABEL, AXES, WEIGHTS, centred=tuple(AXES))
    total = norms = 0.0
    for name, axes in AXES.items():
        own = np.zeros([cells.cells for _, cells in axes])
        own[(2,) * len(axes)] = 1
        own -= own.mean(-1, keepdims=True)
        others = np.zeros_like(own)
        others[(1,) * len(axes)] = OTHERS
        total += WEIGHTS[name] ** 2 * float(((found[name] - others) * own).sum())  # `own` takes the others' mean off
        norms += WEIGHTS[name] ** 2 * float(np.square(own).sum())
    return total / norms


def _distances(vault: Vault) -> float:
    """Guesses that lie below each count, so that the target moves every distance up by one."""
    guesses = {key: np.zeros([cells.cells for _, cells in axes]) for key, axes in AXES.items()}
    found = vault.measure_distances(LABEL, AXES, guesses)
    return sum(found.values()) / len(AXES) - OTHERS  # so many rows lie there without the target


def _second_moments(vault: Vault) -> float:
    """A target whose vector has norm one: what it adds to its class's matrix, in that direction."""
    along = np.full(COLUMNS, COLUMNS**-0.5)
    found = vault.measure_second_moments(LABEL, lambda codes: (codes == 2) * along, ("c0", CELLS), COLUMNS)
    return float(along @ found[2] @ along)


def _rows_per_patient(vault: Vault) -> float:
    return float(vault.measure_rows_per_patient(LABEL)[PATIENT_ROWS - 1])


def _levels_of_codes(present: bool, releases: Recorder) -> Callable[[], float]:
    """All rows are of one code: its node is kept at every level, and the target adds one to each of its counts."""
    codes = np.full((CODED_ROWS + present, 1), PLACE[0], np.int32)
    vault = Vault(codes, ("code",), releases)
    plan = Plan(
        epsilon_asked=1.0, epsilon=1.0, delta=1e-5, rows=CODED_ROWS, accountant="rdp",
        events={label: (releases.event(label), 1) for label in LEVELS},
    )  # fmt: skip
    counts: list[float] = []

    def measure(label: str, maps: Mapping[str, Regrouped]) -> dict[str, Floats]:
        found = vault.measure_histograms(label, maps)
        counts.append(float(found["code"][maps["code"].cell_of(PLACE)[0]]) - CODED_ROWS)
        return found

    def trial() -> float:
        counts.clear()
        hierarchy_selection.select_levels({"code": CODES}, measure, plan)
        return sum(counts) / len(LEVELS)

    return trial


COUNTS = (
    Case(name="marginals", worst_case="one row in one cell of each of three tables of weights 2, 1, 0.5",
         attack=of_vault(_marginals(1), single)),
    Case(name="marginals, patients", worst_case="four equal rows of one patient", max_rows=PATIENT_ROWS,
         attack=of_vault(_marginals(PATIENT_ROWS), patient)),
    Case(name="marginals, averaged rows", worst_case="four equal rows of one patient, who add one together",
         max_rows=PATIENT_ROWS, attack=of_vault(_marginals(1, averaged=True), patient)),
    Case(name="marginals, centred", worst_case="one row in one cell of each of three tables that are centred",
         attack=of_vault(_centred, single)),
    Case(name="distances", worst_case="one row that moves three distances the same way",
         attack=of_vault(_distances, single)),
    Case(name="second moments", worst_case="one row more, whose vector has norm one",
         attack=of_vault(_second_moments, single)),
    Case(name="rows per patient", worst_case="one patient more", max_rows=PATIENT_ROWS,
         attack=of_vault(_rows_per_patient, patient)),
    Case(name="levels of a hierarchy", worst_case="one row whose code is counted at every level", labels=LEVELS,
         attack=_levels_of_codes, event=Gaussian(multiplier=math.sqrt(len(LEVELS)) / MU)),
)  # fmt: skip
