"""The rule for pairs: how many to measure, how finely, for what share. All that it reads is public."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

CLEAR = 0.01  # noise of a feature of the critic, beyond which it costs more than it shows
CLASSES = 3  # taken for granted: a schema that is still to be learned does not tell


@dataclass(frozen=True, kw_only=True)
class Pairing:
    """What a fit does about pairs: `count` tables of `bins` by `bins`, for `share` of the privacy loss.

    `critic`: the critic's share, for its sum over so many random `features`. `columns`: bins of a number column.
    `points`: latent points of the generator. `steps`: of the last fit.
    """

    count: int
    rounds: int = 3  # of choosing; one where all pairs are measured and none need be chosen
    bins: int = 8
    share: float = 0.25
    critic: float = 0.0
    features: int = 256
    columns: int = 20
    points: int = 128
    steps: int = 900

    def readable(self, rows: int, epsilon: float, blur: float) -> int:
        """How many pairs keep the L1 noise of each table below `blur` of the rows.

        A lone Gaussian answer at this epsilon and delta 1e-5 has a multiplier of about 3.9 / epsilon + 0.12.
        """
        multiplier = (3.9 / epsilon + 0.12) / math.sqrt(self.share)
        cells = CLASSES * self.bins**2
        return int((blur * rows / (math.sqrt(2 / math.pi) * multiplier * cells)) ** 2)

    def blur(self, rows: int, epsilon: float) -> float:
        """The noise of the critic's answer on one feature, as a share of what all rows could add to it."""
        return (3.9 / epsilon + 0.12) / math.sqrt(self.critic) * math.sqrt(self.features) / rows


def pairing(rows: int, columns: int, epsilon: float, *, few: int = 30, most: int = 300) -> Pairing:
    """A large table gets all pairs, as finely as the noise lets one read them; a small one a few coarse ones, or none.

    A few chosen pairs may be blurred, for each was chosen because its error is large. Many pairs at once must be
    clear: what they add to fidelity they would take from the classes (docs/methods/default.md has the figures).
    """
    every = (columns - 1) * (columns - 2) // 2
    for bins in (20, 16, 12):
        wide = Pairing(
            count=0, bins=bins, share=0.35, critic=0.15, columns=40 if bins > 12 else 20, points=256, steps=1500
        )
        clear = min(wide.readable(rows, epsilon, 0.2), every, most)
        if clear == every:
            return replace(wide, count=every, rounds=1)
        if clear >= (most if bins > 12 else 2 * few):
            return replace(wide, count=clear // wide.rounds * wide.rounds)
    coarse = Pairing(count=0)
    count = min(coarse.readable(rows, epsilon, 0.4), few, every) // coarse.rounds * coarse.rounds
    critic = replace(coarse, critic=0.1)
    return replace(critic if count and critic.blur(rows, epsilon) < CLEAR else coarse, count=count)
