"""Run in an environment of twinify, without medsynth: fit NAPSU-MQ to FOLDER/codes.csv and write FOLDER/made.csv.

    python napsu_fit.py FOLDER EPSILON DELTA TABLES

FOLDER/sizes.json gives how many codes each column has. One model of all pairs of the columns, which are declared, so
that nothing is spent on selecting them. Its posterior is explored by NUTS from a Laplace approximation, as twinify
offers: one chain of 1,000 draws after 300. So many tables of as many rows, each from one draw, stand below each other,
with a column `replicate`.
"""

import itertools
import json
import os
import sys
from pathlib import Path

# Compiling the model takes minutes with all of XLA's optimisations and seconds without.
os.environ["XLA_FLAGS"] = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"

import pandas as pd


def main() -> None:
    """FOLDER EPSILON DELTA TABLES."""
    import d3p.random
    from twinify.napsu_mq import napsu_mq

    folder, epsilon, delta, tables = Path(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
    codes = pd.read_csv(folder / "codes.csv")
    sizes = json.loads((folder / "sizes.json").read_text())
    levels = {name: [str(code) for code in range(size)] for name, size in sizes.items()}
    data = pd.DataFrame(
        {name: pd.Categorical.from_codes(codes[name].to_list(), pd.Index(levels[name])) for name in codes}
    )
    start = napsu_mq.NapsuMQLaplaceApproximationConfig(max_iters=1000, num_samples=1)
    chain = napsu_mq.NapsuMQMCMCConfig(num_samples=1000, num_warmup=300, num_chains=1)
    how = napsu_mq.NapsuMQInferenceConfig("laplace+mcmc", start, chain)
    pairs = list(itertools.combinations(codes.columns, 2))
    model = napsu_mq.NapsuMQModel(queries=pairs, inference_config=how)
    fit, draw = d3p.random.split(d3p.random.PRNGKey(int.from_bytes(os.urandom(8), "big")), 2)
    result = model.fit(data, fit, epsilon, delta, show_progress=False)
    made = result.generate(draw, tables, len(codes), single_dataframe=False)
    pd.concat([one.astype(int).assign(replicate=k) for k, one in enumerate(made)]).to_csv(
        folder / "made.csv", index=False
    )


if __name__ == "__main__":
    main()
