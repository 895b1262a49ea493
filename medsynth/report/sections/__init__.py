"""The sections of a report, one file each, registered here in the order of the page."""

from . import (
    claim,
    estimation,
    importance,
    inference,
    ledger,
    linked_tables,
    plausibility,
    subgroups,
    utility,
    verdicts,
)
from .attacks import section as attacks
from .documentation import limits, purpose, reproduce, source, tuning, variables
from .fidelity import cut_points, quality, synthetic
from .fidelity import section as fidelity
from .over_time import section as over_time
from .registry import register

for module in (
    claim,
    verdicts,
    purpose,
    source,
    variables,
    ledger,
    tuning,
    utility,
    importance,
    inference,
    estimation,
    fidelity,
    cut_points,
    quality,
    synthetic,
    linked_tables,
    over_time,
    subgroups,
    attacks,
    plausibility,
    limits,
    reproduce,
):
    register(module.SECTION)
