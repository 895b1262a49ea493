"""Few public labelled rows and many synthetic ones: classifiers on the public rows, on synthetic rows, and on both.

    python tests/benchmarks/semi_supervised.py --tables mnist thyroid --minutes 30

The last experiment of the dp-GAN paper (Zhang, Ji, Wang 2018). Public rows are taken from the tables' test parts, which
no fit has seen, and what is left of these is tested on. Sources: `mixture`, the default; `dp-gan+public`, which
starts on the same public rows (thyroid alone: on MNIST one of its lots would need gradients of 60,000 x 500,000
numbers). Both are fitted at epsilon 10, delta 1e-5. With both kinds of rows, the public ones weigh as much in all as
the synthetic ones, and a number of weights is compared on a quarter of the public rows held back. Accuracy on MNIST;
on thyroid macro AuROC, where 92 % of rows are of one class. Results join results/semi-supervised.csv.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import mnist_data
import numpy as np
import pandas as pd
import resumable

PUBLIC = (20, 50, 100, 200, 500, 1000, 2000)
EPSILON = 10.0
SYNTHETIC = 10_000  # rows that classifiers learn from
SHARES = (0.1, 0.3, 0.5, 0.8)  # of the weight of both that public rows may get: chosen on a quarter of these
FIELDS = ["table", "method", "epsilon", "seed", "rows", "public", "synthetic", "both", "share"]
METHODS = {"mnist": ("mixture",), "thyroid": ("mixture", "dp-gan+public")}
Labelled = tuple[Any, Any]


def fitted(x: Any, y: Any, weights: Any) -> Any:
    """Logistic regression: a classifier that 20 rows can still train."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.01 if x.shape[1] > 100 else 1.0, max_iter=200))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(x, y, logisticregression__sample_weight=weights)


def quality(model: Any, table: str, test: Labelled) -> float:
    """Accuracy, or macro AuROC where a class that was never seen counts as a guess."""
    from sklearn.metrics import roc_auc_score

    x, y = test
    if table == "mnist":
        return float((model.predict(x) == y).mean())
    chances = dict(zip(model.classes_, model.predict_proba(x).T, strict=True))
    known = [k for k in np.unique(y) if (y == k).any() and (y != k).any()]
    return statistics.mean(float(roc_auc_score(y == k, chances.get(k, np.zeros(len(y))))) for k in known)


def together(table: str, public: Labelled, made: Labelled, share: float) -> Any:
    """A classifier on both, of which the public rows have so large a share of the weight."""
    x, y = (np.concatenate(pair) for pair in zip(public, made, strict=True))
    few, many = len(public[1]), len(made[1])
    weights = np.concatenate([np.full(few, share / few), np.full(many, (1 - share) / many)]) * (few + many)
    return fitted(x, y, weights)


def chosen(table: str, public: Labelled, made: Labelled) -> float:
    """The share that does best on a quarter of the public rows, trained on the rest and the synthetic ones."""
    cut = max(1, len(public[1]) // 4)
    held, kept = tuple(part[:cut] for part in public), tuple(part[cut:] for part in public)
    return max(SHARES, key=lambda share: float((together(table, kept, made, share).predict(held[0]) == held[1]).mean()))


def numbers(table: str, frame: Any) -> Labelled:
    """A table's columns as numbers, those of thyroid's tests in logarithms, and its classes."""
    target = "digit" if table == "mnist" else "class"
    x = frame.drop(columns=target).to_numpy(np.float32)
    return (x / 255 if table == "mnist" else np.log1p(np.maximum(x, 0) * 1000)), frame[target].astype(int).to_numpy()


@cache
def real(table: str) -> tuple[Any, Any, Any]:
    """(rows to fit on, rows that are public or tested on, schema)."""
    import utility

    if table == "mnist":
        pixels, digits = mnist_data.real("t10k")
        return None, pd.DataFrame(pixels, columns=mnist_data.PIXELS).assign(digit=digits), mnist_data.schema()
    train, test, schema, _ = utility.load("thyroid", os.environ.get("MEDSYNTH_THYROID"))
    return train, test, schema


@cache
def synthetic(table: str, method: str, seed: int, public: int) -> Labelled:
    """Synthetic rows; `public`: how many rows the method starts on, none but for dp-gan."""
    import medsynth

    train, test, schema = real(table)
    if table == "mnist":
        pixels, digits, _ = mnist_data.synthetic(method, EPSILON, seed)
        return pixels[:SYNTHETIC].astype(np.float32) / 255, digits[:SYNTHETIC].astype(int)
    name, *warm = method.split("+")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "public.csv"
        order(test, seed).head(public).to_csv(path, index=False)
        given = {"public": path} if warm else {}
        model = medsynth.fit(train, epsilon=EPSILON, schema=schema, rows=len(train), method=name, **given)  # type: ignore[arg-type]
    return numbers(table, medsynth.sample(model, SYNTHETIC))


def order(frame: Any, seed: int) -> Any:
    """The rows in an order of the run's own: the first ones are public, 2,000 and more are tested on."""
    return frame.sample(frac=1, random_state=seed).reset_index(drop=True)


def one(table: str, method: str, epsilon: float, seed: int) -> dict[str, Any]:
    """One number of public rows, which stands in the table's name after a colon."""
    name, rows = table.split(":")
    x, y = numbers(name, order(real(name)[1], seed))
    public, test = (x[: int(rows)], y[: int(rows)]), (x[max(PUBLIC) :], y[max(PUBLIC) :])
    made = synthetic(name, method, seed, int(rows) if "+" in method else 0)
    share = chosen(name, public, made)
    found = {
        "public": quality(fitted(*public, None), name, test),
        "synthetic": quality(fitted(*made, None), name, test),
        "both": quality(together(name, public, made, share), name, test),
    }
    return {"rows": rows, "share": share, **{key: round(value, 4) for key, value in found.items()}}


def summary(runs: list[dict[str, Any]]) -> str:
    """A markdown table of medians over the runs."""
    lines = ["| table | source | public rows | runs | public alone | synthetic alone | both |", "|" + " --- |" * 7]
    keys = sorted({(r["table"].split(":")[0], r["method"], int(r["rows"])) for r in runs})
    for table, method, rows in keys:
        some = [r for r in runs if r["table"] == f"{table}:{rows}" and r["method"] == method]
        medians = [f"{statistics.median(float(r[what]) for r in some):.3f}" for what in ("public", "synthetic", "both")]
        lines.append(f"| {table} | {method} | {rows} | {len(some)} | {' | '.join(medians)} |")
    return "\n".join(lines)


def main() -> None:
    """Run what is missing within the time given, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--rows", nargs="+", type=int, choices=PUBLIC, default=list(PUBLIC))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--output", type=Path, default=Path("results/semi-supervised.csv"))
    given = parser.parse_args()
    wanted = [
        (f"{table}:{rows}", method, EPSILON, seed)
        for seed in range(given.seeds)
        for table in given.tables
        for method in METHODS[table]
        for rows in given.rows
    ]
    runs, left = resumable.run(wanted, one, given.output, FIELDS, given.minutes)
    print(summary(runs))
    if left:
        print("\nNot run: " + left)


if __name__ == "__main__":
    main()
