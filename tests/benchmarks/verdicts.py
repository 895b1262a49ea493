"""How often the report's questions come out each way, where nothing is wrong and where rows leak.

Simulated clinics of the demo's size, others in each run: 3,772 rows to fit, 3,428 held out, 10,000 synthetic rows.

- simulator: the synthetic rows are other patients of the same simulator. Nothing is wrong.
- fit: a fit at the demo's epsilon. Nothing is wrong.
- copies: the simulator's rows, among them a copy of 10 % of the fitted rows.
- copies, no noise: rows of a fit without noise, among them a copy of 10 % of the fitted rows.
- survival: times to an event of as many held-out and synthetic rows. Both have one law, or the curves differ by the
  limit, or by twice the limit.

A fit can lose a relation of few patients for good, so "other beyond" counts the runs without that question.

Only the sections with verdicts are computed; their figures are those of the whole report.
"""

from __future__ import annotations

from collections import Counter
from unittest.mock import patch

import numpy as np
import pandas as pd

from medsynth.report.data.verdict import Verdict
from tests.benchmarks.common import Run, completed, markdown, options

EPSILON, ROWS, HELD, DRAWN = 3.7, 3772, 3428, 10_000
CLINICS = ("simulator", "fit", "copies", "copies, no noise")
# Synthetic hazard, as a multiple of the real one. Two exponential curves are then apart by 0, 0.05 or 0.1 at most.
HAZARDS = {"survival-same": 1.0, "survival-at-limit": 1.146, "survival-twice": 1.313}
SCENARIOS = (*CLINICS, *HAZARDS)
KEYS = ("epsilon", "delta_times_rows", "mean_auroc_loss", "two_way_gap", "propensity_auroc", "relations_lost",
        "attack_advantage", "attack_certainty", "rules_broken", "time_to_event_gap")  # fmt: skip
FLAGS = ("any_beyond", "other_beyond", "leak_found")
FIELDS = ["scenario", "rows", "run", *FLAGS, *KEYS]
OUTCOMES = ("within", "cannot tell", "beyond")


def drawn(scenario: str, rows: int, number: int) -> tuple[pd.DataFrame, pd.DataFrame, object]:
    """Return the fitted rows, the synthetic rows and the model, None without one, of one run."""
    from medsynth_sample_data import simulate

    import medsynth
    from medsynth.schema import Schema

    train, model = simulate.cohort(rows, 1_000 + number), None
    if "simulator" in scenario or scenario == "copies":
        made = simulate.cohort(DRAWN, 3_000 + number)
    else:
        noise = {"no_dp": True} if "no noise" in scenario else {"epsilon": EPSILON}
        model = medsynth.fit(train, schema=Schema.from_yaml(simulate.schema_text()), rows=rows, **noise)
        made = medsynth.sample(model, DRAWN, seed=number)
    if "copies" in scenario:
        copied = train.sample(frac=0.1, random_state=number)
        made = pd.concat([made.iloc[len(copied) :], copied]).sample(frac=1, random_state=number, ignore_index=True)
        model = None  # No model draws these rows.
    return train, made, model


def clinic(scenario: str, rows: int, number: int) -> list[Verdict]:
    """Return the verdicts of a report on one simulated clinic."""
    from medsynth_sample_data import simulate

    from medsynth.artifact import Model
    from medsynth.report.build import build
    from medsynth.report.sections.registry import SECTIONS

    judged = {name: section for name, section in SECTIONS.items() if section.verdicts or name == "verdicts"}
    train, made, model = drawn(scenario, rows, number)
    held = simulate.cohort(round(rows * HELD / ROWS), 2_000 + number)
    assert model is None or isinstance(model, Model)
    with patch.dict(SECTIONS, judged, clear=True):
        report = build(synthetic=made, real=held, train=train, model=model, drawn_by_model=model is not None,
                       disjoint=True, target="diagnosis")  # fmt: skip
    return report.verdicts


def times(rows: int, seed: int, hazard: float) -> pd.DataFrame:
    """Return exponential times, in years, censored at random: two rows in three have the event."""
    rng = np.random.default_rng(seed)
    event, end = rng.exponential(1 / hazard, rows), rng.exponential(2, rows)
    died = np.where(event <= end, "yes", "no")
    return pd.DataFrame({"years": np.minimum(event, end).round(3), "died": died})


def survival(scenario: str, rows: int, number: int) -> list[Verdict]:
    """Return the verdict on the time to an event of one pair of tables."""
    from medsynth.report.data.verdict import Thresholds
    from medsynth.report.sections.time_to_event import TIME_TO_EVENT, time_to_event
    from medsynth.schema import Schema

    columns = {
        "years": {"kind": "continuous", "bounds": [0, 50], "decimals": 3},
        "died": {"kind": "binary", "levels": ["no", "yes"]},
    }
    roles = {"time": "years", "event": "died"}
    schema = Schema.from_dict({"name": "t", "target": "died", "columns": columns, "survival": roles})
    real, made = times(rows, 2_000 + number, 1.0), times(rows, 3_000 + number, HAZARDS[scenario])
    found = time_to_event(schema, real, made, frozenset({"years"}), np.random.default_rng(number))
    assert TIME_TO_EVENT.verdicts is not None
    return list(TIME_TO_EVENT.verdicts(found, Thresholds()))


def one(job: Run) -> Run:
    """Return the outcome of each verdict in one run."""
    asked = survival if job["scenario"] in HAZARDS else clinic
    lines = asked(job["scenario"], int(job["rows"]), int(job["run"]))
    shown = {v.key: f"{v.outcome}: {v.estimate} ({v.estimate.low or 0:.3f} to {v.estimate.high or 0:.3f})"
             for v in lines if v.key in KEYS}  # fmt: skip
    beyond = [v.key for v in lines if v.outcome == "beyond"]
    flags = {"any_beyond": bool(beyond), "other_beyond": bool(set(beyond) - {"relations_lost"}),
             "leak_found": not {"attack_advantage", "attack_certainty"}.isdisjoint(beyond)}  # fmt: skip
    return job | dict.fromkeys(KEYS, "") | shown | flags


def table(runs: list[Run]) -> str:
    """Return the rates of the verdicts in each scenario."""
    heads, lines = ["rows", "runs", "question", *OUTCOMES, "other"], list[list[object]]()
    for scenario in SCENARIOS:
        own = [run for run in runs if run["scenario"] == scenario]
        for key in KEYS if own else ():
            found = Counter(str(run[key]).partition(":")[0] for run in own if run[key])
            if total := found.total():
                rates = [f"{found[outcome] / total:.0%}" for outcome in OUTCOMES]
                other = f"{1 - sum(found[outcome] for outcome in OUTCOMES) / total:.0%}"
                lines.append([scenario, total, key, *rates, other])
        if own:
            for flag in FLAGS if scenario in CLINICS else ():
                share = sum(str(run[flag]) == "True" for run in own) / len(own)
                lines.append([scenario, len(own), flag.replace("_", " "), "", "", f"{share:.0%}", ""])
    return markdown(heads, lines)


def main(words: list[str]) -> None:
    """Run what is not on file, and print the rates."""
    parser = options("verdicts", __doc__, output="verdicts.csv")
    parser.add_argument("--scenarios", nargs="+", choices=SCENARIOS, default=SCENARIOS)
    parser.add_argument("--rows", type=int, default=ROWS, help="fitted rows")
    parser.add_argument("--runs", type=int, default=25)
    given = parser.parse_args(words)
    jobs = [{"scenario": s, "rows": given.rows, "run": k} for k in range(given.runs) for s in given.scenarios]
    print(table(completed(given.output, FIELDS, jobs, one)))
