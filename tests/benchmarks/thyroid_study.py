"""The thyroid study on the real ann-thyroid table: its own settings against the default, real against synthetic.

    python tests/benchmarks/thyroid_study.py --data FOLDER --output docs/thyroid-study

FOLDER holds ann-train.data and ann-test.data (or set MEDSYNTH_THYROID). Every run is written to OUTPUT.jsonl as it
comes and is not repeated; the table goes to OUTPUT.table.md and to standard output.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from pathlib import Path
from typing import Any

import pandas as pd
import tstr

import medsynth
from medsynth.privacy.accounting import accountant
from medsynth.schema import bundled

SETTINGS = {
    "thyroid-study": "preset `thyroid-study`",
    "dp-cgan": "plain `dp-cgan`",
    "mixture": "default `mixture`",
}
ROWS = 10_000


def read(folder: Path, part: str) -> pd.DataFrame:
    """One file of the real table under the bundled schema's names."""
    names = list(bundled()["thyroid"].names)
    return pd.read_csv(folder / f"ann-{part}.data", sep=r"\s+", header=None, names=names)


def one(setting: str, train: pd.DataFrame, test: pd.DataFrame, epsilon: float) -> dict[str, Any]:
    """One fit, one sample, all figures."""
    started = time.perf_counter()
    preset, method = (setting, None) if setting == "thyroid-study" else (None, setting)
    schema = bundled()["thyroid"]
    model = medsynth.fit(train, epsilon=epsilon, schema=schema, rows=len(train), preset=preset, method=method)
    drawn = medsynth.sample(model, ROWS)
    seconds = time.perf_counter() - started
    events, delta = model.ledger.composition(), model.ledger.delta
    by = {"prv": model.epsilon, "rdp": accountant.epsilon(events, delta, "rdp")}
    by["pld"] = accountant.cross_check(events, delta)
    return {"epsilon": by, "seconds": seconds, **tstr.score(drawn, test, "class")}


def spread(values: list[float]) -> str:
    """Median and range."""
    return f"{statistics.median(values):.3f} ({min(values):.3f} to {max(values):.3f})"


def table(runs: list[dict[str, Any]], floor: float) -> str:
    """A markdown table: a row a setting, medians with their range."""
    names = list(tstr.LABELS)
    head = ["table", "runs", *names, "mean macro AuROC", "micro, hard answers (best)", "epsilon PRV / PLD / RDP", "s"]
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for setting in ("real", *SETTINGS):
        group = [run for run in runs if run["setting"] == setting]
        if not group:
            continue
        cells = [SETTINGS.get(setting, "real rows"), str(len(group))]
        cells += [f"{statistics.median(run['macro'][name] for run in group):.3f}" for name in names]
        cells += [spread([run["mean"] for run in group]), spread([max(run["micro_hard"].values()) for run in group])]
        by = group[0].get("epsilon")
        cells += [f"{by['prv']:.2f} / {by['pld']:.2f} / {by['rdp']:.2f}" if by else "-"]
        cells += [f"{statistics.median(run['seconds'] for run in group):.0f}" if by else "-"]
        lines.append("| " + " | ".join(cells) + " |")
    lines.append(f"\nAlways predicting the most frequent class scores {floor:.4f} on the micro figure.")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run what is missing and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("MEDSYNTH_THYROID"))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--epsilon", type=float, default=3.7)
    parser.add_argument("--output", type=Path, default=Path("results/thyroid-study"))
    given = parser.parse_args()
    if given.data is None:
        parser.error("--data FOLDER or MEDSYNTH_THYROID is needed")
    train, test = read(Path(given.data), "train"), read(Path(given.data), "test")
    given.output.parent.mkdir(parents=True, exist_ok=True)
    log = given.output.with_suffix(".jsonl")
    runs = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    todo = [("real", 0), *((setting, k) for k in range(given.runs) for setting in SETTINGS)]
    for setting, k in todo:
        if any((run["setting"], run["run"]) == (setting, k) for run in runs):
            continue
        figures = tstr.score(train, test, "class") if setting == "real" else one(setting, train, test, given.epsilon)
        runs.append({"setting": setting, "run": k, **figures})
        with log.open("a") as file:
            file.write(json.dumps(runs[-1]) + "\n")
    text = table(runs, tstr.majority_floor(test, "class"))
    given.output.with_suffix(".table.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
