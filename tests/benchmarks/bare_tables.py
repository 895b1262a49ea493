"""Bare fits of twelve tables of different character: what comes back, and how good it is.

    MEDSYNTH_DATA=FOLDER nice python tests/benchmarks/bare_tables.py --output results/bare_tables.csv

FOLDER holds thyroid, diabetes130 and pbc. Each table is written to CSV, three quarters of it are fitted without a
schema at epsilon 3.7, and as many rows are sampled as were fitted. Counted are cells that are empty in columns that
have no empty cell; columns whose dtype is another than the real rows', as pandas reads both files; levels that came
back, of those of at least as many rows as the plan says are needed; and the mean AuROC of the report's classifiers,
trained on synthetic and on real rows, on the quarter that was held out. With `--drafted` each is fitted by a schema
drafted for it and filled in (see drafted_schemas.py), and the report's real baseline stands beside a plain pipeline's.
A result that is on file is not run again; a fresh process a table.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from bare_table_sources import REPEATED, SOURCES, UNTUNED
from drafted_schemas import baselines, drafted

EPSILON = 3.7
FIELDS = ["table", "rows", "columns", "invented", "other_dtypes", "levels", "levels_kept", "synthetic", "real",
          "baseline", "pipeline", "fit_seconds", "names"]  # fmt: skip


def one(name: str, *, by_draft: bool) -> dict[str, Any]:
    """One table: a fit, a sample, all figures."""
    import medsynth
    from medsynth.sampling import Draw, sample_csv

    frame, target = SOURCES[name]()
    frame, cut = _split(frame, target, repeated=name in REPEATED)
    with tempfile.TemporaryDirectory() as folder:
        files = {part: Path(folder) / f"{part}.csv" for part in ("train", "test", "drawn")}
        frame[:cut].to_csv(files["train"], index=False)
        frame[cut:].to_csv(files["test"], index=False)
        whole = Path(folder) / "whole.csv"
        frame.to_csv(whole, index=False)
        found = drafted(whole, target) if by_draft else None
        started = time.perf_counter()
        schema = found[0] if found else None
        model = medsynth.fit(files["train"], epsilon=EPSILON, target=target, schema=schema)
        seconds = time.perf_counter() - started
        files["drawn"].write_text(sample_csv(model, Draw(rows=cut, seed=0)))
        held = baselines(files["train"], files["test"], target, *found) if found else {}
        read = {part: pd.read_csv(path) for part, path in files.items()}
        texts = {part: pd.read_csv(path, dtype=str, keep_default_na=False) for part, path in files.items()}
    names = [str(name) for name in frame]
    keys = [c for c, column in model.schema.columns.items() if not column.modelled]
    kept, wanted = _levels(texts["train"], texts["drawn"], model, keys)
    other = [c for c in names if c not in keys and read["train"][c].dtype != read["drawn"][c].dtype]
    invented = [c for c in names if not (texts["train"][c] == "").any() and (texts["drawn"][c] == "").any()]
    return {
        "table": name, "rows": cut, "columns": frame.shape[1],
        "invented": int(sum((texts["drawn"][c] == "").sum() for c in invented)),
        "other_dtypes": len(other), "levels": wanted, "levels_kept": kept,
        **_auroc(read, target, keys, _dates(model)), **{n: round(value, 4) for n, value in held.items()},
        "fit_seconds": round(seconds, 1), "names": " ".join([*invented, *other]),
    }  # fmt: skip


def _split(frame: pd.DataFrame, target: str, *, repeated: bool) -> tuple[pd.DataFrame, int]:
    """The rows in an order by chance, and how many of the first ones are fitted: three quarters.

    Where persons are `repeated`, rows that are equal but for the target stay on one side, as they are of one family.
    """
    frame = frame.sample(frac=1, random_state=0).reset_index(drop=True)
    if not repeated:
        return frame, len(frame) * 3 // 4
    group = frame.groupby([name for name in frame if name != target], sort=False, dropna=False).ngroup().to_numpy()
    group = np.random.default_rng(0).permutation(group.max() + 1)[group]
    order = np.argsort(group, kind="stable")
    return frame.iloc[order].reset_index(drop=True), int((group < (group.max() + 1) * 3 // 4).sum())


def _levels(real: pd.DataFrame, drawn: pd.DataFrame, model: Any, keys: list[str]) -> tuple[int, int]:
    """Of values that enough rows share for the planned noise, in columns of at most twenty: how many came back."""
    from medsynth.fitting.public_facts import smallest_level
    from medsynth.methods import registry
    from medsynth.privacy import partition_selection as selection
    from medsynth.privacy.accounting.calibration import make_plan

    module = registry.load(model.method, None)
    config = registry.configured(model.method, module, {})
    columns = len(real.columns) - len(keys)
    queries = [*selection.queries(), *module.queries(config, len(real), columns, EPSILON)]
    needed = smallest_level(make_plan(queries, epsilon=EPSILON, delta=1e-5, rows=len(real)), selection.LEVELS, columns)
    kept = wanted = 0
    for name in real:
        if name not in keys and real[name].nunique() <= 20:
            drawn_levels = set(drawn[name])
            common = [level for level, count in real[name].value_counts().items() if float(count) >= needed]
            wanted += len(common)
            kept += sum(level in drawn_levels for level in common)
    return kept, wanted


def _dates(model: Any) -> dict[str, str]:
    """The format of each column of dates."""
    return {name: column.format for name, column in model.schema.columns.items() if column.dated}


def _auroc(read: dict[str, pd.DataFrame], target: str, keys: list[str], dates: dict[str, str]) -> dict[str, float]:
    """The mean AuROC of the report's classifiers, trained on synthetic and on real rows; dates are read as numbers."""
    from threadpoolctl import threadpool_limits

    from medsynth.report.data import protocol

    parts = {name: frame.drop(columns=keys) for name, frame in read.items()}
    for frame in parts.values():
        for name, form in dates.items():
            days = pd.to_datetime(frame[name], format=form, errors="coerce") - pd.Timestamp("1900-01-01")
            frame[name] = days / pd.Timedelta(days=1)
    with threadpool_limits(1):
        found = {
            "synthetic": protocol.score(parts["drawn"], parts["test"], target),
            "real": protocol.score(parts["train"], parts["test"], target),
        }
    return {name: round(score["mean"], 4) for name, score in found.items()}


def summary(runs: list[dict[str, Any]]) -> str:
    """A markdown table."""
    head = ["table", "rows x columns", "invented empty cells", "columns of another dtype", "levels kept",
            "mean AuROC, synthetic", "real", "difference", "fit s"]  # fmt: skip
    if any(run.get("baseline") for run in runs):
        head += ["report's baseline", "plain pipeline"]
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for run in sorted(runs, key=lambda run: list(SOURCES).index(run["table"])):
        star = " *" if run["table"] in UNTUNED else ""
        gap = float(run["synthetic"]) - float(run["real"])
        lines.append(
            f"| {run['table']}{star} | {run['rows']} x {run['columns']} | {run['invented']} | {run['other_dtypes']} | "
            f"{run['levels_kept']} of {run['levels']} | {float(run['synthetic']):.3f} | {float(run['real']):.3f} | "
            f"{gap:+.3f} | {float(run['fit_seconds']):.0f} |"
            + (f" {float(run['baseline']):.3f} | {float(run['pipeline']):.3f} |" if run.get("baseline") else "")
        )
    return "\n".join([*lines, "", "\\* No setting was tuned on it."])


def main() -> None:
    """Run what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", choices=list(SOURCES), default=list(SOURCES))
    parser.add_argument("--output", type=Path, default=Path("results/bare_tables.csv"))
    parser.add_argument("--drafted", action="store_true", help="fit by schemas drafted and filled in")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(one(given.one, by_draft=given.drafted)))
        return
    given.output.parent.mkdir(parents=True, exist_ok=True)
    if not given.output.exists():
        given.output.write_text(",".join(FIELDS) + "\n")
    with given.output.open() as file:
        runs: list[dict[str, Any]] = list(csv.DictReader(file))
    more = ["--drafted"] if given.drafted else []
    for name in given.tables:
        if name in {run["table"] for run in runs}:
            continue
        done = subprocess.run(
            [sys.executable, __file__, "--one", name, *more], capture_output=True, text=True, check=False
        )
        if done.returncode:
            print(f"{name}: {done.stderr.splitlines()[-1]}", file=sys.stderr)
            continue
        runs.append(json.loads(done.stdout.splitlines()[-1]))
        with given.output.open("a", newline="") as file:
            csv.DictWriter(file, FIELDS).writerow(runs[-1])
    print(summary(runs))


if __name__ == "__main__":
    main()
