"""How often do tests on synthetic rows find a difference between two groups that are alike?

After Perez et al. 2024, "Does differentially private synthetic data lead to synthetic discoveries?". Each run simulates
a table of two groups, fits it, and draws as many rows. `group` is independent of four columns: a normal, a skewed, a
categorical and a binary one. It moves a fifth, `shifted`, by half a standard deviation. The tests at 5 % are those of
the paper: Student's t and Mann-Whitney for numbers, chi-squared for levels. They are run on the real rows, on the
synthetic rows as if these were real ones (naive), and by `medsynth estimate` with replicates.

With --targets the fit's target is the group, or a column that the tests do not use (`other`), or that column and
regressions of the three numbers on the group are declared (`declared`).
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

import medsynth
from medsynth.fitting.settings import silent
from medsynth.schema import Schema
from tests.benchmarks.common import DELTA, Run, append, markdown, options, read
from tests.benchmarks.studies import YES_NO

FIELDS = ["rows", "epsilon", "target", "run", "way", "test", "null", "found", "of"]
NUMBERS, LEVELS = ("normal", "skewed"), ("kind", "flag")
ASKED = {
    "difference": [f"difference({name}, group=b)" for name in NUMBERS],
    "odds ratio": ["odds_ratio(kind=x, group=b)", "odds_ratio(kind=y, group=b)", "odds_ratio(flag=yes, group=b)"],
}
LEVEL = 0.05
TARGETS = {"group": "group", "other": "other", "declared": "other"}
DECLARED = tuple(f"{name} ~ group" for name in (*NUMBERS, "shifted"))


def schema(target: str) -> Schema:
    """Return the schema of the table, with its target."""
    number = {"kind": "continuous", "bounds": [0, 100], "decimals": 1, "out_of_range": "clip"}
    columns: dict[str, Any] = {
        "group": {"kind": "binary", "levels": ["a", "b"]}, "normal": number,
        "skewed": {**number, "bounds": [0.1, 500], "scale": "log"},
        "kind": {"kind": "categorical", "levels": ["x", "y", "z", "w"]}, "flag": YES_NO, "shifted": number,
        "other": YES_NO,
    }  # fmt: skip
    return Schema.from_dict({"name": "discoveries", "target": target, "columns": columns})


def simulated(rows: int, seed: int) -> pd.DataFrame:
    """Return two groups of the same size on average; `other` follows the skewed column, and nothing else."""
    rng = np.random.default_rng(seed)
    group, skewed = rng.random(rows) < 0.5, rng.lognormal(1.5, 1, rows)
    other = rng.random(rows) < 1 / (1 + np.exp(1 - np.log(skewed) / 2))
    return pd.DataFrame({
        "group": np.where(group, "b", "a"), "normal": rng.normal(50, 10, rows).round(1).clip(0, 100),
        "skewed": skewed.round(1).clip(0.1, 500), "kind": rng.choice(list("xyzw"), rows, p=[0.4, 0.3, 0.2, 0.1]),
        "flag": np.where(rng.random(rows) < 0.2, "yes", "no"),
        "shifted": (rng.normal(50, 10, rows) + 5 * group).round(1).clip(0, 100),
        "other": np.where(other, "yes", "no"),
    })  # fmt: skip


def tested(frame: pd.DataFrame) -> dict[tuple[str, bool], list[float]]:
    """Return the p-values of each test, by whether the columns are alike in both groups."""
    found: dict[tuple[str, bool], list[float]] = {}
    parts = [frame[frame["group"] == name] for name in "ab"]
    if min(map(len, parts)) < 2:
        return found
    for name in (*NUMBERS, "shifted"):
        one, other = (part[name].astype(float) for part in parts)
        null = name != "shifted"
        found.setdefault(("t", null), []).append(float(stats.ttest_ind(one, other).pvalue))
        found.setdefault(("Mann-Whitney", null), []).append(float(stats.mannwhitneyu(one, other).pvalue))
    for name in LEVELS:
        counts = pd.crosstab(frame["group"], frame[name])
        found.setdefault(("chi-squared", True), []).append(float(stats.chi2_contingency(counts).pvalue))
    return found


def one_run(rows: int, epsilon: float, target: str, run: int, replicates: int) -> list[Run]:
    """Return how many tests of each way found a difference in one simulated table."""
    real = simulated(rows, 5_000 + run)
    model = medsynth.fit(
        real, epsilon=epsilon, delta=DELTA, schema=schema(TARGETS[target]), rows=rows, anyway=True, notice=silent,
        inference=DECLARED if target == "declared" else (),
    )  # fmt: skip
    ways = {"real rows": tested(real), "naive": tested(medsynth.sample(model, rows))}
    if replicates:
        asked = {("difference", False): ["difference(shifted, group=b)"]} | {(k, True): v for k, v in ASKED.items()}
        frame = model.estimate(*itertools.chain(*asked.values()), replicates=replicates, seed=run).frame
        by = frame.groupby("question")["p_value"].first()
        ways["estimate"] = {key: [float(by[text]) for text in texts] for key, texts in asked.items()}
    key = {"rows": rows, "epsilon": epsilon, "target": target, "run": run}
    return [
        key | {"way": way, "test": test, "null": null, "found": sum(p < LEVEL for p in found), "of": len(found)}
        for way, tests in ways.items() for (test, null), found in tests.items()
    ]  # fmt: skip


def summary(runs: list[Run]) -> str:
    """Return a line per setting, way and test: the share of tests that found a difference, with its standard error."""
    frame = pd.DataFrame(runs).astype({"found": float, "of": float, "run": int, "rows": int, "epsilon": float})
    frame["null"] = frame["null"].astype(str) == "True"
    lines = []
    for keys, group in frame.groupby(["rows", "epsilon", "target", "way", "test"], sort=False):
        cells = []
        for null in (True, False):
            own = group[group["null"] == null]
            shares = own.groupby("run")[["found", "of"]].sum()
            share = shares["found"].sum() / shares["of"].sum() if len(shares) else 0.0
            each = shares["found"] / shares["of"]
            cells.append(f"{share:.3f} ({each.std() / np.sqrt(max(1, len(each))):.3f})" if len(shares) else "")
        lines.append([*keys, group["run"].nunique(), *cells])
    return markdown(["rows", "epsilon", "target", "way", "test", "runs", "type I error", "power"], lines)


def main(words: list[str]) -> None:
    """Run what is missing, and print the table."""
    parser = options("discoveries", __doc__, output="discoveries.csv")
    parser.add_argument("--rows", type=int, nargs="+", default=[1000])
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 0.3, 0.1])
    parser.add_argument("--targets", nargs="+", default=list(TARGETS), choices=TARGETS)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--replicates", type=int, default=10, help="of each fit; 0 leaves `estimate` out")
    given = parser.parse_args(words)
    runs = read(given.output, FIELDS)
    known = {(int(run["rows"]), float(run["epsilon"]), run["target"], int(run["run"])) for run in runs}
    for job in itertools.product(range(given.runs), given.rows, given.epsilons, given.targets):
        run, rows, epsilon, target = job
        if (rows, epsilon, target, run) not in known:
            for line in one_run(rows, epsilon, target, run, given.replicates):
                runs.append(line)
                append(given.output, FIELDS, line)
    print(summary(runs))
