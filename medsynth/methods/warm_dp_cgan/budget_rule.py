"""The budget rule for two-way marginals: how many to measure, how finely, for what share. It reads public numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ...privacy.noise import MEAN_SIZE

MOMENTS_NOISE = 0.01  # of a second moment, as a share of the rows, beyond which it gets no budget
TAILS_NOISE = 0.0016  # the same, beyond which ends of numbers would follow the noise
MOST_MOMENTS = 16  # relations whose second moment is measured
MOMENTS_FIRMNESS = (2.0, 5.0)  # how many times more firmly the generator is held to them than their noise asks
DECLARED_FIRMNESS = 30.0  # the same, of the moments of declared regressions
MOST_PRODUCTS = 60_000  # by class, of the critic of pairs: beyond it rare levels are not read, then some columns
CRITIC_NOISE = 0.08  # of a product of the critic of pairs, as a share of the rows, beyond which it gets no budget
FEWEST_PAIRS = 4  # beside a critic, which reads all: a few more coarse tables are worth less than they cost the classes
WIDE_COLUMNS = 100  # from which on a few two-way marginals say nothing of the table, and matrices may
MATRIX_SHARE, MATRIX_NOISE = 0.45, 0.03  # of their noise's largest eigenvalue, as a part of the sum of a class's
MOST_ENTRIES = 1 << 22  # of all matrices together: of wider tables a random part of the columns is read
SELECTION_ROUNDS = 3
STEPS_PER_ROUND = 150  # of Adam, after each round but the last, or half of the last one's where these are fewer
FEWEST_POINTS, FEWEST_STEPS = 32, 200  # of a large table's generator
MOST_CELLS = 1 << 22  # of the generator, points by classes by bins: beyond it memory and a step's time grow too large
MOST_WORK = 6_000_000_000  # cells times steps, some two minutes: only tables of hundreds of columns come near it
ASSUMED_CLASSES = 3  # where a schema is still to be learned, their number is not known


@dataclass(frozen=True, kw_only=True)
class Allocation:
    """What a fit does about two-way marginals: `count` tables of `bins` by `bins`, for `share` of the privacy loss.

    `by_class`: whether each class has a table of its own. `critic_share`: for the gradient sum of a critic that reads
    all pairs of columns, or a matrix of second moments by class, which the generator follows without a fit.
    `moments_share`: for second moments. `all_pairs`: whether `count` is all.
    """

    count: int
    all_pairs: bool = False
    bins: int = 8
    share: float = 0.25
    by_class: bool = True
    remeasured: bool = True  # whether class-by-bin marginals are measured again
    critic: Literal["pairs", "matrix"] = "pairs"
    critic_share: float = 0.0
    moments_share: float = 0.0
    column_bins: int = 20  # of a number column by itself
    waves: int = 4  # of what a latent point adds to a number's bins
    tails: bool = False  # whether it may lean on either end of a number by itself
    latent_points: int = 512  # of the generator: rows of one share its relations, which trees can tell
    steps: int = 300  # of the last fit
    most_steps_per_round: int = STEPS_PER_ROUND

    @property
    def pairs_read(self) -> bool:
        """Whether a critic reads all pairs of columns, and so tells which of them to measure."""
        return self.critic == "pairs" and self.critic_share > 0

    @property
    def critics_first(self) -> bool:
        """Whether the generator is fitted to the critics before two-way marginals are measured.

        Of few coarse tables what the critics do not tell is told from noise more easily than all that they say.
        """
        return self.pairs_read and not self.by_class

    @property
    def rounds(self) -> int:
        """Of selecting pairs by noisy errors and measuring them; one where nothing is selected so."""
        return 1 if self.all_pairs or self.pairs_read else SELECTION_ROUNDS

    @property
    def steps_per_round(self) -> int:
        """Steps of the fit after each round but the last."""
        return min(self.most_steps_per_round, self.steps // 2)

    def columns_read(self, columns: int) -> int:
        """The most of so many columns beside the target that two-way marginals and the critic read."""
        return min(columns, 2 * self.count + (math.isqrt(2 * MOST_PRODUCTS) + 1) * self.pairs_read)

    def within_reach(self, classes: int, cells: Sequence[int]) -> Allocation:
        """With fewer latent points and steps where columns and classes are many, so that a fit ends in minutes.

        `cells`: of each column beside the target, by the schema. Work grows by points, classes, bins of the columns
        that are read, and steps. What is measured, and its privacy, stay the same.
        """
        planned = max(1, classes * sum(cells) * self.columns_read(len(cells)) // max(len(cells), 1))
        points = min(self.latent_points, max(FEWEST_POINTS, MOST_CELLS // planned))
        steps = min(self.steps, max(FEWEST_STEPS, MOST_WORK // (points * planned)))
        return replace(self, latent_points=points, steps=steps)

    def affordable(self, rows: int, epsilon: float, noise: float) -> int:
        """How many two-way marginals keep the L1 noise of each below `noise` of the rows.

        A lone Gaussian measurement at this epsilon and delta 1e-5 has a multiplier of about 3.9 / epsilon + 0.12.
        """
        multiplier = (3.9 / epsilon + 0.12) / math.sqrt(self.share)
        cells = (ASSUMED_CLASSES if self.by_class else 1) * self.bins**2
        return int((noise * rows / (MEAN_SIZE * multiplier * cells)) ** 2)

    def critic_noise(self, rows: int, columns: int, epsilon: float) -> float:
        """The noise of one product in the gradient sum of a critic of pairs, as a share of what all rows could add: on
        average, by pairs of columns of the same weight.
        """
        pairs = min((columns - 1) * (columns - 2) // 2, MOST_PRODUCTS)
        return (3.9 / epsilon + 0.12) / math.sqrt(self.critic_share) * math.sqrt(pairs) / rows

    def moments_noise(self, rows: int, epsilon: float) -> float:
        """The noise of one second moment, as a share of what all rows could add."""
        return (3.9 / epsilon + 0.12) * math.sqrt(MOST_MOMENTS / self.moments_share) / rows

    def with_tails(self, rows: int, epsilon: float) -> Allocation:
        """With functions of the ends of numbers, where second moments are precise: else these would follow noise."""
        precise = bool(self.moments_share) and self.moments_noise(rows, epsilon) < TAILS_NOISE
        return replace(self, tails=precise)

    def matrix_noise(self, rows: int, columns: int, epsilon: float) -> float:
        """The largest eigenvalue of the noise of a class's matrix, as a share of the sum of all of its eigenvalues.

        A symmetric matrix with noise of standard deviation s beside its diagonal has one of about 2 s sqrt(columns).
        """
        read = min(columns - 1, math.isqrt(2 * MOST_ENTRIES // ASSUMED_CLASSES))
        return (3.9 / epsilon + 0.12) / math.sqrt(self.critic_share) * math.sqrt(2 * read) * ASSUMED_CLASSES / rows


def allocate(
    rows: int, columns: int, epsilon: float, *, few: int = 30, most: int = 300, matrix: bool = True
) -> Allocation:
    """A large table gets all two-way marginals, as finely as the noise allows; a small one a few coarse ones, or none.

    A few selected ones may be noisy, for each was selected because its error is large. Many at once must be precise:
    what they add to fidelity they would take from the classes (docs/methods/default.md has the figures). Of a table of
    hundreds of columns they are a small part: it gets matrices of second moments, unless `matrix` is false.
    """
    low_rank = Allocation(count=0, critic="matrix", critic_share=MATRIX_SHARE, remeasured=False, latent_points=1024)
    if matrix and columns > WIDE_COLUMNS and low_rank.matrix_noise(rows, columns, epsilon) < MATRIX_NOISE:
        return low_rank
    every = (columns - 1) * (columns - 2) // 2
    for bins in (20, 16, 12) if every else ():
        wide = Allocation(
            count=0, bins=bins, share=0.35, critic_share=0.15, moments_share=0.05,
            column_bins=40 if bins > 12 else 20, waves=12, steps=900,
        )  # fmt: skip
        wide = wide.with_tails(rows, epsilon)
        precise = min(wide.affordable(rows, epsilon, 0.2), every, most)
        if precise == every:
            return replace(wide, count=every, all_pairs=True)
        if precise >= (most if bins > 12 else 2 * few):
            return replace(wide, count=precise // wide.rounds * wide.rounds)
    coarse = Allocation(count=0, share=0.1, by_class=False, critic_share=0.2, moments_share=0.08)
    if not every or coarse.critic_noise(rows, columns, epsilon) >= CRITIC_NOISE:
        coarse = replace(coarse, critic_share=0.0, moments_share=0.0)
    elif coarse.moments_noise(rows, epsilon) >= MOMENTS_NOISE:
        coarse = replace(coarse, moments_share=0.0)
    coarse = coarse.with_tails(rows, epsilon)
    count = min(coarse.affordable(rows, epsilon, 0.4), few, every)
    if coarse.pairs_read and count < min(FEWEST_PAIRS, every):
        count = 0
    return replace(coarse, count=count // coarse.rounds * coarse.rounds)
