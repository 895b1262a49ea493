"""What a verdict's figure means, in sentences that can be read aloud to people who know no statistics.

Page one prints them for each question that did not pass. A question without a sentence here shows its figure, or the
verdict's own words if it is not judged.
"""

from __future__ import annotations

from typing import NamedTuple

from .verdict import Verdict


class Wording(NamedTuple):
    """A sentence with places for figures of the verdict. Each figure is shown as `scale` times itself plus `shift`."""

    text: str
    scale: float = 1.0
    shift: float = 0.0
    decimals: int = 0


LEARNED = (
    "Two patients have different outcomes. A model that learned from these rows tells which is which {value} times in "
    "100 less often than one that learned from real rows{between}. The limit is {limit}."
)
LIVES = (
    "At some time, the share of patients without the event differs by {value} in 100 from the real share{between}. The "
    "limit is {limit}."
)
SPREAD = (
    "The largest difference is {value} in 100 of a standard deviation, the usual yardstick{between}. The limit is "
    "{limit}."
)
OTHER = "{measure}: {value}{between}. The limit is {limit}."
WORDINGS = {
    "epsilon": Wording("The privacy budget, epsilon, is {value}. The limit is {limit}.", decimals=2),
    "delta_times_rows": Wording(
        "The chance that the guarantee fails, times the number of rows, is {value}. The limit is {limit}.", decimals=2
    ),
    "attack_advantage": Wording(
        "Of two rows, one was in the table. The best attack picks the right one {value} times in 100{between}. A "
        "coin is right 50 times. The limit is {limit}.", scale=50, shift=50, decimals=1,
    ),
    "attack_certainty": Wording(
        "The best attack names {value} in 100 rows of the table{between}, if it may wrongly name 1 in 100 others. "
        "The limit is {limit}.", scale=100, decimals=1,
    ),
    "mean_auroc_loss": Wording(LEARNED, scale=100, decimals=1),
    "next_row_auroc_loss": Wording(LEARNED, scale=100, decimals=1),
    "mean_r2_loss": Wording(
        "A model that learned from these rows explains {value} in 100 parts less of the differences between patients "
        "than one that learned from real rows{between}. The limit is {limit}.", scale=100, decimals=1,
    ),
    "two_way_gap": Wording(
        "In two columns together, {value} in 100 rows are wrong beyond what chance explains{between}. The limit is "
        "{limit}.", scale=100, decimals=1,
    ),
    "lagged_gap": Wording(
        "From one row of a patient to the next, {value} in 100 rows are wrong beyond what chance explains{between}. "
        "The limit is {limit}.", scale=100, decimals=1,
    ),
    "relations_lost": Wording("{detail}"),
    "propensity_auroc": Wording(
        "Of two rows, one is real. A computer picks it {value} times in 100{between}. A coin is right 50 times. The "
        "limit is {limit}.", scale=100,
    ),
    "last_row_share_gap": Wording(SPREAD, scale=100),
    "last_values_gap": Wording(SPREAD, scale=100),
    "time_to_last_row_gap": Wording(LIVES, scale=100, decimals=1),
    "time_to_event_gap": Wording(LIVES, scale=100, decimals=1),
    "rules_broken": Wording("Rules that synthetic rows break: {value}. The limit is {limit}."),
    "rows_apart": Wording("Rows without a patient or partner, too early or too many: {value}. The limit is {limit}."),
}  # fmt: skip

DIFFER = "Rows of the table and other rows differ even without the synthetic ones. So no attack can be judged."
GAIN = "These rows seem to teach more than real ones do. That cannot be, so something is wrong with the comparison."
NOT_JUDGED = {"attack_advantage": DIFFER, "attack_certainty": DIFFER, "mean_auroc_loss": GAIN, "mean_r2_loss": GAIN,
              "next_row_auroc_loss": GAIN}  # fmt: skip


def plain(verdict: Verdict) -> str:
    """Return what the figure of a verdict means, or why it is not judged; "" if it passed or the verdict says it.

    >>> from .verdict import Estimate, Threshold, decide
    >>> figure = Estimate(value=0.07, low=0.05, high=0.1)
    >>> plain(decide("two_way_gap", "", "", figure, Threshold(limit=0.05, source=""), ""))  # doctest: +ELLIPSIS
    'In two columns together, 7.0 in 100 rows are wrong beyond what chance explains, perhaps 5.0 to 10.0. The ...
    """
    if verdict.outcome == "not judged":
        return NOT_JUDGED.get(verdict.key, "")
    if verdict.outcome not in ("beyond", "cannot tell"):
        return ""
    figure = verdict.estimate
    wording = WORDINGS.get(verdict.key) or Wording(OTHER, decimals=verdict.decimals)

    def shown(number: float | None) -> str:
        return "?" if number is None else f"{wording.scale * number + wording.shift:,.{wording.decimals}f}"

    between = ""
    if figure.low is not None and figure.high is not None and figure.low != figure.high:
        between = f", perhaps {shown(figure.low)} to {shown(figure.high)}"
    limit = f"{wording.scale * verdict.limit + wording.shift:,.6f}".rstrip("0").rstrip(".")
    return wording.text.format(value=shown(figure.value), between=between, limit=limit, detail=verdict.detail,
                               measure=verdict.measure[:1].upper() + verdict.measure[1:])  # fmt: skip
