"""Do intervals cover? Coverage, type I error, bias and width on simulated studies whose truth is known.

Each run simulates a study of its own and fits it with its regressions declared. It draws one table of as many rows and
several replicates, and estimates every coefficient in each. Printed are, for 95 % intervals, the share that covers the
truth; for null relations, the share that does not (type I error); bias relative to the truth; and widths relative to
those of the real rows. Runs join --output as they end, so a benchmark that was stopped continues.

Other ways (`interval-peers`) get the same runs. AIM and MST of private-pgm get 20 even bins per number, as in the
panel; intervals are the naive ones of one table. `AIM-declared` has the pairs of the declared regressions as its
workload. `binned` puts the real rows through the bins. `regression` spends the whole budget on the declared
regressions and releases no rows (dp_regression.py). `NAPSU-MQ` (twinify) gets the columns of one regression, with
quantile bins and their means for free; `NAPSU-bins` puts the real rows through those bins.
"""

from __future__ import annotations

import itertools
import json
import math
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import statsmodels.api as sm

import medsynth
from medsynth.combining import RULES, combine
from medsynth.methods.regressions import Regression
from tests.benchmarks import bins, dp_regression, other_tools, panel
from tests.benchmarks.common import DELTA, options
from tests.benchmarks.studies import CENTRES, STUDIES, Study, truth

Z = 1.959964
STUDY = STUDIES["study"]
TOOLS = {"AIM": "pgm-aim", "AIM-declared": "pgm-aim", "MST": "pgm-mst"}
NAPSU, NAPSU_BINS, NAPSU_TABLES = "albumin ~ age + crp", 3, 20
NAIVE = (*TOOLS, "binned", "NAPSU-bins")
WAYS = {"regression": "DP regression", "NAPSU-MQ": "NAPSU-MQ", **{name: f"{name}, naive" for name in NAIVE}}
Estimates = pd.DataFrame  # Of each term: estimate, low and high.


def intervals(found: pd.DataFrame) -> Estimates:
    """Return normal intervals of estimates and standard errors."""
    half = Z * found["std_error"]
    return pd.DataFrame(
        {"estimate": found["estimate"], "low": found["estimate"] - half, "high": found["estimate"] + half}
    )


def combined(found: list[pd.DataFrame], rule: str) -> Estimates:
    """Return the estimates of several tables combined by a rule."""
    lines = {}
    for term in found[0].index:
        values, errors = np.array([one.loc[term].to_numpy() for one in found]).T
        both = combine(values, errors**2, rule=rule)  # type: ignore[arg-type]
        lines[term] = (both.estimate, both.low, both.high)
    return pd.DataFrame.from_dict(lines, orient="index", columns=["estimate", "low", "high"])


def own_run(name: str, rows: int, epsilon: float, run: int, given: Any) -> pd.DataFrame:
    """Return the estimates of one simulated table: one line per term and way."""
    study, declare = STUDIES[name], not given.undeclared
    real = study.simulate(rows, 10_000 + run)
    began = time.perf_counter()
    settings = {"inference": study.declared} if declare else {}
    model = medsynth.fit(
        real, epsilon=epsilon, delta=DELTA, schema=study.schema, rows=rows, settings=settings, method=given.method
    )
    fitted = time.perf_counter() - began
    ways = {"real": real, "naive": medsynth.sample(model, rows)}
    found = {way: intervals(study.coefficients(table)) for way, table in ways.items()}
    began = time.perf_counter()
    drawn = medsynth.sample(model, rows, replicates=given.replicates)
    refitted = time.perf_counter() - began
    each = [study.coefficients(own) for _, own in drawn.groupby("replicate")]
    found |= {rule: combined(each, rule) for rule in RULES}
    common = {"rows": rows, "epsilon": epsilon, "run": run, "declared": declare, "fit_s": fitted,
              "replicates_s": refitted}  # fmt: skip
    return lines_of(found, name, common)


def lines_of(found: dict[str, Estimates], name: str, common: dict[str, Any]) -> pd.DataFrame:
    """Return the estimates of several ways as lines, with the truth of the study."""
    both = pd.concat([one.assign(way=way) for way, one in found.items()])
    lines = both.reset_index(names="term").assign(**common)
    return lines.assign(true=lines["term"].map(truth(name)))


def summary(study: Study, runs: pd.DataFrame) -> pd.DataFrame:
    """Return one line per setting, kind of relation and way."""
    declared = {f"{outcome} ~ {term}" for outcome, _, terms in (f.partition(" ~ ") for f in study.declared)
                for term in terms.split(" + ")}  # fmt: skip
    runs = runs.assign(
        covered=(runs.low <= runs.true) & (runs.true <= runs.high),
        kind=np.where(runs.term.isin(declared), "declared", "undeclared"),
        null=runs.term.isin(study.null),
        width=runs.high - runs.low,
    )
    keys = ["rows", "epsilon", "declared", "run", "term"]
    real = runs[runs.way == "real"][[*keys, "width"]]
    runs = runs.merge(real, on=keys, suffixes=("", "_real"))
    runs["relative_width"] = runs.width / runs.width_real
    lines = []
    for (rows, epsilon, told, kind, way), group in runs.groupby(["rows", "epsilon", "declared", "kind", "way"]):
        related, none = group[~group.null], group[group.null]
        means = related.groupby("term")[["estimate", "true"]].mean()
        bias = (means.estimate / means.true - 1).abs()
        lines.append({
            "rows": rows, "epsilon": epsilon, "told": told, "relations": kind, "way": way, "runs": group.run.nunique(),
            "coverage": related.covered.mean(), "type I": 1 - none.covered.mean(), "median bias": bias.median(),
            "largest bias": bias.max(), "median width / real": group.relative_width.median(),
        })  # fmt: skip
    return pd.DataFrame(lines)


def bounds() -> dp_regression.Bounds:
    """Return the schema's bounds as regressions use the columns: logarithms less centres, levels as 0 and 1."""
    found = {}
    for name, column in STUDY.schema.columns.items():
        low, high = (float(str(end)) for end in column.bounds) if column.ordered else (0.0, 1.0)
        if column.scale == "log":
            low, high = math.log(low), math.log(high)
        found[name] = (low - CENTRES.get(name, 0.0), high - CENTRES.get(name, 0.0))
    return found


def declared_pairs() -> list[tuple[str, str]]:
    """Return every pair of columns of one declared regression, once."""
    found = [sorted(Regression.parse(text).columns) for text in STUDY.declared]
    return sorted({(one, other) for names in found for one, other in itertools.combinations(names, 2)})


def of_rows(name: str, real: pd.DataFrame, epsilon: float, run: int, given: Any) -> Estimates:
    """Return what a program prints for rows as if they were real. Raise SystemExit if a tool fails."""
    if name == "binned":
        by = bins.grids(STUDY.schema)
        drawn = bins.decoded(bins.coded(real, by), by, np.random.default_rng(run))
        return intervals(STUDY.coefficients(drawn))
    with tempfile.TemporaryDirectory() as place:
        if name == "AIM-declared":
            (Path(place) / "pairs.json").write_text(json.dumps(declared_pairs()))
        state, made = panel.peer(TOOLS[name], real, STUDY.schema, epsilon, given, Path(place), run)
    if made is None:
        raise SystemExit(f"{name}: {state}")
    return intervals(STUDY.coefficients(made))


def of_napsu(name: str, real: pd.DataFrame, epsilon: float, given: Any) -> Estimates:
    """Return NAPSU-MQ's combined estimates, or those of the real rows in its bins. Raise SystemExit if it fails."""
    outcome, terms = NAPSU.split(" ~ ")[0], NAPSU.split(" ~ ")[1].split(" + ")
    values = STUDY.numbers(real)[[outcome, *terms]]
    codes = values.apply(lambda column: pd.qcut(column, NAPSU_BINS, labels=False))
    means = {column: values[column].groupby(codes[column]).mean() for column in values}
    made: pd.DataFrame | None = codes.assign(replicate=0)
    if name == "NAPSU-MQ":
        sizes = {str(column): len(means[column]) for column in codes}
        with tempfile.TemporaryDirectory() as folder:
            state, made = other_tools.fitted("napsu-mq", Path(folder), codes, sizes, epsilon, NAPSU_TABLES, given)
        if made is None:
            raise SystemExit(f"{name}: {state}")
    assert made is not None
    tables = [pd.DataFrame({c: own[c].map(means[c]) for c in values}) for _, own in made.groupby("replicate")]
    fits = [sm.OLS(table[outcome], sm.add_constant(table[terms])).fit() for table in tables]
    each = [
        pd.DataFrame({"estimate": fit.params[terms], "std_error": fit.bse[terms]}).rename(lambda t: f"{outcome} ~ {t}")
        for fit in fits
    ]
    return intervals(each[0]) if len(each) == 1 else combined(each, "fully")


def one_run(name: str, rows: int, epsilon: float, run: int, given: Any) -> pd.DataFrame:
    """Return one line per term, of one way and of the real rows."""
    real = STUDY.simulate(rows, 10_000 + run)
    began = time.perf_counter()
    if name == "regression":
        rng, values = np.random.default_rng(), STUDY.numbers(real)
        found = intervals(dp_regression.fit(values, STUDY.declared, bounds(), epsilon, DELTA, rng))
    elif name.startswith("NAPSU"):
        found = of_napsu(name, real, epsilon, given)
    else:
        found = of_rows(name, real, epsilon, run, given)
    common = {"rows": rows, "epsilon": epsilon, "run": run, "declared": name not in (*TOOLS, "binned"),
              "fit_s": time.perf_counter() - began}  # fmt: skip
    return lines_of({WAYS[name]: found, "real": intervals(STUDY.coefficients(real)).loc[found.index]}, "study", common)


def arguments(name: str, output: str) -> Any:
    """Return a parser with the options of both benchmarks."""
    parser = options(name, __doc__, output=output)
    parser.add_argument("--rows", type=int, nargs="+", default=[4000])
    parser.add_argument("--epsilon", type=float, nargs="+", default=[3.7])
    parser.add_argument("--runs", type=int, default=5)
    return parser


def on_file(path: Path) -> pd.DataFrame:
    """Return the lines of runs on file."""
    return pd.read_csv(path, float_precision="round_trip") if path.exists() else pd.DataFrame()


def shown(study: Study, found: pd.DataFrame) -> None:
    """Print the table of all runs."""
    print(summary(study, found).round(3).to_string(index=False))


def main(words: list[str]) -> None:
    """Run what is missing, and print the table."""
    parser = arguments("interval-coverage", "interval_coverage.csv")
    parser.add_argument("--study", choices=STUDIES, default="study")
    parser.add_argument("--replicates", type=int, default=10)
    parser.add_argument("--undeclared", action="store_true", help="declare no regression")
    parser.add_argument("--method")
    given = parser.parse_args(words)
    given.output.parent.mkdir(parents=True, exist_ok=True)
    found = on_file(given.output)
    known = set(found[["rows", "epsilon", "run"]].itertuples(index=False, name=None)) if len(found) else set()
    for job in itertools.product(given.rows, given.epsilon, range(given.runs)):
        if job not in known:
            found = pd.concat([found, own_run(given.study, *job, given)])
            found.to_csv(given.output, index=False)
    shown(STUDIES[given.study], found)


def of_peers(words: list[str]) -> None:
    """Run what is missing of the other ways, and print the table."""
    parser = arguments("interval-peers", "interval_peers.csv")
    parser.add_argument("--ways", nargs="+", choices=list(WAYS), default=["regression"])
    other_tools.add_options(parser, 900)
    given = parser.parse_args(words)
    given.output.parent.mkdir(parents=True, exist_ok=True)
    found = on_file(given.output)
    known = set(found[["way", "rows", "epsilon", "run"]].itertuples(index=False, name=None)) if len(found) else set()
    for run, rows, epsilon, name in itertools.product(range(given.runs), given.rows, given.epsilon, given.ways):
        if (WAYS[name], rows, epsilon, run) not in known:
            found = pd.concat([found, one_run(name, rows, epsilon, run, given)])
            # The real rows' lines of a setting are kept once.
            found = found.drop_duplicates(["rows", "epsilon", "run", "declared", "term", "way"])
            found.to_csv(given.output, index=False)
    shown(STUDY, found)
