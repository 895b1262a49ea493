"""Each kind of measurement on its worst neighbours: how much an attacker who sees the release can prove.

A case builds a table in which one unit, the target, moves the measured value by as much as is charged, in a known
direction. The attacker projects each release on that direction, the best test there is against Gaussian noise, and
guesses "present" beyond a threshold. No table of the user is opened, and no budget is spent.
"""

from .case import MU, Case, audit_mechanism
from .counts import COUNTS
from .gradients import GRADIENTS
from .names import COUNTS_OF_LEVELS, audit_names
from .names import LABELS as NAMES
from .shards import SAMPLED_SHARDS

CASES = {case.name: case for case in (*COUNTS, *COUNTS_OF_LEVELS, *GRADIENTS, *SAMPLED_SHARDS)}

__all__ = ["CASES", "MU", "NAMES", "Case", "audit_mechanism", "audit_names"]
