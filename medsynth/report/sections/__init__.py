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
    summary,
    table_one,
    utility,
)
from .registry import register

for section in (
    summary.SUMMARY,
    summary.QUESTIONS,
    claim.CLAIM,
    documentation.PURPOSE,
    documentation.SOURCE,
    documentation.TUNING,
    utility.UTILITY,
    inference.IMPORTANCE,
    inference.INFERENCE,
    inference.ESTIMATION,
    table_one.TABLE_ONE,
    fidelity.FIDELITY,
    relations.RELATIONS,
    fidelity.SYNTHETIC,
    plausibility.TABLES,
    over_time.OVER_TIME,
    outcomes.OUTCOMES,
    utility.SUBGROUPS,
    attacks.ATTACKED,
    criteria.CRITERIA,
    plausibility.PLAUSIBILITY,
    documentation.LIMITS,
    # The appendix.
    documentation.VARIABLES,
    claim.LEDGER,
    fidelity.CUT_POINTS,
    fidelity.QUALITY,
    documentation.REPRODUCE,
    standards.STANDARDS,
    documentation.SIGN_OFF,
):
    register(section)
