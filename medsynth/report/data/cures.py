"""What to do about a figure that is beyond its threshold, by the threshold's key. The summary prints it."""

from __future__ import annotations

FEWER = "Declare a schema with bounds and levels, leave out columns that nobody needs, or fit with a larger epsilon."

CURES = {
    "no guarantee": "Fit with a privacy budget, and sample with medsynth: it then proves where the rows come from.",
    "epsilon": "Fit again with a smaller epsilon, or let the board set its own limit.",
    "delta_times_rows": "Fit again with a smaller delta. The default delta is small enough.",
    "attack_advantage": "Do not share these rows. Read under Attacks what was found, and fit again.",
    "attack_certainty": "Do not share these rows. Look for copies of real rows, and fit again.",
    "mean_auroc_loss": f"Do not train models on these rows for this task. {FEWER}",
    "mean_r2_loss": f"Do not train models on these rows for this task. {FEWER}",
    "two_way_gap": f"Do not study relations between columns. {FEWER} Merge rare levels.",
    "relations_lost": "Do not study these relations. Look under Strong relations for rules that would keep them.",
    "propensity_auroc": f"See under Fidelity which columns give the rows away. {FEWER}",
    "lagged_gap": f"Do not study changes from one row to the next. {FEWER}",
    "next_row_auroc_loss": f"Do not predict what comes next with these rows. {FEWER}",
    "last_row_share_gap": "Do not count outcomes in these rows. Declare a rule that ties the state to the last row.",
    "time_to_last_row_gap": "Do not study the time to this state. Declare a rule that ties it to the last row.",
    "time_to_event_gap": f"Do not study the time to the event. {FEWER}",
    "last_values_gap": "Do not study last values by state. Fit the state as a column of the last row, with a rule that "
    f"ties it to that row. {FEWER}",
    "rules_broken": "See under Plausibility which rules are broken. Sample again with these rules, or report a fault.",
    "rows_apart": "Draw all tables again together. Do not join these files.",
}
