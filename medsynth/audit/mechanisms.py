"""Attack each kind of measurement on its worst neighbours, and bound what an attacker can prove from the release.

A case builds a table in which one unit, the target, changes the measured value by the full sensitivity, in a known
direction. The attacker projects each release on that direction, which is the best test against Gaussian noise, and
guesses "present" above a threshold. No table of the user is opened, and no budget is spent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from ..arrays import Codes, Floats
from ..io import table as io_table
from ..privacy import hierarchy_selection, partition_selection
from ..privacy.accounting import accountant, events
from ..privacy.accounting.calibration import Plan
from ..privacy.accounting.events import Event, Gaussian
from ..privacy.accounting.ledger import Ledger
from ..privacy.clipping import Groups
from ..privacy.contribution import PrivacyUnits
from ..privacy.networks import Mlp
from ..privacy.queries.cells import Regrouped
from ..privacy.queries.rows import Axes, Features
from ..privacy.release import Release, Releases, on_host
from ..privacy.shards import CriticConfig, Shards
from ..privacy.vault import Vault
from ..rng import Entropy, system_entropy
from ..schema import open_schema
from ..schema.cells import CellKinds
from ..schema.columns.categorical import Categorical
from ..schema.columns.grid import Grid
from ..schema.magnitudes import MAGNITUDES
from .statistics import DELTA, Finding, best_threshold, errors, errors_at, gaussian_epsilon, upper_rate

PART = "measurements"
FIXED_RISK = 0.8  # The part of the failure risk for the threshold that is fixed in advance.
MU = 2.4  # The mu of an audited event at which few trials prove most of it.
SAMPLED_MU, RATE = 3.0, 0.5  # The same if the target takes part by chance, at this rate.
LABEL = "audited measurement"
Trial = Callable[[], float]
Score = Callable[[Vault], float]
Table = tuple[Codes, PrivacyUnits | None]


class Recorder(Releases):
    """Releases that keep the last one under each label and the standard deviation of its noise."""

    __slots__ = ("last", "std")

    def __init__(self, ledger: Ledger, entropy: Entropy) -> None:
        super().__init__(ledger, entropy)
        self.last = dict[str, Release]()

    def release(self, label: str, sensitivity: float, draw: Callable[[Event], Release]) -> Release:
        """Release as usual, and keep the release."""
        found = super().release(label, sensitivity, draw)
        self.last[label] = replace(found, arrays=on_host(found.arrays))
        self.std = self.event(label).multiplier * sensitivity
        return found


@dataclass(frozen=True, kw_only=True)
class Case:
    """One kind of measurement. `attack(present, releases)` builds a table and returns a function that makes one trial.

    A trial's score is the release projected on the change by the target, in units of that change. It is near 0 without
    the target and near 1 if the target takes part, which happens with the chance `rate`. All noise of a trial together
    is one Gaussian measurement of separation `mu`. `slow` divides the number of trials.
    """

    name: str
    worst_case: str
    attack: Callable[[bool, Recorder], Trial]
    event: Event = Gaussian(multiplier=1 / MU)
    mu: float = MU
    rate: float = 1.0
    max_rows: int | None = None
    labels: tuple[str, ...] = (LABEL,)
    releases: int = 1  # Of each label in a trial.
    slow: int = 1

    def scores(self, present: bool, trials: int, entropy: Entropy) -> Floats:
        """Return the scores of this number of trials, in standard deviations of the noise."""
        plan = _plan(self.labels, self.event, trials * self.releases, self.max_rows)
        trial = self.attack(present, Recorder(plan.ledger(entropy.source), entropy))
        return self.mu * np.array([trial() for _ in range(trials)])

    def epsilon(self, mu: float) -> float:
        """Return the epsilon of a trial's releases together if their separation is `mu`."""
        if mu <= 0 or self.rate == 1:
            return gaussian_epsilon(mu)
        return accountant.epsilon([(replace(self.event, multiplier=1 / mu), 1)], DELTA)


def _plan(labels: tuple[str, ...], event: Event, times: int, max_rows: int | None = None, rows: int = 1) -> Plan:
    return Plan(
        epsilon_asked=1.0, epsilon=1.0, delta=DELTA, rows=rows, accountant="rdp", max_rows=max_rows,
        events=dict.fromkeys(labels, (event, times)),
    )  # fmt: skip


def audit_mechanism(case: Case, trials: int, confidence: float, entropy: Entropy | None = None) -> Finding:
    """Make `trials` trials without the target and as many with it, and bound mu from the attacker's errors.

    One threshold is fixed in advance, where a sound mechanism is expected to prove most. Another is learned from half
    of the trials, for unsound mechanisms. They share the risk of a wrong bound. If the target takes part by chance, mu
    is the least in the family of such measurements, and the accountant computes epsilon from it.
    """
    entropy = entropy or system_entropy()
    without, present = (case.scores(side, trials, entropy) for side in (False, True))
    risk = FIXED_RISK * (1 - confidence)
    threshold = best_threshold(case.mu, case.rate, trials, risk / 2)
    fixed = errors_at(threshold, without, present, 1 - risk)
    learned = errors(without, present, 1 - (1 - confidence) * (1 - FIXED_RISK), case.rate)
    proven = max(fixed.mu(case.rate), learned.mu(case.rate))
    return Finding(
        part=PART, name=case.name, worst_case=case.worst_case, claimed_mu=case.mu, proven_mu=proven, rate=case.rate,
        claimed_epsilon=case.epsilon(case.mu), proven_epsilon=case.epsilon(proven),
        trials=trials, confidence=confidence,
    )  # fmt: skip


def of_vault(score: Score, table: Callable[[bool], Table]) -> Callable[[bool, Recorder], Trial]:
    """Return the attack that builds one vault per side and scores one of its releases per trial."""

    def attack(present: bool, releases: Recorder) -> Trial:
        codes, units = table(present)
        vault = Vault(codes, tuple(f"c{k}" for k in range(codes.shape[1])), releases, units)
        return lambda: score(vault)

    return attack


# Counts: marginals, distances, second moments, rows per patient, levels of a hierarchy.

COLUMNS, CELLS = 3, Grid(np.arange(4), 0)
OTHERS, PATIENT_ROWS = 3, 4  # Rows besides the target, and rows of a patient.
AXES: dict[str, Axes] = {"a": [("c0", CELLS)], "b": [("c1", CELLS)], "a x b": [("c0", CELLS), ("c1", CELLS)]}
WEIGHTS = {"a": 2.0, "b": 1.0, "a x b": 0.5}
TREE = {"A": {"Aa": ["Aaa", "Aab"], "Ab": ["Aba"]}, "B": {"Ba": ["Baa"]}}
CODES = Categorical(kind="categorical", hierarchy=TREE, unknown="?")
PLACE = CODES.hierarchy_positions(pd.Series(["Aaa"], dtype=str))
HIERARCHY = tuple(query.label for query in hierarchy_selection.queries({"code": CODES}))
CODED_ROWS = 1_000  # Rows of one code, so that its node is counted at every level.


def _rows(others: int, target: int, columns: int) -> Codes:
    """Return rows at code 1, followed by the target's rows at code 2."""
    return np.repeat(np.array([1, 2], np.int32), [others, target])[:, None].repeat(columns, 1)


def _table(others: int, columns: int = 1) -> Callable[[bool], Table]:
    """Return a table in which the target, if present, has a row of its own."""
    return lambda present: (_rows(others, present, columns), None)


SINGLE = _table(OTHERS, COLUMNS)


def _patient(present: bool) -> Table:
    """Return three patients with one row each and, if present, one patient with the maximum of equal rows."""
    owner = np.append(np.arange(OTHERS), np.full(PATIENT_ROWS * present, OTHERS))
    return _rows(OTHERS, PATIENT_ROWS * present, COLUMNS), PrivacyUnits(owner, PATIENT_ROWS)


def _marginals(vault: Vault, rows: int = 1, averaged: bool = False) -> float:
    """Return the change in the target's cells, per row; its `rows` add to tables of different weights at once."""
    found = vault.measure_marginals(LABEL, AXES, WEIGHTS, averaged=averaged)
    squares = {name: weight**2 for name, weight in WEIGHTS.items()}
    own = sum(squares[name] * float(counts[(2,) * counts.ndim]) for name, counts in found.items())
    return own / (rows * sum(squares.values()))


def _centred(vault: Vault) -> float:
    """Return the change along the target's direction in each table: its cell minus the mean along the last axis."""
    found = vault.measure_marginals(LABEL, AXES, WEIGHTS, centred=tuple(AXES))
    total = norms = 0.0
    for name, counts in found.items():
        own, others = np.zeros_like(counts), np.zeros_like(counts)
        own[(2,) * own.ndim], others[(1,) * own.ndim] = 1, OTHERS
        own -= own.mean(-1, keepdims=True)
        total += WEIGHTS[name] ** 2 * float(((counts - others) * own).sum())  # `own` removes the mean of the others.
        norms += WEIGHTS[name] ** 2 * float(np.square(own).sum())
    return total / norms


def _distances(vault: Vault) -> float:
    """Return the change in distances from guesses below each count, so that the target adds one to every distance."""
    guesses = {key: np.zeros([cells.cells for _, cells in axes]) for key, axes in AXES.items()}
    found = vault.measure_distances(LABEL, AXES, guesses)
    return sum(found.values()) / len(AXES) - OTHERS  # The rows there without the target.


def _second_moments(vault: Vault) -> float:
    """Return the change in the target's class matrix along the target's vector, which has norm one."""
    along = np.full(COLUMNS, COLUMNS**-0.5)
    found = vault.measure_second_moments(LABEL, lambda codes: (codes == 2) * along, ("c0", CELLS), COLUMNS)
    return float(along @ found[2] @ along)


def _levels_of_codes(present: bool, releases: Recorder) -> Trial:
    """Attack levels of a hierarchy: all rows have one code, so the target adds one to a count at every level."""
    vault = Vault(np.full((CODED_ROWS + present, 1), PLACE[0], np.int32), ("code",), releases)
    plan = _plan(HIERARCHY, releases.event(HIERARCHY[0]), 1, rows=CODED_ROWS)
    counts: list[float] = []

    def measure(label: str, maps: Mapping[str, Regrouped]) -> dict[str, Floats]:
        found = vault.measure_histograms(label, maps)
        counts.append(float(found["code"][maps["code"].cell_of(PLACE)[0]]) - CODED_ROWS)
        return found

    def trial() -> float:
        counts.clear()
        hierarchy_selection.select_levels({"code": CODES}, measure, plan)
        return sum(counts) / len(HIERARCHY)

    return trial


# Learning a schema: counts of kinds, levels and formats, and names that only one row has. The table without that row
# can never release such a name, so the chance of its release is charged to delta. It is large here, so that few trials
# show it.

NAMES = (partition_selection.TARGET, partition_selection.LEVELS)  # Labels of partition selection.
LEARNING = (partition_selection.KINDS, *NAMES, partition_selection.FORMATS)
WORDS = tuple(f"c{k}" for k in range(9))  # Columns of text. The last one is the target.
COMMON, OWN = ("a", "b"), "c"  # Levels that many rows have, and one that only the target has.
USUAL = ("no", "yes")  # Levels with public names that many rows of every other column have.
WORD_ROWS, CHANCE = 400, 0.2
# Part of the risk. The chance is charged in full, so without this margin its bound would be wrong as often as allowed.
CAUTION = 0.1
LEARNING_EVENT = events.Thresholded(multiplier=math.sqrt(len(LEARNING)) / MU, delta=CHANCE)


def _raw_vault(last: list[tuple[str, ...]], releases: Recorder) -> partition_selection.RawVault:
    """Return a table without a schema: rows of both common levels, then the `last` rows. Columns alternate words."""
    words = [[a] * WORD_ROWS + [b] * WORD_ROWS + [row[k] for row in last] for k, (a, b) in enumerate((COMMON, USUAL))]
    table = io_table.from_frame(pd.DataFrame({name: words[k % 2] for k, name in enumerate(WORDS)}))
    return partition_selection.RawVault(table, 2 * WORD_ROWS, releases, open_schema(WORDS, WORDS[-1]))


def _learning(present: bool, releases: Recorder) -> Trial:
    """Attack schema learning: the target has a common level in every column and adds one to each of its counts."""
    raw = _raw_vault([(COMMON[0], USUAL[0])] * present, releases)
    usual = CellKinds().usual.index(USUAL[0])
    word = CellKinds().names.index("word")

    def trial() -> float:
        raw.measure_schema()
        kinds, target, levels, formats = (releases.last[label].arrays for label in LEARNING)
        words = [counts[word] for counts in kinds[: len(WORDS)]]
        named = [levels[2 * k + k % 2][usual if k % 2 else 0] for k in range(len(WORDS) - 1)]
        no_numbers = [counts[MAGNITUDES - 1] for counts in formats[: len(WORDS)]]
        means = [sum(map(float, some)) / len(some) for some in (words, target[0][:1], named, no_numbers)]
        return (sum(means) - 6 * WORD_ROWS) / len(LEARNING)

    return trial


def audit_names(label: str, trials: int, confidence: float, entropy: Entropy | None = None) -> Finding:
    """Bound how often a name that only one row has is released, against the chance that is charged to delta."""
    entropy = entropy or system_entropy()
    allowance: dict[str, tuple[Event, int]] = dict.fromkeys(LEARNING, (LEARNING_EVENT, trials))
    ledger = Ledger(delta=0.5, accountant="rdp", random_source=entropy.source, allowance=allowance)
    releases = Recorder(ledger, entropy)
    raw = _raw_vault([(OWN, OWN)], releases)
    hits = 0
    for _ in range(trials):
        raw.measure_schema()
        hits += OWN in releases.last[label].names
    return Finding(
        part=PART, name=f"names released: {label.removeprefix('schema: ')}",
        worst_case="a row with a level of its own in every column", claimed_chance=CHANCE,
        proven_chance=1 - upper_rate(trials - hits, trials, (1 - confidence) * CAUTION),
        trials=trials, confidence=confidence,
    )  # fmt: skip


# Gradient sums of all rows and of Poisson lots: of rows, microbatches, patients and pairs. The target joins a Poisson
# lot by chance, so each measurement is attacked as a mixture with it and without it. The other rows have no gradient,
# or give the same sum whichever of them are in the lot.

DIMENSIONS, HUGE, BOUND = 6, 1e6, 0.7
ALONE, MANY = _table(0), _table(40)  # A lot has some of 40 rows, except with a chance of RATE^40.
PATIENT_LOT_MU = 4.0  # Large enough to distinguish one row of a patient from two.
GROUPS = Groups(torch.tensor([0, 0, 1, 1, 2, 2]), (0.3, 0.7, 2.0))


def _features(others: float, target: float, axes: int = 1) -> Features:
    """Return a map from rows to inputs, which are their gradients: `axes` of them, for the target and for others."""

    def features(codes: Codes) -> Tensor:
        x = torch.zeros(len(codes), DIMENSIONS)
        x[:, :axes] = torch.from_numpy(np.where(codes[:, :1] == 2, target, others).astype(np.float32))
        return x

    return features


OPPOSED = _features(-BOUND, HUGE)  # The others at the clipping norm, the target far on the other side.
TARGET_ALONE = _features(0.0, HUGE)
EVERY_GROUP = _features(0.0, HUGE, DIMENSIONS)  # The target has a huge part in each group of parameters.
POOL = torch.zeros(1, DIMENSIONS)
LINEAR = Mlp([DIMENSIONS, 1], bias=False)  # The gradient of a row is its input.


def _gradients(
    vault: Vault, features: Features = OPPOSED, without: int = -OTHERS, moved: int = 1, microbatches: int | None = None
) -> float:
    """Return the clipped sum along one axis, in units of the bound, relative to the change `moved` by the target."""
    (found,) = vault.measure_gradient_sum(LABEL, LINEAR, lambda x: x[:, 0], features, BOUND, microbatches)
    return (float(found[0, 0]) / BOUND - without) / moved


def _of_real(answer: Callable[[Tensor], Tensor], real: Tensor, fake: Tensor, mix: Tensor) -> Tensor:
    return answer(real)


def _pairs(vault: Vault) -> float:
    (found,) = vault.measure_pair_gradient_sum(LABEL, LINEAR, _of_real, EVERY_GROUP, POOL, GROUPS)
    parts = [float(found[0][GROUPS.of == j].sum()) / math.sqrt(2) / bound for j, bound in enumerate(GROUPS.bounds)]
    return sum(parts) / len(parts)


def _norms(vault: Vault, others: int) -> float:
    """Return the change by the target: its norms are above every bound and the others' below; each counts a half."""
    found = vault.measure_norms_below(LABEL, LINEAR, _of_real, EVERY_GROUP, POOL, GROUPS)
    return (others / 2 - float(found.mean())) * 2


# Critics of shards, with one number per row and one class, so that a clipped gradient is plus or minus the bound. Every
# shard has a row on one side. The target joins the first shard from far on the other side. Its trained critic then
# slopes the other way, or its teacher accepts as real what lies there.

SHARDS = round(1 / RATE)
REAL, GENERATED, TARGET = 10.0, -50.0, -1e4  # Positions of rows: the generated ones in between.
FAKES = 4  # Generated rows of a measurement.
CRITIC = CriticConfig(width=8, rate=1e-2)
TEACHER = replace(CRITIC, loss="cross-entropy")
TRAINING_STEPS = 150
Answer = Callable[[Shards, Tensor], float]  # From shards and generated rows: near 0 without the target, near 1 with it.


def _of_shards(answer: Answer, critic: CriticConfig = CRITIC) -> Callable[[bool, Recorder], Trial]:
    """Return the attack that trains critics once per side. Releases are independent given these."""

    def attack(present: bool, releases: Recorder) -> Trial:
        rows = torch.tensor([[REAL, 1.0]] * SHARDS + [[TARGET, 1.0]] * present)
        place = np.append(np.arange(SHARDS), np.zeros(int(present), np.int64))
        shards = Shards(rows, place, SHARDS, 1, critic, releases)
        fakes = torch.tensor([[GENERATED, 1.0]]).repeat(FAKES, 1)
        for _ in range(TRAINING_STEPS):
            shards.train(fakes[None])
        return lambda: answer(shards, fakes)

    return attack


def _votes(shards: Shards, fakes: Tensor) -> float:
    """Return the change by the target: at its position only its own teacher votes for real, one vote per row."""
    return float(shards.measure_votes(LABEL, torch.where(fakes == GENERATED, TARGET, fakes)).mean())


def _sum(shards: Shards, fakes: Tensor) -> float:
    """Return the change by the target: minus the bound from every shard, but plus the bound from its critic."""
    return (float(shards.measure_upstream_sum(LABEL, fakes, BOUND).mean()) / BOUND + SHARDS) / 2


def _gradient_votes(shards: Shards, fakes: Tensor) -> float:
    """Return the change by the target: its teacher's vote moves from the lowest bin to the highest."""
    counts = shards.measure_gradient_votes(LABEL, fakes, torch.ones(1, 1), BOUND, 3)[:, 0]
    return (float((counts[:, 2] - counts[:, 0]).mean()) + SHARDS) / 2


def _upstream(joint: bool) -> Answer:
    """Return the change by the target: each row's gradient turns from minus the bound to plus the bound."""
    each = BOUND / (FAKES**0.5 if joint else 1.0)
    return lambda shards, fakes: (
        (float(shards.measure_upstream_gradient(LABEL, fakes, BOUND, joint=joint).mean()) / each + 1) / 2
    )


def _lot(mu: float = SAMPLED_MU) -> dict[str, Any]:
    return {"mu": mu, "rate": RATE, "event": events.SubsampledGaussian(multiplier=1 / mu, rate=RATE)}


SHARD: dict[str, Any] = {
    "mu": SAMPLED_MU, "rate": RATE, "event": events.ShardSampledGaussian(multiplier=1 / SAMPLED_MU, shards=SHARDS)
}  # fmt: skip
FAR, FOUR = "a row whose gradient is a million times the clipping norm", "four such rows of one patient"
TURNS, HUGE_IN_EACH = "a row that turns its group's clipped mean round", "a row that is huge in each of three groups"
ABOVE, TURNS_CRITIC = "a row above the bound of each of three groups", "a row that turns its shard's critic round"
LOT = partial(_gradients, features=TARGET_ALONE, without=0)
MICROBATCH = partial(_gradients, without=-1, moved=2, microbatches=1)  # The target reverses its group's clipped mean.
ALL = (
    Case(name="marginals", worst_case="one row in one cell of each of three tables of weights 2, 1, 0.5",
         attack=of_vault(_marginals, SINGLE)),
    Case(name="marginals, patients", worst_case="four equal rows of one patient", max_rows=PATIENT_ROWS,
         attack=of_vault(partial(_marginals, rows=PATIENT_ROWS), _patient)),
    Case(name="marginals, averaged rows", worst_case="four equal rows of one patient, who add one together",
         max_rows=PATIENT_ROWS, attack=of_vault(partial(_marginals, averaged=True), _patient)),
    Case(name="marginals, centred", worst_case="one row in one cell of each of three tables that are centred",
         attack=of_vault(_centred, SINGLE)),
    Case(name="distances", worst_case="one row that moves three distances the same way",
         attack=of_vault(_distances, SINGLE)),
    Case(name="second moments", worst_case="one row more, whose vector has norm one",
         attack=of_vault(_second_moments, SINGLE)),
    Case(name="rows per patient", worst_case="one patient more", max_rows=PATIENT_ROWS,
         attack=of_vault(lambda vault: float(vault.measure_rows_per_patient(LABEL)[PATIENT_ROWS - 1]), _patient)),
    Case(name="levels of a hierarchy", worst_case="one row whose code is counted at every level", labels=HIERARCHY,
         attack=_levels_of_codes, event=Gaussian(multiplier=math.sqrt(len(HIERARCHY)) / MU)),
    Case(name="kinds, levels and formats", worst_case="one row of a common level in each of nine columns",
         attack=_learning, labels=LEARNING, event=LEARNING_EVENT, slow=8),
    Case(name="gradient sum", worst_case=FAR, attack=of_vault(_gradients, SINGLE)),
    Case(name="gradient sum, patients", worst_case=FOUR, max_rows=PATIENT_ROWS,
         attack=of_vault(partial(_gradients, moved=PATIENT_ROWS), _patient)),
    Case(name="microbatch gradient sum", worst_case=TURNS, attack=of_vault(MICROBATCH, SINGLE)),
    Case(name="pair gradients in groups", worst_case=HUGE_IN_EACH, attack=of_vault(_pairs, SINGLE), slow=8),
    Case(name="norms below a bound", worst_case=ABOVE, attack=of_vault(partial(_norms, others=OTHERS), SINGLE)),
    Case(name="lot's gradient sum", worst_case=FAR, attack=of_vault(LOT, MANY), **_lot()),
    Case(name="lot's gradient sum, patients", worst_case=f"{FOUR}, who join a lot together", max_rows=PATIENT_ROWS,
         attack=of_vault(partial(LOT, moved=PATIENT_ROWS), _patient), **_lot(PATIENT_LOT_MU)),
    Case(name="lot's microbatch gradients", worst_case=TURNS, attack=of_vault(MICROBATCH, MANY), **_lot()),
    Case(name="lot's pair gradients", worst_case=HUGE_IN_EACH, attack=of_vault(_pairs, ALONE), slow=4, **_lot()),
    Case(name="lot's norms below a bound", worst_case=ABOVE, **_lot(),
         attack=of_vault(partial(_norms, others=0), ALONE)),
    Case(name="upstream gradient", worst_case=TURNS_CRITIC, attack=_of_shards(_upstream(False)), **SHARD),
    Case(name="upstream gradient, joint", worst_case=TURNS_CRITIC, attack=_of_shards(_upstream(True)), **SHARD),
    Case(name="upstream gradient in order", worst_case=TURNS_CRITIC,
         attack=_of_shards(lambda shards, fakes: [_upstream(False)(shards, fakes) for _ in range(SHARDS)][0]),
         event=events.PublicOrderGaussian(multiplier=1 / MU, shards=SHARDS), releases=SHARDS),
    Case(name="sum of upstream gradients", worst_case=TURNS_CRITIC, attack=_of_shards(_sum)),
    Case(name="teachers' votes", worst_case="a row that its teacher alone takes for real",
         attack=_of_shards(_votes, TEACHER)),
    Case(name="teachers' gradient votes", worst_case="a row that turns its teacher round",
         attack=_of_shards(_gradient_votes)),
)  # fmt: skip
CASES = {case.name: case for case in ALL}
