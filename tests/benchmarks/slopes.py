"""Do linear relations come back whole? Slopes of the simulated clinic's ten strongest linear relations.

    python tests/benchmarks/slopes.py --rows 4000 --epsilon 3.7 --runs 5

The truth is a simulated clinic of 200,000 rows: of all pairs of its numbers (tsh and the antibody as logarithms) the
ten with the largest correlation. Each run simulates a clinic of its own, fits it with its schema, and draws 20,000 rows
or as many as there were. Printed is the relative error of each slope: the median over the runs, with its range, and
that of the fitted rows, which are a sample themselves; `of own`, how far the synthetic slope is from that of the fitted
rows, which is what the method adds; with `--along tsh_miu_l tt4_nmol_l` also where along the first column the second's
mean is lost.
"""

from __future__ import annotations

import argparse
import itertools

import numpy as np
import pandas as pd
from medsynth_sample_data import simulate

import medsynth
from medsynth.schema import Schema

TRUTH_ROWS, RELATIONS, DRAWN, PARTS = 200_000, 10, 20_000, 10


def numbers(frame: pd.DataFrame, schema: Schema) -> pd.DataFrame:
    """The clinic's numbers on their scales; a value below the least that an assay reads as that least."""
    found = {}
    for name, column in schema.columns.items():
        if column.kind in ("count", "continuous"):
            values = pd.to_numeric(frame[name]).astype(float)
            found[name] = np.log(values.clip(lower=10.0**-column.places)) if column.scale == "log" else values
    return pd.DataFrame(found)


def slope(table: pd.DataFrame, pair: tuple[str, str]) -> float:
    """Of the second column on the first, by the rows that have both."""
    one, other = table[list(pair)].dropna().to_numpy().T
    return float(np.cov(one, other)[0, 1] / np.var(one, ddof=1))


def along(table: pd.DataFrame, pair: tuple[str, str], parts: list[float]) -> pd.DataFrame:
    """Percent of the rows in each part of the first column, and the mean of the second in it."""
    some = table[list(pair)].dropna()
    inside = some[pair[1]].groupby(pd.cut(some[pair[0]], parts), observed=False)
    return pd.DataFrame({"percent": 100 * inside.size() / len(some), "mean": inside.mean()})


def errors(
    truth: pd.DataFrame, rows: int, epsilon: float, runs: int, schema: Schema
) -> tuple[pd.DataFrame, list[pd.DataFrame]]:
    """The relative errors of each relation, one line each, of synthetic rows and of real ones, by run; and the
    numbers of the synthetic rows of each run.
    """
    sizes = np.abs(truth.corr().to_numpy())
    places = sorted(itertools.combinations(range(len(sizes)), 2), key=lambda pair: -sizes[pair])[:RELATIONS]
    names, kept = list(truth.columns), list[pd.DataFrame]()
    found = []
    for run in range(runs):
        real = simulate.cohort(rows, 1000 + run)
        model = medsynth.fit(real, epsilon=epsilon, delta=1e-5, schema=schema, rows=rows)
        drawn = numbers(medsynth.sample(model, max(rows, DRAWN)), schema)
        kept.append(drawn)
        for one, other in places:
            pair = names[one], names[other]
            true = slope(truth, pair)
            own, made = slope(numbers(real, schema), pair), slope(drawn, pair)
            line = {"relation": f"{pair[1]} on {pair[0]}", "correlation": sizes[one, other], "run": run}
            found.append(line | {"synthetic": made / true - 1, "real": own / true - 1, "of own": made / own - 1})
    return pd.DataFrame(found), kept


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--epsilon", type=float, default=3.7)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--along", nargs=2, metavar=("ONE", "OTHER"))
    asked = parser.parse_args()
    schema = Schema.from_yaml(simulate.schema_text())
    truth = numbers(simulate.cohort(TRUTH_ROWS, 99), schema)
    found, drawn = errors(truth, asked.rows, asked.epsilon, asked.runs, schema)
    grouped = found.groupby("relation", sort=False)
    table = grouped[["correlation", "real", "synthetic", "of own"]].median()
    table["from"], table["to"] = grouped["synthetic"].min(), grouped["synthetic"].max()
    print(table.round(2).to_string())
    sizes = {side: table[side].abs().median() for side in ("synthetic", "real", "of own")}
    print("median size of the ten:", ", ".join(f"{side} {size:.3f}" for side, size in sizes.items()))
    if asked.along:
        one = truth[asked.along[0]]
        parts = np.linspace(one.min() - 1e-9, one.max() + 1e-9, PARTS + 1).tolist()
        of_runs = pd.concat([along(table, asked.along, parts) for table in drawn]).groupby(level=0, observed=False)
        both = {"truth": along(truth, asked.along, parts), "synthetic, mean of runs": of_runs.mean()}
        print(pd.concat(both, axis=1).round(2).to_string())


if __name__ == "__main__":
    main()
