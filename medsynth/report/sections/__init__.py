"""The sections of a report, one module per family. The list below is the order of the page."""

from . import attacks, claim, documentation, fidelity, inference, outcomes, over_time, plausibility, summary, utility
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
    fidelity.FIDELITY,
    fidelity.SYNTHETIC,
    plausibility.TABLES,
    over_time.OVER_TIME,
    outcomes.OUTCOMES,
    utility.SUBGROUPS,
    attacks.ATTACKED,
    plausibility.PLAUSIBILITY,
    documentation.LIMITS,
    # The appendix.
    documentation.VARIABLES,
    claim.LEDGER,
    fidelity.CUT_POINTS,
    fidelity.QUALITY,
    documentation.REPRODUCE,
    documentation.SIGN_OFF,
):
    register(section)
