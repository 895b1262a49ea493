"""Do rules change what was measured? Shares of terminal states, missing values and levels, before and after rules.

Fits each table under its rules at one epsilon. Each figure is a share in synthetic rows minus that in the fitted rows,
in standard errors of the latter, of patients or rows. "Before" samples the same model without its rules. Models of rows
in order are fitted under their rules, so they have no such sample. pbc needs its public file in --data.

  states      share of patients with each state that a rule allows at last rows alone
  missing     missing cells of each column
  levels      rows of each level, of columns with at most ten levels
  rows        rows per patient

--truth fits simulated visits instead, and prints death, time to it and last values by outcome next to the truth.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from medsynth_sample_data import hospital, omop, visits

import medsynth
from medsynth.fitting.source import bundled
from medsynth.patients.successive_rows import ending
from medsynth.schema import Schema
from tests.benchmarks.common import DELTA, ROOT, markdown, options
from tests.benchmarks.tables import SCHEMAS, public

NAMES = ("visits", "pbc", "hospital", "clinic", "omop")
MOST_LEVELS, TRUTH_PATIENTS = 10, 100_000
Frame = pd.DataFrame


def pbc(data: str | None) -> tuple[Frame, Schema]:
    """Return the visits of pbc and their schema; death is a state of a patient's last visit."""
    plain: dict[str, Any] = Schema.load(SCHEMAS / "pbc_visits.yaml").to_dict()
    columns = {name: column for name, column in plain["columns"].items() if name != "years"}
    state = {"constant": ["drug", "age", "sex"], "rules": ["died = yes implies last row"], "columns": columns}
    frame = pd.read_csv(public(data, "pbc") / "pbc2.csv.gz").groupby("id").head(plain["max_rows"])
    frame = frame.assign(age=frame["age"].round(1), year=frame["year"].round(2))
    last = ~frame["id"].duplicated(keep="last")
    frame["died"] = np.where((frame["status"] == "dead") & last, "yes", "no")
    return frame[list(columns)].reset_index(drop=True), Schema.from_dict({**plain, **state})


def table(name: str, run: int, data: str | None) -> tuple[Frame, Schema]:
    """Return rows to fit and their schema."""
    if name == "pbc":
        return pbc(data)
    if name == "visits":
        return visits.simulate(3000, 1000 + run), Schema.load(visits.SCHEMA)
    if name == "hospital":
        return hospital.extract(seed=run), Schema.load(hospital.SCHEMA)
    schema = Schema.load(ROOT / "sample_data" / "clinic.schema.yaml")
    return pd.read_csv(ROOT / "sample_data" / "clinic.csv")[list(schema.names)], schema


def share_errors(real: pd.Series, made: pd.Series) -> float:
    """Return how far a share of made rows is from that of real ones, in standard errors of the latter."""
    p, n = float(real.mean()), len(real)
    return (float(made.mean()) - p) / float(np.sqrt(max(p * (1 - p), 1 / n) / n))


def figures(real: Frame, made: Frame, schema: Schema) -> dict[str, dict[str, float]]:
    """Return errors of shares by kind and name, in standard errors."""
    found: dict[str, dict[str, float]] = {"states": {}, "missing": {}, "levels": {}, "rows": {}}
    unit = schema.unit if schema.order else None
    for name, column in schema.columns.items():
        if not (column.modelled and column.written):
            continue
        if column.missing:
            found["missing"][name] = share_errors(real[name].isna(), made[name].isna())
        if column.categorical and column.size <= MOST_LEVELS:
            levels = [frame[name].astype("object").map(_word) for frame in (real, made)]
            for one in levels[0].dropna().unique():
                found["levels"][f"{name} {one}"] = share_errors(levels[0] == one, levels[1] == one)
    if unit:
        counts = [frame.groupby(unit).size() for frame in (real, made)]
        found["rows"] = {str(k): share_errors(counts[0] == k, counts[1] == k) for k in sorted(counts[0].unique())}
        for name in ending(schema):
            state = [(frame[name] == "yes").groupby(frame[unit]).any() for frame in (real, made)]
            found["states"][name] = share_errors(*state)
    return found


def _word(value: Any) -> Any:
    """Return a cell's word, so that 1, 1.0 and "1" are one level; None if it is missing."""
    return None if pd.isna(value) else f"{value:g}" if type(value) in (int, float) else str(value).lower()


def lines_of(table: str, found: dict[str, dict[str, float]], when: str) -> list[tuple[object, ...]]:
    """Return a line per kind: the number of shares, those within two standard errors, and the farthest one."""
    lines = list[tuple[object, ...]]()
    for kind, own in found.items():
        if own:
            name = max(own, key=lambda one: abs(own[one]))
            inside = sum(abs(error) <= 2 for error in own.values())
            lines.append((table, kind, when, len(own), inside, f"{own[name]:+.1f} ({name})"))
    return lines


def compared(name: str, run: int, epsilon: float, data: str | None) -> list[tuple[object, ...]]:
    """Fit a table, sample it with and without its rules, and return lines of the printed table."""
    if name == "omop":
        tables, real = bundled("omop"), omop.simulate(3000, run)
        with tempfile.TemporaryDirectory() as folder:
            for one, frame in real.items():
                frame.to_csv(Path(folder) / f"{one}.csv", index=False)
            model = medsynth.fit(folder, epsilon=epsilon, delta=DELTA, rows=3000, notice=lambda text: None)
        made = medsynth.sample_tables(model, 3000, seed=run)
        return [
            line for one in tables.tables
            for line in lines_of(f"omop, {one}", figures(real[one], made[one], tables.alone(one)), "after")
        ]  # fmt: skip
    real, schema = table(name, run, data)
    model = medsynth.fit(real, epsilon=epsilon, delta=DELTA, schema=schema, rows=len(real))
    definitions = tuple(rule.text for rule in schema.parsed_rules if rule.defines)
    free = replace(model, schema=model.schema.model_copy(update={"rules": definitions}))
    patients = int(real[schema.unit].nunique()) if schema.unit and schema.order else None
    count = None if patients else len(real)
    made = {
        when: medsynth.sample(one, count, seed=run, patients=patients)
        for when, one in {"before": free, "after": model}.items()
        if when == "after" or not schema.order
    }
    return [line for when, rows in made.items() for line in lines_of(name, figures(real, rows, schema), when)]


def over_time(frame: Frame) -> dict[str, float]:
    """Return the share of dead patients, their days from first to last visit, and last values by outcome."""
    by = frame.assign(day=pd.to_datetime(frame["visit_date"])).groupby("patient_id", sort=False)
    last, days = by.tail(1).set_index("patient_id"), (by["day"].last() - by["day"].first()).dt.days
    dead = last["died"] == "yes"
    return {
        "patients who die, %": 100 * dead.mean(),
        "mean days to death": days[dead[dead].index].mean(),
        "median days to death": days[dead[dead].index].median(),
        "last visit severe, the dead, %": 100 * (last["severity"][dead] == "severe").mean(),
        "last visit severe, others, %": 100 * (last["severity"][~dead] == "severe").mean(),
        "last haemoglobin, the dead": last["haemoglobin_g_l"][dead].astype(float).mean(),
        "last haemoglobin, others": last["haemoglobin_g_l"][~dead].astype(float).mean(),
        "last fatigue score, the dead": last["fatigue_score"][dead].mean(),
    }


def truth(patients: int, runs: int, epsilon: float) -> None:
    """Print figures of simulated patients: the truth, what chance alone does to the fitted patients, and fits."""
    schema, found = Schema.load(visits.SCHEMA), list[dict[str, float]]()
    samples = [visits.simulate(patients, 1000 + run) for run in range(runs)]
    for run, real in enumerate(samples):
        model = medsynth.fit(real, epsilon=epsilon, delta=DELTA, schema=schema, rows=len(real))
        found.append(over_time(medsynth.sample(model, patients=20_000, seed=run)))
        print(run, found[-1], flush=True)
    exact, drawn = over_time(visits.simulate(TRUTH_PATIENTS, 99)), [over_time(real) for real in samples]
    lines = [
        (name, f"{exact[name]:.1f}", *(
            f"{np.median(own):.1f} ({min(own):.1f} to {max(own):.1f})"
            for own in ([one[name] for one in drawn], [one[name] for one in found])
        ))
        for name in exact
    ]  # fmt: skip
    print(markdown(["figure", "truth", "fitted patients", "synthetic patients"], lines))


def main(words: list[str]) -> None:
    """Fit, sample, compare, print."""
    parser = options("rules", __doc__, data=True)
    parser.add_argument("--tables", nargs="+", choices=NAMES, default=list(NAMES))
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--epsilon", type=float, default=3.7)
    parser.add_argument("--truth", type=int, default=0, metavar="PATIENTS")
    given = parser.parse_args(words)
    if given.truth:
        truth(given.truth, given.runs, given.epsilon)
        return
    heads = ["table", "shares of", "rules", "shares", "within two errors", "farthest"]
    for run in range(given.runs):
        for name in given.tables:
            print(markdown(heads, compared(name, run, given.epsilon, given.data)), flush=True)
