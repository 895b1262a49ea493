"""The thyroid study on the real ann-thyroid table: its own settings compared with the default and with real rows.

Each run is written to --output as it ends and is not repeated. Prints medians with their range.
"""

from __future__ import annotations

import json
import time
from typing import Any

import pandas as pd

from tests.benchmarks import tables
from tests.benchmarks.common import Run, markdown, options, spread
from tests.benchmarks.figures import score

SETTINGS = {
    "thyroid-study": "preset `thyroid-study`",
    "dp-cgan": "`dp-cgan`",
    "random-features": "preset `random-features`",
    "mixture": "default `mixture`",
}
ROWS = 10_000


def one(setting: str, train: pd.DataFrame, test: pd.DataFrame, epsilon: float, schema: Any) -> Run:
    """Return all figures of one fit and one sample."""
    import medsynth
    from medsynth.methods.registry import presets
    from medsynth.privacy.accounting import accountant

    started = time.perf_counter()
    preset, method = (setting, None) if setting in presets() else (None, setting)
    model = medsynth.fit(train, epsilon=epsilon, schema=schema, rows=len(train), preset=preset, method=method)
    drawn = medsynth.sample(model, ROWS)
    seconds = time.perf_counter() - started
    events, delta = model.ledger.composition(), model.ledger.delta
    by = {"prv": model.epsilon, "rdp": accountant.epsilon(events, delta, "rdp")}
    by["pld"] = accountant.cross_check(events, delta)
    return {"epsilon": by, "seconds": seconds, **score(drawn, test, "class")}


def summary(runs: list[Run], names: list[str]) -> str:
    """Return a Markdown table with a line per setting."""
    heads = ["table", "runs", *names, "mean macro AuROC", "micro, hard answers (best)", "epsilon PRV / PLD / RDP", "s"]
    lines = []
    for setting in ("real", *SETTINGS):
        group = [run for run in runs if run["setting"] == setting]
        if not group:
            continue
        cells = [SETTINGS.get(setting, "real rows"), str(len(group))]
        cells += [spread([run["macro"][name] for run in group], 3, False) for name in names]
        cells += [spread([run["mean"] for run in group]), spread([max(run["micro_hard"].values()) for run in group])]
        by = group[0].get("epsilon")
        cells += [f"{by['prv']:.2f} / {by['pld']:.2f} / {by['rdp']:.2f}" if by else "-"]
        cells += [spread([run["seconds"] for run in group], 0, False) if by else "-"]
        lines.append(cells)
    return markdown(heads, lines)


def main(words: list[str]) -> None:
    """Run what is missing, and print the table."""
    parser = options("thyroid-study", __doc__, data=True, output="thyroid-study.jsonl")
    parser.add_argument("--settings", nargs="+", choices=list(SETTINGS), default=list(SETTINGS))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--epsilon", type=float, default=3.7)
    given = parser.parse_args(words)
    from medsynth.report.data import protocol

    train, test, schema, target = tables.load("thyroid", given.data)
    given.output.parent.mkdir(parents=True, exist_ok=True)
    runs = [json.loads(line) for line in given.output.read_text().splitlines()] if given.output.exists() else []
    for setting, k in [("real", 0), *((setting, k) for k in range(given.runs) for setting in given.settings)]:
        if any((run["setting"], run["run"]) == (setting, k) for run in runs):
            continue
        real = setting == "real"
        found = score(train, test, target) if real else one(setting, train, test, given.epsilon, schema)
        runs.append({"setting": setting, "run": k, **found})
        with given.output.open("a") as file:
            file.write(json.dumps(runs[-1]) + "\n")
    print(summary(runs, list(protocol.LABELS)))
    floor = protocol.majority_floor(test, target)
    print(f"\nAlways predicting the most frequent class scores {floor:.4f} on the micro figure.")
