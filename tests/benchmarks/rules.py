"""Do rules change what was measured? Shares of terminal states, missing values and levels, with and without rules.

Fits each table at one epsilon. The error of a share is that of 10,000 synthetic rows or patients, minus that of the
fitted rows. It is given in standard errors: of the noise of the measurement of this column alone, and of the chance
that drew the real and the synthetic rows. First rows and later rows are apart, as they were measured; a patient's later
rows count as one, divided among them. "No rules" samples the same model without its rules. Models of rows in order know
their rules, so there it is another fit, and chance alone changes a share by one or two. pbc needs its public file in
--data.

  states             patients with each state that a rule allows at last rows alone
  missing            missing cells of each column
  levels             rows of each declared level, of columns with at most ten
  rows per patient   patients with each number of rows
  parts of numbers   rows in each quarter of the fitted rows, of the table "kinds" alone

"kinds" is simulated, with a rule of each kind: presence, sums, labels that follow from codes, ages, dates that follow.
Its rows that break a rule are counted, by pandas alone. --thirty prints the seconds that thirty rules cost.

--truth fits simulated visits instead, and prints death, time to it and last values by outcome next to the truth.
"""

from __future__ import annotations

import itertools
import math
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
import yaml
from medsynth_sample_data import hospital, omop, visits
from numpy.typing import NDArray

import medsynth
from medsynth.fitting.source import bundled
from medsynth.mixture.one_way import LEVELS_OF, OneWayMarginals
from medsynth.patients.contexts import Contexts
from medsynth.patients.plan import LAST_ROWS, ONE_WAY
from medsynth.patients.split_rows import ending, rows_column
from medsynth.patients.training import ChainTraining
from medsynth.sampling.structure import structure_model
from medsynth.schema import Schema
from medsynth.schema.linked import count_column
from tests.benchmarks.common import DELTA, ROOT, markdown, options
from tests.benchmarks.tables import SCHEMAS, public

NAMES = ("kinds", "visits", "pbc", "hospital", "clinic", "omop")
YES_NO: dict[str, Any] = {"kind": "binary", "levels": ["no", "yes"]}
PERCENT: dict[str, Any] = {"kind": "count", "bounds": [0, 100]}
TENTH: dict[str, Any] = {"kind": "continuous", "bounds": [0, 20], "decimals": 1, "missing": True}
DAY: dict[str, Any] = {"kind": "date", "bounds": ["2020-01-01", "2022-12-31"], "missing": True}
KINDS: dict[str, Any] = {
    "sex": {"kind": "binary", "levels": ["F", "M"]}, "pregnant": {**YES_NO, "missing": True},
    "weeks": {"kind": "count", "bounds": [1, 42], "missing": True}, "died": YES_NO,
    "cause": {"kind": "categorical", "levels": ["heart", "cancer", "other"], "missing": True},
    **{f"type_{k}": YES_NO for k in "abo"}, **{f"share_{k}": PERCENT for k in "xyz"},
    "direct": TENTH, "total": TENTH, "troponin": {**PERCENT, "missing": True}, "drawn": DAY,
    "ward": {"kind": "categorical", "levels": [*"12345678"]},
    "department": {"kind": "categorical", "levels": ["medicine", "neuro", "surgery"]},
    "born": {"kind": "date", "bounds": ["1920-01-01", "2004-12-31"]}, "came": {**DAY, "missing": False},
    "left": {"kind": "date", "after": "came", "bounds": [0, 90]}, "age": {"kind": "count", "bounds": [0, 110]},
    "sick": YES_NO,
}  # fmt: skip
RULES = [
    "pregnant is present if and only if sex = F", "weeks is present implies pregnant = yes",
    "died = no implies cause is missing", "type_a + type_b + type_o = 1", "share_x + share_y + share_z = 100",
    "direct <= total", "troponin is present if and only if drawn is present", "ward determines department",
    "age = years(born, came)", "left >= born",
]  # fmt: skip
MOST_LEVELS, TRUTH_PATIENTS = 10, 100_000
PATIENTS, DRAWN = 3000, 10_000  # simulated patients to fit, synthetic rows or patients
Frame = pd.DataFrame
Floats = NDArray[np.float64]


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


def kinds(run: int) -> tuple[Frame, Schema]:
    """Return simulated rows that obey a rule of each kind, and their schema."""
    rng, n = np.random.default_rng(run), PATIENTS
    woman, kind, ward = rng.random(n) < 0.5, rng.choice(3, n, p=[0.5, 0.4, 0.1]), rng.choice(8, n)
    pregnant, died, drawn = woman & (rng.random(n) < 0.3), rng.random(n) < 0.2, rng.random(n) < 0.4
    shares, total = rng.multinomial(100, [0.6, 0.3, 0.1], n), rng.gamma(4, 2, n).clip(0, 20).round(1)
    came = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 1000, n), unit="D")
    born = pd.Timestamp("1920-01-01") + pd.to_timedelta(rng.integers(0, 31_000, n), unit="D")
    left = came + pd.to_timedelta(rng.gamma(1.5, 6, n).clip(0, 90).astype(int), unit="D")
    frame = pd.DataFrame({
        "sex": np.where(woman, "F", "M"), "pregnant": np.where(woman, np.where(pregnant, "yes", "no"), None),
        "weeks": pd.Series(rng.integers(4, 42, n)).where(pregnant & (rng.random(n) < 0.9)).astype("Int64"),
        "died": np.where(died, "yes", "no"), "cause": np.where(died, rng.choice(["heart", "cancer", "other"], n), None),
        **{f"type_{one}": np.where(kind == k, "yes", "no") for k, one in enumerate("abo")},
        **{f"share_{one}": shares[:, k] for k, one in enumerate("xyz")},
        "direct": (total * rng.beta(2, 5, n)).round(1), "total": total,
        "troponin": pd.Series(rng.integers(0, 100, n)).where(drawn).astype("Int64"),
        "drawn": (came + pd.to_timedelta(rng.integers(0, 3, n), unit="D")).strftime("%Y-%m-%d").where(drawn),
        "ward": (ward + 1).astype(str), "department": np.array(["medicine", "neuro", "surgery"])[ward % 3],
        "born": born.strftime("%Y-%m-%d"), "came": came.strftime("%Y-%m-%d"), "left": left.strftime("%Y-%m-%d"),
        "age": _years(born, came), "sick": rng.choice(["no", "yes"], n, p=[0.7, 0.3]),
    })  # fmt: skip
    return frame, Schema.from_dict({"name": "kinds", "target": "sick", "columns": KINDS, "rules": RULES})


def _years(first: pd.DatetimeIndex, last: pd.DatetimeIndex) -> NDArray[np.int64]:
    before = (last.month < first.month) | ((last.month == first.month) & (last.day < first.day))
    return np.asarray(last.year - first.year - before, np.int64)


def impossible(made: Frame) -> dict[str, int]:
    """Count rows of "kinds" that break each rule, without medsynth's code."""
    word = made.astype(object).map(_word)
    day = {name: pd.DatetimeIndex(pd.to_datetime(made[name])) for name in ("born", "came", "left")}
    found = {
        "present if and only if a level": word["pregnant"].notna() != (word["sex"] == "f"),
        "present implies": word["weeks"].notna() & (word["pregnant"] != "yes"),
        "implies missing": (word["died"] == "no") & word["cause"].notna(),
        "yes and no sum to 1": (word[[f"type_{k}" for k in "abo"]] == "yes").sum(axis=1) != 1,
        "shares sum to 100": made[[f"share_{k}" for k in "xyz"]].astype(int).sum(axis=1) != 100,
        "one number below another": made["direct"].astype(float) > made["total"].astype(float),
        "present together": word["troponin"].notna() != word["drawn"].notna(),
        "labels of one code": made.groupby("ward")["department"].transform("nunique") != 1,
        "ages": made["age"].astype(int) != _years(day["born"], day["came"]),
        "dates in order": (day["left"] < day["came"]) | (day["left"] < day["born"]),
    }
    return {name: int(np.asarray(rows, bool).sum()) for name, rows in found.items()}


def thirty() -> tuple[float, float]:
    """Return the processor seconds of 60,000 rows without rules and with thirty, the shortest of three runs."""
    columns = dict[str, Any](y=YES_NO)
    rules = list[str]()
    for k in range(10):
        columns |= {f"low{k}": TENTH, f"high{k}": {**TENTH, "bounds": [7, 30]}, f"day{k}": DAY, f"next{k}": DAY}
        columns |= {f"x{k}": PERCENT, f"z{k}": PERCENT}
        rules += [f"low{k} <= high{k}", f"day{k} is present if and only if next{k} is present"]
        rules += [f"x{k} > 90 implies z{k} > 50"]
    own = {"name": "thirty", "target": "y", "columns": columns}
    models = [structure_model(Schema.from_dict({**own, "rules": some})) for some in ([], rules)]
    seconds = list[list[float]]([[], []])
    for run in range(3):
        for model, lasted in zip(models, seconds, strict=True):
            start = time.process_time()
            medsynth.sample(model, 60_000, seed=run)
            lasted.append(time.process_time() - start)
    return min(seconds[0]), min(seconds[1])


def table(name: str, run: int, data: str | None) -> tuple[Frame, Schema]:
    """Return rows to fit and their schema."""
    if name == "kinds":
        return kinds(run)
    if name == "pbc":
        return pbc(data)
    if name == "visits":
        return visits.simulate(3000, 1000 + run), Schema.load(visits.SCHEMA)
    if name == "hospital":
        return hospital.extract(seed=run), Schema.load(hospital.SCHEMA)
    schema = Schema.load(ROOT / "sample_data" / "clinic.schema.yaml")
    return pd.read_csv(ROOT / "sample_data" / "clinic.csv")[list(schema.names)], schema


Kinds = dict[tuple[str, str], dict[str, float]]  # errors of shares by table, kind and name, in standard errors
Noise = dict[tuple[str, str], dict[str, float]]  # of counts: its deviation by table, part of the rows and column


@contextmanager
def noise_told() -> Iterator[Noise]:
    """Record the noise of counts of first rows, later rows and last rows while a fit measures them."""
    found = Noise()
    measure, variables, ends = (
        OneWayMarginals.measure,
        ChainTraining.measure_variables,
        ChainTraining.measure_last_rows,
    )

    def first(*given: Any) -> OneWayMarginals:
        own = measure(*given)
        found["", "rows"] = {name.removeprefix(LEVELS_OF): std for name, std in own.std.items()}
        return own

    def later(self: ChainTraining) -> Contexts:
        contexts = variables(self)
        std = self._deviation(ONE_WAY, len(contexts.variables))
        found[self.table, "later rows"] = dict.fromkeys(contexts.variables, std)
        return contexts

    def last(self: ChainTraining, contexts: Contexts) -> None:
        ends(self, contexts)
        std = self._deviation(LAST_ROWS, sum(map(len, self.ends.values()))) if self.ends else 0.0
        found[self.table, "states"] = {
            name: std * math.sqrt(sum(contexts.axis(context)[1].cells for context, _ in own)) / len(own)
            for name, own in self.ends.items()
        }

    with (
        patch.object(OneWayMarginals, "measure", staticmethod(first)),
        patch.object(ChainTraining, "measure_variables", later),
        patch.object(ChainTraining, "measure_last_rows", last),
    ):
        yield found


@dataclass(frozen=True)
class Part:
    """Rows of a table, and the weight of each: a patient's rows count as one patient, as they were measured."""

    rows: Frame
    weights: Floats

    def share(self, of: pd.Series) -> tuple[float, float]:
        """Return a share of rows and its variance by sampling."""
        count = float(self.weights.sum())
        share = float(np.average(of.loc[self.rows.index], weights=self.weights)) if count else 0.0
        return share, max(share * (1 - share), 1 / max(count, 1.0)) / max(count, 1.0)


def parts(rows: Frame, schema: Schema) -> dict[str, Part]:
    """Return first rows and later rows of patients if they are in order, else all rows."""
    if not schema.order:
        return {"rows": Part(rows, np.ones(len(rows)))}
    turn = rows.groupby(schema.unit).cumcount()
    later = rows[turn > 0]
    weights = 1 / later.groupby(schema.unit)[schema.order].transform("size").to_numpy(np.float64)
    return {"rows": Part(rows[turn == 0], np.ones(int((turn == 0).sum()))), "later rows": Part(later, weights)}


def figures(real: Frame, made: Frame, schema: Schema, noise: Noise, table: str = "", patients: int = 0) -> Kinds:
    """Return errors of shares by kind and name. `table`, `patients`: of several tables."""
    found, both = Kinds(), [in_order(rows, schema) for rows in (real, made)]
    of_parts = [parts(rows, schema) for rows in both]

    def add(kind: str, name: str, part: str, column: str, of: Sequence[pd.Series]) -> None:
        own = {**noise.get(("", "rows"), {}), **noise.get((table, part), {})}
        std = own.get(column, own.get(f"{table}.{column}", 0.0)) / of_parts[0][part].weights.sum()
        (one, variance), (other, more) = (own[part].share(series) for own, series in zip(of_parts, of, strict=True))
        found.setdefault((table, kind), {})[name] = (other - one) / math.sqrt(std**2 + variance + more)

    for part in of_parts[0]:
        where = "" if part == "rows" else f", {part}"
        for name, column in schema.columns.items():
            written = column.modelled and column.written and name in real.columns  # not a column of another table
            if not written or (part != "rows" and name in schema.constant):
                continue
            if column.missing:
                add(f"missing{where}", name, part, name, [rows[name].isna() for rows in both])
            if column.categorical and 0 < column.size <= MOST_LEVELS:  # levels that the schema declares
                levels = [rows[name].astype("object").map(_word) for rows in both]
                for one in levels[0].dropna().unique():
                    add(f"levels{where}", f"{name} {one}", part, name, [own == one for own in levels])
            if schema.name == "kinds" and not column.categorical:
                numbers = [pd.to_datetime(o[name]) if column.dated else o[name].astype(float) for o in both]
                edges = [numbers[0].min(), *numbers[0].quantile([0.25, 0.5, 0.75]), numbers[0].max()]
                for k, (low, high) in enumerate(itertools.pairwise(edges), 1):
                    inside = [own.between(low, high, inclusive="right" if k > 1 else "both") for own in numbers]
                    add("parts of numbers", f"{name}, part {k}", part, name, inside)
    if schema.order:
        counts = [rows.groupby(schema.unit)[schema.order].transform("size") for rows in both]
        number = count_column(table) if table else rows_column(schema)
        for many in sorted(counts[0].unique())[:MOST_LEVELS]:
            add("rows per patient", f"{many}", "rows", number, [own == many for own in counts])
        for name in ending(schema):
            of = [(rows[name].map(_word) == "yes").groupby(rows[schema.unit]).transform("any") for rows in both]
            add("states", name, "rows", name, of)
    return found


def in_order(rows: Frame, schema: Schema) -> Frame:
    """Return the rows that count: of each patient the first ones in order."""
    if not (schema.unit and schema.order):
        return rows
    by: Frame = rows.sort_values([schema.unit, schema.order], kind="stable")
    kept: Frame = by.groupby(schema.unit).head(schema.max_rows or 1).reset_index(drop=True)
    return kept


def _word(value: Any) -> Any:
    """Return a cell's word, so that 1, 1.0 and "1" are one level; None if it is missing."""
    return None if pd.isna(value) else f"{value:g}" if type(value) in (int, float) else str(value).lower()


def without_rules(schema: Schema) -> Schema:
    """Return a schema whose rules only compute columns."""
    rules = tuple(rule.text for rule in schema.parsed_rules if rule.defines)
    return Schema.from_dict({**schema.to_dict(), "rules": list(rules)})


def of_tables(run: int, epsilon: float) -> list[Kinds]:
    """Return errors of the simulated OMOP tables with their rules and without them."""
    tables, real, found = bundled("omop"), omop.simulate(PATIENTS, run), list[Kinds]()
    for rules in (True, False):
        plain: dict[str, Any] = tables.to_dict()
        for one in plain["tables"].values():
            one["rules"] = one.get("rules", []) if rules else []
        with tempfile.TemporaryDirectory() as folder, noise_told() as noise:
            for one, frame in real.items():
                frame.to_csv(Path(folder) / f"{one}.csv", index=False)
            (place := Path(folder) / "omop.tables.yaml").write_text(yaml.safe_dump(plain, sort_keys=False))
            model = medsynth.fit(place, epsilon=epsilon, delta=DELTA, rows=PATIENTS, notice=lambda text: None)
        made = medsynth.sample_tables(model, DRAWN, seed=run)
        own = Kinds()
        for one in tables.tables:
            own |= figures(real[one], made[one], tables.view(one), noise, one)
        found.append(own)
    return found


def compared(name: str, run: int, epsilon: float, data: str | None) -> list[Kinds]:
    """Return errors of a table with its rules and without them."""
    if name == "omop":
        return of_tables(run, epsilon)
    real, schema = table(name, run, data)
    found, free = list[Kinds](), without_rules(schema)
    with noise_told() as noise:
        model = medsynth.fit(real, epsilon=epsilon, delta=DELTA, schema=schema, rows=len(real))
    for rules in (schema, free):
        if rules is free and schema.order:
            with noise_told() as noise:
                model = medsynth.fit(real, epsilon=epsilon, delta=DELTA, schema=free, rows=len(real))
        elif rules is free:
            model = replace(model, schema=model.schema.model_copy(update={"rules": free.rules}))
        rows, patients = (None, DRAWN) if schema.order else (DRAWN, None)
        made = medsynth.sample(model, rows, run, patients=patients)
        if name == "kinds" and rules is schema:
            print(f"run {run}, rows that break a rule: {impossible(made)}", flush=True)
        found.append(figures(real, made, schema, noise))
    return found


def lines_of(name: str, runs: Sequence[Sequence[Kinds]]) -> Iterator[tuple[object, ...]]:
    """Yield a line per table and kind: how many shares are within two standard errors, and what rules change."""
    for table, kind in runs[0][0]:
        with_rules, without = (pd.DataFrame([kinds[k][table, kind] for kinds in runs]) for k in (0, 1))
        change = (with_rules - without).mean()
        at = change.abs().idxmax()
        within = [f"{int((own.abs() <= 2).to_numpy().sum())}" for own in (with_rules, without)]
        size = [f"{np.sqrt(np.nanmean(own.to_numpy() ** 2)):.1f}" for own in (with_rules, without)]
        place = f"{name}, {table}" if table else name
        yield place, kind, with_rules.size, *within, *size, f"{change[at]:+.1f} ({at})"


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
    parser.add_argument("--thirty", action="store_true")
    given = parser.parse_args(words)
    if given.thirty:
        print("seconds without rules and with thirty: {:.1f}, {:.1f}".format(*thirty()))
        return
    if given.truth:
        truth(given.truth, given.runs, given.epsilon)
        return
    heads = [
        "table", "shares of", "shares", "within two errors: rules", "no rules", "typical error: rules", "no rules",
        "largest change by rules",
    ]  # fmt: skip
    for name in given.tables:
        runs = [compared(name, run, given.epsilon, given.data) for run in range(given.runs)]
        print(markdown(heads, lines_of(name, runs)), flush=True)
