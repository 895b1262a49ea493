"""The sections of a report, one module per family. The list below is the order of the page."""

from . import (
    attacks,
    claim,
    documentation,
    fidelity,
    inference,
    outcomes,
    over_time,
    plausibility,
    relations,
    table_one,
    time_to_event,
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
    time_to_event.TIME_TO_EVENT,
    utility.SUBGROUPS,
    attacks.ATTACKED,
    plausibility.PLAUSIBILITY,
    documentation.LIMITS,
    documentation.REPRODUCE,
):
    register(section)
