"""Utility of the methods over tables, epsilons and seeds: what docs/benchmarks.md shows.

    python tests/benchmarks/utility.py --tables thyroid cancer clinic-4k --epsilons 1 3.7 --seeds 5 --minutes 30

Tables: thyroid (real; --data FOLDER or MEDSYNTH_THYROID), cancer (scikit-learn's breast cancer, 569 x 31, bounds
declared as one and a half times round figures of the assay), clinic-4k and clinic-50k (simulated). A method may be a
preset's name, and be followed by changes to its settings, as mixture+strongest_share=0 or +rules=0 (ablations), or
by +no_dp=1: the same without noise, an upper bound whose epsilon only names its row of the results. Each result is
written to OUTPUT.csv as it comes and is not run again; what was not run is listed. Train on 10,000 synthetic rows,
test on real held-out rows; fidelity beside a second real sample's; a fresh process a fit, for its peak memory.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import resumable

TABLES = ("thyroid", "cancer", "clinic-4k", "clinic-10k", "clinic-50k")
FIELDS = ["table", "method", "epsilon", "seed", "mean", "best", "lr", "mlp", "rf", "hgb", "one_way", "one_way_ceiling",
          "two_way", "two_way_ceiling", "propensity_auroc", "fit_seconds", "peak_gib", "spent"]  # fmt: skip


def load(name: str, data: str | None) -> Any:
    """(train, test, schema, target) of a table."""
    from medsynth_sample_data import simulate

    from medsynth.schema import Schema, bundled

    if name.startswith("clinic"):
        schema = Schema.from_yaml(simulate.schema_text())
        return simulate.cohort(1000 * int(name[7:-1]), 1), simulate.cohort(4000, 2), schema, "diagnosis"
    if name == "thyroid":
        if not data:
            raise SystemExit("thyroid needs --data FOLDER or MEDSYNTH_THYROID")
        schema = bundled()["thyroid"]
        read = [
            pd.read_csv(Path(data) / f"ann-{part}.data", sep=r"\s+", header=None, names=list(schema.names))
            for part in ("train", "test")
        ]
        return *read, schema, "class"
    from sklearn.datasets import load_breast_cancer

    frame = load_breast_cancer(as_frame=True).frame
    frame.columns = [column.replace(" ", "_") for column in frame.columns]
    frame = frame.sample(frac=1, random_state=0).reset_index(drop=True)
    bounds = {c: float(f"{1.5 * frame[c].max():.1g}") for c in frame.columns[:-1]}
    columns = {c: {"kind": "continuous", "bounds": [0, top]} for c, top in bounds.items()}
    columns["target"] = {"kind": "binary", "levels": [0, 1]}
    schema = Schema.from_dict({"name": "cancer", "target": "target", "columns": columns})
    return frame[:398].reset_index(drop=True), frame[398:].reset_index(drop=True), schema, "target"


def one(table: str, method: str, epsilon: float, data: str | None) -> dict[str, object]:
    """One fit, one sample, all figures."""
    import medsynth
    from medsynth.methods.registry import presets

    train, test, schema, target = load(table, data)
    started = time.perf_counter()
    method, *changes = method.split("+")
    preset = method if method in presets() else None
    no_dp = "no_dp=1" in changes
    settings = dict(change.split("=") for change in changes if change != "no_dp=1")
    if settings.pop("rules", None) is not None:
        schema = schema.model_copy(update={"rules": ()})
    model = medsynth.fit(train, epsilon=None if no_dp else epsilon, no_dp=no_dp, schema=schema, rows=len(train),
                         preset=preset, method=None if preset else method, settings=settings)  # fmt: skip
    seconds, peak = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    drawn = medsynth.sample(model, 10_000)[test.columns]
    spent = "no limit" if model.epsilon is None else round(model.epsilon, 4)
    cost = {"fit_seconds": round(seconds, 1), "peak_gib": round(peak, 2), "spent": spent}
    return {**figures(drawn, train, test, schema, target), **cost}


def figures(drawn: Any, train: Any, test: Any, schema: Any, target: Any) -> dict[str, object]:
    """Utility by TSTR, fidelity beside a second real sample's."""
    from threadpoolctl import threadpool_limits

    from medsynth.report.data import protocol
    from medsynth.report.data import tables as inputs
    from medsynth.report.data.columns import cells_of
    from medsynth.report.sections.fidelity import fidelity

    with threadpool_limits(1):
        score = protocol.score(drawn, test, target)
        rng = np.random.default_rng(0)
        real, made, fitted = (cells_of(frame) for frame in (test, drawn, train))
        found = fidelity(inputs.gather(real, made, fitted, target, schema, rng), rng)
    return {
        **{key: round(value, 4) for key, value in score["macro"].items()},
        "mean": round(score["mean"], 4),
        "best": round(score["best"], 4),
        **{key: round(getattr(found, key), 4) for key in ("one_way", "one_way_ceiling", "two_way", "two_way_ceiling")},
        "propensity_auroc": found.propensity_auroc.value and round(found.propensity_auroc.value, 4),
    }


def summary(runs: list[dict[str, Any]]) -> str:
    """A markdown table of medians and ranges."""
    head = [
        "table",
        "method",
        "epsilon",
        "runs",
        "mean AuROC",
        "best AuROC",
        "two-way (ceiling)",
        "propensity AuROC",
        "fit s",
    ]
    lines = ["| " + " | ".join([*head, "GiB"]) + " |", "|" + " --- |" * (len(head) + 1)]

    def key(run: dict[str, Any]) -> tuple[int, str, float]:
        return TABLES.index(run["table"]), run["method"], float(run["epsilon"])

    for (_, method, epsilon), group in itertools.groupby(sorted(runs, key=key), key):
        some = list(group)

        def of(name: str, some: list[dict[str, Any]] = some) -> list[float]:
            return [float(run[name]) for run in some if run.get(name) not in (None, "", "None")]

        mean = of("mean")
        if not mean:
            privacy = ", ".join(sorted({str(run["spent"]) for run in some}))
            lines.append(f"| {some[0]['table']} | {method} | {epsilon:g} | {len(some)} | {privacy} | | | | "
                         f"{statistics.median(of('fit_seconds')):.0f} | |")  # fmt: skip
            continue
        lines.append(
            f"| {some[0]['table']} | {method} | {epsilon:g} | {len(some)} | {statistics.median(mean):.3f} "
            f"({min(mean):.3f} to {max(mean):.3f}) | {statistics.median(of('best')):.3f} | "
            f"{statistics.median(of('two_way')):.3f} ({statistics.median(of('two_way_ceiling')):.3f}) | "
            f"{statistics.median(of('propensity_auroc') or [0]):.2f} | {statistics.median(of('fit_seconds')):.0f} | "
            f"{max(of('peak_gib') or [0]):.2f} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Run what is missing within the time given, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=["thyroid", "cancer", "clinic-4k", "clinic-50k"])
    parser.add_argument("--methods", nargs="+", default=["mixture"])
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.5, 1.0, 3.7, 10.0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--data", default=os.environ.get("MEDSYNTH_THYROID"))
    parser.add_argument("--output", type=Path, default=Path("results/utility.csv"))
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        table, method, epsilon = given.one
        print(json.dumps(one(table, method, float(epsilon), given.data)))
        return

    def fitted(table: str, method: str, epsilon: float, seed: int) -> dict[str, Any]:
        words = [sys.executable, __file__, "--one", table, method, str(epsilon)]
        words += ["--data", given.data] * bool(given.data)
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found

    wanted = [
        (table, method, epsilon, seed)
        for seed, table, method, epsilon in itertools.product(
            range(given.seeds), given.tables, given.methods, given.epsilons
        )
    ]
    runs, left = resumable.run(wanted, fitted, given.output, FIELDS, given.minutes)
    print(summary(runs))
    if left:
        print("\nNot run: " + left)


if __name__ == "__main__":
    main()
