"""The sections of a report, one module per family. The list below is the order of the page."""

from . import (
    attacks,
    claim,
    criteria,
    documentation,
    fidelity,
    inference,
    outcomes,
    over_time,
    plausibility,
    relations,
    standards,
    table_one,
    utility,
)
from .registry import register

for section in (
    claim.CLAIM,
    claim.VERDICTS,
    documentation.PURPOSE,
    documentation.SOURCE,
    documentation.VARIABLES,
    claim.LEDGER,
    documentation.TUNING,
    utility.UTILITY,
    inference.IMPORTANCE,
    inference.INFERENCE,
    inference.ESTIMATION,
    table_one.TABLE_ONE,
    fidelity.FIDELITY,
    relations.RELATIONS,
    fidelity.CUT_POINTS,
    fidelity.QUALITY,
    fidelity.SYNTHETIC,
    plausibility.TABLES,
    over_time.OVER_TIME,
    outcomes.OUTCOMES,
    utility.SUBGROUPS,
    attacks.ATTACKED,
    criteria.CRITERIA,
    plausibility.PLAUSIBILITY,
    documentation.LIMITS,
    documentation.REPRODUCE,
    standards.STANDARDS,
):
    register(section)
