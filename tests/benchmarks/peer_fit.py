"""Run in a peer's own environment, without medsynth: fit the peer to FOLDER/train.csv and write FOLDER/synthetic.csv.

FOLDER/domain.json gives, for each column, the levels or the declared bounds and scale: what medsynth's schema declares.
Each peer gets it in the form that its documentation describes, and 20 bins a number on the declared scale where it
needs bins.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

ROWS, BINS = 10_000, 20


def scaled(table: Any, domain: Any, back: bool = False) -> Any:
    """Numbers on a log scale where the schema declares one: log(1 + value / lowest step)."""
    made = table.copy()
    for name, column in domain.items():
        if column.get("scale") == "log":
            value, step = made[name].astype(float), column["step"]
            made[name] = np.expm1(value) * step if back else np.log1p(value / step)
    return made


def bounds(column: Any) -> Any:
    """Declared bounds, on the column's scale."""
    low, high = column["bounds"]
    return (low, high) if column["scale"] != "log" else tuple(np.log1p(np.array([low, high]) / column["step"]))


def dpmm(method: Any, table: Any, domain: Any, epsilon: Any, delta: Any) -> Any:
    """dpmm's pipelines, with its own private discretisation."""
    from dpmm import pipelines

    made = scaled(table, domain)
    declared: dict[str, dict[str, Any]] = {}
    for name, column in domain.items():
        if "levels" in column:
            made[name] = made[name].astype(str).astype("category")
            declared[name] = {"categories": [str(level) for level in column["levels"]]}
        else:
            low, high = bounds(column)
            made[name] = made[name].astype(float).clip(low, high)
            declared[name] = {"lower": float(low), "upper": float(high)}
    kind = {"mst": pipelines.MSTPipeline, "privbayes": pipelines.PrivBayesPipeline, "aim": pipelines.AIMPipeline}
    pipeline = kind[method](epsilon=epsilon, delta=delta, n_jobs=1)
    pipeline.fit(made, declared)
    return pipeline.generate(n_records=ROWS)


def smartnoise(method: Any, table: Any, domain: Any, epsilon: Any, delta: Any) -> Any:
    """smartnoise-synth's synthesizers, on bins within the declared bounds."""
    from snsynth import Synthesizer
    from snsynth.transform import (
        BinTransformer,
        ChainTransformer,
        LabelTransformer,
        MinMaxTransformer,
        OneHotEncoder,
        TableTransformer,
    )

    made, transformers = scaled(table, domain), []
    networks = method in ("dpctgan", "patectgan")
    for name, column in domain.items():
        if "levels" in column:
            made[name] = made[name].astype(str)
            transformers.append(
                ChainTransformer([LabelTransformer(), OneHotEncoder()]) if networks else LabelTransformer()
            )
        else:
            low, high = bounds(column)
            made[name] = made[name].astype(float).clip(low, high)
            holes = column["missing"]
            if networks:
                transformers.append(MinMaxTransformer(lower=float(low), upper=float(high), nullable=holes))
            else:
                transformers.append(BinTransformer(bins=BINS, lower=float(low), upper=float(high), nullable=holes))
    synthesizer = Synthesizer.create(method, epsilon=epsilon, **({} if networks else {"delta": delta}))
    synthesizer.fit(made, transformer=TableTransformer(transformers), preprocessor_eps=0.0)
    return synthesizer.sample(ROWS)


def main() -> None:
    """FOLDER PEER EPSILON DELTA."""
    folder, peer, epsilon, delta = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3]), float(sys.argv[4])
    table = pd.read_csv(folder / "train.csv")
    domain = json.loads((folder / "domain.json").read_text())
    package, method = peer.split("-")
    made = pd.DataFrame({"dpmm": dpmm, "smartnoise": smartnoise}[package](method, table, domain, epsilon, delta))
    made.columns = table.columns
    scaled(made, domain, back=True).to_csv(folder / "synthetic.csv", index=False)


if __name__ == "__main__":
    main()
